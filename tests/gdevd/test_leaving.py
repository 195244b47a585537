#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory that is certain to come is waited for: what those hold who are going, or use it just now.

Usage: test_leaving.py GDEVD GDEV [unittest arguments]
"""

import json
import os
import pathlib
import select
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402

MIB = 1 << 20
CONTEXT = MIB  # fake_worker.py's


class Leaving(harness.GdevdTest):
    def begin(self, memory, mode="linger", vgpus="", **keys):
        keys = {"warm_workers": 0, "swap_reserve": 0, "host_swap": "64M", "retire_after": "never", **keys}
        self.start("--device-memory", memory, mode=mode,
                   config="[gdevd]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) + vgpus)

    def going(self, size, swap=0, vgpu="gdev0"):
        """Somebody who has a context, so much memory and so much swap, and is leaving until let_go()."""
        client = self.client(vgpu)
        self.assertEqual(client.memory(size) if size else 0, 0)
        self.assertEqual(client.ask(wire.swap(swap, 6))[2] if swap else 0, 0)
        return client

    def leave(self, client):
        leaving = self.status()["workers"]["leaving"]
        self.clients.remove(client)
        client.close()
        harness.wait_for(lambda: self.status()["workers"]["leaving"] > leaving, what="its session's end")

    def let_go(self):
        with open(self.orders + "/go", "w", encoding="ascii"):
            pass

    def use_device(self, client, used=True):
        """The client's kernel runs, or is over: its worker says that when it was asked to (expect_question())."""
        client.tell(b"page" + wire.PAGE_STREAMS_BUSY.to_bytes(4, "little") + int(used).to_bytes(8, "little"))
        self.assertEqual(client.peer.recv(16), b"written")
        if used:
            client.tell(wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
            self.assertEqual(wire.receive(client.peer)[0], wire.GRANT)

    def expect_nothing(self, client, seconds=0.3):
        client.peer.settimeout(seconds)
        with self.assertRaises(TimeoutError):
            wire.receive(client.peer)
        client.peer.settimeout(wire.PATIENCE)

    def expect_order(self, client):
        kind, serial, _, body, _ = wire.receive(client.peer)
        self.assertEqual(kind, wire.EVICT)
        size, _, flags, _ = wire.EVICT_BODY.unpack(body)
        return serial, size, flags

    def give(self, client, serial, size):
        if size:
            client.tell(wire.give_back(size))
        client.tell(wire.evicted(serial))

    def expect_question(self, client):
        """It uses the device: it gives nothing, and is to say when it does not."""
        serial, size, flags = self.expect_order(client)
        self.assertEqual((size, flags), (0, 0))
        client.tell(wire.evicted(serial, in_use=True))

    def expect_answer(self, client, size, serial):
        kind, got, status, body, fds = wire.receive(client.peer)
        for fd in fds:
            os.close(fd)
        self.assertEqual((kind, got, status), (wire.CHARGED, serial, 0))
        self.assertEqual(sum(wire.CHARGED_BODY.unpack(body)[:3]), size)

    def begin_client(self, vgpu="gdev0"):
        """A client that waits; gives a function that says what came, or None for nothing yet."""
        begun = []
        thread = threading.Thread(target=lambda: begun.append(self.client(vgpu, welcome=False)))
        thread.start()

        def result(seconds=wire.PATIENCE):
            thread.join(seconds)
            return begun[0] if begun else None
        return result

    # -- strangers, whom no account shows ---------------------------------------------------------------

    def say_free(self, size):
        """What warm workers say that the driver has free."""
        with open(self.orders + "/free.new", "w", encoding="ascii") as file:
            file.write(str(size))
        os.rename(self.orders + "/free.new", self.orders + "/free")

    def others(self):
        return self.status()["devices"][0]["memory_others_bytes"]

    def test_what_the_driver_refuses_strangers_have_if_a_warm_worker_says_so(self):
        self.begin("16M", mode="ok", warm_workers=2)
        self.wait_warm(2)
        client = self.client()
        self.wait_warm(2)
        self.assertEqual(client.memory(4 * MIB), 0)
        self.say_free(0)
        client.tell(wire.refused(2 * MIB))
        self.assertEqual(client.memory(2 * MIB), 0)  # where two warm workers were
        status = self.status()
        self.assertEqual(status["workers"]["warm"], 0)
        self.assertEqual(status["devices"][0]["memory_used_bytes"], 16 * MIB)
        self.assertEqual(self.others(), 16 * MIB - 4 * MIB - CONTEXT)
        self.assertEqual(client.memory(MIB), -12)

    def test_idle_contexts_leave_for_what_strangers_have(self):
        self.begin("16M", mode="ok", warm_workers=2, retire_after="60s")
        self.wait_warm(2)
        idle = self.client()
        self.wait_warm(2)
        client = self.client()
        self.wait_warm(2)
        self.say_free(0)
        client.tell(wire.refused(0))
        self.assertEqual(client.memory(2 * MIB), 0)  # where the warm workers were
        client.tell(wire.allocate(MIB, serial=7))
        flags = 0
        while flags != wire.EVICT_RETIRE:
            serial, _, flags = self.expect_order(idle)
            self.give(idle, serial, 0) if flags != wire.EVICT_RETIRE else None
        idle.tell(wire.give_back(CONTEXT))
        idle.tell(b"page" + wire.PAGE_CONTEXT.to_bytes(4, "little") + (1).to_bytes(4, "little"))
        idle.tell(wire.evicted(serial, True))
        self.expect_answer(client, MIB, 7)

    def test_a_worker_that_lies_of_the_driver_changes_nothing(self):
        self.begin("16M", mode="ok", warm_workers=2)
        self.wait_warm(2)
        client = self.client()
        warm = self.wait_warm(2) and self.workers(3)
        self.say_free(16 * MIB)
        for _ in range(100):
            client.tell(wire.refused(0))
            self.assertEqual(client.memory(MIB), 0)
            client.tell(wire.give_back(MIB))
        self.assertEqual(self.workers(3), warm)
        self.assertEqual(self.others(), 0)

    def workers(self, least):
        """Processes of the workers, warm ones and others; there are so many at least."""
        (gdevd,) = (process.pid for process in self.processes if process.poll() is None)
        threads = pathlib.Path(f"/proc/{gdevd}/task").glob("*/children")
        found = {pid for thread in threads for pid in thread.read_text(encoding="ascii").split()}
        self.assertGreaterEqual(len(found), least)
        return found

    def test_strangers_are_asked_for_again_before_anybody_leaves(self):
        self.begin("16M", mode="ok", warm_workers=2)
        self.wait_warm(2)
        client = self.client()
        self.wait_warm(2)
        self.say_free(8 * MIB)
        client.tell(wire.refused(0))
        self.assertEqual(client.memory(MIB), 0)
        self.assertEqual(self.others(), 16 * MIB - 3 * CONTEXT - 8 * MIB)
        self.say_free(12 * MIB)
        self.assertEqual(client.memory(10 * MIB), 0)
        self.assertEqual(self.status()["workers"]["warm"], 2)
        self.assertEqual(self.others(), 0)

    def test_a_warm_worker_that_leaves_before_it_has_answered_is_not_waited_for(self):
        self.begin("16M", mode="ok", warm_workers=1)
        self.say_free("mute")
        self.wait_warm(1)
        client = self.client()
        self.wait_warm(1)
        client.tell(wire.refused(0))
        client.tell(wire.allocate(MIB, serial=7))
        client.free()  # whose answer comes first: the allocation waits
        self.assertEqual(self.gdev("device", "drain", "null").returncode, 0)
        self.expect_answer(client, MIB, 7)

    def test_a_warm_worker_that_does_not_answer_is_left_alone_and_not_asked_again(self):
        self.begin("16M", mode="ok", warm_workers=1)
        self.wait_warm(1)
        client = self.client()
        warm = self.wait_warm(1) and self.workers(2)
        self.say_free("stuck")
        for serial in range(3):  # the first waits for an answer, the others do not
            client.tell(wire.refused(0))
            client.tell(wire.allocate(MIB, serial=serial))
            self.expect_answer(client, MIB, serial)
        self.assertEqual(self.log().count("has not said in time"), 1)
        self.assertEqual(self.workers(2), warm)
        self.say_free(8 * MIB)  # which is its late answer, too

        def others():
            client.tell(wire.refused(0))
            self.assertEqual(client.memory(0), 0)
            return self.others()
        harness.wait_for(others, what="an answer")
        self.assertEqual(others(), 16 * MIB - 2 * CONTEXT - 3 * MIB - 8 * MIB)
        self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)  # gets that worker
        self.assertLessEqual(warm, self.workers(2))

    def test_room_of_a_warm_worker_that_leaves_before_it_has_answered_is_waited_for(self):
        self.begin("16M", mode="ok", warm_workers=1)
        self.say_free("mute")
        self.wait_warm(1)
        client = self.client()
        self.wait_warm(1)
        self.assertEqual(client.memory(12 * MIB), 0)
        client.tell(wire.refused(0))
        client.tell(wire.allocate(3 * MIB, swap=3 * MIB, serial=7))
        client.free()
        self.assertEqual(self.gdev("device", "drain", "null").returncode, 0)
        kind, serial, status, body, _ = wire.receive(client.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 7, 0))
        self.assertEqual(wire.CHARGED_BODY.unpack(body)[0], 3 * MIB)  # and none of the swap

    def test_where_strangers_are_nobody_waits_for_a_worker_that_starts(self):
        self.begin("16M", mode="ok", warm_workers=1)
        self.wait_warm(1)
        client = self.client()
        self.wait_warm(1)
        self.say_free(8 * MIB)
        client.tell(wire.refused(0))
        self.assertEqual(client.memory(MIB), 0)
        self.order("late")
        self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        client.tell(wire.allocate(12 * MIB, serial=9))
        self.assertEqual(wire.receive(client.peer)[:2], (wire.CHARGED, 9))  # nothing: there is no room
        self.assertEqual(self.status()["workers"]["starting"], 1)
        self.let_go()

    def test_a_context_that_is_being_made_is_no_strangers(self):
        self.begin("16M", mode="ok", warm_workers=2)
        self.wait_warm(2)
        client = self.client()
        self.wait_warm(2)
        self.assertEqual(client.memory(10 * MIB), 0)
        self.say_free("mute")
        client.tell(wire.refused(0))
        client.tell(wire.allocate(MIB, serial=7))
        client.free()
        self.order("late")
        self.say_free(16 * MIB - 10 * MIB - 4 * CONTEXT)
        self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)  # so that a fourth starts
        self.expect_answer(client, MIB, 7)
        self.assertEqual(self.others(), 0)
        self.let_go()
        self.wait_warm(2)

    # -- those who are going ------------------------------------------------------------------------

    def test_what_must_be_on_the_device_waits_for_who_is_leaving(self):
        self.begin("4M")
        first, second = self.going(2 * MIB), self.client()
        self.leave(first)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.expect_nothing(second)
        self.let_go()
        self.expect_answer(second, 2 * MIB, 7)

    def test_who_brings_in_its_objects_waits_for_who_is_leaving(self):
        self.begin("4M")
        first, second = self.going(2 * MIB), self.client()
        self.leave(first)
        second.tell(wire.room(2 * MIB, wire.FOR_TURN))
        self.expect_nothing(second, 1)
        self.use_device(second)
        self.let_go()
        self.expect_answer(second, 2 * MIB, 7)

    def test_nobody_else_has_to_leave_for_what_is_coming(self):
        self.begin("8M")
        first, second, third = self.going(2 * MIB), self.client(), self.client()
        self.assertEqual(third.memory(3 * MIB), 0)
        self.leave(first)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.expect_nothing(third)
        self.let_go()
        self.expect_answer(second, 2 * MIB, 7)
        self.expect_nothing(third)

    def test_who_says_that_it_gave_and_gave_nothing_is_not_asked_for_ever(self):
        self.begin("8M")
        liar, other = self.client(), self.client()
        self.assertEqual(liar.memory(5 * MIB), 0)
        other.tell(wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
        self.assertEqual(wire.receive(other.peer)[0], wire.GRANT)
        other.tell(wire.room(2 * MIB, wire.FOR_TURN))
        for _ in range(50):
            if other.peer in select.select([liar.peer, other.peer], [], [], wire.PATIENCE)[0]:
                break
            serial, size, _ = self.expect_order(liar)
            liar.tell(wire.give_back(0, size))
            liar.tell(wire.evicted(serial))
        else:
            self.fail("it is asked again and again")
        self.assertEqual(wire.receive(other.peer)[2], -harness.ENOMEM)

    def test_who_does_not_answer_an_order_is_not_waited_for_for_ever(self):
        self.begin("4M", mode="ok")
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        begun = time.monotonic()
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        serial, size, _ = self.expect_order(first)
        kind, got, status, _, _ = wire.receive(second.peer)
        self.assertEqual((kind, got, status), (wire.CHARGED, 7, -harness.ENOMEM))
        self.assertGreaterEqual(time.monotonic() - begun, 10)
        self.give(first, serial, size)
        first.free()  # gdevd has read that
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.expect_answer(second, 2 * MIB, 7)

    def test_who_gives_nothing_again_and_again_is_not_waited_for_for_ever(self):
        self.begin("4M", mode="ok")
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.expect_order(first)
        for _ in range(wire.PATIENCE):
            first.tell(wire.give_back(0))
            if select.select([second.peer], [], [], 1)[0]:
                break
        else:
            self.fail("it is waited for")
        self.assertEqual(wire.receive(second.peer)[2], -harness.ENOMEM)

    def test_nobody_leaves_for_more_than_a_virtual_gpu_can_have(self):
        self.begin("64M", mode="ok", vgpus="[vgpu gdev0]\n[vgpu small]\nmemory = 4M\n")
        other, small = self.client(), self.client("small")
        self.assertEqual((other.memory(40 * MIB), small.memory(3 * MIB)), (0, 0))
        small.tell(wire.room(1 << 40, wire.TO_STAY))
        self.assertEqual(wire.receive(small.peer)[2], -harness.ENOMEM)
        small.tell(wire.room(1 << 40, wire.FOR_CONTEXT))
        self.assertEqual(wire.receive(small.peer)[2], -harness.ENOMEM)
        self.expect_nothing(other)

    def test_nobody_pays_for_copying_that_was_not_done(self):
        self.begin("4M", mode="ok", vgpus="[vgpu gdev0]\n[vgpu other]\n")
        first, second = self.client(), self.client("other")
        self.assertEqual(first.memory(2 * MIB), 0)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        serial, size, _ = self.expect_order(first)
        time.sleep(1)
        first.tell(wire.give_back(size))
        first.tell(wire.evicted(serial, copied_ns=1 << 60))
        self.expect_answer(second, 2 * MIB, 7)
        paid = json.loads(self.gdev("top", "--json").stdout)["vgpus"][1]["resources"]["from_device"]["used_ns"]
        self.assertTrue(0 < paid < 100_000_000, paid)

    def test_within_a_quota_it_is_the_same(self):
        self.begin("64M", vgpus="[vgpu gdev0]\n[vgpu small]\nmemory = 4M\n", host_swap=0)
        first, second = self.going(2 * MIB, vgpu="small"), self.client("small")
        self.leave(first)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.expect_nothing(second)
        self.let_go()
        self.expect_answer(second, 2 * MIB, 7)

    def test_an_allocation_that_cannot_be_swapped_waits_for_the_quota(self):
        self.begin("64M", vgpus="[vgpu gdev0]\n[vgpu small]\nmemory = 4M\n", host_swap=0)
        first, second = self.going(2 * MIB, vgpu="small"), self.client("small")
        self.assertEqual(second.memory(MIB), -harness.ENOMEM)  # nobody leaves
        self.leave(first)
        second.tell(wire.allocate(2 * MIB))
        self.expect_nothing(second)
        self.let_go()
        self.expect_answer(second, 2 * MIB, 5)
        self.assertEqual(second.memory(2 * MIB), -harness.ENOMEM)

    def test_swap_of_who_is_leaving_is_waited_for(self):
        self.begin("256M", host_swap="128M", swap_reserve=50)
        first, second = self.going(0, swap=128 * MIB), self.client()
        self.assertEqual(second.ask(wire.swap(64 * MIB, 6))[2], -harness.ENOMEM)
        self.leave(first)
        second.tell(wire.swap(64 * MIB, 6))
        self.expect_nothing(second)
        self.let_go()
        self.expect_answer(second, 64 * MIB, 6)

    def test_what_can_leave_when_there_is_swap_again_is_waited_for(self):
        self.begin("512M", swap_reserve=20)
        first, second, third = self.going(0, swap=64 * MIB), self.client(), self.client()
        self.assertEqual(third.memory(400 * MIB), 0)
        third.tell(wire.room(109 * MIB, wire.TO_STAY))  # the rest
        self.expect_answer(third, 109 * MIB, 7)
        self.leave(first)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.expect_nothing(second)
        self.let_go()
        serial, size, _ = self.expect_order(third)
        self.give(third, serial, size)
        kind, serial, status, _, _ = wire.receive(second.peer)
        if kind == wire.EVICT:  # for the reserve
            kind, serial, status, _, _ = wire.receive(second.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 7, 0))

    def test_a_client_waits_for_the_context_of_who_is_leaving(self):
        self.begin("4M")
        first, second = self.going(2 * MIB), self.client()
        self.use_device(first)
        self.leave(first)
        third = self.begin_client()
        self.assertIsNone(third(0.5))
        self.let_go()
        self.assertEqual(third().kind, wire.WELCOME)
        second.free()

    def test_a_client_waits_for_who_has_lost_its_client_in_the_middle_of_a_kernel(self):
        self.begin("4M", mode="stay")  # it is killed after a time
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        self.use_device(first)
        self.clients.remove(first)
        first.close()
        third = self.begin_client()
        while not third(0.1):
            if select.select([second.peer], [], [], 0)[0]:  # nobody but `first` has anything to give
                self.give(second, self.expect_order(second)[0], 0)
        self.assertEqual(third().kind, wire.WELCOME)

    def test_an_allocation_waits_for_who_has_lost_its_client(self):
        self.begin("4M", mode="stay", host_swap=0)
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        self.clients.remove(first)
        first.hang_up()
        first.close()
        self.assertEqual(second.memory(2 * MIB), 0)

    # -- those who use it ---------------------------------------------------------------------------

    def test_a_limit_is_reached_by_who_uses_the_device(self):
        self.begin("16M", mode="ok")
        first = self.client()
        self.assertEqual(first.memory(8 * MIB), 0)
        self.use_device(first)
        self.assertEqual(self.gdev("vgpu", "set", "gdev0", "--memory", "4M").returncode, 0)
        serial, size, flags = self.expect_order(first)
        self.assertEqual((size, flags), (6 * MIB, wire.EVICT_LIMIT))
        self.give(first, serial, 2 * MIB)
        serial, size, flags = self.expect_order(first)  # at once: it gives
        self.assertEqual((size, flags), (4 * MIB, wire.EVICT_LIMIT))
        first.tell(wire.evicted(serial, in_use=True))
        self.expect_nothing(first)
        first.tell(wire.eased())
        serial, size, _ = self.expect_order(first)
        self.give(first, serial, size)
        harness.wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] <= 4 * MIB, what="the lower limit")

    def test_a_client_waits_for_who_uses_the_device(self):
        self.begin("4M", mode="ok")
        first = self.client()
        self.assertEqual(first.memory(3 * MIB), 0)
        self.use_device(first)
        second = self.begin_client()
        self.expect_question(first)
        self.assertIsNone(second(0.5))
        self.use_device(first, False)
        first.tell(wire.eased())
        serial, size, _ = self.expect_order(first)
        self.give(first, serial, size)
        self.assertEqual(second().kind, wire.WELCOME)

    def test_who_has_not_answered_yet_is_waited_for(self):
        self.begin("4M", mode="ok")
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        self.use_device(first)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        serial, size, _ = self.expect_order(first)
        self.assertEqual(size, 0)
        self.use_device(first, False)
        second.tell(wire.give_back())  # who can give is looked at again
        self.expect_nothing(second)
        first.tell(wire.evicted(serial, in_use=True))
        first.tell(wire.eased())
        serial, size, _ = self.expect_order(first)
        self.give(first, serial, size)
        self.expect_answer(second, 2 * MIB, 7)

    def test_a_client_waits_for_who_had_nothing_to_give_just_now(self):
        self.begin("4M", mode="ok")
        first = self.client()
        self.assertEqual(first.memory(3 * MIB), 0)
        second = self.begin_client()
        serial, _, _ = self.expect_order(first)
        first.tell(wire.evicted(serial, in_use=True))
        self.assertIsNone(second(0.5))
        first.tell(wire.eased())
        serial, size, _ = self.expect_order(first)
        self.give(first, serial, size)
        self.assertEqual(second().kind, wire.WELCOME)

    def test_what_cannot_be_used_from_the_host_waits_as_long_as_there_is_somebody(self):
        self.begin("8M", mode="ok", retire_after="60s")
        first, second = self.client(), self.client(apart=True)
        self.assertEqual(first.memory(6 * MIB), 0)
        self.use_device(first)
        second.tell(wire.room(2 * MIB, wire.FOR_TURN_ALONE))
        self.expect_nothing(second, 0.5)
        self.use_device(first, False)
        second.tell(wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
        second.free()  # gdevd has heard it
        first.tell(wire.message(wire.RELEASE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
        while True:
            kind, serial, _, body, _ = wire.receive(first.peer)
            if kind == wire.EVICT:
                break
        self.give(first, serial, 2 * MIB)
        self.assertEqual(wire.receive(second.peer)[0], wire.GRANT)
        self.expect_answer(second, 2 * MIB, 7)

    def test_what_must_be_on_the_device_waits_for_who_gives_later_again_and_again(self):
        self.begin("4M", mode="ok")
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        for _ in range(4):
            first.tell(wire.evicted(self.expect_order(first)[0], in_use=True))
            self.expect_nothing(second, 0.1)
            first.tell(wire.eased())
        serial, _, _ = self.expect_order(first)
        self.give(first, serial, 2 * MIB)
        self.expect_answer(second, 2 * MIB, 7)

    def test_who_can_give_nothing_is_not_waited_for(self):
        self.begin("4M", mode="ok")
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.give(first, self.expect_order(first)[0], 0)
        self.assertEqual(wire.receive(second.peer)[2], -harness.ENOMEM)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.assertEqual(wire.receive(second.peer)[2], -harness.ENOMEM)
        self.expect_nothing(first)  # its answer holds
        first.tell(wire.give_back(MIB))
        self.assertEqual(first.memory(MIB), 0)  # which may leave
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        self.give(first, self.expect_order(first)[0], 2 * MIB)
        self.expect_answer(second, 2 * MIB, 7)

    def test_who_gives_later_and_never_does_is_not_waited_for_for_ever(self):
        self.begin("4M", mode="ok")
        first, second = self.client(), self.client()
        self.assertEqual(first.memory(2 * MIB), 0)
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        begun = time.monotonic()
        first.tell(wire.evicted(self.expect_order(first)[0], in_use=True))
        self.assertEqual(wire.receive(second.peer)[2], -harness.ENOMEM)
        self.assertGreaterEqual(time.monotonic() - begun, 10)

    def test_a_client_does_not_wait_for_more_than_they_have(self):
        self.begin("4M", mode="ok", vgpus="[vgpu gdev0]\n[vgpu small]\nmemory = 1M\n")
        first = self.client("small")
        self.use_device(first)
        second = self.begin_client("small")()
        self.assertEqual((second.kind, second.status), (wire.REFUSED, -harness.ENOMEM))

    def test_what_must_be_on_the_device_waits_for_idle_contexts(self):
        self.begin("3M", mode="ok", retire_after="60s")
        first, second = self.client(), self.client()
        second.tell(wire.room(2 * MIB, wire.TO_STAY))
        serial, _, flags = self.expect_order(first)  # its objects: it has none
        self.assertEqual(flags, 0)
        self.give(first, serial, 0)
        while flags != wire.EVICT_RETIRE:  # when it has been idle for a second
            serial, size, flags = self.expect_order(first)
            self.give(first, serial, 0) if flags != wire.EVICT_RETIRE else None
        first.tell(wire.give_back(CONTEXT))
        first.tell(b"page" + wire.PAGE_CONTEXT.to_bytes(4, "little") + (1).to_bytes(4, "little"))
        first.tell(wire.evicted(serial, True))
        self.expect_answer(second, 2 * MIB, 7)


if __name__ == "__main__":
    harness.main()
