#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A segment whose host copy is in a file that the device cannot use moves to memory before it is used where it is.

Usage: test_moving.py GDEVD GDEV [unittest arguments]
"""

import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

MIB = 1 << 20
CHUNK = 2 * MIB
SIZE = 16 * MIB


class Moving(harness.GdevdTest):
    def admin(self, *words):
        done = self.gdev(*map(str, words))
        self.assertEqual(done.returncode, 0, done.stderr)

    def expect(self, client, kind):
        """(serial, status, body, descriptors)"""
        got, *rest = wire.receive(client.peer)
        self.assertEqual(got, kind)
        return rest

    def expect_shm(self, client, kind, *fields):
        """Command or status, as `fields` say, and the inodes of the descriptors."""
        _, status, body, fds = self.expect(client, kind)
        command, _, _, flags = wire.SHM_BODY.unpack(body)[:4]
        self.assertEqual((command if kind == wire.SHM else status, flags & wire.SHM_MAPPED)[:len(fields)], fields)
        inodes = [os.fstat(fd).st_ino for fd in fds]
        for fd in fds:
            os.close(fd)
        return inodes

    def take_swap(self, client, amount):
        self.assertEqual(client.ask(wire.swap(amount, 5))[2], 0)

    def leave(self, client):
        """Its segment, which nobody else has attached, leaves the device."""
        suspended = threading.Thread(target=self.admin, args=("suspend", os.getpid()))
        suspended.start()
        serial, _, _, _ = self.expect(client, wire.EVICT)
        client.tell(wire.evicted(serial))
        for command, status in ((wire.SHM_LEAVE, 1), (wire.SHM_WRITE, 0), (wire.SHM_DROP, 0)):
            self.expect_shm(client, wire.SHM, command)
            client.tell(wire.shm(command, ident=self.ident, serial=0, status=status))
        suspended.join()
        self.admin("resume", os.getpid())
        self.expect(client, wire.EVICT)

    def make_segment(self, client):
        self.ident = client.shm(wire.SHM_GET, key=42, size=SIZE, flags=0o1600)[1]["id"]
        self.assertEqual(client.memory(SIZE), 0)
        chunks = [wire.sealed_memfd(CHUNK) for _ in range(SIZE // CHUNK)]
        client.shm(wire.SHM_BACK, chunks, ident=self.ident, chunk=CHUNK, chunks=len(chunks))
        for fd in chunks:
            os.close(fd)
        self.attach(client)

    def attach(self, client):
        for fd in client.shm(wire.SHM_ATTACH, ident=self.ident)[2]:
            os.close(fd)

    def launch(self):
        self.start("--device-memory", "64M", "--set", "swap_reserve=0", "--set", "host_swap=64M", "--set",
                   "file_swap=256M", "--set", "swap_directory=" + self.directory)

    def begin(self, in_memory=56 * MIB):
        """A segment in a file, which two have attached, and an idle one with so much of the 64 MiB of host_swap."""
        self.launch()
        first = self.client()
        self.make_segment(first)
        self.take_swap(first, 56 * MIB)
        self.leave(first)
        first.tell(wire.give_back(0, 56 * MIB))
        wait_for(lambda: self.used() == (0, SIZE), what="what was given back")  # another connection may be read first
        second, idle = self.client(), self.client()
        self.attach(second)
        self.take_swap(idle, in_memory)
        self.assertEqual(self.used(), (in_memory, SIZE))
        return first, second, idle

    def used(self):
        device = self.status()["devices"][0]
        return device["swap_used_bytes"], device["file_swap_used_bytes"]

    def want(self, client):
        """It is to bring the segment in; the file's inode."""
        client.tell(wire.shm(wire.SHM_RESTORE, ident=self.ident, serial=8))
        return self.expect_shm(client, wire.SHM_REPLY, 1)

    def ask_to_move(self, client):
        client.tell(wire.shm(wire.SHM_MOVE, ident=self.ident, serial=9))

    def move_to_file(self, idle, amount):
        """gdevd has so much of the idle one's move."""
        serial, _, body, _ = self.expect(idle, wire.EVICT)
        self.assertEqual(wire.EVICT_BODY.unpack(body)[:3], (amount, 0, wire.EVICT_SLOTS | wire.EVICT_MOVE))
        _, _, status, _, fds = idle.ask(wire.slot(amount, wire.IN_FILE))
        self.assertEqual((status, len(fds)), (0, 1))
        os.close(fds[0])
        idle.tell(wire.give_back(0, amount))
        idle.tell(wire.evicted(serial))

    def test_it_moves_to_memory_and_all_use_it_there(self):
        first, second, idle = self.begin()
        old = self.want(first)
        second.tell(wire.shm(wire.SHM_RESTORE, ident=self.ident, serial=8))  # waits for what becomes of it
        self.ask_to_move(first)
        self.move_to_file(idle, 8 * MIB)
        new = self.expect_shm(first, wire.SHM_REPLY, 0)
        self.assertNotEqual(new, old)
        self.assertEqual(self.used(), (64 * MIB, 8 * MIB + SIZE))
        first.tell(wire.shm(wire.SHM_MAP, ident=self.ident, serial=10))
        for client in first, second:  # who has it hears of it before anybody uses it
            self.assertEqual(self.expect_shm(client, wire.SHM, wire.SHM_DROP, wire.SHM_MAPPED), new)
        self.expect_shm(first, wire.SHM_REPLY, 0)
        self.assertEqual(self.expect_shm(second, wire.SHM_REPLY, 2), new)
        wait_for(lambda: self.used() == (64 * MIB, 8 * MIB), what="the return of what the file was charged")
        late = self.client()
        late.tell(wire.shm(wire.SHM_ATTACH, ident=self.ident, serial=8))
        self.assertEqual(self.expect_shm(late, wire.SHM_REPLY, 0, wire.SHM_MAPPED), new)
        self.assertEqual(first.shm(wire.SHM_REMOVE, ident=self.ident)[0], 0)
        for client in first, second, late:
            client.tell(wire.shm(wire.SHM_DETACH, ident=self.ident, serial=0))
        wait_for(lambda: self.used() == (48 * MIB, 8 * MIB), what="its end")

    def test_one_that_does_not_say_that_it_left_keeps_nobody_from_it(self):
        self.start("--device-memory", "32M", "--set", "swap_reserve=0", "--set", "host_swap=64M")
        first, second, third = self.client(), self.client(), self.client()
        self.make_segment(first)
        self.attach(second)
        third.tell(wire.room(20 * MIB, wire.FOR_CONTEXT))
        for client in first, second:
            serial, _, _, _ = self.expect(client, wire.EVICT)  # what is its own comes first
            client.tell(wire.evicted(serial))
            self.expect_shm(client, wire.SHM, wire.SHM_LEAVE)
        first.tell(wire.shm(wire.SHM_LEAVE, ident=self.ident, serial=0, status=1))
        self.expect_shm(first, wire.SHM, wire.SHM_STAY)

    def check_left(self, second, old, memory):
        """It is where it was, and the next may bring it in."""
        wait_for(lambda: self.used() == memory, what="the return of what was charged")
        self.assertEqual(self.want(second), old)

    def test_one_that_dies_leaves_it_in_the_file(self):
        first, second, _ = self.begin(48 * MIB)
        old = self.want(first)
        self.ask_to_move(first)
        self.expect_shm(first, wire.SHM_REPLY, 0)
        self.assertEqual(self.used(), (64 * MIB, SIZE))
        first.tell(b"die")
        self.check_left(second, old, (48 * MIB, SIZE))

    def test_one_that_dies_while_it_waits_leaves_it_in_the_file(self):
        first, second, idle = self.begin()
        old = self.want(first)
        self.ask_to_move(first)
        self.expect(idle, wire.EVICT)
        self.assertEqual(self.used(), (64 * MIB, SIZE))  # what there was is kept for it
        first.tell(b"die")
        self.check_left(second, old, (56 * MIB, SIZE))

    def test_one_that_waits_is_asked_again_for_whatever_reason(self):
        """After a restart the claim of a session that ends is such a reason."""
        first, second, idle = self.begin()
        first.tell(wire.shm(wire.SHM_RESTORE, ident=self.ident, serial=8))
        copy, = self.expect(first, wire.SHM_REPLY)[3]
        self.processes[-1].kill()
        self.processes[-1].wait(wire.PATIENCE)
        self.launch()
        wait_for(lambda: len(self.status()["sessions"]) == 3, what="the sessions' return")
        self.assertEqual(first.shm(wire.SHM_ATTACH, ident=self.ident, size=SIZE, flags=wire.SHM_HOST)[0], 1)
        self.assertEqual(first.shm(wire.SHM_BACK, [copy], ident=self.ident, flags=wire.SHM_HOST)[0], 0)
        os.close(copy)
        wait_for(lambda: self.status()["devices"][0]["ready"], what="that the device is known")
        self.take_swap(idle, 56 * MIB)
        self.want(first)
        self.ask_to_move(first)
        wait_for(lambda: self.used() == (64 * MIB, SIZE), what="that it waits")
        second.tell(b"die")
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="the end of who had a claim")
        self.move_to_file(idle, 8 * MIB)
        self.expect_shm(first, wire.SHM_REPLY, 0)

    def test_one_that_cannot_leaves_it_in_the_file(self):
        first, second, _ = self.begin(48 * MIB)
        old = self.want(first)
        self.ask_to_move(first)
        self.expect_shm(first, wire.SHM_REPLY, 0)
        first.tell(wire.shm(wire.SHM_MAP, ident=self.ident, serial=0, status=-5))
        self.check_left(second, old, (48 * MIB, SIZE))

    def test_there_is_no_room(self):
        first, second, idle = self.begin()
        idle.tell(b"page" + wire.PAGE_MAPPED.to_bytes(4, "little") + (64 * MIB).to_bytes(8, "little"))
        self.assertEqual(idle.peer.recv(100), b"written")
        old = self.want(first)
        self.ask_to_move(first)
        self.expect_shm(first, wire.SHM_REPLY, -harness.ENOMEM)
        self.assertEqual(self.used(), (56 * MIB, SIZE))
        first.tell(wire.shm(wire.SHM_MAP, ident=self.ident, serial=0, status=-harness.ENOMEM))
        self.check_left(second, old, (56 * MIB, SIZE))

    def test_nobody_else_moves_it(self):
        first, second, _ = self.begin(48 * MIB)
        for client in first, second:
            self.assertEqual(client.shm(wire.SHM_MOVE, ident=self.ident)[0], -harness.EAGAIN)
        self.want(first)
        self.assertEqual(second.shm(wire.SHM_MOVE, ident=self.ident)[0], -harness.EAGAIN)
        self.assertEqual(second.shm(wire.SHM_MAP, ident=self.ident)[0], -harness.EAGAIN)
        self.ask_to_move(first)
        self.expect_shm(first, wire.SHM_REPLY, 0)
        self.assertEqual(first.shm(wire.SHM_MOVE, ident=self.ident)[0], -harness.EINVAL)  # once
        self.assertEqual(self.used(), (64 * MIB, SIZE))


if __name__ == "__main__":
    harness.main()
