#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What gdevd counts and hands on: memory, grants, shared segments, compiled code.

Usage: test_resources.py GDEVD GDEV [unittest arguments]
"""

import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402


class Memory(harness.GdevdTest):
    def test_accounts_are_exact(self):
        self.start("--device-memory", "64M", config="[gdevd]\nwarm_workers = 0\nhost_swap = 0\n"
                   "[vgpu small]\nmemory = 16M\n"
                   "[vgpu gdev0]\nmode = 0600\n")
        client = self.client("small")
        self.assertEqual(client.free(), (15 << 20, 16 << 20))
        self.assertEqual(client.memory(15 << 20), 0)
        self.assertEqual(client.free(), (0, 16 << 20))
        self.assertEqual(client.memory(1), -harness.ENOMEM)
        client.tell(wire.give_back(5 << 20))
        self.assertEqual(client.memory(5 << 20), 0)
        other = self.client()
        self.assertEqual(other.memory(48 << 20), -harness.ENOMEM)
        self.assertEqual(other.memory(47 << 20), 0)
        client.tell(b"die")
        wait_for(lambda: other.memory(15 << 20) == 0, what="the dead one's memory")

    def charged(self, client, request):
        """What the worker is answered: (status, device memory, host swap)."""
        kind, _, status, body, _ = client.ask(request)
        self.assertEqual(kind, wire.CHARGED)
        return status, *wire.CHARGED_BODY.unpack(body)[:2]

    def test_an_allocation_is_one_question(self):
        self.start("--device-memory", "64M", config="[gdevd]\nwarm_workers = 0\nswap_reserve = 0\n")
        client, other = self.client(), self.client()
        left = 64 - self.status()["devices"][0]["memory_used_bytes"] // (1 << 20) << 20
        size = left - (4 << 20)
        self.assertEqual(self.charged(client, wire.allocate(size - (2 << 20), 2 << 20)), (0, size, 0))
        self.assertEqual(self.charged(client, wire.allocate(2 << 20, 6 << 20)), (0, 2 << 20, 0))  # without slack
        self.assertEqual(self.charged(client, wire.allocate(8 << 20, 0, 12 << 20)), (0, 0, 12 << 20))
        # If it may not begin in swap, it gets what is left, and then others have to leave; for one wish at a time.
        self.assertEqual(self.charged(other, wire.allocate(8 << 20)), (0, 2 << 20, 0))
        other.tell(wire.allocate(8 << 20, serial=6))
        serial, amount = self.expect_order(client)
        self.assertEqual(self.charged(other, wire.allocate(16 << 20))[0], -harness.EBUSY)
        self.assertEqual(self.charged(other, wire.room(16 << 20, wire.FOR_TURN))[0], -harness.EBUSY)
        self.give(client, serial, amount)
        kind, serial, status, body, _ = wire.receive(other.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 6, 0))
        self.assertEqual(wire.CHARGED_BODY.unpack(body)[0], 8 << 20)

    def test_peak_is_remembered(self):
        self.start()
        client = self.client()
        client.memory(30 << 20)
        client.tell(wire.give_back(30 << 20))
        client.close()
        ended = wait_for(lambda: self.status()["ended"], what="its end")
        self.assertEqual(ended[0]["peak_bytes"], 31 << 20)
        self.assertEqual(ended[0]["reason"], "done")


    def admin(self, *words):
        done = self.gdev(*map(str, words))
        self.assertEqual(done.returncode, 0, done.stderr)

    def expect(self, client, kind):
        got, serial, _, body, fds = wire.receive(client.peer)
        self.assertEqual(got, kind)
        for fd in fds:
            os.close(fd)
        return serial, body

    def expect_order(self, client):
        """An EVICT: its serial and how much."""
        serial, body = self.expect(client, wire.EVICT)
        return serial, wire.EVICT_BODY.unpack(body)[0]

    @staticmethod
    def give(client, serial, amount):
        if amount:
            client.tell(wire.give_back(amount))
        client.tell(wire.evicted(serial))

    def test_who_had_nothing_to_give_is_asked_again(self):
        self.start("--device-memory", "64M", "--set", "swap_reserve=0")
        client = self.client()
        self.assertEqual(client.memory(32 << 20), 0)
        self.admin("vgpu", "set", "gdev0", "--memory", "16M")
        serial, amount = self.expect_order(client)
        self.assertGreaterEqual(amount, 17 << 20)
        self.give(client, serial, 0)  # a command uses all of it; nobody says when it is done
        serial, amount = self.expect_order(client)
        self.give(client, serial, amount)
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] <= 16 << 20, what="the lower limit")

    def keep(self, client, amount):
        """The client's worker says that it keeps so much host swap and does not use it."""
        client.tell(b"page" + wire.PAGE_SWAP_KEPT.to_bytes(4, "little") + amount.to_bytes(8, "little"))
        self.assertEqual(client.peer.recv(100), b"written")

    def test_slots_that_are_kept_are_counted_and_given_back(self):
        self.start("--device-memory", "1G", "--set", "host_swap=256M", "--set", "swap_reserve=10")
        first, second = self.client(), self.client()
        self.assertEqual(first.ask(wire.swap(192 << 20, 5))[2], 0)
        self.keep(first, 128 << 20)
        device, vgpu = self.status()["devices"][0], self.status()["vgpus"][0]
        self.assertEqual((device["swap_used_bytes"], vgpu["swapped_bytes"]), (192 << 20, 64 << 20))
        second.tell(wire.swap(128 << 20, 6))  # 64 MiB are left: it waits
        serial, body = self.expect(first, wire.EVICT)
        size, promised, flags, _ = wire.EVICT_BODY.unpack(body)
        self.assertEqual((size, promised, flags), (64 << 20, 0, wire.EVICT_SLOTS))
        self.keep(first, 64 << 20)
        first.tell(wire.give_back(0, size))
        first.tell(wire.evicted(serial))
        kind, serial, status, _, _ = wire.receive(second.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 6, 0))
        self.assertEqual(self.status()["devices"][0]["swap_used_bytes"], 256 << 20)

    def test_who_does_not_give_slots_back_is_not_waited_for(self):
        self.start("--device-memory", "1G", "--set", "host_swap=256M", "--set", "swap_reserve=10")
        first, second = self.client(), self.client()
        self.assertEqual(first.ask(wire.swap(192 << 20, 5))[2], 0)
        self.keep(first, 192 << 20)
        self.assertEqual(second.ask(wire.swap(128 << 20, 6))[2], -harness.ENOMEM)

    def test_swap_goes_to_a_file_when_memory_is_used_up(self):
        self.start("--device-memory", "1G", "--set", "host_swap=64M", "--set", "file_swap=192M", "--set",
                   "swap_directory=" + self.directory)
        client = self.client()
        self.assertEqual(client.ask(wire.swap(64 << 20, 5))[2], 0)
        _, _, status, body, fds = client.ask(wire.swap(96 << 20, 6))
        self.assertEqual((status, wire.CHARGED_BODY.unpack(body)[:3], len(fds)), (0, (0, 0, 96 << 20), 1))
        info = os.fstat(fds[0])
        self.assertEqual((info.st_nlink, info.st_mode & 0o777), (0, 0o600))
        self.assertEqual(client.ask(wire.swap(64 << 20, 7))[2], -harness.ENOMEM)
        device, session = self.status()["devices"][0], self.status()["sessions"][0]
        self.assertEqual((device["swap_used_bytes"], device["file_swap_used_bytes"]), (64 << 20, 96 << 20))
        self.assertEqual((session["swapped_bytes"], session["file_swapped_bytes"]), (160 << 20, 96 << 20))
        client.tell(wire.give_back(file=96 << 20))
        wait_for(lambda: not self.status()["devices"][0]["file_swap_used_bytes"], what="its return")
        os.posix_fallocate(fds[0], 0, 20 << 20)  # without being charged for it
        os.close(fds[0])
        wait_for(lambda: not self.status()["sessions"], what="its end")

    def ask_slot(self, client, size, place):
        """(status, 1 in the file)"""
        _, _, status, body, fds = client.ask(wire.slot(size, place))
        for fd in fds:
            os.close(fd)
        return status, int(wire.CHARGED_BODY.unpack(body)[2] != 0)

    def test_a_slot_is_found_in_one_pool_as_long_as_both_have_room_for_it_together(self):
        self.start("--device-memory", "1G", "--set", "host_swap=64M", "--set", "file_swap=128M", "--set",
                   "swap_reserve=10", "--set", "swap_directory=" + self.directory)
        client, other = self.client(), self.client()
        self.assertEqual(client.ask(wire.swap(48 << 20, 5))[2], 0)  # memory: 16 MiB are left
        _, _, status, body, fds = client.ask(wire.swap(80 << 20, 6))  # the file: 48
        os.close(fds[0])
        self.assertEqual((status, wire.CHARGED_BODY.unpack(body)[2]), (0, 80 << 20))
        self.assertEqual(other.ask(wire.swap(2 << 20, 7))[2], -harness.ENOMEM)  # 64 are for exchanges
        self.assertEqual(self.ask_slot(client, 32 << 20, wire.IN_MEMORY)[0], -harness.ENOMEM)
        self.assertEqual(self.ask_slot(client, 32 << 20, wire.ANYWHERE), (0, 1))
        client.tell(wire.give_back(0, 16 << 20, 16 << 20))  # the rest of both
        self.assertEqual(self.ask_slot(client, 32 << 20, wire.IN_MEMORY), (0, 0))
        self.assertEqual(self.ask_slot(client, 34 << 20, wire.ANYWHERE)[0], -harness.ENOMEM)  # no slot is larger
        self.assertEqual(self.status()["sessions"][0]["swapped_bytes"], (48 + 80 + 32) << 20)

    def begin_with_files(self, used):
        """Clients with so many MiB each in host_swap, of 64."""
        self.start("--device-memory", "1G", "--set", "host_swap=64M", "--set", "file_swap=256M", "--set",
                   "swap_directory=" + self.directory)
        clients = [self.client() for _ in used]
        for client, amount in zip(clients, used):
            if amount:
                self.assertEqual(client.ask(wire.swap(amount << 20, 5))[2], 0)
        return clients

    def expect_move(self, client):
        """The serial and the size of the order."""
        serial, body = self.expect(client, wire.EVICT)
        size, promised, flags, _ = wire.EVICT_BODY.unpack(body)
        self.assertEqual((promised, flags), (0, wire.EVICT_SLOTS | wire.EVICT_MOVE))
        return serial, size

    def move(self, client, serial, amount):
        """What the client's worker says when so much is in its file."""
        if amount:
            self.assertEqual(self.ask_slot(client, amount, wire.IN_FILE), (0, 1))
            client.tell(wire.give_back(0, amount))
        client.tell(wire.evicted(serial))

    def expect_slot(self, client, status):
        kind, serial, got, _, fds = wire.receive(client.peer)
        for fd in fds:
            os.close(fd)
        self.assertEqual((kind, serial, got), (wire.CHARGED, 9, status))

    def want_memory(self, client, amount):
        client.tell(wire.slot(amount, wire.IN_MEMORY, 9))

    def test_who_must_map_has_others_move_to_files(self):
        idle, other = self.begin_with_files((48, 0))
        self.want_memory(other, 32 << 20)  # 16 MiB are left
        serial, size = self.expect_move(idle)
        self.assertEqual(size, 16 << 20)
        self.move(idle, serial, size)
        self.expect_slot(other, 0)
        device = self.status()["devices"][0]
        self.assertEqual((device["swap_used_bytes"], device["file_swap_used_bytes"]), (64 << 20, 16 << 20))

    def test_what_is_kept_is_given_back_before_anybody_moves(self):
        idle, other = self.begin_with_files((48, 0))
        self.keep(idle, 16 << 20)
        self.want_memory(other, 32 << 20)
        serial, body = self.expect(idle, wire.EVICT)
        self.assertEqual(wire.EVICT_BODY.unpack(body)[2], wire.EVICT_SLOTS)
        self.keep(idle, 0)
        idle.tell(wire.give_back(0, 16 << 20))
        idle.tell(wire.evicted(serial))
        self.expect_slot(other, 0)

    def test_who_moves_nothing_as_it_is_in_use_is_asked_again_when_it_is_not(self):
        idle, other = self.begin_with_files((64, 0))
        self.want_memory(other, 16 << 20)
        for _ in range(3):
            idle.tell(wire.evicted(self.expect_move(idle)[0], in_use=True))
            idle.tell(wire.eased())
        serial, _ = self.expect_move(idle)
        self.move(idle, serial, 0)
        self.expect_slot(other, -harness.ENOMEM)

    def test_no_more_is_moved_than_files_have_room_for(self):
        idle, other = self.begin_with_files((64, 0))
        for _ in range(15):
            self.assertEqual(self.ask_slot(other, 16 << 20, wire.IN_FILE), (0, 1))
        self.want_memory(other, 32 << 20)
        serial, size = self.expect_move(idle)
        self.assertEqual(size, 16 << 20)

    def test_one_after_another_moves_until_there_is_enough(self):
        first, second, other = self.begin_with_files((16, 48, 0))
        self.want_memory(other, 32 << 20)
        orders = [(client, *self.expect_move(client)) for client in (first, second)]
        self.assertEqual([size for _, _, size in orders], [16 << 20] * 2)
        self.move(*orders[0])
        self.move(*orders[1])
        self.expect_slot(other, 0)

    def test_who_is_killed_while_it_moves_leaves_its_memory(self):
        idle, other = self.begin_with_files((64, 0))
        self.want_memory(other, 32 << 20)
        self.expect_move(idle)
        idle.tell(b"die")
        self.expect_slot(other, 0)
        wait_for(lambda: self.status()["devices"][0]["swap_used_bytes"] == 32 << 20, what="the return of the rest")

    def test_who_is_at_another_order_is_asked_after_it(self):
        idle, other = self.begin_with_files((48, 0))
        self.assertEqual(idle.memory(15 << 20), 0)
        self.admin("vgpu", "set", "gdev0", "--memory", "8M")
        order = self.expect_order(idle)  # for which the rest of host swap is charged
        self.want_memory(other, 32 << 20)
        other.free()  # gdevd has heard it
        self.assertEqual(self.ask_slot(idle, 1 << 20, wire.IN_FILE), (0, 1))
        idle.tell(wire.give_back(0, 16 << 20))
        self.give(idle, *order)
        self.move(idle, *self.expect_move(idle))
        self.expect_slot(other, 0)

    def test_what_is_mapped_does_not_move(self):
        idle, other = self.begin_with_files((64, 0))
        idle.tell(b"page" + wire.PAGE_MAPPED.to_bytes(4, "little") + (64 << 20).to_bytes(8, "little"))
        self.assertEqual(idle.peer.recv(100), b"written")
        self.want_memory(other, 16 << 20)
        self.expect_slot(other, -harness.ENOMEM)

    def test_directory_for_swap_files_is_tried_at_the_start(self):
        process = self.start("--set", "file_swap=1G", "--set", "swap_directory=/nowhere", wait=False)
        self.assertEqual(process.wait(wire.PATIENCE), 1)
        self.assertIn("swap_directory", self.log())

    def begin_client(self, *arguments):
        """A client whose WELCOME (or refusal) may take a while: gives a function that waits for it."""
        begun = []
        thread = threading.Thread(target=lambda: begun.append(self.client(*arguments, welcome=False)))
        thread.start()

        def result():
            thread.join(wire.PATIENCE)
            return begun[0]
        return result

    def test_objects_leave_for_a_context(self):
        self.start("--device-memory", "64M", config="[gdevd]\nwarm_workers = 0\nswap_reserve = 0\n"
                   "[vgpu gdev0]\n[vgpu small]\nmemory = 16M\n")
        first = self.client("small")
        self.assertEqual(first.memory(15 << 20), 0)
        second = self.begin_client("small")
        serial, amount = self.expect_order(first)  # its virtual GPU is full
        self.give(first, serial, amount)
        self.assertEqual(second().kind, wire.WELCOME)
        third = self.client()
        self.assertEqual(third.memory((64 << 20) - self.status()["devices"][0]["memory_used_bytes"]), 0)
        fourth = self.begin_client()
        serial, amount = self.expect_order(first)  # the device is: who has not used it for longest gives
        self.give(first, serial, 0)
        serial, amount = self.expect_order(second())
        self.give(second(), serial, 0)
        serial, amount = self.expect_order(third)
        self.give(third, serial, amount)
        self.assertEqual(fourth().kind, wire.WELCOME)

    def test_who_waits_for_room_does_so_while_workers_die_at_their_start(self):
        self.start(config="[gdevd]\nwarm_workers = 1\n[vgpu gdev0]\n[vgpu small]\nmemory = 16M\n")
        first = self.client("small")
        self.assertEqual(first.memory(15 << 20), 0)
        self.wait_warm(1)
        self.order("die")
        second = self.begin_client("small")
        serial, amount = self.expect_order(first)
        first.tell(wire.give_back(4096))  # not enough; workers are started
        wait_for(lambda: "the next try is in 800 ms" in self.log(), what="giving up hope")
        self.give(first, serial, amount - 4096)
        self.assertEqual(second().kind, wire.WELCOME)

    def test_nobody_can_leave_for_a_context(self):
        self.start("--device-memory", "64M", config="[gdevd]\nwarm_workers = 0\nhost_swap = 0\n")
        first = self.client()
        self.assertEqual(first.memory(63 << 20), 0)
        second = self.begin_client()()
        self.assertEqual((second.kind, second.status), (wire.REFUSED, -harness.ENOMEM))
        self.assertIn("no memory left for another context", second.text())

    def away(self, client, size=4 << 20, chunk=2 << 20):
        """A segment of the client's, which has left the device."""
        _, segment, _ = client.shm(wire.SHM_GET, key=42, size=size, flags=0o1600)
        self.assertEqual(client.memory(size), 0)
        chunks = [wire.sealed_memfd(chunk) for _ in range(size // chunk)]
        ident, left = segment["id"], self.segments_left()
        client.shm(wire.SHM_BACK, chunks, ident=ident, chunk=chunk, chunks=len(chunks))
        for fd in chunks + client.shm(wire.SHM_ATTACH, ident=ident)[2]:
            os.close(fd)
        suspended = threading.Thread(target=self.admin, args=("suspend", os.getpid()))
        suspended.start()
        serial, _ = self.expect_order(client)
        self.give(client, serial, 0)
        for command, status in ((wire.SHM_LEAVE, 1), (wire.SHM_WRITE, 0), (wire.SHM_DROP, 0)):
            _, body = self.expect(client, wire.SHM)
            self.assertEqual(wire.SHM_BODY.unpack(body)[0], command)
            client.tell(wire.shm(command, ident=ident, serial=0, status=status))
        suspended.join()
        self.admin("resume", os.getpid())
        self.expect(client, wire.EVICT)
        wait_for(lambda: self.segments_left() > left, what="that its chunks are closed")
        return ident

    def segments_left(self):
        return self.status()["vgpus"][0]["shared_evictions"]

    def test_segment_that_could_not_be_brought_in_costs_nothing(self):
        self.start("--device-memory", "64M", "--set", "swap_reserve=0")
        client = self.client()
        ident = self.away(client)
        used = self.status()["vgpus"][0]["memory_used_bytes"]
        status, _, fds = client.shm(wire.SHM_RESTORE, ident=ident)
        self.assertEqual((status, len(fds)), (1, 1))
        os.close(fds[0])
        client.memory(4 << 20)
        chunk = wire.sealed_memfd(2 << 20)
        self.assertEqual(client.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=2 << 20, chunks=2)[0], 0)
        os.close(chunk)
        client.tell(wire.shm(wire.SHM_MAP, ident=ident, serial=0, status=-5))  # the rest cannot be made
        client.tell(wire.give_back(4 << 20))
        client.free()
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == used, what="its memory's return")

    def test_host_copy_is_nobodys_when_the_segment_is_back(self):
        self.start("--device-memory", "64M", "--set", "swap_reserve=0")
        first = self.client()
        ident = self.away(first)
        second = self.client()
        second.shm(wire.SHM_ATTACH, ident=ident)
        self.assertEqual(first.shm(wire.SHM_RESTORE, ident=ident)[0], 1)
        first.memory(4 << 20)
        chunks = [wire.sealed_memfd(2 << 20) for _ in range(2)]
        first.tell(wire.shm(wire.SHM_BACK, ident=ident, chunk=2 << 20, chunks=2), chunks)
        _, body = self.expect(second, wire.SHM)  # else it would tell the next gdevd of an old one
        self.assertEqual(wire.SHM_BODY.unpack(body)[0], wire.SHM_STAY)
        self.expect(first, wire.SHM)
        self.expect(first, wire.SHM_REPLY)
        self.assertEqual(len(second.shm(wire.SHM_RESTORE, ident=ident)[2]), 2)

    def test_segment_that_is_mapped_is_mapped_by_all(self):
        self.start("--device-memory", "64M", "--set", "swap_reserve=0")
        first = self.client()
        ident = self.away(first)
        second = self.client()
        second.shm(wire.SHM_ATTACH, ident=ident)
        self.assertEqual(first.shm(wire.SHM_RESTORE, ident=ident)[0], 1)
        second.tell(wire.shm(wire.SHM_RESTORE, ident=ident, serial=8))  # waits for what becomes of the first
        second.free()
        first.tell(wire.shm(wire.SHM_MAP, ident=ident, serial=0))
        _, body = self.expect(second, wire.SHM)  # else it would tell the next gdevd that it can be brought in
        command, _, _, flags = wire.SHM_BODY.unpack(body)[:4]
        self.assertEqual((command, flags), (wire.SHM_DROP, wire.SHM_MAPPED))
        kind, _, status, _, fds = wire.receive(second.peer)
        self.assertEqual((kind, status, len(fds)), (wire.SHM_REPLY, 2, 1))


class Grants(harness.GdevdTest):
    config = "[gdevd]\nquantum = 50ms\n"

    @staticmethod
    def grant(kind, resource=0, wants=0, used=0):
        return wire.message(kind, wire.GRANT_BODY.pack(resource, wants, 0, used))

    def expect(self, client, kind):
        got, _, _, body, _ = wire.receive(client.peer)
        self.assertEqual(got, kind)
        return wire.GRANT_BODY.unpack(body)

    def test_resource_goes_round(self):
        self.start(config=self.config)
        first, second = self.client(), self.client(apart=True)
        first.tell(self.grant(wire.ACQUIRE))
        self.assertEqual(self.expect(first, wire.GRANT)[2], 50_000_000)
        begin = time.monotonic()
        second.tell(self.grant(wire.ACQUIRE))
        self.expect(first, wire.REVOKE)  # when idle; or now, if the quantum is over
        first.tell(self.grant(wire.RELEASE, wants=1, used=1000))
        self.granted(second)
        while time.monotonic() - begin < 0.045:  # when idle; and now, as its quantum is over
            self.expect(second, wire.REVOKE)
        second.tell(self.grant(wire.RELEASE))
        self.granted(first)

    def granted(self, client):
        """A REVOKE of what the worker has given back comes when it is read late, and means nothing."""
        while (kind := wire.receive(client.peer)[0]) == wire.REVOKE:
            pass
        self.assertEqual(kind, wire.GRANT)

    def test_holder_that_does_not_leave_is_passed_over(self):
        self.start(config=self.config)
        first, second = self.client(), self.client(apart=True)
        begin = time.monotonic()
        first.tell(self.grant(wire.ACQUIRE))
        self.expect(first, wire.GRANT)
        second.tell(self.grant(wire.ACQUIRE))
        self.expect(second, wire.GRANT)
        # A process that is gone ranks as one of nice 0, and waits for no quantum of those that are nicer.
        quantum = 0.05 if os.getpriority(os.PRIO_PROCESS, 0) <= 0 else 0
        self.assertGreater(time.monotonic() - begin, 0.09 + quantum)

    def test_dead_holder_gives_the_resource_back(self):
        self.start(config=self.config)
        first, second = self.client(), self.client(apart=True)
        first.tell(self.grant(wire.ACQUIRE))
        self.expect(first, wire.GRANT)
        first.tell(b"die")
        second.tell(self.grant(wire.ACQUIRE))
        self.expect(second, wire.GRANT)

    def test_resources_are_independent(self):
        self.start(config=self.config)
        first, second = self.client(), self.client()
        for resource in range(3):
            first.tell(self.grant(wire.ACQUIRE, 0))
            second.tell(self.grant(wire.ACQUIRE, 1))
        self.expect(first, wire.GRANT)
        self.expect(second, wire.GRANT)


class SharedMemory(harness.GdevdTest):
    CHUNK = 2 << 20

    def create(self, client, key=42, size=4 << 20, mode=0o600, flags=0o1000):
        status, segment, _ = client.shm(wire.SHM_GET, key=key, size=size, flags=flags | mode)
        self.assertEqual(status, 1)
        chunks = size // self.CHUNK
        self.assertEqual(client.memory(size), 0)
        fds = [wire.sealed_memfd(self.CHUNK) for _ in range(chunks)]
        status, whole, _ = client.shm(wire.SHM_BACK, fds, ident=segment["id"], chunk=self.CHUNK,
                                      chunks=chunks)
        for fd in fds:
            os.close(fd)
        self.assertEqual(status, 0)
        return whole["id"]

    def test_two_sessions_share_chunks(self):
        self.start()
        first, second = self.client(), self.client()
        ident = self.create(first)
        status, segment, _ = second.shm(wire.SHM_GET, key=42)
        self.assertEqual((status, segment["id"], segment["bytes"]), (0, ident, 4 << 20))
        fds = []
        for client in (first, second):
            status, segment, got = client.shm(wire.SHM_ATTACH, ident=ident)
            self.assertEqual((status, len(got)), (0, 2))
            fds.append(got)
        self.assertEqual(segment["attached"], 2)
        os.pwrite(fds[0][1], b"hello", 100)
        self.assertEqual(os.pread(fds[1][1], 5, 100), b"hello")
        for fd in fds[0] + fds[1]:
            os.close(fd)

    def test_segment_lives_until_removed_and_detached(self):
        self.start("--device-memory", "64M")
        first = self.client()
        base = self.status()["vgpus"][0]["memory_used_bytes"]
        ident = self.create(first)
        first.close()
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.status()["vgpus"][0]["shared_segments"], 1)
        second = self.client()
        self.assertEqual(second.shm(wire.SHM_GET, key=42)[1]["id"], ident)
        for fd in second.shm(wire.SHM_ATTACH, ident=ident)[2]:
            os.close(fd)
        self.assertEqual(second.shm(wire.SHM_REMOVE, ident=ident)[0], 0)
        self.assertEqual(second.shm(wire.SHM_GET, key=42)[0], -harness.ENOENT)
        self.assertEqual(second.shm(wire.SHM_ATTACH, ident=ident)[0], -harness.EIDRM)
        self.assertEqual(self.status()["vgpus"][0]["shared_segments"], 1)
        second.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        wait_for(lambda: self.status()["vgpus"][0]["shared_segments"] == 0, what="its removal")
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == base, what="its memory's return")

    def test_dead_worker_detaches(self):
        self.start()
        first, second = self.client(), self.client()
        ident = self.create(first)
        for fd in second.shm(wire.SHM_ATTACH, ident=ident)[2]:
            os.close(fd)
        self.assertEqual(first.shm(wire.SHM_STAT, ident=ident)[1]["attached"], 1)
        second.tell(b"die")
        wait_for(lambda: first.shm(wire.SHM_STAT, ident=ident)[1]["attached"] == 0, what="its detachment")

    def test_creation_rules(self):
        self.start()
        client = self.client()
        self.assertEqual(client.shm(wire.SHM_GET, key=1)[0], -harness.ENOENT)
        self.create(client, key=1)
        self.assertEqual(client.shm(wire.SHM_GET, key=1, flags=0o3000)[0], -harness.EEXIST)
        self.assertEqual(client.shm(wire.SHM_GET, key=1, size=8 << 20)[0], -harness.EINVAL)
        private = [self.create(client, key=0, size=2 << 20) for _ in range(2)]
        self.assertNotEqual(*private)
        self.assertEqual(client.shm(wire.SHM_STAT, ident=9999)[0], -harness.EINVAL)

    def test_backing_is_checked(self):
        self.start("--device-memory", "64M")
        client = self.client()
        _, segment, _ = client.shm(wire.SHM_GET, key=3, size=4 << 20, flags=0o1600)
        fds = [wire.sealed_memfd(self.CHUNK) for _ in range(3)]
        good = {"ident": segment["id"], "chunk": self.CHUNK, "chunks": 2}
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:2], **good)[0], -harness.EINVAL)  # nothing is charged
        client.memory(16 << 20)
        self.assertEqual(client.shm(wire.SHM_BACK, [], **good)[0], -harness.EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds, **good)[0], -harness.EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, chunks=1 << 30))[0], -harness.EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, chunk=4096))[0], -harness.EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **good)[0], 0)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, chunk=1 << 20, first=1))[0], -harness.EINVAL)
        self.assertEqual(client.shm(wire.SHM_BACK, fds[:1], **dict(good, first=1))[0], 0)
        for fd in fds:
            os.close(fd)

    def test_no_more_than_a_bounded_number_of_requests_wait(self):
        self.start()
        client = self.client()
        _, segment, _ = client.shm(wire.SHM_GET, key=3, size=4 << 20, flags=0o1600)
        for _ in range(4096):
            client.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        self.assertEqual(client.shm(wire.SHM_ATTACH, ident=segment["id"])[0], -harness.ENOMEM)

    def test_attach_waits_until_the_segment_is_whole(self):
        self.start()
        first, second, third = self.client(), self.client(), self.client()
        _, segment, _ = first.shm(wire.SHM_GET, key=3, size=2 << 20, flags=0o1600)
        second.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        third.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        third.close()
        time.sleep(0.1)
        first.memory(2 << 20)
        chunk = wire.sealed_memfd(self.CHUNK)
        first.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=self.CHUNK, chunks=1)
        os.close(chunk)
        kind, serial, status, _, fds = wire.receive(second.peer)
        self.assertEqual((kind, serial, status, len(fds)), (wire.SHM_REPLY, 8, 0, 1))
        os.close(fds[0])

    def transient(self, client, parts=((2 << 20, 2), (4 << 20, 1))):
        """A segment without a key, in chunks of several sizes: (id, token)."""
        size = sum(chunk * count for chunk, count in parts)
        status, segment, _ = client.shm(wire.SHM_GET, size=size, flags=wire.SHM_TRANSIENT | 0o600)
        self.assertEqual(status, 1)
        self.assertNotEqual(segment["token"], bytes(16))
        self.assertEqual(client.memory(size), 0)
        first, chunks = 0, sum(count for _, count in parts)
        for chunk, count in parts:
            fds = [wire.sealed_memfd(chunk) for _ in range(count)]
            status, _, _ = client.shm(wire.SHM_BACK, fds, ident=segment["id"], chunk=chunk,
                                      chunks=chunks, first=first)
            self.assertEqual(status, 0)
            first += count
            for fd in fds:
                os.close(fd)
        return segment["id"], segment["token"]

    def test_transient_segments_need_their_token(self):
        self.start()
        first, second = self.client(), self.client()
        ident, token = self.transient(first)
        for command in (wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT, wire.SHM_REMOVE, wire.SHM_SET):
            self.assertEqual(second.shm(command, ident=ident)[0], -harness.EINVAL)
            self.assertEqual(second.shm(command, ident=ident, token=b"x" * 16)[0], -harness.EINVAL)
        # Chunks of one size a message.
        status, segment, fds = second.shm(wire.SHM_ATTACH, ident=ident, token=token)
        self.assertEqual((status, segment["chunk_bytes"], len(fds)), (0, 2 << 20, 2))
        status, segment, more = second.shm(wire.SHM_ATTACH, ident=ident, token=token, first=2)
        self.assertEqual((status, segment["chunk_bytes"], len(more)), (0, 4 << 20, 1))
        for fd in fds + more:
            os.close(fd)

    def test_transient_segments_live_while_they_are_attached(self):
        self.start("--device-memory", "64M")
        first, second = self.client(), self.client()
        base = self.status()["vgpus"][0]["memory_used_bytes"]
        ident, token = self.transient(first)
        self.assertEqual(second.shm(wire.SHM_HOLD, ident=ident, token=token)[1]["attached"], 2)
        first.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        wait_for(lambda: second.shm(wire.SHM_STAT, ident=ident, token=token)[1]["attached"] == 1,
                 what="its detachment")
        second.tell(b"die")
        wait_for(lambda: self.status()["vgpus"][0]["shared_segments"] == 0, what="its end")
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == base - (1 << 20),
                 what="its memory's return")  # what `second` had is gone as well

    def test_what_was_never_whole_is_given_back(self):
        self.start("--device-memory", "64M")
        client = self.client()
        self.assertEqual(client.memory(4 << 20), 0)
        used = self.status()["vgpus"][0]["memory_used_bytes"]
        _, segment, _ = client.shm(wire.SHM_GET, size=4 << 20, flags=wire.SHM_TRANSIENT | 0o600)
        chunk = wire.sealed_memfd(2 << 20)
        client.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=2 << 20, chunks=2)
        os.close(chunk)
        self.assertEqual(client.shm(wire.SHM_REMOVE, ident=segment["id"], token=segment["token"])[0], 0)
        self.assertEqual(self.status()["vgpus"][0]["shared_segments"], 0)
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == used, what="its memory's return")
        client.tell(wire.give_back(4 << 20))
        wait_for(lambda: self.status()["vgpus"][0]["memory_used_bytes"] == used - (4 << 20), what="it")

    def test_attach_fails_when_the_creator_dies(self):
        self.start()
        first, second = self.client(), self.client()
        _, segment, _ = first.shm(wire.SHM_GET, key=3, size=2 << 20, flags=0o1600)
        second.tell(wire.shm(wire.SHM_ATTACH, ident=segment["id"], serial=8))
        self.assertEqual(second.shm(wire.SHM_STAT, ident=segment["id"])[0], 0)
        first.tell(b"die")
        self.assertEqual(wire.receive(second.peer)[2], -harness.EIDRM)


class Cache(harness.GdevdTest):
    def cache(self, client, kind, key, size=0):
        return client.ask(wire.message(kind, wire.CACHE_BODY.pack(key, size), 4))

    def test_committed_file_is_found(self):
        self.start()
        client, key = self.client(), bytes(range(16))
        self.assertEqual(self.cache(client, wire.CACHE_GET, key)[2], -harness.ENOENT)
        _, _, status, _, fds = self.cache(client, wire.CACHE_PUT, key, 5)
        self.assertEqual((status, len(fds)), (0, 1))
        os.write(fds[0], b"code!")
        self.assertEqual(self.cache(client, wire.CACHE_GET, key)[2], -harness.ENOENT)
        self.assertEqual(self.cache(client, wire.CACHE_COMMIT, key, 5)[2], 0)
        os.close(fds[0])
        _, _, status, body, fds = self.cache(self.client(), wire.CACHE_GET, key)
        self.assertEqual((status, wire.CACHE_BODY.unpack(body)[1]), (0, 5))
        self.assertEqual(os.read(fds[0], 10), b"code!")
        with self.assertRaises(OSError):
            os.write(fds[0], b"x")
        os.close(fds[0])

    def test_what_is_committed_replaces_what_there_was(self):
        self.start()
        client, key = self.client(), b"k" * 16
        for text in (b"first", b"other"):
            fds = self.cache(client, wire.CACHE_PUT, key, 5)[4]
            os.write(fds[0], text)
            self.assertEqual(self.cache(client, wire.CACHE_COMMIT, key, 5)[2], 0)
            os.close(fds[0])
        fds = self.cache(client, wire.CACHE_GET, key)[4]
        self.assertEqual(os.read(fds[0], 10), b"other")
        os.close(fds[0])

    def test_what_was_not_written_for_is_not_committed(self):
        self.start()
        self.assertEqual(self.cache(self.client(), wire.CACHE_COMMIT, b"k" * 16, 5)[2], -harness.ENOENT)

    def test_a_session_that_ends_takes_what_it_writes_with_it(self):
        self.start()
        client, key = self.client(), b"k" * 16
        fds = self.cache(client, wire.CACHE_PUT, key, 1 << 20)[4]
        os.close(fds[0])
        for _ in range(10):  # some are at work
            client.tell(wire.message(wire.CACHE_GET, wire.CACHE_BODY.pack(key, 0), 4))
        client.tell(b"die")
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.cache(self.client(), wire.CACHE_GET, key)[2], -harness.ENOENT)

    def test_open_writes_are_bounded(self):
        self.start()
        client = self.client()
        statuses = []
        for number in range(20):
            _, _, status, _, fds = self.cache(client, wire.CACHE_PUT, bytes([number] * 16), 5)
            statuses.append(status)
            for fd in fds:
                os.close(fd)
        self.assertEqual(statuses, [0] * 16 + [-harness.EAGAIN] * 4)


if __name__ == "__main__":
    harness.main()
