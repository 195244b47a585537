#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A worker that executes nothing: READY, ATTACHED, and then whatever the test tells it.

Its orders come from the directory FAKE_WORKER_DIR: a file `mode` for workers that start (see below), or `mode-DEVICE` for those
of one device. The
client's own socket pair is the second way: a packet that the client sends to its worker is passed on to
gdevd as it is, with its descriptors, and what gdevd sends is passed to the client. So a test plays the
part of a worker through the client's end.

Modes: ok; die (before READY); lost (the same, and says that the device is); mute (never READY); late (READY when there is a file `go`); bad-ready (too few descriptors); bad-times; unsealed; attach-die; attach-busy
(-EADDRINUSE, the first time); no-trace (without a trace segment); attach-late (when there is a file `go`); stay
(does not leave); apart (its device reaches no other's memory); linger (says BYE, and is there until there is a file `go`).

A session is active from its beginning for as many seconds as a file `active` says.

A warm one that is asked what is free says what a file `free` says: so many bytes; mute (nothing); stuck (nothing, and it reads
nothing more, until the file says something else).

A warm one carries shared memory out as a file `carry` says: well (as it does without), fail (says that it cannot), die,
babble (what no worker may say then), late (when there is a file `go`).

One that registers again does so as a file `register` says: well, stranger (for another user's process), twice (and waits
until the second connection is closed), never; and holds what a file `held` says. Of its swap file it brings what a file `swap-file`
says: well, none, other (another file of gdevd's directory), memory (a memfd), device (/dev/null), surplus (a second one).
"""

import argparse
import itertools
import os
import select
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire  # noqa: E402


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--control-fd", type=int, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--device-memory", type=int, required=True)
    parser.add_argument("--host-memory", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--workers-socket", required=True)
    parser.add_argument("--user", type=int)
    parser.add_argument("--group", type=int)
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--gives-way", type=int, required=True)
    return parser.parse_args()


def read_order(name, default):
    directory = os.environ.get("FAKE_WORKER_DIR", "")
    try:
        with open(os.path.join(directory, name), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return default


def wait_for_go():
    while not os.path.exists(os.environ["FAKE_WORKER_DIR"] + "/go"):
        time.sleep(0.01)


def ignore(control):
    """Whatever gdevd says, until it is gone."""
    while control.recv(65536):
        pass


def call(path, said):
    """The answer; b"": there is none, but the end."""
    try:
        with wire.connect(path) as sock:
            sock.send(said)
            return sock.recv(65536)
    except (ConnectionResetError, BrokenPipeError):
        return b""


def storm(control, messages):
    """Sends them again and again, on the first processor, and reads nothing but to be allowed to go on."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    parts = []
    while messages:
        size = int.from_bytes(messages[:4], "little")
        parts.append(messages[:size])
        messages = messages[size:]
    while True:
        for part in parts:
            control.send(part)
        try:
            while control.recv(65536, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            pass


class Worker:
    def __init__(self, options, mode):
        self.options = options
        self.mode = mode
        self.control = socket.socket(fileno=options.control_fd)
        self.page = wire.sealed_memfd(4096, "page")
        self.trace = wire.sealed_memfd(wire.TRACE_BYTES, "trace")
        self.attach = None
        self.swap_file = []  # its descriptor

    def ready(self):
        segment = wire.sealed_memfd(wire.SESSION_BYTES, "segment")
        staging = wire.sealed_memfd(1 << 20, "staging")
        if self.mode == "unsealed":
            segment = os.memfd_create("unsealed")
            os.ftruncate(segment, wire.SESSION_BYTES)
        wake, client_wake = os.eventfd(0), os.eventfd(0)
        fds = [segment, staging, wake, client_wake, self.page, self.trace]
        if self.mode == "bad-ready":
            fds = fds[:3]
        if self.mode == "no-trace":
            fds.remove(self.trace)
        times = [0] * 8 if self.mode == "bad-times" else wire.READY_TIMES
        overhead = self.options.context or 1 << 20
        memory = self.options.device_memory or 1 << 30
        wire.send(self.control, wire.message(wire.READY, wire.READY_BODY.pack(
            1 << 20, overhead, memory, b"fake device", bytes(range(16)), *times, 0, wire.PEERS + (self.mode == "apart"), *range(160))), fds)
        if self.mode != "unsealed":
            for fd in fds[:4]:
                os.close(fd)

    def wait_for_attach(self):
        while True:
            kind, serial, _status, body, fds = wire.receive(self.control)
            if kind is None or kind == wire.BYE:
                sys.exit(0)
            if kind == wire.ATTACH:
                if self.mode != "attach-busy":
                    break
                wire.send(self.control, wire.message(wire.ATTACHED, b"", serial, -98))
                for fd in fds:
                    os.close(fd)
                self.mode = "ok"
            while kind == wire.MEMORY and read_order("free", "mute") == "stuck":
                time.sleep(0.01)
            if kind == wire.MEMORY and read_order("free", "mute") != "mute":
                wire.send(self.control, wire.message(wire.MEMORY_REPLY, wire.MEMORY_BODY.pack(int(read_order("free", "")), 0)))
            if kind == wire.SHM:
                order, _, ident, _, _, size = wire.SHM_BODY.unpack(body)[:6]
                if order == wire.SHM_CARRY:
                    self.carry_in(ident, fds[0], size)
                else:
                    self.carry(ident, fds[0])
        if self.mode == "attach-die":
            os._exit(3)
        if self.mode == "attach-late":
            wait_for_go()
        if seconds := int(read_order("active", "0")):
            until_ns = time.monotonic_ns() + seconds * 10**9
            os.pwrite(self.page, until_ns.to_bytes(8, "little"), wire.PAGE_ACTIVE_NS)
        wire.send(self.control, wire.message(wire.ATTACHED, b"", serial))
        self.attach = body
        return socket.socket(fileno=fds[0])

    def carry(self, ident, copy):
        """Copies as much as the test looks at: the first bytes of each chunk."""
        how = read_order("carry", "well")
        if how == "die":
            os._exit(6)
        if how == "babble":
            wire.send(self.control, wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        if how == "late":
            wait_for_go()
        offset, first, chunks, status = 0, 0, 1, -5 if how == "fail" else 0
        while not status and first < chunks:
            wire.send(self.control, wire.shm(wire.SHM_RESTORE, ident=ident, first=first, serial=9))
            kind, _, status, body, fds = wire.receive(self.control)
            assert kind == wire.SHM_REPLY
            _, _, _, flags, _, _, size, _, chunks = wire.SHM_BODY.unpack(body)[:9]
            assert not flags
            for fd in fds:
                os.pwrite(copy, os.pread(fd, 16, 0), offset)
                os.close(fd)
                offset += size
                first += 1
        os.close(copy)
        wire.send(self.control, wire.shm(wire.SHM_WRITE, ident=ident, serial=0, status=status))

    def carry_in(self, ident, copy, size):
        """Into one chunk."""
        chunk, status = wire.sealed_memfd(size), -5 if read_order("carry", "well") == "fail" else 0
        if not status:
            os.pwrite(chunk, os.pread(copy, 16, 0), 0)
            wire.send(self.control, wire.shm(wire.SHM_BACK, ident=ident, chunk=size, chunks=1, serial=9), [chunk])
            kind, _, status, _, _ = wire.receive(self.control)
            assert kind == wire.SHM_REPLY
        os.close(chunk)
        os.close(copy)
        wire.send(self.control, wire.shm(wire.SHM_CARRY, ident=ident, serial=0, status=status))

    def held(self):
        """What it says to hold of the device, of host swap, and of the swap file: lines of a file `held`, behind the
        number of its session."""
        for line in read_order("held", "").splitlines():
            session, *held = map(int, line.split())
            if session == int.from_bytes(self.attach[:8], "little"):
                return b"".join(amount.to_bytes(8, "little") for amount in held)
        return bytes(24)

    def keep_swap_file(self, data, fds):
        if fds and not self.swap_file and int.from_bytes(data[4:6], "little") in (wire.CHARGED, wire.EVICT):
            self.swap_file = [os.dup(fds[0])]

    def swap_file_brought(self):
        how = read_order("swap-file", "well")
        if how == "none":
            return []
        if how == "other":
            return [os.open(os.environ["FAKE_WORKER_DIR"], os.O_TMPFILE | os.O_RDWR, 0o600)]
        if how == "memory":
            return [wire.sealed_memfd(4096)]
        if how == "device":
            return [os.open("/dev/null", os.O_RDWR)]
        return self.swap_file * (2 if how == "surplus" else 1)

    def register(self):
        end = time.monotonic() + wire.PATIENCE
        if read_order("register", "well") == "never":
            time.sleep(600)
        while time.monotonic() < end:
            try:
                control = wire.connect(self.options.workers_socket)
                how = read_order("register", "well")
                if how == "stranger":
                    self.attach = self.attach[:12] + (12345).to_bytes(4, "little") + self.attach[16:]
                wire.send(control, wire.message(wire.REGISTER, self.attach[:-32] + self.held() + self.attach[-8:]),
                          [self.page, self.trace, *self.swap_file_brought()])
                if how == "twice":
                    again = wire.connect(self.options.workers_socket)
                    assert not again.recv(100)
                control.settimeout(None)
                return control
            except OSError:
                time.sleep(0.05)
        sys.exit(4)

    @staticmethod
    def fill(peer):
        """Every other one is with the client alone."""
        kept = []
        for number in itertools.count():
            fd = os.memfd_create("fill")
            os.write(fd, bytes(1 << 20))
            peer.sendmsg([b"took"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))] if number % 2 else [])
            if number % 2:
                os.close(fd)
            else:
                kept.append(fd)

    def serve(self, peer):
        heard = [self.control, peer]
        while True:
            readable, _, _ = select.select(heard, [], [])
            if peer in readable:
                try:
                    data, control, _flags, _address = peer.recvmsg(65536, socket.CMSG_SPACE(128 * 4))
                except ConnectionResetError:
                    data = b""
                if not data:
                    if self.mode == "stay":
                        ignore(self.control)
                        return
                    wire.send(self.control, wire.message(wire.BYE))
                    if self.mode == "linger":
                        wait_for_go()
                    return
                if data == b"close":
                    self.control.close()
                    time.sleep(600)
                if data == b"die":
                    os._exit(5)
                if data == b"vanish":  # a child has its connections until the client leaves
                    if os.fork():
                        os._exit(5)
                    while peer.recv(65536):
                        pass
                    os._exit(0)
                if data.startswith(b"page"):  # an offset, and what to write there
                    os.pwrite(self.page, data[8:], int.from_bytes(data[4:8], "little"))
                    peer.send(b"written")
                    continue
                if data.startswith(b"deaf"):  # a message; from now on nothing of gdevd's is read
                    heard = [peer]
                    self.control.send(data[4:])
                    peer.send(b"said")
                    continue
                if data == b"fill":  # with files in memory that nobody is asked for, without end
                    self.fill(peer)
                if data.startswith(b"storm"):  # messages, one behind the other
                    storm(self.control, data[5:])
                if data.startswith(b"look"):  # an offset: what gdevd wrote there
                    peer.send(b"seen" + os.pread(self.page, 8, int.from_bytes(data[4:], "little")))
                    continue
                if data.startswith(b"call"):  # the path of a socket, and what to say there as a client
                    path, _, said = data[4:].partition(b"\0")
                    peer.send(b"told" + call(path.decode(), said))
                    continue
                fds = [fd for _, _, piece in control for fd in memoryview(piece).cast("i")]
                self.control.sendmsg([data], control)
                for fd in fds:
                    os.close(fd)
            if self.control in readable:
                try:
                    data, control, _flags, _address = self.control.recvmsg(
                        65536, socket.CMSG_SPACE(128 * 4))
                except ConnectionResetError:  # of a gdevd that died before it accepted us
                    data = b""
                if not data:
                    self.control.close()
                    self.control = self.register()
                    heard = [self.control, peer]
                    continue
                fds = [fd for _, _, piece in control for fd in memoryview(piece).cast("i")]
                self.keep_swap_file(data, fds)
                peer.sendmsg([data], control)
                for fd in fds:
                    os.close(fd)


def main():
    options = parse()
    mode = read_order("mode-" + options.device, read_order("mode", "ok"))
    worker = Worker(options, mode)
    if mode == "lost":
        wire.send(worker.control, wire.message(wire.BYE, status=-1037))
    if mode in ("die", "lost"):
        sys.exit(1)
    if mode == "mute":
        ignore(worker.control)
        return
    if mode == "late":
        wait_for_go()
    worker.ready()
    peer = worker.wait_for_attach()
    worker.serve(peer)


main()
