#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gdevd as its clients, its workers and its user see it, with workers that execute nothing.

Usage: test_gdevd.py GDEVD GDEV [unittest arguments]
"""

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402


class Ids(harness.GdevdTest):
    def test_begin_anew_after_the_last_and_name_nothing_twice(self):
        daemon = self.start()
        first = self.client()
        self.assertEqual(first.session, 1)
        daemon.kill()
        daemon.wait()
        self.processes.remove(daemon)
        with open(self.run_dir + "/ids", "w", encoding="ascii") as file:
            file.write(f"{(1 << 32) - 2}\n")
        self.start()
        wait_for(lambda: self.status()["sessions"], what="the session's return")
        self.assertEqual([self.client().session for _ in range(4)], [(1 << 32) - 2, (1 << 32) - 1, 2, 3])


class Life(harness.GdevdTest):
    def test_stops_on_sigterm_and_takes_its_sockets_along(self):
        process = self.start()
        process.terminate()
        self.assertEqual(process.wait(wire.PATIENCE), 0)
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
        self.assertEqual(second.wait(wire.PATIENCE), 1)
        self.assertIn(f"a gdevd (pid {first.pid}) already runs in {self.run_dir}", self.log())
        self.assertTrue(self.reachable())

    @unittest.skipIf(os.getuid() != 0, "needs root, to make a device file")
    def test_full_runtime_directory_is_named(self):
        os.mkdir(self.run_dir, 0o755)
        os.mknod(self.run_dir + "/gdevd.lock", stat.S_IFCHR | 0o600, os.makedev(1, 7))  # as /dev/full
        self.assertEqual(self.start(wait=False).wait(wire.PATIENCE), 1)
        self.assertIn("cannot write " + self.run_dir + "/gdevd.lock", self.log())

    def test_refuses_a_runtime_directory_that_others_can_write(self):
        os.mkdir(self.run_dir)
        os.chmod(self.run_dir, 0o777)
        self.assertEqual(self.start(wait=False).wait(wire.PATIENCE), 1)
        self.assertIn("nobody else can write", self.log())

    def test_unknown_key_names_file_and_line(self):
        self.assertEqual(self.start(config="[gdevd]\ndevcie = cpu\n", wait=False).wait(wire.PATIENCE), 1)
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
        self.assertEqual(process.wait(wire.PATIENCE), 0)

    def test_private_daemon_stays_while_somebody_holds_it(self):
        process = self.start("--private", wait=False)
        hold = wait_for(self.try_hold, what="the start")
        self.client().close()
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        hold.close()
        self.assertEqual(process.wait(wire.PATIENCE), 0)

    def test_warm_workers_leave_with_the_daemon(self):
        process = self.start()
        self.wait_warm(2)
        workers = self.children(process.pid)
        self.assertEqual(len(workers), 2)
        process.terminate()
        process.wait(wire.PATIENCE)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in workers),
                 what="the workers' end")

    def test_worker_of_a_session_ends_as_the_daemon_is_told_to(self):
        """gdevd hears of both at once"""
        process = self.start()
        client = self.client()
        worker = self.status()["sessions"][0]["worker_pid"]
        process.send_signal(signal.SIGSTOP)
        self.wait_state(process.pid, "T")
        process.terminate()
        client.peer.send(b"vanish")
        self.wait_state(worker, "Z")
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(wire.PATIENCE), 0)

    @staticmethod
    def wait_state(pid, state):
        def is_so():
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] == state

        wait_for(is_so, what=f"state {state} of process {pid}")

    @staticmethod
    def children(pid):
        found = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += [int(child) for child in file.read().split()]
        return found


class Restart(harness.GdevdTest):
    def restart(self, how, config=""):
        process = self.processes[-1]
        self.wait_warm(2)
        process.send_signal(how)
        process.wait(wire.PATIENCE)
        return self.start(config=config)

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
        self.assertEqual(client.memory(10 << 20), 0)
        self.assertEqual(self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES).session > client.session, True)
        client.peer.close()
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="its end")

    def test_session_survives_a_restart(self):
        self.check_survives(signal.SIGTERM)

    def test_session_survives_kill(self):
        self.check_survives(signal.SIGKILL)

    def make_segment(self, client, **fields):
        """Its id and chunk; the client has attached it."""
        status, segment, _ = client.shm(wire.SHM_GET, size=2 << 20, **{"key": 5, "flags": 0o1600, **fields})
        self.assertEqual((status, client.memory(2 << 20)), (1, 0))
        chunk = wire.sealed_memfd(2 << 20)
        self.assertEqual(self.back(client, segment["id"], chunk), 0)
        if not fields:
            self.attach(client, segment["id"])
        return segment, chunk

    @staticmethod
    def back(client, ident, chunk):
        return client.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=2 << 20, chunks=1)[0]

    @staticmethod
    def attach(client, ident, again=False, **fields):
        """As a worker that registers says it, or (again False) as one whose client has asked for it."""
        status, segment, fds = client.shm(wire.SHM_ATTACH, ident=ident, size=2 << 20 if again else 0, **fields)
        for fd in fds:
            os.close(fd)
        return status, segment["attached"], len(fds)

    def come_back(self, *clients):
        self.restart(signal.SIGKILL)
        wait_for(lambda: len(self.status()["sessions"]) == len(clients), what="the sessions' return")

    def test_shared_memory_comes_back(self):
        self.start("--device-memory", "1G")
        client = self.client()
        segment, chunk = self.make_segment(client)
        self.come_back(client)
        self.assertEqual(self.attach(client, segment["id"], again=True)[0], 1)
        self.assertEqual(self.back(client, segment["id"], chunk), 0)
        self.assertEqual(client.shm(wire.SHM_STAT, ident=segment["id"])[1]["attached"], 1)  # as before
        self.assertEqual(self.attach(client, segment["id"]), (0, 2, 1))
        self.assertEqual(client.shm(wire.SHM_GET, key=5)[1]["id"], segment["id"])
        os.close(chunk)

    def test_shared_memory_is_what_it_was(self):
        """gdevd's word counts for whose it is, and the chunks must be those that they were."""
        self.start("--device-memory", "1G")
        client, other = self.client(), self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        segment, chunk = self.make_segment(client)
        self.attach(other, segment["id"])
        self.come_back(client, other)
        ident, wrong = segment["id"], wire.sealed_memfd(2 << 20)
        self.assertEqual(self.attach(client, ident, again=True, uid=12345, mode=0o666)[0], 1)
        self.assertEqual(self.back(client, ident, wrong), -harness.EINVAL)
        os.close(wrong)
        self.assertEqual(self.attach(other, ident, again=True)[0], 1)  # then another may
        self.assertEqual(self.back(other, ident, chunk), 0)
        os.close(chunk)
        known = other.shm(wire.SHM_STAT, ident=ident)[1]
        self.assertEqual((known["uid"], known["mode"], known["key"]), (os.getuid(), 0o600, 5))

    def test_who_attaches_while_it_comes_back_waits(self):
        self.start("--device-memory", "1G")
        client = self.client()
        segment, chunk = self.make_segment(client)
        self.come_back(client)
        late = self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        self.assertEqual(late.shm(wire.SHM_GET, key=5)[1]["id"], segment["id"])
        late.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        self.assertEqual(self.attach(client, segment["id"], again=True)[0], 1)
        self.assertEqual(self.back(client, segment["id"], chunk), 0)
        os.close(chunk)
        _, _, status, _, fds = wire.receive(late.peer)
        self.assertEqual((status, len(fds)), (0, 1))
        os.close(fds[0])

    def test_shared_memory_goes_with_those_who_had_it(self):
        self.start("--device-memory", "1G")
        client, other = self.client(), self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        segment, chunk = self.make_segment(client)
        os.close(chunk)
        self.come_back(client, other)
        other.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))  # may, and waits
        self.assertEqual(other.shm(wire.SHM_GET, key=99)[0], -harness.ENOENT)  # gdevd has read that
        self.assertEqual(self.attach(client, segment["id"], again=True)[0], 1)
        client.tell(b"die")
        _, _, status, _, _ = wire.receive(other.peer)
        self.assertEqual(status, -harness.EIDRM)
        self.assertEqual(other.shm(wire.SHM_GET, key=5)[0], -harness.ENOENT)

    def test_worker_that_says_it_serves_another_user_is_killed(self):
        self.start("--device-memory", "1G")
        client = self.client()
        with open(self.orders + "/register", "w", encoding="ascii") as file:
            file.write("stranger")
        self.restart(signal.SIGKILL)
        self.assertEqual(wire.receive(client.peer)[0], None)
        wait_for(lambda: not self.status()["sessions"], what="its end")

    def test_worker_has_one_connection(self):
        self.start("--device-memory", "1G")
        client = self.client()
        with open(self.orders + "/register", "w", encoding="ascii") as file:
            file.write("twice")
        self.restart(signal.SIGTERM)
        self.assertEqual(client.memory(1 << 20), 0)

    def entries(self):
        with open(self.run_dir + "/sessions", "rb") as file:
            header, entries = file.read(16), file.read()
        size = int.from_bytes(header[8:], "little")
        return [entries[i:i + 8] != bytes(8) for i in range(0, len(entries), size)]

    def test_who_was_served_is_forgotten_with_the_session(self):
        self.start("--device-memory", "1G")
        clients = [self.client(base=wire.ARENA_BASE + i * wire.ARENA_BYTES) for i in range(3)]
        self.assertEqual(self.entries(), [True, True, True])
        clients[1].close()
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="its end")
        self.restart(signal.SIGTERM)
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="the others' return")
        self.assertEqual(self.entries(), [True, False, True])

    def test_shared_memory_that_cannot_have_been_does_not_come_back(self):
        self.start("--device-memory", "1G")
        client, other = self.client(), self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        held, chunk = self.make_segment(client, key=0, flags=wire.SHM_TRANSIENT | 0o600)
        self.come_back(client, other)
        again = {"again": True, "flags": wire.SHM_TRANSIENT}
        self.assertEqual(self.attach(client, 1 << 30, **again)[0], -harness.EINVAL)  # nobody's
        self.assertEqual(self.attach(client, held["id"], token=b"x" * 16, **again)[0], -harness.EINVAL)
        self.assertEqual(self.attach(client, held["id"], token=held["token"], **again)[0], 1)
        self.assertEqual(self.back(client, held["id"], chunk), 0)
        os.close(chunk)

    def check_held(self, most, more):
        """Of two that register again the one that says it holds `most` is believed, and the other is not."""
        config = "[gdevd]\nhost_swap = 1G\nfile_swap = 2G\n[vgpu small]\nmemory = 256M\n"
        self.start("--device-memory", "1G", config=config)
        honest, hostile = self.client("small"), self.client("small", base=wire.ARENA_BASE + wire.ARENA_BYTES)
        with open(self.orders + "/held", "w", encoding="ascii") as file:
            for client, held in (honest, most), (hostile, more):
                file.write(" ".join(map(str, (client.session, *held))) + "\n")
        self.restart(signal.SIGKILL, config=config)
        self.assertEqual(wire.receive(hostile.peer)[0], None)
        wait_for(lambda: [one["session"] for one in self.status()["sessions"]] == [honest.session],
                 what="the session's return")

    def test_device_memory_that_nobody_can_hold_is_not_believed(self):
        self.check_held((256 << 20, 0, 0), (258 << 20, 0, 0))  # a context takes 1 MiB

    def test_host_swap_that_nobody_can_hold_is_not_believed(self):
        self.check_held((0, 1 << 30, 2 << 30), (0, 1 << 30 | 1 << 20, 0))

    def test_swap_file_that_nobody_can_hold_is_not_believed(self):
        self.check_held((0, 1 << 30, 2 << 30), (0, 0, 1 << 62))


class Clients(harness.GdevdTest):
    def test_welcome_carries_the_session(self):
        self.start("--device-memory", "1G")
        client = self.client(serial=99)
        (version, _, features, session, staging, vgpu, device, uuid, memory,
         *tuning) = wire.WELCOME_BODY.unpack(client.body)
        self.assertEqual((client.serial, version, features, staging), (99, 1, 3, 1 << 20))
        self.assertEqual((vgpu.rstrip(b"\0"), device.rstrip(b"\0")), (b"gdev0", b"fake device"))
        self.assertEqual((uuid, memory), (bytes(range(16)), 1 << 30))
        self.assertEqual(tuning, [0, 0, 0, wire.PEERS])
        self.assertEqual(len(client.fds), 4)

    def test_welcome_carries_what_the_file_says_of_the_device(self):
        self.start(config="[device null]\ninline_bytes = 4K\nchunk_bytes = 1M\ncopy_threads = 3\n"
                   "[device cuda:7]\ncopy_threads = 9\n[gdevd]\ndevice = null\n")
        client = self.client()
        self.assertEqual(wire.WELCOME_BODY.unpack(client.body)[-4:], (4096, 1 << 20, 3, wire.PEERS))

    def test_client_that_knows_no_tuning_gets_a_welcome_without(self):
        self.start()
        client = self.client(features=wire.FEATURE_DEVICE_MAP)
        self.assertEqual((client.kind, wire.HEADER.size + len(client.body)),
                         (wire.WELCOME, wire.WELCOME_UNTUNED_BYTES))

    def test_unknown_version_is_refused(self):
        self.start()
        client = self.client(welcome=False, versions=(5, 9))
        self.assertEqual((client.kind, client.status), (wire.REFUSED, -harness.PROTOCOL))
        self.assertIn("update", client.text())

    def test_newer_client_gets_a_version_that_both_know(self):
        self.start()
        self.assertEqual(wire.WELCOME_BODY.unpack(self.client(versions=(1, 9)).body)[0], 1)

    def test_odd_arenas_are_refused(self):
        self.start()
        for base, size in ((0, 1 << 30), (4096, 1 << 30), (1 << 46, 1 << 47), (1 << 40, 0),
                           ((1 << 64) - (2 << 20), 4 << 20), (1 << 40, 12345)):
            client = self.client(welcome=False, base=base, size=size)
            self.assertEqual((client.kind, client.status), (wire.REFUSED, -harness.EINVAL), (base, size))

    def test_arena_in_use_may_be_tried_again_with_the_same_worker(self):
        process = self.start(mode="attach-busy", config="[gdevd]\nwarm_workers = 1\nmax_workers = 1\n")
        self.wait_warm(1)
        workers = Life.children(process.pid)
        client = self.client(welcome=False)
        self.assertEqual((client.kind, client.status), (wire.REFUSED, -harness.EADDRINUSE))
        status = self.status()
        self.assertEqual((status["workers"]["warm"], status["workers"]["leaving"]), (1, 0))
        wire.send(client.sock, wire.hello())
        kind, _, _, _, fds = wire.receive(client.sock)
        self.assertEqual(kind, wire.WELCOME)
        self.assertEqual(Life.children(process.pid), workers)
        for fd in fds:
            os.close(fd)

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
            wire.message(wire.READY, b"\0" * wire.READY_BODY.size),
            wire.message(wire.ADMIN, b'{"command":"status"}'),
            wire.message(wire.MEMORY),
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
        self.assertEqual(good.memory(1 << 20), 0)

    def test_descriptors_that_belong_nowhere_are_closed(self):
        process = self.start()
        self.wait_warm(2)
        before = self.descriptors(process)
        null = os.open("/dev/null", os.O_RDONLY)
        for _ in range(20):
            sock = wire.connect(self.run_dir + "/gdev0.sock")
            try:
                wire.send(sock, wire.hello(), [null] * 100)
                self.assertEqual(wire.receive(sock)[0], None)
            except PermissionError:
                pass  # from Linux 6.16 on
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
            self.assertEqual((kind, serial, status), (wire.ADMIN_REPLY, 3, -harness.EINVAL))
            self.assertIn("error", json.loads(body))
        sock.close()

    def test_sessions_of_a_user_are_bounded(self):
        self.start(config="[gdevd]\nsessions_per_user = 2\n")
        self.client()
        self.client()
        third = self.client(welcome=False)
        self.assertEqual((third.kind, third.status), (wire.REFUSED, -harness.EUSERS))
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
            sock = wire.connect(self.run_dir + "/gdev0.sock")
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
            client = harness.Client(self.run_dir + "/gdev0.sock")
            self.assertEqual(client.kind, wire.WELCOME, client.body)
            client.memory(4 << 20)
            client.close()

        for _ in range(20):
            one()
        self.wait_idle()
        descriptors, grown = self.descriptors(process), [1 << 30]
        while grown[-1] >= 1024:  # the allocator may keep more once; what leaks does so each time
            self.assertLess(len(grown), 4, f"KiB of memory: {grown}")
            memory = self.resident(process)
            for _ in range(200):
                one()
            self.wait_idle()
            wait_for(lambda: self.descriptors(process) <= descriptors + 1, what="the end of what is being closed")
            grown.append(0 if self.sanitized() else self.resident(process) - memory)
        status = self.status()
        self.assertEqual(status["ended_count"], 20 + 200 * (len(grown) - 1))
        self.assertEqual(len(status["ended"]), 64)
        # The warm workers' contexts, and nothing else.
        self.assertEqual(status["devices"][0]["memory_used_bytes"], 2 << 20)

    @staticmethod
    def sanitized():
        with open(harness.GDEVD, "rb") as file:
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

    def test_client_that_does_not_read_is_answered_when_it_does(self):
        process = self.start()
        sock = wire.connect(self.run_dir + "/control.sock")
        request = wire.message(wire.ADMIN, b'{"command":"status"}', 1)
        sock.setblocking(False)
        sent, end = 0, time.monotonic() + 1
        while time.monotonic() < end:
            try:
                sock.send(request)
                sent += 1
            except BlockingIOError:
                time.sleep(0.01)
        sock.settimeout(wire.PATIENCE)
        self.assertLess(sent, 2000)
        self.assertLess(self.memory(process), 64 << 20, "what it asks lies in its own socket")
        self.status()
        for _ in range(sent):
            status = 1
            while status == 1:  # a piece
                kind, _, status, _, _ = wire.receive(sock)
                self.assertEqual((kind, status), (wire.ADMIN_REPLY, min(status, 1)))
        sock.close()
        self.assertIsNone(process.poll())

    @staticmethod
    def memory(process):
        with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Workers(harness.GdevdTest):
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
        self.assertEqual(self.start("--worker", "/nonexistent", wait=False).wait(wire.PATIENCE), 1)
        self.assertIn("cannot find the worker program", self.log())

    def test_malformed_ready_is_no_worker(self):
        for mode in ("bad-ready", "bad-times", "unsealed"):
            with self.subTest(mode):
                process = self.start(mode=mode)
                client = self.client(welcome=False)
                self.assertEqual(client.kind, wire.REFUSED)
                process.terminate()
                process.wait(wire.PATIENCE)

    def test_worker_that_dies_while_attached_is_replaced(self):
        self.start(mode="attach-die", config="[gdevd]\nwarm_workers = 1\n")
        self.wait_warm(1)
        self.order("ok")
        self.client()

    def test_workers_that_always_die_while_attached_are_given_up(self):
        self.start(mode="attach-die")
        client = self.client(welcome=False)
        self.assertEqual((client.kind, client.status), (wire.REFUSED, -harness.SESSION_LOST))

    def test_killed_worker_ends_its_session_alone(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(b"die")
        self.assertEqual(wire.receive(first.sock)[0], None)
        self.assertEqual(second.memory(1 << 20), 0)
        ended = wait_for(lambda: self.status()["ended"], what="its end")
        self.assertEqual(ended[0]["reason"], "worker died")

    def test_malformed_worker_is_killed(self):
        self.start()
        for data in (b"junk", wire.message(wire.HELLO, b"\0" * 64), wire.message(wire.ATTACHED),
                     wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(17, 0, 0, 0)),
                     wire.give_back(1 << 40), wire.give_back(0, 1), wire.give_back(0, 0, 1),
                     wire.give_back(1 << 63), wire.allocate(1 << 63), wire.room(1 << 63, 0), wire.slot(1 << 63, 0),
                     wire.allocate(4096, purpose=4), wire.room(4096, 4),
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

    def test_the_next_burst_finds_as_many_warm_workers_as_the_last_one_lacked(self):
        self.start(config="[gdevd]\nwarm_workers = 1\nworker_idle = 60min\n")
        self.wait_warm(1)
        self.order("late")
        socks = self.burst(5)
        self.go()
        self.end_burst(socks)
        self.wait_warm(1 + 2 * 4)

    def burst(self, count):
        """So many clients come at once, and gdevd knows of all."""
        socks = [wire.connect(self.run_dir + "/gdev0.sock") for _ in range(count)]
        for sock in socks:
            wire.send(sock, wire.hello())
        for sock in socks:
            harness.wait_read(sock)
        return socks

    def go(self):
        """Workers that are late are not any more."""
        open(self.orders + "/go", "wb").close()

    def end_burst(self, socks):
        for sock in socks:
            kind, _, _, _, fds = wire.receive(sock)
            self.assertEqual(kind, wire.WELCOME)
            for fd in fds:
                os.close(fd)
            sock.close()

    def test_a_description_takes_no_worker(self):
        """It comes when the first worker has said what the device is, and needs none that is free."""
        self.start(config="[gdevd]\nwarm_workers = 0\nmax_workers = 1\n")
        sock = wire.connect(self.run_dir + "/gdev0.sock")
        for _ in range(2):
            wire.send(sock, wire.message(wire.DESCRIBE))
            kind, _serial, _status, body, fds = wire.receive(sock)
            self.assertEqual((kind, fds), (wire.DESCRIPTION, []))
            vgpu, device, uuid, memory, peers, _, *properties = wire.DESCRIPTION_BODY.unpack(body)
            self.assertEqual((vgpu.rstrip(b"\0"), device.rstrip(b"\0")), (b"gdev0", b"fake device"))
            self.assertEqual((uuid, peers, properties), (bytes(range(16)), wire.PEERS, list(range(160))))
            self.assertGreater(memory, 0)
        self.client()
        wire.send(sock, wire.message(wire.DESCRIBE))
        self.assertEqual(wire.receive(sock)[0], wire.DESCRIPTION)
        wire.send(sock, wire.message(wire.DESCRIPTION, body))
        self.assertEqual(wire.receive(sock)[0], None)
        sock.close()

    def test_surplus_workers_leave(self):
        self.start(config="[gdevd]\nwarm_workers = 1\nworker_idle = 200ms\n")
        self.wait_warm(1)
        self.order("late")
        socks = self.burst(4)
        self.go()
        self.end_burst(socks)
        wait_for(lambda: "is not needed any more" in self.log(), what="a surplus worker's end")
        wait_for(lambda: (lambda w: w["total"] == 1 and w["warm"] == 1)(self.status()["workers"]),
                 what="one warm worker")

    def test_all_workers_together_are_bounded(self):
        self.start(config="[gdevd]\nwarm_workers = 2\nmax_workers = 3\n")
        for _ in range(3):
            self.client()
        self.assertEqual(self.status()["workers"]["total"], 3)


class Command(harness.GdevdTest):
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

    def test_wrong_usage_is_named_by_the_verb(self):
        self.start()
        for verb in ("run", "status", "device list", "device set", "vgpu list", "top", "tune", "trace", "doctor"):
            done = self.gdev(*verb.split(), "--what")
            name = verb.split()[0]
            self.assertEqual(done.returncode, 125 if name == "run" else 2)
            self.assertEqual(done.stderr.splitlines(), [f"gdev {name}: unrecognized option '--what'",
                                                        f"Try 'gdev help {name}'."])
        for arguments in (("suspend",), ("suspend", "-1"), ("resume", "99999999999"), ("help", "run", "top")):
            self.assertEqual(self.gdev(*arguments).returncode, 2)
        for arguments in (("--ready-fd", "x"), ("--ready-fd", "99"), ("--what",)):
            done = subprocess.run([harness.GDEVD, *arguments], capture_output=True, text=True, timeout=wire.PATIENCE)
            self.assertEqual(done.returncode, 2)
            self.assertTrue(done.stderr.startswith("gdevd: "), done.stderr)

    def test_tables_and_help(self):
        self.start(config="[vgpu train]\nmode = 0660\n[vgpu infer]\nmemory = 1G\n")
        self.client("train")
        self.assertIn("train", self.gdev("status").stdout)
        listed = self.gdev("vgpu", "list").stdout
        self.assertIn("0660", listed)
        self.assertIn("infer", listed)
        self.assertIn("fake device", self.gdev("device", "list").stdout)
        for verb in "run status device vgpu top tune trace doctor suspend resume help".split():
            explained = self.gdev("help", verb).stdout
            self.assertTrue(explained.startswith(f"Usage: gdev {verb}"), explained)
            self.assertEqual(self.gdev(verb, "--help").stdout, explained)
        self.assertEqual(self.gdev("frobnicate").returncode, 2)
        self.assertEqual(self.gdev("status", "--what").returncode, 2)


if __name__ == "__main__":
    harness.main()
