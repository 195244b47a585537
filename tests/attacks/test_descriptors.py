# SPDX-License-Identifier: MIT
"""Descriptors that hold up whoever closes them: a socket that lingers, and a file whose file system does not answer.
gdevd is sent them on every socket it has, with messages that bring descriptors and with others, as a client and as a
worker in its client's hands. Meanwhile another one opens a session."""

import ctypes
import multiprocessing
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
CHUNK = 2 << 20
LINGER_S = 240  # more than the victim's patience
PATIENCE_S = 60  # of a victim, whom it takes milliseconds on a machine that does nothing else
MOST = 253  # descriptors in a message
PF_EXITING = 4  # proc_pid_stat(5), flags
libc = ctypes.CDLL(None, use_errno=True)


class Lingering:
    """A socket with unsent data, whose last user waits for it."""

    def __init__(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.socket = socket.create_connection(self.listener.getsockname())
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.send(bytes(1 << 16))
        except BlockingIOError:
            pass

    def fileno(self):
        return self.socket.fileno()

    def close(self):
        self.socket.close()


class Fuse:
    """A mount of FUSE with one file, "file", whose server answers until it is opened, and then nothing."""

    IN, OUT = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ")
    ATTR = struct.Struct("=6Q10I")
    LOOKUP, GETATTR, OPEN, INIT = 1, 3, 14, 26

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="gdev-fuse-")
        self.device = os.open("/dev/fuse", os.O_RDWR)
        data = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"test", self.directory.encode(), b"fuse", 0, data):
            error = ctypes.get_errno()
            os.close(self.device)
            os.rmdir(self.directory)
            raise OSError(error, os.strerror(error))
        self.server = multiprocessing.Process(target=self.serve)
        self.server.start()
        os.close(self.device)

    def attributes(self, node):
        mode = 0o40755 if node == 1 else 0o100666
        return self.ATTR.pack(node, 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, opcode, node):
        if opcode == self.INIT:
            return struct.pack("=IIIIHHIIHHI7I", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0, 0, *[0] * 7)
        if opcode == self.LOOKUP:
            return struct.pack("=QQQQII", 2, 0, 60, 60, 0, 0) + self.attributes(2)
        if opcode == self.GETATTR:
            return struct.pack("=QII", 60, 0, 0) + self.attributes(node)
        if opcode == self.OPEN:
            return struct.pack("=QII", 1, 0, 0)
        return None  # FLUSH above all

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 16)
            except OSError:
                return
            _, opcode, unique, node, *_ = self.IN.unpack_from(request)
            body = self.answer(opcode, node)
            if body is not None:
                os.write(self.device, self.OUT.pack(self.OUT.size + len(body), 0, unique) + body)

    def open(self):
        return open(self.directory + "/file", "r+b", buffering=0)

    def end(self):
        """Whoever waited for the server does not any more."""
        self.server.kill()
        self.server.join()
        libc.umount2(self.directory.encode(), 2)
        os.rmdir(self.directory)


def is_ending(pid):
    """One that is killed may hang in its end, with all that it has open."""
    flags = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[6]
    return int(flags) & PF_EXITING


class Descriptors(harness.GdevdTest):
    def setUp(self):
        super().setUp()
        self.attackers, self.fuse = [], None

    def tearDown(self):
        for pid in self.attackers:
            os.kill(pid, signal.SIGKILL)
        if self.fuse:
            self.fuse.end()
        for pid in self.attackers:
            os.waitpid(pid, 0)
        super().tearDown()

    def attack(self, hanging, send, killed=False):
        """A process of its own, which may hang itself, makes something that hangs and sends it. killed: gdevd kills it for that."""
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(read)
                made = hanging()
                os.write(write, b"sends ")
                try:
                    kept = send(made.fileno())  # noqa: F841
                except PermissionError:
                    pass  # from Linux 6.16 on, where no message brings any
                except Exception as error:
                    os.write(write, repr(error).encode())
                os.write(write, b"sent")
                made.close()
                signal.pause()
            finally:
                os._exit(1)
        self.attackers.append(pid)
        os.close(write)
        told = b""
        while not told.endswith(b"sent"):
            if select.select([read], [], [], 0.05)[0]:
                piece = os.read(read, 400)
                told += piece
                if not piece:
                    break
            elif is_ending(pid):
                break
        self.assertIn(told, (b"sends sent", b"sends ") if killed else (b"sends sent",))
        os.close(read)

    def check_victim(self):
        """Another one opens a session, and asks for something."""
        began = time.monotonic()
        sock = wire.connect(self.run_dir + "/gdev0.sock", PATIENCE_S)
        wire.send(sock, wire.hello())
        kind, _, _, body, fds = wire.receive(sock)
        self.assertEqual(kind, wire.WELCOME, body)
        for fd in fds:
            os.close(fd)
        sock.close()
        print(f"# another session began within {(time.monotonic() - began) * 1000:.0f} ms", flush=True)

    def send_as_client(self, hanging):
        for name in "gdev0", "control", "metrics":
            for leave in False, True:
                def send(fd, name=name, leave=leave):
                    kind = socket.SOCK_STREAM if name == "metrics" else socket.SOCK_SEQPACKET
                    sock = socket.socket(socket.AF_UNIX, kind)
                    sock.connect(f"{self.run_dir}/{name}.sock")
                    socket.send_fds(sock, [b"GET " if name == "metrics" else wire.hello()], [fd] * MOST)
                    return None if leave else sock
                self.attack(hanging, send)
                self.check_victim()

    def send_as_worker(self, hanging):
        """Of each session the client is the attacker, and its worker sends on what it says."""
        for command in wire.SHM_BACK, wire.SHM_STAT:
            client = self.client()
            status, segment, _ = client.shm(wire.SHM_GET, key=command, size=CHUNK, flags=0o1600)
            self.assertEqual((status, client.memory(CHUNK)), (1, 0))
            message = wire.shm(command, ident=segment["id"], chunk=CHUNK, chunks=1)
            self.attack(hanging, lambda fd, message=message, client=client: client.tell(message, [fd]))
            self.check_victim()
        wait_for(lambda: not self.status()["sessions"], 2 * PATIENCE_S, "the end of both sessions")

    def register(self, hanging):
        for count in 1, MOST:
            for leave in False, True:
                def send(fd, count=count, leave=leave):
                    sock = wire.connect(self.run_dir + "/workers.sock")
                    wire.send(sock, wire.message(wire.REGISTER, bytes(wire.ATTACH_BYTES)), [fd] * count)
                    return None if leave else sock
                self.attack(hanging, send, killed=True)
                self.check_victim()

    def check(self, hanging):
        self.start()
        self.wait_warm(2)
        self.send_as_client(hanging)
        self.send_as_worker(hanging)
        self.register(hanging)

    def test_socket(self):
        """Sockets that linger, sent to gdevd, hold up nobody else"""
        self.check(Lingering)

    def test_file(self):
        """Files of a file system that does not answer, sent to gdevd, hold up nobody else"""
        try:
            self.fuse = Fuse()
        except OSError as error:
            self.skipTest(f"FUSE cannot be mounted: {error}")
        self.check(self.fuse.open)


if __name__ == "__main__":
    integ.main()
