#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whose contexts gdevd has given back, and when.

Usage: test_retire.py GDEVD GDEV [unittest arguments]
"""

import os
import select
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

MIB = 1 << 20
CONTEXT = MIB  # fake_worker.py's


class Retire(harness.GdevdTest):
    """A test plays the worker: it writes its page, answers EVICT, and asks for room."""

    def page(self, client, offset, value, size="Q"):
        client.tell(b"page" + struct.pack("=I" + size, offset, value))
        self.assertEqual(client.peer.recv(16), b"written")

    def active(self, client, ago=0.0):
        self.page(client, wire.PAGE_ACTIVE_NS, int((time.monotonic() - ago) * 1e9))

    def expect_order(self, client, timeout=wire.PATIENCE):
        client.peer.settimeout(timeout)
        kind, serial, _, body, _ = wire.receive(client.peer)
        self.assertEqual(kind, wire.EVICT)
        size, _, flags, _ = wire.EVICT_BODY.unpack(body)
        return serial, size, flags

    def expect_nothing(self, client, seconds):
        client.peer.settimeout(seconds)
        with self.assertRaises(TimeoutError):
            wire.receive(client.peer)
        client.peer.settimeout(wire.PATIENCE)

    def give_back(self, client, serial, objects=0):
        """As a worker that has no context any more."""
        client.tell(wire.give_back(CONTEXT + objects))
        self.page(client, wire.PAGE_CONTEXT, 1, "I")
        client.tell(wire.evicted(serial, True))

    def refuse(self, client, serial, keeper=0):
        self.page(client, wire.PAGE_KEPT_BY, keeper, "I")
        client.tell(wire.evicted(serial))

    def session(self, client):
        return next(s for s in self.status()["sessions"] if s["session"] == client.session)

    def begin(self, **keys):
        """Sessions are active for their first minute, unless the test says otherwise by active()."""
        with open(self.orders + "/active", "w", encoding="ascii") as file:
            file.write("60")
        keys = {"warm_workers": 0, "swap_reserve": 0, "host_swap": "64M", **keys}
        memory = keys.pop("memory", "64M")
        self.start("--device-memory", memory,
                   config="[gdevd]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()))

    def test_idle_for_long(self):
        self.begin(retire_after="2s")
        client = self.client()
        self.assertEqual(client.memory(4 * MIB), 0)
        self.expect_nothing(client, 2.5)
        begun = time.monotonic()
        self.active(client)
        serial, size, flags = self.expect_order(client)
        self.assertGreaterEqual(time.monotonic() - begun, 2)
        self.assertEqual((size, flags), (4 * MIB + CONTEXT, wire.EVICT_RETIRE))
        self.give_back(client, serial, 4 * MIB)
        session = wait_for(lambda: self.session(client)["context"] == "retired" and self.session(client))
        self.assertEqual((session["memory_bytes"], session["swapped_bytes"]), (0, 4 * MIB))
        self.expect_nothing(client, 0.8)

    def test_busy_is_not_idle(self):
        self.begin(retire_after="1s")
        client = self.client()
        self.page(client, wire.PAGE_STREAMS_BUSY, 1)
        self.active(client)
        self.expect_nothing(client, 2)

    def test_room_comes_from_who_was_idle_for_longest(self):
        self.begin(retire_after="60s", memory="4M")
        first, second, third = self.client(), self.client(), self.client()
        for client, ago in ((first, 0), (second, 5), (third, 3)):
            self.page(client, wire.PAGE_ACTIVE_NS, max(0, int((time.monotonic() - ago) * 1e9)))
        time.sleep(1.2)  # for all of them to be idle: none is older than that
        self.active(first, -60)
        fourth = self.client()
        self.assertEqual(fourth.kind, wire.WELCOME)
        fourth.tell(wire.room(2 * MIB, wire.TO_STAY))
        retired = []
        while len(retired) < 2:
            readable, _, _ = select.select([c.peer for c in (first, second, third)], [], [], wire.PATIENCE)
            client = next(c for c in (first, second, third) if c.peer in readable)
            serial, _, flags = self.expect_order(client)
            if flags == wire.EVICT_RETIRE:
                retired.append(client)
                self.give_back(client, serial)
            else:
                self.refuse(client, serial)  # it has no objects
        self.assertCountEqual(retired, [second, third])
        kind, serial, status, body, _ = wire.receive(fourth.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 7, 0))
        self.assertEqual(self.session(first)["context"], "open")

    def test_room_for_a_context_comes_as_a_whole(self):
        self.begin(retire_after="1s", memory="4M")
        client, other = self.client(), self.client()
        self.active(client)
        serial, _, _ = self.expect_order(client)
        self.give_back(client, serial)
        client.free()  # gdevd has heard that
        self.assertEqual(other.memory(3 * MIB), 0)  # all there is
        self.page(other, wire.PAGE_STREAMS_BUSY, 1)
        client.tell(wire.room(CONTEXT, wire.FOR_CONTEXT, 9))
        self.page(client, wire.PAGE_CONTEXT, 2, "I")
        serial, size, flags = self.expect_order(other)  # its objects
        self.assertEqual(flags & wire.EVICT_RETIRE, 0)
        self.refuse(other, serial)
        self.expect_nothing(client, 0.5)
        other.tell(wire.give_back(CONTEXT // 2))
        self.expect_nothing(client, 0.3)
        other.tell(wire.give_back(CONTEXT // 2))
        kind, serial, status, body, _ = wire.receive(client.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 9, 0))
        self.assertEqual(wire.CHARGED_BODY.unpack(body)[0], CONTEXT)
        self.assertEqual(self.session(client)["memory_bytes"], CONTEXT)

    def begin_verb(self, verb):
        """`gdev suspend` or `resume` of this process, which waits for its end."""
        thread = threading.Thread(target=self.gdev, args=(verb, str(os.getpid())))
        thread.start()
        return thread

    def test_a_suspended_one_is_given_back_like_an_idle_one(self):
        self.begin(retire_after="1s")
        client = self.client()
        self.page(client, wire.PAGE_STREAMS_BUSY, 1)
        self.active(client)
        self.assertEqual(client.memory(4 * MIB), 0)
        begun = time.monotonic()
        suspended = self.begin_verb("suspend")
        serial, _, flags = self.expect_order(client)
        self.assertEqual(flags, wire.EVICT_SUSPEND)
        client.tell(wire.give_back(4 * MIB))
        client.tell(wire.evicted(serial))
        suspended.join()
        serial, _, flags = self.expect_order(client)
        self.assertEqual(flags, wire.EVICT_RETIRE)
        self.assertGreaterEqual(time.monotonic() - begun, 1)
        resumed = self.begin_verb("resume")
        self.expect_nothing(client, 0.3)  # until that is over
        self.give_back(client, serial)
        self.assertEqual(self.expect_order(client)[2], wire.EVICT_RESUME)
        resumed.join()
        self.assertFalse(self.session(client)["suspended"])

    def test_a_suspended_one_is_given_back_at_once_when_others_need_the_room(self):
        self.begin(retire_after="60s", memory="3M")
        client, other = self.client(), self.client()
        suspended = self.begin_verb("suspend")  # all of this process
        for one in (client, other):
            serial, _, _ = self.expect_order(one)
            one.tell(wire.evicted(serial))
        suspended.join()
        third = self.client()
        self.assertEqual(third.kind, wire.WELCOME)
        third.tell(wire.room(MIB, wire.TO_STAY))
        readable, _, _ = select.select([client.peer, other.peer], [], [], wire.PATIENCE)
        serial, _, flags = self.expect_order(client if client.peer in readable else other)
        self.assertEqual(flags, wire.EVICT_RETIRE)

    def test_what_cannot_be_elsewhere_waits_for_who_uses_the_device(self):
        self.begin(retire_after="60s", memory="8M")
        busy, client = self.client(), self.client()
        self.assertEqual(busy.memory(6 * MIB), 0)
        busy.tell(wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
        self.assertEqual(wire.receive(busy.peer)[0], wire.GRANT)
        self.page(busy, wire.PAGE_STREAMS_BUSY, 1)
        client.tell(wire.room(2 * MIB, wire.TO_STAY))
        serial, size, _ = self.expect_order(busy)
        self.assertEqual(size, 0)
        busy.tell(wire.evicted(serial, in_use=True))
        self.expect_nothing(client, 0.5)
        self.page(busy, wire.PAGE_STREAMS_BUSY, 0)
        busy.tell(wire.eased())
        serial, size, _ = self.expect_order(busy)
        busy.tell(wire.give_back(size))
        busy.tell(wire.evicted(serial))
        kind, serial, status, _, _ = wire.receive(client.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 7, 0))

    def test_what_keeps_one_is_said_and_it_is_left_alone(self):
        self.begin(retire_after="300ms")
        client = self.client()
        self.active(client, 1)
        serial, _, _ = self.expect_order(client)
        self.refuse(client, serial, keeper=4)
        self.assertEqual(wait_for(lambda: self.session(client)["kept_because"]), "its kernels allocate memory")
        self.expect_nothing(client, 2)
        self.active(client)  # it has done something: perhaps that is over
        serial, _, _ = self.expect_order(client)
        self.refuse(client, serial)
        wait_for(lambda: self.session(client)["kept_because"] is None)

    def test_one_that_is_lost_is_the_last(self):
        self.begin(retire_after="300ms")
        client, other = self.client(), self.client()
        self.active(client)
        serial, _, _ = self.expect_order(client)
        self.page(client, wire.PAGE_CONTEXT, 3, "I")
        client.tell(wire.message(wire.BYE, b"", 0, -5))
        wait_for(lambda: "none is given back for ten minutes" in self.log())
        self.active(other, 1)
        self.expect_nothing(other, 1.5)

    def test_never(self):
        self.begin(retire_after="never")
        client = self.client()
        self.active(client)
        self.expect_nothing(client, 1.5)


if __name__ == "__main__":
    harness.main()
