#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gdevd as its clients, its workers and its user see it, with workers that execute nothing.

Usage: test_gdevd.py GDEVD GDEV [unittest arguments]
"""

import json
import mmap
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # noqa: E402

GDEVD = GDEV = None
FAKE_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_worker.py")

ENOENT, EAGAIN, ENOMEM, EACCES, EEXIST, EINVAL, EIDRM, EUSERS, EADDRINUSE = (
    2, 11, 12, 13, 17, 22, 43, 87, 98)
SESSION_LOST, PROTOCOL = 1028, 1039


def wait_for(condition, seconds=10, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} seconds")


class Client:
    """A session: its connection, and through the fake worker its worker's messages."""

    def __init__(self, path, **hello):
        self.sock = wire.connect(path)
        wire.send(self.sock, wire.hello(**hello))
        self.kind, self.serial, self.status, self.body, fds = wire.receive(self.sock)
        self.peer, self.fds = None, []
        if self.kind == wire.WELCOME:
            self.session = wire.WELCOME_BODY.unpack_from(self.body.ljust(wire.WELCOME_BODY.size, b"\0"))[3]
            self.fds = fds[:4] + fds[5:]
            self.peer = socket.socket(fileno=fds[4])
            self.peer.settimeout(10)

    def text(self):
        return self.body.split(b"\0")[0].decode()

    def tell(self, data, fds=()):
        """As the worker, to gdevd."""
        wire.send(self.peer, data, fds)

    def ask(self, data, fds=()):
        self.tell(data, fds)
        return wire.receive(self.peer)

    def memory(self, amount):
        _, _, status, body, _ = self.ask(wire.message(wire.MEMORY, wire.MEMORY_BODY.pack(amount, 0, 0), 5))
        return status, wire.MEMORY_BODY.unpack(body)

    def shm(self, command, fds=(), **fields):
        kind, _, status, body, got = self.ask(wire.shm(command, **fields), fds)
        assert kind == wire.SHM_REPLY
        names = ("command key id flags bytes chunk_bytes first_chunk chunks uid gid mode attached token").split()
        return status, dict(zip(names, wire.SHM_BODY.unpack(body))), got

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        if self.peer:
            self.peer.close()
        self.sock.close()


class GdevdTest(unittest.TestCase):
    config = ""

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="gdevd-test-")
        os.chmod(self.directory, 0o755)
        self.run_dir = self.directory + "/run"
        self.orders = self.directory + "/orders"
        os.mkdir(self.orders)
        self.processes, self.clients = [], []
        self.environment = dict(os.environ, GDEV_RUNTIME_DIR=self.run_dir, FAKE_WORKER_DIR=self.orders)
        for name in ("GDEV_VGPU", "GDEV_LOG", "NOTIFY_SOCKET"):
            self.environment.pop(name, None)
        self.log_path = self.directory + "/log"

    def tearDown(self):
        for client in self.clients:
            client.close()
        for process in self.processes:
            if process.poll() is None:  # in order, so that a leak is found
                process.terminate()
                try:
                    self.assertEqual(process.wait(20), 0)
                finally:
                    process.kill()
        log = self.log()
        shutil.rmtree(self.directory, ignore_errors=True)
        for mark in ("Sanitizer", "runtime error"):
            self.assertNotIn(mark, log)

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def start(self, *options, config="", wait=True, mode="ok"):
        self.order(mode)
        path = self.directory + "/gdev.conf"
        with open(path, "w", encoding="ascii") as file:
            file.write(config)
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(
                [GDEVD, "--foreground", "--config", path, "--state-dir", self.directory + "/state",
                 "--worker", FAKE_WORKER, "--device", "null", "--log", "debug", *options],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.processes.append(process)
        if wait:
            wait_for(lambda: self.reachable() or process.poll() is not None, what="the start")
            self.assertIsNone(process.poll(), self.log())
        return process

    def reachable(self):
        connection = self.try_hold()
        if connection:
            connection.close()
        return connection is not None

    def try_hold(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self.run_dir + "/control.sock")
            return connection
        except OSError:
            connection.close()
            return None

    def order(self, mode):
        with open(self.orders + "/mode", "w", encoding="ascii") as file:
            file.write(mode)

    def gdev(self, *arguments, **options):
        return subprocess.run([GDEV, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, **options)

    def status(self):
        done = self.gdev("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def client(self, vgpu="gdev0", welcome=True, **hello):
        client = Client(f"{self.run_dir}/{vgpu}.sock", **hello)
        self.clients.append(client)
        if welcome:
            self.assertEqual(client.kind, wire.WELCOME, client.body)
        return client

    def wait_warm(self, count):
        return wait_for(lambda: self.status()["workers"]["warm"] == count, what=f"{count} warm workers")


class Life(GdevdTest):
    def test_stops_on_sigterm_and_takes_its_sockets_along(self):
        process = self.start()
        process.terminate()
        self.assertEqual(process.wait(10), 0)
        self.assertEqual([name for name in os.listdir(self.run_dir) if name.endswith(".sock")], [])

    def test_replaces_sockets_that_a_dead_one_left(self):
        process = self.start()
        self.wait_warm(2)  # a worker between fork and exec would hold the sockets for a moment
        process.kill()
        process.wait()
        self.assertIn("gdev0.sock", os.listdir(self.run_dir))
        self.start()
        self.client()

    def test_second_daemon_refuses_and_says_why(self):
        first = self.start()
        second = self.start(wait=False)
        self.assertEqual(second.wait(10), 1)
        self.assertIn(f"a gdevd (pid {first.pid}) already runs in {self.run_dir}", self.log())
        self.assertTrue(self.reachable())

    def test_refuses_a_runtime_directory_that_others_can_write(self):
        os.mkdir(self.run_dir)
        os.chmod(self.run_dir, 0o777)
        self.assertEqual(self.start(wait=False).wait(10), 1)
        self.assertIn("nobody else can write", self.log())

    def test_unknown_key_names_file_and_line(self):
        self.assertEqual(self.start(config="[gdevd]\ndevcie = cpu\n", wait=False).wait(10), 1)
        self.assertIn('gdev.conf:2: there is no key "devcie" in [gdevd]', self.log())

    def test_private_daemon_leaves_with_its_last_client(self):
        process = self.start("--private", wait=False)
        hold = wait_for(self.try_hold, what="the start")
        first, second = self.client(), self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        hold.close()
        first.close()
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        second.close()
        self.assertEqual(process.wait(10), 0)

    def test_private_daemon_stays_while_somebody_holds_it(self):
        process = self.start("--private", wait=False)
        hold = wait_for(self.try_hold, what="the start")
        self.client().close()
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        hold.close()
        self.assertEqual(process.wait(10), 0)

    def test_warm_workers_leave_with_the_daemon(self):
        process = self.start()
        self.wait_warm(2)
        workers = self.children(process.pid)
        self.assertEqual(len(workers), 2)
        process.terminate()
        process.wait(10)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in workers),
                 what="the workers' end")

    @staticmethod
    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]


class Restart(GdevdTest):
    def restart(self, how):
        process = self.processes[-1]
        self.wait_warm(2)
        process.send_signal(how)
        process.wait(10)
        return self.start()

    def check_survives(self, how):
        self.start("--device-memory", "1G")
        client = self.client()
        client.memory(100 << 20)
        self.restart(how)
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="the session's return")
        session = self.status()["sessions"][0]
        self.assertEqual(session["session"], client.session)
        self.assertEqual(session["pid"], os.getpid())
        # The fake worker says again what ATTACH said, which is that it holds nothing.
        status, (_, free, total) = client.memory(10 << 20)
        self.assertEqual(status, 0)
        self.assertEqual(self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES).session > client.session, True)
        client.peer.close()
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="its end")

    def test_session_survives_a_restart(self):
        self.check_survives(signal.SIGTERM)

    def test_session_survives_kill(self):
        self.check_survives(signal.SIGKILL)

    def test_shared_memory_comes_back(self):
        self.start("--device-memory", "1G")
        client = self.client()
        self.restart(signal.SIGKILL)
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="the session's return")
        chunk = wire.sealed_memfd(2 << 20)
        known = {"ident": 77, "key": 5, "size": 2 << 20, "chunk": 2 << 20, "mode": 0o600, "uid": os.getuid()}
        status, segment, _ = client.shm(wire.SHM_ATTACH, **known)
        self.assertEqual((status, segment["id"]), (1, 77))
        status, _, _ = client.shm(wire.SHM_BACK, [chunk], ident=77, chunk=2 << 20, chunks=1)
        self.assertEqual(status, 0)
        self.assertEqual(client.shm(wire.SHM_STAT, ident=77)[1]["attached"], 1)  # as before
        status, segment, fds = client.shm(wire.SHM_ATTACH, **known)
        self.assertEqual((status, segment["attached"], len(fds)), (0, 2, 1))
        os.close(fds[0])
        os.close(chunk)
        self.assertEqual(client.shm(wire.SHM_GET, key=5)[1]["id"], 77)


class Clients(GdevdTest):
    def test_welcome_carries_the_session(self):
        self.start("--device-memory", "1G")
        client = self.client(serial=99)
        (version, _, features, session, staging, vgpu, device, uuid, memory,
         *tuning) = wire.WELCOME_BODY.unpack(client.body)
        self.assertEqual((client.serial, version, features, staging), (99, 1, 3, 1 << 20))
        self.assertEqual((vgpu.rstrip(b"\0"), device.rstrip(b"\0")), (b"gdev0", b"fake device"))
        self.assertEqual((uuid, memory), (bytes(range(16)), 1 << 30))
        self.assertEqual(tuning, [0, 0, 0, 0])
        self.assertEqual(len(client.fds), 4)

    def test_welcome_carries_what_the_file_says_of_the_device(self):
        self.start(config="[device null]\ninline_bytes = 4K\nchunk_bytes = 1M\ncopy_threads = 3\n"
                   "[device cuda:7]\ncopy_threads = 9\n[gdevd]\ndevice = null\n")
        client = self.client()
        self.assertEqual(wire.WELCOME_BODY.unpack(client.body)[-4:], (4096, 1 << 20, 3, 0))

    def test_client_that_knows_no_tuning_gets_a_welcome_without(self):
        self.start()
        client = self.client(features=wire.FEATURE_DEVICE_MAP)
        self.assertEqual((client.kind, wire.HEADER.size + len(client.body)),
                         (wire.WELCOME, wire.WELCOME_UNTUNED_BYTES))

    def test_unknown_version_is_refused(self):
        self.start()
        client = self.client(welcome=False, versions=(5, 9))
        self.assertEqual((client.kind, client.status), (wire.REFUSED, -PROTOCOL))
        self.assertIn("update", client.text())

    def test_newer_client_gets_a_version_that_both_know(self):
        self.start()
        self.assertEqual(wire.WELCOME_BODY.unpack(self.client(versions=(1, 9)).body)[0], 1)

    def test_odd_arenas_are_refused(self):
        self.start()
        for base, size in ((0, 1 << 30), (4096, 1 << 30), (1 << 46, 1 << 47), (1 << 40, 0),
                           ((1 << 64) - (2 << 20), 4 << 20), (1 << 40, 12345)):
            client = self.client(welcome=False, base=base, size=size)
            self.assertEqual((client.kind, client.status), (wire.REFUSED, -EINVAL), (base, size))

    def test_arena_in_use_may_be_tried_again_on_the_same_connection(self):
        self.start(mode="attach-busy", config="[gdevd]\nwarm_workers = 1\n")
        client = self.client(welcome=False)
        self.assertEqual((client.kind, client.status), (wire.REFUSED, -EADDRINUSE))
        self.order("ok")
        for _ in range(3):  # a worker with the old orders may still be warm
            wire.send(client.sock, wire.hello())
            kind, _, _, _, fds = wire.receive(client.sock)
            for fd in fds:
                os.close(fd)
            if kind == wire.WELCOME:
                return
        self.fail("never welcome")

    def test_malformed_messages_drop_only_their_sender(self):
        self.start()
        good = self.client()
        bad = [
            b"x",
            b"\0" * 16,
            os.urandom(200),
            wire.message(wire.HELLO, b"short", version=0),
            wire.message(wire.HELLO, b"\0" * 64, version=0, length=4),
            wire.message(9999),
            wire.message(wire.WELCOME, b"\0" * wire.WELCOME_BODY.size),
            wire.message(wire.READY, b"\0" * 104),
            wire.message(wire.ADMIN, b'{"command":"status"}'),
            wire.message(wire.MEMORY, b"\0" * 24),
            b"\xff" * 65000,
        ]
        for data in bad:
            sock = wire.connect(self.run_dir + "/gdev0.sock")
            wire.send(sock, data)
            self.assertEqual(wire.receive(sock)[0], None, data[:40])
            sock.close()
        for data in (wire.hello(), b"{}", wire.message(wire.REGISTER, b"\0" * 104)):
            sock = wire.connect(self.run_dir + "/control.sock")
            wire.send(sock, data)
            self.assertEqual(wire.receive(sock)[0], None)
            sock.close()
        self.assertEqual(good.memory(1 << 20)[0], 0)

    def test_descriptors_that_belong_nowhere_are_closed(self):
        process = self.start()
        self.wait_warm(2)
        before = self.descriptors(process)
        null = os.open("/dev/null", os.O_RDONLY)
        for _ in range(20):
            sock = wire.connect(self.run_dir + "/gdev0.sock")
            wire.send(sock, wire.hello(), [null] * 100)
            self.assertEqual(wire.receive(sock)[0], None)
            sock.close()
        os.close(null)
        wait_for(lambda: self.descriptors(process) <= before, what="the old number of descriptors")

    @staticmethod
    def descriptors(process):
        return len(os.listdir(f"/proc/{process.pid}/fd"))

    def test_bad_administration_is_answered(self):
        self.start()
        sock = wire.connect(self.run_dir + "/control.sock")
        for text in (b"", b"{", b"[]", b"{}", b'{"command":7}', b'{"command":"explode"}', b"\xff\xfe"):
            wire.send(sock, wire.message(wire.ADMIN, text, 3))
            kind, serial, status, body, _ = wire.receive(sock)
            self.assertEqual((kind, serial, status), (wire.ADMIN_REPLY, 3, -EINVAL))
            self.assertIn("error", json.loads(body))
        sock.close()

    def test_sessions_of_a_user_are_bounded(self):
        self.start(config="[gdevd]\nsessions_per_user = 2\n")
        self.client()
        self.client()
        third = self.client(welcome=False)
        self.assertEqual((third.kind, third.status), (wire.REFUSED, -EUSERS))
        self.assertIn("sessions_per_user", third.text())

    def test_second_hello_is_malformed(self):
        self.start()
        client = self.client()
        wire.send(client.sock, wire.hello())
        self.assertEqual(wire.receive(client.sock)[0], None)

    def test_crowd_waits_for_workers(self):
        self.start(config="[gdevd]\nwarm_workers = 1\n")
        socks = []
        for _ in range(8):
            sock = wire.connect(self.run_dir + "/gdev0.sock", timeout=30)
            wire.send(sock, wire.hello())
            socks.append(sock)
        for sock in socks:
            kind, _, _, _, fds = wire.receive(sock)
            self.assertEqual(kind, wire.WELCOME)
            for fd in fds:
                os.close(fd)
            sock.close()

    def test_200_sessions_leave_nothing_behind(self):
        process = self.start(config="[gdevd]\nwarm_workers = 2\nmax_workers = 8\n")

        def one():
            client = Client(self.run_dir + "/gdev0.sock")
            self.assertEqual(client.kind, wire.WELCOME, client.body)
            client.memory(4 << 20)
            client.close()

        for _ in range(20):
            one()
        self.wait_idle()
        descriptors, memory = self.descriptors(process), self.resident(process)
        for _ in range(200):
            one()
        self.wait_idle()
        self.assertLessEqual(self.descriptors(process), descriptors + 1)
        if "asan" not in os.environ.get("GDEV_TEST_SANITIZER", "asan" if self.sanitized() else ""):
            self.assertLess(self.resident(process), memory + 1024)
        status = self.status()
        self.assertEqual(status["ended_count"], 220)
        self.assertEqual(len(status["ended"]), 64)
        # The warm workers' contexts, and nothing else.
        self.assertEqual(status["devices"][0]["memory_used_bytes"], 2 << 20)

    @staticmethod
    def sanitized():
        with open(GDEVD, "rb") as file:
            return b"__asan_init" in file.read()

    def wait_idle(self):
        wait_for(lambda: (lambda s: not s["sessions"] and s["workers"]["total"] == 2
                          and s["workers"]["warm"] == 2)(self.status()), what="calm")

    @staticmethod
    def resident(process):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS"):
                    return int(line.split()[1])
        return 0

    def test_daemon_survives_running_out_of_descriptors(self):
        process = self.start(config="[gdevd]\nwarm_workers = 1\n")
        self.wait_warm(1)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (40, 40))
        socks = []
        for _ in range(60):
            try:
                socks.append(wire.connect(self.run_dir + "/control.sock", timeout=2))
            except OSError:
                break
        time.sleep(0.3)
        used = self.cpu(process)
        time.sleep(0.5)
        self.assertLess(self.cpu(process) - used, 0.2)  # it does not spin
        for sock in socks:
            sock.close()
        wait_for(lambda: self.gdev("status").returncode == 0, what="an answer")

    @staticmethod
    def cpu(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_client_that_does_not_read_is_dropped(self):
        process = self.start()
        sock = wire.connect(self.run_dir + "/control.sock")
        sock.setblocking(False)
        sent = 0
        request = wire.message(wire.ADMIN, b'{"command":"status"}', 1)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                sock.send(request)
                sent += 1
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        else:
            self.fail(f"still there after {sent} requests")
        sock.close()
        self.assertIsNone(process.poll())
        self.status()


class Workers(GdevdTest):
    def test_workers_that_die_at_their_start_are_retried_ever_less_often(self):
        process = self.start(mode="die")
        wait_for(lambda: "died when they started" in self.log(), what="giving up")
        client = self.client(welcome=False)
        self.assertEqual(client.kind, wire.REFUSED)
        self.assertIn("log of gdevd", client.text())
        self.order("ok")
        wait_for(lambda: self.status()["workers"]["warm"] == 2, what="another try")
        self.client()
        self.assertIsNone(process.poll())

    def test_worker_program_that_is_not_there_is_an_error(self):
        self.assertEqual(self.start("--worker", "/nonexistent", wait=False).wait(10), 1)
        self.assertIn("cannot find the worker program", self.log())

    def test_malformed_ready_is_no_worker(self):
        for mode in ("bad-ready", "unsealed"):
            with self.subTest(mode):
                process = self.start(mode=mode)
                client = self.client(welcome=False)
                self.assertEqual(client.kind, wire.REFUSED)
                process.terminate()
                process.wait(10)

    def test_worker_that_dies_while_attached_is_replaced(self):
        self.start(mode="attach-die", config="[gdevd]\nwarm_workers = 1\n")
        self.wait_warm(1)
        self.order("ok")
        self.client()

    def test_workers_that_always_die_while_attached_are_given_up(self):
        self.start(mode="attach-die")
        client = self.client(welcome=False)
        self.assertEqual((client.kind, client.status), (wire.REFUSED, -SESSION_LOST))

    def test_killed_worker_ends_its_session_alone(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(b"die")
        self.assertEqual(wire.receive(first.sock)[0], None)
        self.assertEqual(second.memory(1 << 20)[0], 0)
        ended = wait_for(lambda: self.status()["ended"], what="its end")
        self.assertEqual(ended[0]["reason"], "worker died")

    def test_malformed_worker_is_killed(self):
        self.start()
        for data in (b"junk", wire.message(wire.HELLO, b"\0" * 64), wire.message(wire.ATTACHED),
                     wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(17, 0, 0, 0, 0, 0)),
                     wire.message(wire.MEMORY, wire.MEMORY_BODY.pack(-(1 << 40), 0, 0)),
                     wire.message(wire.MEMORY, wire.MEMORY_BODY.pack(-(1 << 63), 0, 0)),
                     wire.message(wire.SHM, b"\xff" * 56)):
            client = self.client()
            client.tell(data)
            self.assertEqual(wire.receive(client.sock)[0], None, data[:20])
            client.close()

    def test_worker_that_does_not_leave_is_killed(self):
        self.start(mode="stay", config="[gdevd]\nwarm_workers = 1\n")
        client = self.client()
        client.close()
        wait_for(lambda: not self.status()["sessions"], what="its end")

    def test_surplus_workers_leave(self):
        self.start(config="[gdevd]\nwarm_workers = 1\nworker_idle = 200ms\n")
        socks = [wire.connect(self.run_dir + "/gdev0.sock") for _ in range(4)]
        for sock in socks:
            wire.send(sock, wire.hello())
        for sock in socks:
            sock.close()
        wait_for(lambda: (lambda w: w["total"] == 1 and w["warm"] == 1)(self.status()["workers"]),
                 what="one warm worker")

    def test_all_workers_together_are_bounded(self):
        self.start(config="[gdevd]\nwarm_workers = 2\nmax_workers = 3\n")
        for _ in range(3):
            self.client()
        self.assertEqual(self.status()["workers"]["total"], 3)


class Memory(GdevdTest):
    def test_accounts_are_exact(self):
        self.start("--device-memory", "64M", config="[gdevd]\nwarm_workers = 0\nhost_swap = 0\n"
                   "[vgpu small]\nmemory = 16M\n"
                   "[vgpu gdev0]\nmode = 0600\n")
        client = self.client("small")
        self.assertEqual(client.memory(0), (0, (0, 15 << 20, 16 << 20)))
        self.assertEqual(client.memory(15 << 20), (0, (15 << 20, 0, 16 << 20)))
        self.assertEqual(client.memory(1)[0], -ENOMEM)
        client.tell(wire.message(wire.MEMORY, wire.MEMORY_BODY.pack(-(5 << 20), 0, 0)))
        self.assertEqual(client.memory(5 << 20)[0], 0)
        other = self.client()
        self.assertEqual(other.memory(48 << 20)[0], -ENOMEM)
        self.assertEqual(other.memory(47 << 20)[0], 0)
        client.tell(b"die")
        wait_for(lambda: other.memory(15 << 20)[0] == 0, what="the dead one's memory")

    def test_peak_is_remembered(self):
        self.start()
        client = self.client()
        client.memory(30 << 20)
        client.tell(wire.message(wire.MEMORY, wire.MEMORY_BODY.pack(-(30 << 20), 0, 0)))
        client.close()
        ended = wait_for(lambda: self.status()["ended"], what="its end")
        self.assertEqual(ended[0]["peak_bytes"], 31 << 20)
        self.assertEqual(ended[0]["reason"], "done")


class Grants(GdevdTest):
    config = "[gdevd]\nquantum = 50ms\n"

    @staticmethod
    def grant(kind, resource=0, wants=0, used=0):
        return wire.message(kind, wire.GRANT_BODY.pack(resource, wants, 0, used, 0, 0))

    def expect(self, client, kind):
        got, _, _, body, _ = wire.receive(client.peer)
        self.assertEqual(got, kind)
        return wire.GRANT_BODY.unpack(body)

    def test_resource_goes_round(self):
        self.start(config=self.config)
        first, second = self.client(), self.client()
        first.tell(self.grant(wire.ACQUIRE))
        self.assertEqual(self.expect(first, wire.GRANT)[2], 50_000_000)
        second.tell(self.grant(wire.ACQUIRE))
        self.expect(first, wire.REVOKE)  # when idle
        self.expect(first, wire.REVOKE)  # now: the quantum is over
        first.tell(self.grant(wire.RELEASE, wants=1, used=1000))
        self.expect(second, wire.GRANT)
        self.expect(second, wire.REVOKE)
        second.tell(self.grant(wire.RELEASE))
        self.expect(first, wire.GRANT)

    def test_holder_that_does_not_leave_is_passed_over(self):
        self.start(config=self.config)
        first, second = self.client(), self.client()
        first.tell(self.grant(wire.ACQUIRE))
        self.expect(first, wire.GRANT)
        begin = time.monotonic()
        second.tell(self.grant(wire.ACQUIRE))
        self.expect(second, wire.GRANT)
        self.assertGreater(time.monotonic() - begin, 0.14)

    def test_dead_holder_gives_the_resource_back(self):
        self.start(config=self.config)
        first, second = self.client(), self.client()
        first.tell(self.grant(wire.ACQUIRE))
        self.expect(first, wire.GRANT)
        first.tell(b"die")
        second.tell(self.grant(wire.ACQUIRE))
        self.expect(second, wire.GRANT)

    def test_resources_are_independent(self):
        self.start(config=self.config)
        first, second = self.client(), self.client()
        for resource in range(3):
            first.tell(self.grant(wire.ACQUIRE, 0))
            second.tell(self.grant(wire.ACQUIRE, 1))
        self.expect(first, wire.GRANT)
        self.expect(second, wire.GRANT)


class SharedMemory(GdevdTest):
    CHUNK = 2 << 20

    def create(self, client, key=42, size=4 << 20, mode=0o600, flags=0o1000):
        status, segment, _ = client.shm(wire.SHM_GET, key=key, size=size, flags=flags | mode)
        self.assertEqual(status, 1)
        chunks = size // self.CHUNK
        self.assertEqual(client.memory(size)[0], 0)
        fds = [wire.sealed_memfd(self.CHUNK) for _ in range(chunks)]
        status, whole, _ = client.shm(wire.SHM_BACK, fds, ident=segment["id"], chunk=self.CHUNK,
                                      chunks=chunks)
        for fd in fds:
            os.close(fd)
        self.assertEqual(status, 0)
        return whole["id"]

    def test_two_sessions_share_chunks(self):
        self.start()
        first, second = self.client(), self.client()
        ident = self.create(first)
        status, segment, _ = second.shm(wire.SHM_GET, key=42)
        self.assertEqual((status, segment["id"], segment["bytes"]), (0, ident, 4 << 20))
        fds = []
        for client in (first, second):
            status, segment, got = client.shm(wire.SHM_ATTACH, ident=ident)
            self.assertEqual((status, len(got)), (0, 2))
            fds.append(got)
        self.assertEqual(segment["attached"], 2)
        os.pwrite(fds[0][1], b"hello", 100)
        self.assertEqual(os.pread(fds[1][1], 5, 100), b"hello")
        for fd in fds[0] + fds[1]:
            os.close(fd)

    def test_segment_lives_until_removed_and_detached(self):
        self.start("--device-memory", "64M")
        first = self.client()
        base = self.status()["vgpus"][0]["memory_used_bytes"]
        ident = self.create(first)
        first.close()
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.status()["vgpus"][0]["shared_segments"], 1)
        second = self.client()
        self.assertEqual(second.shm(wire.SHM_GET, key=42)[1]["id"], ident)
        for fd in second.shm(wire.SHM_ATTACH, ident=ident)[2]:
            os.close(fd)
        self.assertEqual(second.shm(wire.SHM_REMOVE, ident=ident)[0], 0)
        self.assertEqual(second.shm(wire.SHM_GET, key=42)[0], -ENOENT)
        self.assertEqual(second.shm(wire.SHM_ATTACH, ident=ident)[0], -EIDRM)
        self.assertEqual(self.status()["vgpus"][0]["shared_segments"], 1)
        second.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        wait_for(lambda: self.status()["vgpus"][0]["shared_segments"] == 0, what="its removal")
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == base, what="its memory's return")

    def test_dead_worker_detaches(self):
        self.start()
        first, second = self.client(), self.client()
        ident = self.create(first)
        for fd in second.shm(wire.SHM_ATTACH, ident=ident)[2]:
            os.close(fd)
        self.assertEqual(first.shm(wire.SHM_STAT, ident=ident)[1]["attached"], 1)
        second.tell(b"die")
        wait_for(lambda: first.shm(wire.SHM_STAT, ident=ident)[1]["attached"] == 0, what="its detachment")

    def test_creation_rules(self):
        self.start()
        client = self.client()
        self.assertEqual(client.shm(wire.SHM_GET, key=1)[0], -ENOENT)
        self.create(client, key=1)
        self.assertEqual(client.shm(wire.SHM_GET, key=1, flags=0o3000)[0], -EEXIST)
        self.assertEqual(client.shm(wire.SHM_GET, key=1, size=8 << 20)[0], -EINVAL)
        private = [self.create(client, key=0, size=2 << 20) for _ in range(2)]
        self.assertNotEqual(*private)
        self.assertEqual(client.shm(wire.SHM_STAT, ident=9999)[0], -EINVAL)

    def test_backing_is_checked(self):
        self.start("--device-memory", "64M")
        client = self.client()
        _, segment, _ = client.shm(wire.SHM_GET, key=3, size=4 << 20, flags=0o1600)
        fds = [wire.sealed_memfd(self.CHUNK) for _ in range(3)]
        good = {"ident": segment["id"], "chunk": self.CHUNK, "chunks": 2}
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:2], **good)[0], -EINVAL)  # nothing is charged
        client.memory(16 << 20)
        self.assertEqual(client.shm(wire.SHM_BACK, [], **good)[0], -EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds, **good)[0], -EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, chunks=1 << 30))[0], -EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **good)[0], 0)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, chunk=1 << 20, first=1))[0], -EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, first=1))[0], 0)
        for fd in fds:
            os.close(fd)

    def test_attach_waits_until_the_segment_is_whole(self):
        self.start()
        first, second, third = self.client(), self.client(), self.client()
        _, segment, _ = first.shm(wire.SHM_GET, key=3, size=2 << 20, flags=0o1600)
        second.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        third.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        third.close()
        time.sleep(0.1)
        first.memory(2 << 20)
        chunk = wire.sealed_memfd(self.CHUNK)
        first.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=self.CHUNK, chunks=1)
        os.close(chunk)
        kind, serial, status, _, fds = wire.receive(second.peer)
        self.assertEqual((kind, serial, status, len(fds)), (wire.SHM_REPLY, 8, 0, 1))
        os.close(fds[0])

    def transient(self, client, parts=((2 << 20, 2), (4 << 20, 1))):
        """A segment without a key, in chunks of several sizes: (id, token)."""
        size = sum(chunk * count for chunk, count in parts)
        status, segment, _ = client.shm(wire.SHM_GET, size=size, flags=wire.SHM_TRANSIENT | 0o600)
        self.assertEqual(status, 1)
        self.assertNotEqual(segment["token"], bytes(16))
        self.assertEqual(client.memory(size)[0], 0)
        first, chunks = 0, sum(count for _, count in parts)
        for chunk, count in parts:
            fds = [wire.sealed_memfd(chunk) for _ in range(count)]
            status, _, _ = client.shm(wire.SHM_BACK, fds, ident=segment["id"], chunk=chunk,
                                      chunks=chunks, first=first)
            self.assertEqual(status, 0)
            first += count
            for fd in fds:
                os.close(fd)
        return segment["id"], segment["token"]

    def test_transient_segments_need_their_token(self):
        self.start()
        first, second = self.client(), self.client()
        ident, token = self.transient(first)
        for command in (wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT, wire.SHM_REMOVE, wire.SHM_SET):
            self.assertEqual(second.shm(command, ident=ident)[0], -EINVAL)
            self.assertEqual(second.shm(command, ident=ident, token=b"x" * 16)[0], -EINVAL)
        # Chunks of one size a message.
        status, segment, fds = second.shm(wire.SHM_ATTACH, ident=ident, token=token)
        self.assertEqual((status, segment["chunk_bytes"], len(fds)), (0, 2 << 20, 2))
        status, segment, more = second.shm(wire.SHM_ATTACH, ident=ident, token=token, first=2)
        self.assertEqual((status, segment["chunk_bytes"], len(more)), (0, 4 << 20, 1))
        for fd in fds + more:
            os.close(fd)

    def test_transient_segments_live_while_they_are_attached(self):
        self.start("--device-memory", "64M")
        first, second = self.client(), self.client()
        base = self.status()["vgpus"][0]["memory_used_bytes"]
        ident, token = self.transient(first)
        self.assertEqual(second.shm(wire.SHM_HOLD, ident=ident, token=token)[1]["attached"], 2)
        first.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        wait_for(lambda: second.shm(wire.SHM_STAT, ident=ident, token=token)[1]["attached"] == 1,
                 what="its detachment")
        second.tell(b"die")
        wait_for(lambda: self.status()["vgpus"][0]["shared_segments"] == 0, what="its end")
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == base - (1 << 20),
                 what="its memory's return")  # what `second` had is gone as well

    def test_what_was_never_whole_is_given_back(self):
        self.start("--device-memory", "64M")
        client = self.client()
        self.assertEqual(client.memory(4 << 20)[0], 0)
        used = self.status()["vgpus"][0]["memory_used_bytes"]
        _, segment, _ = client.shm(wire.SHM_GET, size=4 << 20, flags=wire.SHM_TRANSIENT | 0o600)
        chunk = wire.sealed_memfd(2 << 20)
        client.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=2 << 20, chunks=2)
        os.close(chunk)
        self.assertEqual(client.shm(wire.SHM_REMOVE, ident=segment["id"], token=segment["token"])[0], 0)
        self.assertEqual(self.status()["vgpus"][0]["shared_segments"], 0)
        self.assertEqual(self.status()["vgpus"][0]["memory_used_bytes"], used)
        client.tell(wire.message(wire.MEMORY, wire.MEMORY_BODY.pack(-(4 << 20), 0, 0)))
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == used - (4 << 20), what="it")

    def test_attach_fails_when_the_creator_dies(self):
        self.start()
        first, second = self.client(), self.client()
        _, segment, _ = first.shm(wire.SHM_GET, key=3, size=2 << 20, flags=0o1600)
        second.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        self.assertEqual(second.shm(wire.SHM_STAT, ident=segment["id"])[0], 0)
        first.tell(b"die")
        self.assertEqual(wire.receive(second.peer)[2], -EIDRM)


class Events(GdevdTest):
    @staticmethod
    def event(kind, session, value, timeline, serial, status=0):
        return wire.message(kind, wire.EVENT_BODY.pack(session, value, timeline, 0), serial, status)

    def test_watch_and_done_are_carried(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        kind, serial, _, body, _ = wire.receive(second.peer)
        self.assertEqual((kind, wire.EVENT_BODY.unpack(body)), (wire.EVENT_WATCH, (second.session, 17, 3, 0)))
        second.tell(self.event(wire.EVENT_DONE, second.session, 17, 3, serial))
        kind, serial, status, _, _ = wire.receive(first.peer)
        self.assertEqual((kind, serial, status), (wire.EVENT_DONE, 55, 0))

    def test_lost_session_answers_those_who_wait(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        wire.receive(second.peer)
        second.tell(b"die")
        kind, serial, status, _, _ = wire.receive(first.peer)
        self.assertEqual((kind, serial, status), (wire.EVENT_DONE, 55, -SESSION_LOST))

    def test_asker_may_die(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        _, serial, _, _, _ = wire.receive(second.peer)
        first.tell(b"die")
        wire.receive(first.sock)
        second.tell(self.event(wire.EVENT_DONE, second.session, 17, 3, serial))
        self.assertEqual(second.memory(0)[0], 0)


class Cache(GdevdTest):
    def cache(self, client, kind, key, size=0):
        return client.ask(wire.message(kind, wire.CACHE_BODY.pack(key, size), 4))

    def test_committed_file_is_found(self):
        self.start()
        client, key = self.client(), bytes(range(16))
        self.assertEqual(self.cache(client, wire.CACHE_GET, key)[2], -ENOENT)
        _, _, status, _, fds = self.cache(client, wire.CACHE_PUT, key, 5)
        self.assertEqual((status, len(fds)), (0, 1))
        os.write(fds[0], b"code!")
        self.assertEqual(self.cache(client, wire.CACHE_GET, key)[2], -ENOENT)
        self.assertEqual(self.cache(client, wire.CACHE_COMMIT, key, 5)[2], 0)
        os.close(fds[0])
        self.assertEqual(self.cache(client, wire.CACHE_PUT, key, 5)[2], -EEXIST)
        _, _, status, body, fds = self.cache(self.client(), wire.CACHE_GET, key)
        self.assertEqual((status, wire.CACHE_BODY.unpack(body)[1]), (0, 5))
        self.assertEqual(os.read(fds[0], 10), b"code!")
        with self.assertRaises(OSError):
            os.write(fds[0], b"x")
        os.close(fds[0])

    def test_short_file_is_not_published(self):
        self.start()
        client, key = self.client(), b"k" * 16
        fds = self.cache(client, wire.CACHE_PUT, key, 50)[4]
        os.write(fds[0], b"short")
        os.close(fds[0])
        self.assertEqual(self.cache(client, wire.CACHE_COMMIT, key, 50)[2], -EINVAL)
        self.assertEqual(self.cache(client, wire.CACHE_GET, key)[2], -ENOENT)

    def test_open_writes_are_bounded(self):
        self.start()
        client = self.client()
        statuses = []
        for number in range(20):
            _, _, status, _, fds = self.cache(client, wire.CACHE_PUT, bytes([number] * 16), 5)
            statuses.append(status)
            for fd in fds:
                os.close(fd)
        self.assertEqual(statuses, [0] * 16 + [-EAGAIN] * 4)


class Command(GdevdTest):
    def test_says_what_to_do_when_there_is_no_daemon(self):
        for verb in (["status"], ["device", "list"], ["vgpu", "list"]):
            done = self.gdev(*verb)
            self.assertEqual(done.returncode, 3)
            self.assertIn("gdev run", done.stderr)
        with open(self.log_path, "w", encoding="ascii"):
            pass

    def test_run_is_the_program(self):
        self.start()
        self.assertEqual(self.gdev("run", "sh", "-c", "exit 42").returncode, 42)
        self.assertEqual(self.gdev("run", "sh", "-c", "kill -9 $$").returncode, -9)
        self.assertEqual(self.gdev("run", "/nonexistent").returncode, 127)
        self.assertEqual(self.gdev("run", "/etc/passwd").returncode, 126)
        self.assertEqual(self.gdev("run").returncode, 125)
        done = self.gdev("run", "--vgpu", "gdev0", "sh", "-c", "echo $GDEV_VGPU $GDEV_RUNTIME_DIR")
        self.assertEqual(done.stdout, f"gdev0 {self.run_dir}\n")

    def test_unknown_virtual_gpu_is_explained(self):
        self.start()
        done = self.gdev("run", "--vgpu", "foo", "true")
        self.assertEqual(done.returncode, 125)
        self.assertIn("no virtual GPU \"foo\"; 'gdev vgpu list' shows them", done.stderr)

    def test_tables_and_help(self):
        self.start(config="[vgpu train]\nmode = 0660\n[vgpu infer]\nmemory = 1G\n")
        self.client("train")
        self.assertIn("train", self.gdev("status").stdout)
        listed = self.gdev("vgpu", "list").stdout
        self.assertIn("0660", listed)
        self.assertIn("infer", listed)
        self.assertIn("fake device", self.gdev("device", "list").stdout)
        for verb in ("run", "status", "device", "vgpu", "help"):
            self.assertEqual(self.gdev(verb, "--help").stdout if verb != "help" else
                             self.gdev("help", "help").stdout, self.gdev("help", verb).stdout)
        self.assertEqual(self.gdev("frobnicate").returncode, 2)
        self.assertEqual(self.gdev("status", "--what").returncode, 2)


def main():
    global GDEVD, GDEV
    GDEVD, GDEV = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)


if __name__ == "__main__":
    main()
