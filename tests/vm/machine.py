# SPDX-License-Identifier: MIT
"""A virtual machine without a machine: connects to `gdev vm serve` as QEMU does, and plays the guest's kernel and its
processes in the shared memory. What is where, and who writes it, is in proto/vm.h, proto/session.h and proto/record.h."""

import contextlib
import fcntl
import mmap
import os
import re
import socket
import struct
import time
from pathlib import Path

SLOT_OFFSET, SLOT_BYTES, MAILBOX = 2 << 20, 4 << 20, 3 << 20
RESETTING, FREE, BUSY, DEAD = range(4)
RESET, PROBE, OPEN, COPY, IMAGE, LOG, HOST = 1, 2, 16, 17, 18, 19, 20
TO_DEVICE, FROM_DEVICE = 0, 1
IN_STORE = 1 << 63
STORE_BASE = 2 << 20
HEADER_MAILBOX = 4096
LIST = 4096  # in a mailbox
COUNTS, USER, NICE = 256, 336, 340

# proto/session.h
RING_TAIL, RING_HEAD, WORKER_STATE, ERROR, TIMELINES, REPLIES, RING = 64, 128, 192, 256, 4096, 266240, 659456
RING_BYTES = 1 << 20
REPLY_BYTES = 8192
ALLOC, FREE_MEMORY, RECORD_COPY, WRITE, QUERY, CHECK = 1, 2, 3, 4, 64, 66
MODULE_LOAD, STREAM_CREATE = 16, 32


def mapped(path):
    fd = os.open(path, os.O_RDWR)
    memory = mmap.mmap(fd, os.fstat(fd).st_size)
    os.close(fd)
    return memory


class Memory:
    def __init__(self, view):
        self.view = view
        self.words = memoryview(view).cast("Q")

    def store(self, at, value):
        """Of 8 bytes, in one go: put() writes byte after byte, which the proxy would see."""
        self.words[at // 8] = value

    def get(self, at, code="Q"):
        return struct.unpack_from("<" + code, self.view, at)[0]

    def put(self, at, value, code="Q"):
        struct.pack_into("<" + code, self.view, at, value)


class Machine:
    def __init__(self, path):
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.connect(str(path))
        self.rung, self.rings = [], []
        assert self.receive()[0] == 0 and self.receive()[0] == 1
        number, fd = self.receive()
        assert number == -1
        self.shared = Memory(mmap.mmap(fd, os.fstat(fd).st_size))
        os.close(fd)
        self.slots = self.shared.get(8, "I")
        for _ in range(self.slots + 1):
            self.rung.append(self.receive()[1])
        for _ in range(self.slots + 1):
            self.rings.append(self.receive()[1])
        self.ram = mapped(f"{path}.ram")
        self.control = Mailbox(self, HEADER_MAILBOX, 0)
        self.store_paths = re.findall(r"id=gdev-store\d+,.*mem-path=([^,]*)", Path(f"{path}.args").read_text())
        self.stores = [mapped(path) for path in self.store_paths]

    def receive(self):
        data, fds, _, _ = socket.recv_fds(self.connection, 8, 1)
        return struct.unpack("<q", data)[0], fds[0] if fds else -1

    def ring(self, vector):
        os.write(self.rung[vector], struct.pack("<Q", 1))

    def interrupts(self, vector):
        """How many since the last look."""
        try:
            return struct.unpack("<Q", os.read(self.rings[vector], 8))[0]
        except BlockingIOError:
            return 0

    def slot(self, index):
        return Slot(self, index)

    @contextlib.contextmanager
    def store_held(self, index):
        """Somebody has the slot's store, as a worker that has not ended yet."""
        with open(self.store_paths[index], "r+b") as store:
            fcntl.fcntl(store, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
            yield

    def close(self):
        self.connection.close()
        for fd in self.rung + self.rings:
            os.close(fd)


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.001)


class Mailbox:
    def __init__(self, machine, at, vector):
        self.machine, self.at, self.vector = machine, at, vector
        self.memory = machine.shared
        self.posted = self.memory.get(at + 24)

    def state(self):
        return self.memory.get(self.at, "I")

    def post(self, operation, entries=0, address=0, size=0, number=0, runs=(), width=None, pitch=0):
        memory = self.memory
        for i, (where, length) in enumerate(runs):
            memory.put(self.at + LIST + 16 * i, where)
            memory.put(self.at + LIST + 16 * i + 8, length)
        width = size if width is None else width
        struct.pack_into("<IIQQQQQ", memory.view, self.at + 32, operation, entries or len(runs), address, size, number,
                         width, pitch)
        self.posted = (self.posted + 1) % 2**64
        memory.put(self.at + 16, self.posted)
        self.machine.ring(0 if operation < COPY else self.vector)

    def answered(self):
        return self.memory.get(self.at + 24) == self.posted

    def ask(self, *arguments, **named):
        """(status, value)"""
        self.post(*arguments, **named)
        wait_until(lambda: self.answered() or self.state() == DEAD, "an answer")
        if not self.answered():
            return None, 0
        return self.memory.get(self.at + 80, "i"), self.memory.get(self.at + 88)


class Slot(Mailbox):
    """A slot, and the process that has it."""

    def __init__(self, machine, index):
        self.segment = SLOT_OFFSET + index * SLOT_BYTES
        self.store = machine.stores[index]
        super().__init__(machine, self.segment + MAILBOX, index + 1)
        self.tail = 0
        self.values = {}

    def open(self, user=0):
        self.memory.put(self.at + USER, user, "I")
        status, _ = self.ask(OPEN)
        session, memory, base, size, staging, store = struct.unpack_from("<QQQQQQ", self.memory.view, self.at + 96)
        self.locked = base + staging  # where the store is
        self.arena = self.locked + store + (2 << 20)
        return status

    def close(self):
        self.memory.put(self.at + 12, 1, "I")
        self.machine.ring(0)
        wait_until(lambda: self.state() == FREE, "a free slot")
        self.posted, self.tail, self.values = 0, 0, {}

    def error(self):
        return self.memory.get(self.segment + ERROR, "i")

    def record(self, opcode, timeline, body=b"", flags=0, value=None, length=None):
        """Puts a record into the ring and rings if the proxy sleeps."""
        body += bytes(-len(body) % 8)
        if value is None:
            value = self.values.get(timeline, 0) + 1
        self.values[timeline] = value
        length = 24 + len(body) if length is None else length
        raw = struct.pack("<HBBIIIQ", opcode, 0, flags, length, timeline, 0, value) + body
        self.raw(raw)
        return value

    def raw(self, raw, wait=False):
        """wait: more follows before it is published."""
        at = self.segment + RING + self.tail % RING_BYTES
        self.memory.view[at:at + len(raw)] = raw
        self.tail += len(raw)
        if not wait:
            self.publish()

    def publish(self):
        self.memory.store(self.segment + RING_TAIL, self.tail)
        if self.memory.get(self.segment + WORKER_STATE, "I") == 0:
            self.memory.put(self.segment + WORKER_STATE, 1, "I")
            self.machine.ring(self.vector)

    def completed(self, timeline):
        return self.memory.get(self.segment + TIMELINES + 64 * timeline)

    def request(self, opcode, body, slot=0):
        """An immediate record: the reply's status and payload."""
        value = self.record(opcode, slot, body)
        wait_until(lambda: self.completed(slot) >= value or self.state() == DEAD, "a reply")
        if self.completed(slot) < value:
            return None, b""
        return self.reply(slot)

    def reply(self, slot):
        """The status and payload that are in a reply slot."""
        at = self.segment + REPLIES + slot * REPLY_BYTES
        status, length = struct.unpack_from("<iI", self.memory.view, at)
        return status, bytes(self.memory.view[at + 8:at + 8 + length])

    def counts(self):
        names = ("records", "launches", "doorbells", "interrupts", "waits", "copies", "bytes", "bytes_copied")
        return dict(zip(names, struct.unpack_from("<8Q", self.memory.view, self.at + COUNTS)))
