# SPDX-License-Identifier: MIT
"""Records that the proxy does more with than to pass them on: memory that processes of a guest find by keys, and arrays and
objects that a device's driver makes."""

import errno
import json
import os
import signal
import struct
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
import machine  # noqa: E402
import test_proxy  # noqa: E402
from machine import DEAD, FROM_DEVICE, TO_DEVICE  # noqa: E402

MIB = 1 << 20
GET, ATTACH, DETACH, CONTROL = 48, 49, 50, 51
ARRAY_CREATE, TEXTURE_CREATE, TEXTURE_DESTROY = 6, 7, 8
CREATE, EXCLUSIVE, READ_ONLY = 0o1000, 0o2000, 0o10000  # IPC_CREAT, IPC_EXCL, SHM_RDONLY
REMOVE, SET, STAT = 0, 1, 2
TRUST_READERS = 0x04000000
FAKE_DRIVER = integ.BUILD / "tests" / "device" / "libcuda-fake.so"


def shm(key=0, number=0, address=0, size=0, flags=0, command=0):
    return struct.pack("<iIQQII", key, number, address, size, flags, command)


class Keys(test_proxy.Case):
    def get(self, slot, key, flags=CREATE | 0o600, size=MIB):
        """(status, id)"""
        status, reply = slot.request(GET, shm(key, size=size, flags=flags))
        return status, struct.unpack_from("<I", reply)[0] if reply else 0

    def attach(self, slot, number, flags=0):
        return slot.request(ATTACH, shm(number=number, address=slot.arena, flags=flags))[0]

    def control(self, slot, number, command, flags=0):
        return slot.request(CONTROL, shm(number=number, flags=flags, command=command))

    def copy(self, slot, direction, at, text):
        """Whether the copy succeeds; the text goes to the device, or comes from there to `at`."""
        if direction == TO_DEVICE:
            self.machine.ram[at:at + len(text)] = text
        return not slot.ask(machine.COPY, address=slot.arena, size=len(text), number=direction, runs=[(at, len(text))])[0] \
            and self.machine.ram[at:at + len(text)] == text

    def segments(self):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "shm", "list", "--json"])
        self.assertEqual(code, 0, err)
        return json.loads(out)["segments"]

    def test_shared_by_a_key(self):
        """Processes of a guest find the same memory by a key, copy to it and from it, and it is gone when it is removed"""
        first, second = self.open(0, 7), self.open(1, 7)
        self.assertEqual(self.get(first, 77, 0o600), (-errno.ENOENT, 0))
        status, number = self.get(first, 77)
        self.assertEqual(status, 0)
        self.assertEqual(self.get(second, 77), (0, number))
        self.assertEqual(self.get(second, 77, CREATE | EXCLUSIVE | 0o600)[0], -errno.EEXIST)
        self.assertEqual(self.get(second, 77, size=8 * MIB)[0], -errno.EINVAL)
        self.assertEqual((self.attach(first, number), self.attach(second, number)), (0, 0))
        self.assertTrue(self.copy(first, TO_DEVICE, MIB, b"words"))
        self.assertTrue(self.copy(second, FROM_DEVICE, MIB, b"words"))
        status, reply = self.control(second, number, STAT)
        self.assertEqual((status, struct.unpack("<IIIIQI4x", reply)), (0, (number, 7, 2**32 - 1, 0o600, MIB, 2)))
        self.assertEqual(self.control(second, number, REMOVE)[0], 0)
        self.assertEqual(self.get(first, 77, 0o600)[0], -errno.ENOENT)
        self.assertEqual(first.request(DETACH, shm(address=first.arena))[0], 0)
        self.assertEqual(self.attach(first, number), -errno.EINVAL)
        self.assertFalse(self.copy(first, TO_DEVICE, MIB, b"words"))
        self.assertTrue(self.copy(second, FROM_DEVICE, MIB, b"words"))  # as long as it has it
        second.close()
        self.wait_until(lambda: not self.segments(), "no segment is left")

    def test_rights(self):
        """Who is not the owner may do what the mode says, where the device can hold him to it; root of the guest all"""
        owner, other, root = self.open(0, 7), self.open(1, 8), self.open(2, 0)
        closed, read, trusted, shared = (self.get(owner, key, CREATE | mode)[1] for key, mode in (
            (1, 0o600), (2, 0o644), (3, 0o644 | TRUST_READERS), (4, 0o666)))
        self.assertEqual(self.get(other, 1, 0o600)[0], -errno.EACCES)
        self.assertEqual(self.get(other, 2, 0o600)[0], -errno.EACCES)
        self.assertEqual(self.get(other, 2, 0o400), (0, read))
        self.assertEqual(self.get(root, 1, 0o600), (0, closed))
        for number, flags, status in ((closed, READ_ONLY, -errno.EACCES), (read, 0, -errno.EACCES),
                                      (read, READ_ONLY, -errno.ENOTSUP), (trusted, 0, -errno.EACCES)):
            self.assertEqual(self.attach(other, number, flags), status)
        self.assertEqual(self.control(other, closed, STAT)[0], -errno.EACCES)
        self.assertEqual(self.control(other, shared, REMOVE)[0], -errno.EPERM)
        self.assertEqual(self.control(other, shared, SET, 0o600)[0], -errno.EPERM)
        self.assertEqual(self.attach(other, trusted, READ_ONLY), 0)
        self.assertEqual(other.request(DETACH, shm(address=other.arena))[0], 0)
        self.assertEqual(self.attach(other, shared), 0)
        self.assertEqual(self.control(owner, closed, SET, 0o666)[0], 0)
        self.assertEqual(self.get(other, 1, 0o600), (0, closed))
        self.assertEqual(self.control(owner, closed, 99)[0], -errno.EINVAL)

    def test_reading_alone(self):
        """Memory that is attached for reading is read, and not written by a copy either"""
        owner, other = self.open(0, 7), self.open(1, 8)
        number = self.get(owner, 1, CREATE | 0o644 | TRUST_READERS)[1]
        self.assertEqual((self.attach(owner, number), self.attach(other, number, READ_ONLY)), (0, 0))
        self.assertTrue(self.copy(owner, TO_DEVICE, MIB, b"words"))
        for _ in range(20):  # by the worker, and by the proxy itself when it has the memory mapped
            self.assertTrue(self.copy(other, FROM_DEVICE, MIB, b"words"))
        self.assertFalse(self.copy(other, TO_DEVICE, MIB, b"other"))
        self.machine.ram[MIB:MIB + 5] = b"-----"
        self.assertTrue(self.copy(owner, FROM_DEVICE, MIB, b"words"))

    def test_keys_of_the_host(self):
        """A guest finds no segment of the host's programs, by no key and no id, and they none of its"""
        program = self.gdevd.popen([self.gdevd.gdev, "run", integ.PROGRAMS / "sharing"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, bufsize=1)
        program.stdin.write("key 77 1\n")
        self.assertEqual(program.stdout.readline(), "ok\n")
        number = self.segments()[0]["segment"]
        slot = self.open(0, 0)
        self.assertEqual(self.get(slot, 77, 0o600)[0], -errno.ENOENT)
        for command in (STAT, REMOVE):
            self.assertEqual(self.control(slot, number, command)[0], -errno.EINVAL)
        self.assertEqual(self.attach(slot, number), -errno.EINVAL)
        status, own = self.get(slot, 77)
        self.assertEqual(status, 0)
        self.assertNotEqual(own, number)
        self.assertEqual(sorted(segment["key"] == 77 for segment in self.segments()), [False, True])
        program.communicate(timeout=integ.PATIENCE)

    def test_no_keys_are_left(self):
        """A machine that goes leaves no segment and no key, nor do proxies that are killed while they make some"""
        slot = self.open(0, 7)
        self.assertEqual(self.get(slot, 77)[0], 0)
        self.assertEqual(self.get(slot, 0)[0], 0)
        known, there = self.proxies(), 2
        other = self.open(1, 7)
        proxy, = set(self.proxies()) - set(known)
        for line in range(20):
            other.record(GET, line, shm(0, size=MIB, flags=CREATE | 0o600))
        machine.wait_until(lambda: other.memory.get(other.segment + machine.RING_HEAD) == other.tail, "a worker that has them all")
        self.stop(proxy)
        self.wait_until(lambda: len(self.segments()) == there + 20, "segments that are made")
        there += sum(other.completed(line) > 0 for line in range(20))  # whose ids somebody may know
        os.kill(proxy, signal.SIGKILL)
        machine.wait_until(lambda: other.state() == DEAD, "a dead session")
        other.close()
        # One may have been noted, and not been shown yet.
        self.wait_until(lambda: there <= len(self.segments()) <= there + 1, "no segment is left that nobody knows")
        self.machine.close()
        self.wait_until(lambda: not self.segments(), "no segment is left")
        self.connect()
        self.assertEqual(self.get(self.open(0, 7), 77, 0o600)[0], -errno.ENOENT)

    def test_as_many_as_there_can_be(self):
        """A machine has 256 segments at most, and those that are removed make room"""
        slot = self.open()
        numbers = []
        while True:
            status, number = self.get(slot, 0, size=4096)
            if status:
                break
            numbers.append(number)
        self.assertEqual((status, len(numbers)), (-errno.ENOSPC, 256))
        self.assertEqual(self.control(slot, numbers[9], REMOVE)[0], 0)
        self.assertEqual(self.get(slot, 5, size=4096)[0], 0)


@unittest.skipUnless(integ.SOFTWARE and not integ.SANITIZED, "with the driver library that is made for tests")
class Driver(test_proxy.Case):
    """Beside a device whose memory no process maps, and whose driver makes arrays, textures and surfaces."""

    config = {"device": "cuda:0"}
    environment = {"GDEV_CUDA_DRIVER": str(FAKE_DRIVER)}

    def test_array(self):
        """An array is made, copied to and from by whole elements, named by an object, and freed"""
        slot = self.open()
        shape = struct.pack("<8I", 16, 16, 0, 0, 2, 1, 0, 0)
        self.assertEqual(slot.request(ARRAY_CREATE, struct.pack("<QQ", slot.arena, 2 * MIB) + shape)[0], 0)
        words = bytes(i % 251 for i in range(1024))
        for direction, at in ((TO_DEVICE, MIB), (FROM_DEVICE, 2 * MIB)):
            if direction == TO_DEVICE:
                self.machine.ram[at:at + 1024] = words
            runs = [(at, 256), (at + 256, 768)]
            self.assertEqual(slot.ask(machine.COPY, address=slot.arena, size=1024, number=direction, runs=runs)[0], 0)
        self.assertEqual(self.machine.ram[2 * MIB:2 * MIB + 1024], words)
        status, reply = slot.request(TEXTURE_CREATE, struct.pack("<IIQ128x", 0, 0, slot.arena))
        self.assertEqual(status, 0)
        self.assertEqual(slot.request(TEXTURE_DESTROY, reply + bytes(8))[0], 0)
        self.assertLess(slot.request(TEXTURE_DESTROY, reply + bytes(8))[0], 0)
        self.assertLess(slot.request(TEXTURE_CREATE, struct.pack("<IIQ128x", 0, 0, slot.arena + 16 * MIB))[0], 0)
        self.assertEqual(slot.request(machine.FREE_MEMORY, struct.pack("<QQ", slot.arena, 2 * MIB))[0], 0)
        self.assertNotEqual(slot.ask(machine.COPY, address=slot.arena, size=64, number=TO_DEVICE, runs=[(MIB, 64)])[0], 0)
        self.assert_alive(slot)

    def test_copies_are_complete_for_others(self):
        """A copy to memory that others have, too, is there for them when it is answered"""
        first, second = self.open(0, 7), self.open(1, 7)
        self.create_stream(first)
        for i in range(40):
            there, here = first.arena + 4 * MIB * i, second.arena + 4 * MIB * i
            self.assertEqual(first.request(machine.ALLOC, struct.pack("<QQ", there, 4 * MIB))[0], 0)
            _, reply = first.request(test_proxy.SHARED_EXPORT, struct.pack("<IIQQ16x", 0, 0, there, 0))
            number, token = struct.unpack("<I12x16s", reply)
            first.request(test_proxy.PUBLISH, struct.pack("<IIQQ16s", number, 0, 0, 0, token))
            self.assertEqual(second.request(test_proxy.SHARED_MAP, struct.pack("<IIQQ16s", number, 0, here, 0, token))[0], 0)
            for _ in range(3):
                first.record(test_proxy.FILL, test_proxy.STREAM, test_proxy.fill_record(there + MIB, 1 << 18, 1))
            words = bytes([i + 1]) * 4096
            self.assertEqual(self.copied_over(first, second, there, here, words), words)


if __name__ == "__main__":
    integ.main()
