# SPDX-License-Identifier: MIT
"""A gdevd to test: in a temporary directory, with workers that execute nothing (fake_worker.py), and the sessions of
its clients, whose workers say what the test says."""

import fcntl
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # noqa: E402

GDEVD = GDEV = None
FAKE_WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_worker.py")

EPERM, ENOENT, EAGAIN, ENOMEM, EACCES, EBUSY, EEXIST, EINVAL, EIDRM, EUSERS, EADDRINUSE = (
    1, 2, 11, 12, 13, 16, 17, 22, 43, 87, 98)
SESSION_LOST, DEVICE_LOST, PROTOCOL, SHARED_LIMIT, DRAINED = 1028, 1037, 1039, 1041, 1042


def wait_for(condition, seconds=wire.PATIENCE, what="it"):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} seconds")


def wait_read(sock):
    """Until gdevd has read all that was sent: what another connection brings later is handled after it."""
    wait_for(lambda: not any(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4))), what="reading")


def fork_as(pid):
    """os.fork(), where the child's pid is one that a process had which has ended."""
    time.sleep(0.05)  # the kernel says to a hundredth of a second when a process began
    for _ in range(100):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
                last.write(str(pid - 1))
        except OSError as error:
            raise unittest.SkipTest(f"a pid cannot be chosen: {error}") from error
        child = os.fork()
        if child == pid or (not child and os.getpid() == pid):
            return child
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
    raise unittest.SkipTest(f"another process has pid {pid}")


class Client:
    """A session: its connection, and through the fake worker its worker's messages."""

    def __init__(self, path, apart=False, **hello):
        """path: or a connection to it. apart: not this process's."""
        self.sock = path
        if not isinstance(path, socket.socket):
            self.sock = wire.connect_apart(path) if apart else wire.connect(path)
        wire.send(self.sock, wire.hello(**hello))
        self.kind, self.serial, self.status, self.body, fds = wire.receive(self.sock)
        self.peer, self.fds = None, []
        if self.kind == wire.WELCOME:
            self.session = wire.WELCOME_BODY.unpack_from(self.body.ljust(wire.WELCOME_BODY.size, b"\0"))[3]
            self.fds = fds[:4] + fds[5:]
            self.peer = socket.socket(fileno=fds[4])
            self.peer.settimeout(wire.PATIENCE)

    def text(self):
        return self.body.split(b"\0")[0].decode()

    def tell(self, data, fds=()):
        """As the worker, to gdevd."""
        wire.send(self.peer, data, fds)

    def ask(self, data, fds=()):
        self.tell(data, fds)
        return wire.receive(self.peer)

    def memory(self, amount):
        """The status of an allocation that makes nobody else leave."""
        kind, _, status, body, _ = self.ask(wire.allocate(amount, swap=wire.NEVER))
        assert kind == wire.CHARGED
        assert wire.CHARGED_BODY.unpack(body)[:3] == (0 if status else amount, 0, 0)
        return status

    def free(self):
        """(free, total)"""
        kind, _, _, body, _ = self.ask(wire.message(wire.MEMORY, serial=5))
        assert kind == wire.MEMORY_REPLY
        return wire.MEMORY_BODY.unpack(body)

    def shm(self, command, fds=(), **fields):
        kind, _, status, body, got = self.ask(wire.shm(command, **fields), fds)
        assert kind == wire.SHM_REPLY
        names = ("command key id flags size bytes chunk_bytes first_chunk chunks uid gid mode attached token").split()
        return status, dict(zip(names, wire.SHM_BODY.unpack(body))), got

    def hang_up(self):
        """Ends the connection, and returns when gdevd knows."""
        self.sock.shutdown(socket.SHUT_WR)
        assert not self.sock.recv(1)

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []
        if self.peer:
            self.peer.close()
        self.sock.close()


class GdevdTest(unittest.TestCase):
    config = ""
    most_descriptors = None  # how many gdevd may have; None: as many as this process

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
        open(self.log_path, "ab").close()

    def tearDown(self):
        for client in self.clients:
            client.close()
        for process in self.processes:
            if process.poll() is None:  # in order, so that a leak is found
                process.terminate()
                try:
                    self.assertEqual(process.wait(wire.PATIENCE), 0)
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
        if "worker_idle" not in config:  # what is kept for the next burst leaves soon
            config += "\n[gdevd]\nworker_idle = 200ms\n"
        with open(path, "w", encoding="ascii") as file:
            file.write(config)
        with open(self.log_path, "ab") as log:
            process = subprocess.Popen(
                [GDEVD, "--foreground", "--config", path, "--state-dir", self.directory + "/state",
                 "--worker", FAKE_WORKER, "--device", "null", "--log", "debug", *options],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=self.most_descriptors and self.limit_descriptors)
        self.processes.append(process)
        if wait:
            # A worker of the one before, between fork and exec, may still hold its sockets.
            wait_for(lambda: self.reachable(process.pid) or process.poll() is not None, what="the start")
            self.assertIsNone(process.poll(), self.log())
        return process

    def limit_descriptors(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, (self.most_descriptors, self.most_descriptors))

    def reachable(self, pid=None):
        """Somebody listens; with a pid, that process does."""
        connection = self.try_hold()
        if not connection:
            return False
        listener, _uid, _gid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        connection.close()
        return pid in (None, listener)

    def try_hold(self):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self.run_dir + "/control.sock")
            return connection
        except OSError:
            connection.close()
            return None

    def order(self, mode, device=None):
        """How workers start that start from now on: all, or those of one device."""
        path = self.orders + ("/mode-" + device if device else "/mode")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(mode)
        os.rename(path + ".new", path)

    def gdev(self, *arguments, **options):
        return subprocess.run([GDEV, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, **options)

    def status(self):
        done = self.gdev("status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def wait_freed(self):
        """Memory is freed by a thread of gdevd, and charged until it is."""
        wait_for(lambda: not any(device["memory_freeing_bytes"] or device["swap_freeing_bytes"]
                                 for device in self.status()["devices"]), what="the end of what is being freed")

    def client(self, vgpu="gdev0", welcome=True, **hello):
        client = Client(f"{self.run_dir}/{vgpu}.sock", **hello)
        self.clients.append(client)
        if welcome:
            self.assertEqual(client.kind, wire.WELCOME, client.body)
        return client

    def wait_warm(self, count):
        return wait_for(lambda: self.status()["workers"]["warm"] == count, what=f"{count} warm workers")


def main():
    global GDEVD, GDEV
    GDEVD, GDEV = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
