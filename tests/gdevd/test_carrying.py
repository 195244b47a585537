#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Segments that nobody has mapped leave the device by a warm worker.

Usage: test_carrying.py GDEVD GDEV [unittest arguments]
"""

import os
import select
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402

MIB = 1 << 20
CHUNK = 2 * MIB
SIZE = 300 * MIB  # more chunks than one message takes


class Carrying(harness.GdevdTest):
    def begin(self, how="well", device="400M", **keys):
        """A segment that nobody has attached, beside which 100 MiB are left; and one who lacks 200."""
        keys = {"warm_workers": 1, "shared_per_user": SIZE, "swap_reserve": 0, "host_swap": "1G", "retire_after": "never", **keys}
        self.say(how)
        self.start("--device-memory", device, config="[gdevd]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items()))
        owner = self.client()
        self.ident = owner.shm(wire.SHM_GET, key=42, size=SIZE, flags=0o1600)[1]["id"]
        self.assertEqual(owner.memory(SIZE), 0)
        count = SIZE // CHUNK
        fds = [wire.sealed_memfd(CHUNK) for _ in range(count)]
        for first in range(0, count, 100):
            part = fds[first:first + 100]
            for i, fd in enumerate(part):
                os.pwrite(fd, b"chunk %d" % (first + i), 0)
            self.assertEqual(owner.shm(wire.SHM_BACK, part, ident=self.ident, chunk=CHUNK, first=first,
                                       chunks=count)[0], 0)
        for fd in fds:
            os.close(fd)
        self.clients.remove(owner)
        owner.close()
        harness.wait_for(lambda: not self.status()["sessions"], what="its end")
        return self.client()

    def say(self, how):
        with open(self.orders + "/carry", "w", encoding="ascii") as file:
            file.write(how)

    def go(self):
        with open(self.orders + "/go", "w", encoding="ascii"):
            pass

    def want(self, client, size=200 * MIB):
        client.tell(wire.room(size, wire.FOR_CONTEXT))

    def expect_room(self, client, size=200 * MIB):
        kind, _, status, body, _ = wire.receive(client.peer)
        self.assertEqual((kind, status, wire.CHARGED_BODY.unpack(body)[0]), (wire.CHARGED, 0, size))

    def expect_no_room(self, client):
        """For one that has the device, and could use host memory instead, what is free, and no more."""
        client.tell(wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
        self.assertEqual(wire.receive(client.peer)[0], wire.GRANT)
        given, status = [], 0
        while not status:  # warm workers may leave meanwhile, which makes more free
            client.tell(wire.room(200 * MIB, wire.FOR_TURN))
            kind, _, status, body, _ = wire.receive(client.peer)
            self.assertEqual(kind, wire.CHARGED)
            given.append(wire.CHARGED_BODY.unpack(body)[0])
        self.assertEqual(status, -harness.ENOMEM)
        self.assertTrue(0 < sum(given) < 200 * MIB)
        self.assertEqual((self.swapped(), self.status()["workers"]["carrying"]), (0, 0))

    def swapped(self):
        return self.status()["vgpus"][0]["swapped_bytes"]

    def check(self, client):
        """The segment is in host swap, with what was in it."""
        self.assertEqual(self.swapped(), SIZE)
        status, segment, fds = client.shm(wire.SHM_ATTACH, ident=self.ident)
        self.assertEqual((status, segment["flags"], len(fds)), (0, 0x20000000, 1))
        for i in range(SIZE // CHUNK):
            self.assertEqual(os.pread(fds[0], 16, i * CHUNK).rstrip(b"\0"), b"chunk %d" % i)
        os.close(fds[0])

    def test_room_is_made(self):
        client = self.begin()
        self.want(client)
        self.expect_room(client)
        self.check(client)
        workers = self.status()["workers"]
        self.assertEqual(workers["carrying"], 0)
        self.assertGreaterEqual(workers["warm"], 1)  # it, and one that was started meanwhile perhaps

    def test_others_leave_for_what_it_does_not_give_alone(self):
        other = self.begin(device="600M")
        self.assertEqual(other.memory(200 * MIB), 0)
        client = self.client()
        self.want(client, 400 * MIB)
        given = 0
        while client.peer not in select.select([client.peer, other.peer], [], [], wire.PATIENCE)[0]:
            kind, serial, _, body, _ = wire.receive(other.peer)
            size = wire.EVICT_BODY.unpack(body)[0]
            self.assertEqual(kind, wire.EVICT)
            other.tell(wire.give_back(size))
            other.tell(wire.evicted(serial))
            given += size
        self.expect_room(client, 400 * MIB)
        self.assertLess(given, 20 * MIB)

    def test_allocation_waits_for_it(self):
        client = self.begin()
        self.assertEqual(client.memory(200 * MIB), 0)
        self.check(client)

    def test_worker_is_started_for_it(self):
        client = self.begin(warm_workers=0)
        self.want(client)
        self.expect_room(client)
        self.check(client)
        harness.wait_for(lambda: self.status()["workers"]["total"] == 1, what="its end")

    def test_no_worker_can_be_started(self):
        client = self.begin(warm_workers=0, max_workers=1)
        self.expect_no_room(client)
        self.assertEqual(len(client.shm(wire.SHM_ATTACH, ident=self.ident)[2]), 128)

    def check_next(self, how, mark):
        """The first carrier does that, which the log says; the segment stays, and leaves by the next."""
        client = self.begin(how)
        self.want(client)
        harness.wait_for(lambda: mark in self.log(), what="a try")
        harness.wait_for(lambda: self.swapped() == 0, what="its end")
        self.say("well")
        self.expect_room(client)  # it is asked again
        self.check(client)

    def test_one_that_fails_leaves_it_where_it_is(self):
        self.check_next("fail", "cannot leave")

    def test_one_that_dies_leaves_it_where_it_is(self):
        self.check_next("die", "cannot leave")

    def test_one_that_says_what_it_may_not_is_killed(self):
        self.check_next("babble", "killed worker")

    def test_it_is_attached_meanwhile(self):
        client = self.begin("late")
        self.want(client)
        harness.wait_for(lambda: self.status()["workers"]["carrying"], what="the order")
        other = self.client()
        status, _, fds = other.shm(wire.SHM_ATTACH, ident=self.ident)
        self.assertEqual((status, fds), (0, []))  # where it is will be known
        self.go()
        kind, _, _, body, fds = wire.receive(other.peer)
        self.assertEqual((kind, wire.SHM_BODY.unpack(body)[0], len(fds)), (wire.SHM, wire.SHM_DROP, 1))
        os.close(fds[0])
        other.tell(wire.shm(wire.SHM_DROP, ident=self.ident, serial=0))
        self.expect_room(client)
        self.check(client)

    def test_it_is_removed_meanwhile(self):
        client = self.begin("late")
        self.want(client)
        harness.wait_for(lambda: self.status()["workers"]["carrying"], what="the order")
        self.assertEqual(self.client().shm(wire.SHM_REMOVE, ident=self.ident)[0], 0)
        self.go()
        self.expect_room(client)
        harness.wait_for(lambda: self.swapped() == 0, what="the return of what its host copy was charged")
        harness.wait_for(lambda: not self.status()["workers"]["carrying"], what="its carrier's return")

    def test_host_swap_has_no_room(self):
        client = self.begin(host_swap="200M")
        self.expect_no_room(client)


if __name__ == "__main__":
    harness.main()
