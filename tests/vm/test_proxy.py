# SPDX-License-Identifier: MIT
"""The proxy of a virtual machine, with a machine that a script plays (machine.py): no QEMU is needed."""

import ctypes
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
import guest  # noqa: E402
import machine  # noqa: E402
from machine import ALLOC, DEAD, FREE, FROM_DEVICE, QUERY, TO_DEVICE  # noqa: E402

MIB = 1 << 20
STREAM = 32
FILL = 5
STAMP, PUBLISH = 35, 57
SHM_DETACH, SHARED_EXPORT, SHARED_MAP = 50, 53, 56
MACHINE = 24  # in the header, its number
FUZZ_SECONDS = STORM_SECONDS = 60 if integ.FULL else 2


def fill_record(address, count, value):
    return struct.pack("<QQQQII", address, count, 1, count, 1, value)


def punch_hole(file, offset, size):
    """What a balloon does: the host has the memory back, and there are zeros."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(file, 3, ctypes.c_long(offset), ctypes.c_long(size)):  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
        raise OSError(ctypes.get_errno(), "fallocate")


class Case(integ.Case):
    """With a server, and a machine that has said RESET."""

    def setUp(self):
        super().setUp()
        self.server = self.enterContext(guest.Server(self.gdevd, "--memory", "64M", "--locked", "64M", "--sessions", "4"))
        self.connect()

    def connect(self):
        self.machine = machine.Machine(self.server.socket)
        self.assertEqual(self.machine.control.ask(machine.RESET)[0], 0)

    def tearDown(self):
        super().tearDown()
        # A proxy ends by itself, or is killed by a test.
        self.assertNotRegex(self.server.log(), r"by signal (?!9\b)|Sanitizer|runtime error")
        if self._outcome.result.failed_now(self):
            print(f"# the server's log:\n{integ.indent(self.server.log())}", flush=True)

    def open(self, index=0, user=0):
        slot = self.machine.slot(index)
        self.assertEqual(slot.open(user), 0)
        return slot

    def allocate(self, slot, size=4 * MIB):
        address = slot.arena
        self.assertEqual(slot.request(ALLOC, struct.pack("<QQ", address, size))[0], 0)
        return address

    def create_stream(self, slot):
        self.assertEqual(slot.request(machine.STREAM_CREATE, struct.pack("<IiII", STREAM, 0, 0, 0))[0], 0)

    def assert_alive(self, slot):
        status, reply = slot.request(QUERY, struct.pack("<IIQ", 1, 0, 0))
        self.assertEqual(status, 0)
        self.assertGreater(struct.unpack("<QQ", reply)[1], 0)

    def copied_over(self, first, second, there, here, words):
        """What the second reads as soon as the first has been told that its copy is done."""
        for slot, at, address, direction in ((first, MIB, there, TO_DEVICE), (second, 2 * MIB, here, FROM_DEVICE)):
            self.machine.ram[at:at + len(words)] = words if slot is first else bytes(len(words))
            runs = [(at, len(words))]
            self.assertEqual(slot.ask(machine.COPY, address=address, size=len(words), number=direction, runs=runs)[0], 0)
        return self.machine.ram[2 * MIB:2 * MIB + len(words)]

    def proxies(self):
        return integ.children(self.server.process.pid)


class Serving(Case):
    def test_copies_scattered_pages(self):
        """Scattered pages are copied to the device, and from there to page-locked memory, as they were"""
        slot, pages = self.open(), list(range(256, 256 + 600))
        address = self.allocate(slot)
        random.Random(1).shuffle(pages)
        data = random.Random(2).randbytes(len(pages) * 4096 - 100)
        runs, at = [], 0
        for page in pages:
            piece = data[at:at + 4096]
            self.machine.ram[page * 4096:page * 4096 + len(piece)] = piece
            runs.append((page * 4096, len(piece)))
            at += len(piece)
        self.assertEqual(slot.ask(machine.COPY, address=address, size=len(data), number=TO_DEVICE, runs=runs)[0], 0)
        there = machine.IN_STORE | machine.STORE_BASE
        self.assertEqual(slot.ask(machine.COPY, address=address, size=len(data), number=FROM_DEVICE,
                                  runs=[(there, len(data))])[0], 0)
        self.assertEqual(slot.store[machine.STORE_BASE:machine.STORE_BASE + len(data)], data)
        counts = slot.counts()
        self.assertEqual(counts["bytes"], 2 * len(data))
        if integ.SOFTWARE:  # each byte once, but for what asks for a turn
            self.assertLess(counts["bytes_copied"], 2 * len(data) * 1.2)

    def test_copies_rows(self):
        """Rows of a list go to rows of the device, whose pitch is another, wherever the list is cut"""
        slot, width, rows, pitch = self.open(), 1000, 50, 1536
        address = self.allocate(slot)
        data = random.Random(3).randbytes(width * rows)
        cuts = [0, 1, 999, 1000, 3000, 3500, 7777, width * rows]
        runs = []
        for begin, end in zip(cuts, cuts[1:]):
            at = MIB + 3 * begin
            self.machine.ram[at:at + end - begin] = data[begin:end]
            runs.append((at, end - begin))
        self.assertEqual(slot.ask(machine.COPY, address=address, size=len(data), number=TO_DEVICE, runs=runs,
                                  width=width, pitch=pitch)[0], 0)
        self.assertEqual(slot.ask(machine.COPY, address=address, size=pitch * rows, number=FROM_DEVICE,
                                  runs=[(16 * MIB, pitch * rows)])[0], 0)
        for row in range(rows):
            at = 16 * MIB + row * pitch
            self.assertEqual(self.machine.ram[at:at + width], data[row * width:(row + 1) * width])

    def test_locked_memory_is_the_workers(self):
        """Page-locked memory is where the worker has it, is zeros when it is allocated again, and is nothing else"""
        slot = self.open()
        self.create_stream(slot)
        address, body = slot.locked + 6 * MIB, 6 * MIB
        for size, at in ((2 * MIB, slot.locked), (2 * MIB, slot.arena), (2 * MIB, slot.locked - 2 * MIB), (59 * MIB, address),
                         (2**64 - 4096, address), (0, address), (4096, 2**64 - 4096), (100, address)):
            self.assertEqual(slot.ask(machine.HOST, address=at, size=size)[0], -22, (size, hex(at)))
        for _ in range(2):
            self.assertEqual(slot.ask(machine.HOST, address=address, size=4 * MIB)[0], 0)
            self.assertEqual(slot.ask(machine.HOST, address=address + 2 * MIB, size=4 * MIB)[0], -17)
            self.assertEqual(slot.store[body:body + 64], bytes(64))
            value = slot.record(FILL, STREAM, fill_record(address, 64, 7))
            machine.wait_until(lambda: slot.completed(STREAM) >= value, "the command")
            self.assertEqual(slot.store[body:body + 65], b"\7" * 64 + b"\0")
            self.assertEqual(slot.request(machine.FREE_MEMORY, struct.pack("<QQ", address, 4 * MIB))[0], 0)

    def test_compiler_says_why(self):
        """What the compiler says of a module comes to the guest"""
        slot = self.open()
        image = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k() { nonsense; }\0"
        self.machine.ram[MIB:MIB + len(image)] = image
        status, number = slot.ask(machine.IMAGE, address=len(image), size=len(image), runs=[(MIB, len(image))])
        self.assertEqual(status, 0)
        slot.request(machine.MODULE_LOAD, struct.pack("<QQQQQ", 0, len(image), 1, 4096, number))
        self.machine.ram[2 * MIB:2 * MIB + 8192] = b"x" * 8192
        self.assertEqual(slot.ask(machine.LOG, size=8192, runs=[(2 * MIB, 8192)])[0], 0)
        said = self.machine.ram[2 * MIB:2 * MIB + 8192].rstrip(b"\0")
        self.assertIn(b"nonsense", said)
        self.assertNotIn(b"xx", said)

    def test_burst_rings_nobody(self):
        """A thousand commands in a burst need no more doorbells than one"""
        slot = self.open()
        address = self.allocate(slot)
        self.create_stream(slot)
        rung = []
        # Where other programs keep the processors this one pauses in a burst, and the proxy rests: the best of five.
        for burst in range(1, 6):
            before = slot.counts()["doorbells"]
            for i in range(1000):
                value = slot.record(FILL, STREAM, fill_record(address, 64, i % 256))
            machine.wait_until(lambda: slot.completed(STREAM) >= value, "the last command")
            machine.wait_until(
                lambda: slot.counts()["records"] == 1000 * burst + 2, "counts, which the proxy writes when it rests")
            rung.append(slot.counts()["doorbells"] - before)
        self.assertLess(min(rung), 100)

    def test_each_failure(self):
        """Each command of a stream that fails is counted where the guest looks, not the first alone"""
        slot = self.open()
        self.create_stream(slot)
        for count in (1, 2):
            value = slot.record(FILL, STREAM, fill_record(4096, 64, 1))
            machine.wait_until(lambda: slot.completed(STREAM) >= value, "the command")
            error, failures = struct.unpack("<iI", struct.pack(
                "<Q", slot.memory.get(slot.segment + machine.TIMELINES + 64 * STREAM + 16)))
            self.assertLess(error, 0)
            self.assertEqual(failures, count)

    def test_wait_is_one_interrupt(self):
        """A value that the guest wants is one interrupt, and nobody is interrupted who wants none"""
        slot = self.open()
        address = self.allocate(slot)
        self.create_stream(slot)
        want, ring = slot.segment + machine.TIMELINES + 64 * STREAM + 8, self.machine.rings[slot.vector]
        for count in (0, 1):
            if count:
                self.machine.shared.put(want, slot.values[STREAM] + 20)
            for _ in range(30):
                value = slot.record(FILL, STREAM, fill_record(address, 64, 1))
            machine.wait_until(lambda: slot.completed(STREAM) >= value, "the last command")
            rung = 0
            while rung < count:
                self.assertEqual(select.select([ring], [], [], integ.PATIENCE)[0], [ring])
                rung += self.machine.interrupts(slot.vector)
            time.sleep(0.1)
            self.assertEqual(rung + self.machine.interrupts(slot.vector), count)

    def test_not_for_guests(self):
        """A request that is not for guests is refused with ENOTSUP, and the session goes on"""
        slot = self.open()
        self.assertEqual(slot.request(machine.CHECK, bytes(24))[0], -95)
        self.assert_alive(slot)

    def test_memory_is_shared_by_one_user(self):
        """Memory that a process has handed out is opened by another one of the same user in the guest, and by nobody else"""
        first, second, other = self.open(0, 7), self.open(1, 7), self.open(2, 8)
        address = self.allocate(first)
        status, reply = first.request(SHARED_EXPORT, struct.pack("<IIQQ16x", 0, 0, address, 0))
        number, size, token = struct.unpack("<I4xQ16s", reply)
        self.assertEqual((status, size), (0, 4 * MIB))

        def open_in(slot):
            return slot.request(SHARED_MAP, struct.pack("<IIQQ16s", number, 0, slot.arena, 0, token))[0]

        self.assertLess(open_in(second), 0)  # not handed out yet
        self.assertEqual(first.request(PUBLISH, struct.pack("<IIQQ16s", number, 0, 0, 0, token))[1], reply)
        self.assertLess(open_in(other), 0)
        self.assertEqual(open_in(second), 0)
        self.assertEqual(self.copied_over(first, second, address, second.arena, b"words"), b"words")

    def test_token_of_memory_that_is_gone(self):
        """A token in an answer is the user's, also when the memory has been detached before the answer is there"""
        slot, header = self.open(0, 7), struct.Struct("<HBBIIIQ")
        _, reply = slot.request(SHARED_EXPORT, struct.pack("<IIQQ16x", 0, 0, self.allocate(slot), 0))
        number, token = struct.unpack("<I12x16s", reply)
        there = slot.arena + 64 * MIB
        slot.raw(header.pack(SHARED_MAP, 0, 0, 64, 0, 0, 3) + struct.pack("<IIQQ16s", number, 0, there, 0, token)
                 + header.pack(SHM_DETACH, 0, 0, 56, 1, 0, 1) + struct.pack("<IIQQII", 0, 0, there, 0, 0, 0))
        machine.wait_until(lambda: slot.completed(0) == 3 and slot.completed(1), "answers")
        status, reply = slot.reply(0)
        self.assertEqual((status, reply[16:]), (0, token))

    def test_nice_is_the_guests(self):
        """The session ranks as its process does in the guest, but never before the server's own value"""
        slot, least = self.open(), os.getpriority(os.PRIO_PROCESS, 0)
        address = self.allocate(slot)
        self.create_stream(slot)

        def ranks_at(nice):  # gdevd looks at who uses the device
            slot.record(FILL, STREAM, fill_record(address, 64, 1))
            return self.gdevd.status()["sessions"][0]["nice"] == nice

        for said, expected in ((15, max(15, least)), (1 << 30, 19), (-20, least)):
            slot.memory.put(slot.at + machine.NICE, said, "i")
            self.machine.ring(slot.vector)
            self.wait_until(lambda: ranks_at(expected), f"nice value {expected}")

    def test_images_are_bounded(self):
        """Of images that are not whole a machine has a gigabyte in all, which comes back when their sessions end"""
        first, second = self.open(0), self.open(1)

        def begin(slot, size):
            return slot.ask(machine.IMAGE, address=size, size=4096, runs=[(MIB, 4096)])[0]

        self.assertEqual(begin(first, 600 * MIB), 0)
        self.assertEqual(begin(second, 600 * MIB), -12)
        self.assertEqual(begin(second, 400 * MIB), 0)
        self.assertEqual(begin(second, 2 << 30), -27)
        first.close()
        self.assertEqual(begin(second, 600 * MIB), 0)

    def test_probe_reads_the_guests_memory(self):
        """The module's question where its pages are is answered from the machine's memory alone"""
        self.machine.ram[5 * MIB:5 * MIB + 8] = struct.pack("<Q", 0x1122334455667788)
        self.assertEqual(self.machine.control.ask(machine.PROBE, address=5 * MIB), (0, 0x1122334455667788))
        for beyond in (64 * MIB - 4, 64 * MIB, 1 << 32, 1 << 62, 2**64 - 8):
            self.assertNotEqual(self.machine.control.ask(machine.PROBE, address=beyond)[0], 0)


class Ends(Case):
    def test_slot_comes_back(self):
        """A slot that was closed is free, and zeros, and gdevd has no session of it"""
        for _ in range(5):
            slot = self.open()
            self.allocate(slot)
            slot.close()
            self.assertEqual(bytes(self.machine.shared.view[slot.segment:slot.segment + 4096]), bytes(4096))
        self.wait_quiet()

    def test_store_is_of_one_session(self):
        """A slot whose worker still has its store is not another session's, whatever the guest says"""
        slot = self.open()
        self.allocate(slot)
        self.assertEqual(slot.ask(machine.HOST, address=slot.locked + 2 * MIB, size=2 * MIB)[0], 0)
        slot.store[machine.STORE_BASE:machine.STORE_BASE + 5] = b"words"
        worker = self.gdevd.status()["sessions"][0]["worker_pid"]
        self.stop(worker)
        self.stop(self.gdevd.process.pid)  # which would kill the worker
        try:
            slot.memory.put(slot.at + 12, 1, "I")
            self.machine.ring(0)
            self.wait_until(lambda: not self.proxies(), "the proxy has ended")
            time.sleep(0.05)
            self.assertNotEqual(slot.state(), FREE)
            slot.memory.put(slot.at, FREE, "I")
            slot.memory.put(slot.at + 12, 0, "I")
            slot.posted = 0
            slot.memory.put(slot.at + 24, 0)
            slot.post(machine.OPEN)
            time.sleep(0.05)
            self.assertEqual(self.proxies(), [])
        finally:
            os.kill(self.gdevd.process.pid, signal.SIGCONT)
            os.kill(worker, signal.SIGCONT)
        machine.wait_until(lambda: slot.memory.get(slot.at + 16) == 0 and slot.state() == FREE, "a free slot")
        slot.posted = 0
        self.assertEqual(slot.open(), 0)
        self.assertEqual(slot.store[machine.STORE_BASE:machine.STORE_BASE + 5], bytes(5))

    def test_last_slot_waits(self):
        """The last of as many slots as there can be waits for its store, too, and comes back"""
        with guest.Server(self.gdevd, "--memory", "64M", "--locked", "4M", "--sessions", "64", name="many") as server:
            many = machine.Machine(server.socket)
            with many.store_held(63):
                many.control.post(machine.RESET)
                time.sleep(0.1)
                self.assertFalse(many.control.answered())
            machine.wait_until(many.control.answered, "an answer")
            many.close()

    def test_proxy_is_killed(self):
        """A proxy that is killed ends its session alone: the guest is told, and the slot comes back"""
        slots = [self.open(0), self.open(1)]
        first = next(pid for pid in self.proxies() if Path(f"/proc/{pid}/comm").read_text().strip() == "gdev-vm:0")
        self.machine.interrupts(1)
        os.kill(first, signal.SIGKILL)
        machine.wait_until(lambda: slots[0].state() == DEAD, "the guest is told")
        machine.wait_until(lambda: self.machine.interrupts(1), "an interrupt")
        self.assert_alive(slots[1])
        slots[0].close()
        self.assert_alive(self.open(0))

    def test_worker_is_killed(self):
        """A worker that is killed ends its session alone: the guest finds the error"""
        slots = [self.open(0), self.open(1)]
        worker = min(self.gdevd.status()["sessions"], key=lambda session: session["session"])["worker_pid"]
        os.kill(worker, signal.SIGKILL)
        machine.wait_until(lambda: DEAD in (slots[0].state(), slots[1].state()), "the guest is told")
        dead, alive = sorted(slots, key=lambda slot: slot.state() != DEAD)
        self.assertLess(dead.error(), 0)
        self.assert_alive(alive)

    def test_store_is_kept(self):
        """A store that a worker does not let go of costs the guest a session, and the log says so; module and next machine go on"""
        control, store = self.machine.control, self.machine.stores[1]
        words = slice(machine.STORE_BASE, machine.STORE_BASE + 5)
        store[words] = b"words"
        with self.machine.store_held(1):
            before = self.machine.shared.get(MACHINE)
            control.post(machine.RESET)
            time.sleep(1)
            self.assertFalse(control.answered())
            machine.wait_until(control.answered, "an answer")
            self.assertIn("session 1: its worker does not end", self.server.log())
            now = self.machine.shared.get(MACHINE)
            self.assertNotEqual(now, before)
            self.assertEqual([struct.unpack_from("<8xQ", each)[0] for each in self.machine.stores], [now, 0, now, now])
            self.assertEqual(store[words], bytes(5))
            store[words] = b"words"
            self.assert_alive(self.open(0))
            kept = self.machine.slot(1)
            self.assertNotEqual(kept.state(), FREE)
            kept.memory.put(kept.at, FREE, "I")  # whatever the guest believes
            kept.post(machine.OPEN)
            time.sleep(0.3)
            self.assertFalse(kept.answered())
            self.machine.close()
            self.connect()
            self.assertNotEqual(self.machine.slot(1).state(), FREE)
            self.assertEqual(self.machine.stores[1][words], bytes(5))
        time.sleep(1.5)
        self.assertNotEqual(self.machine.slot(1).state(), FREE)  # its module has not found the store
        self.assertEqual(self.machine.control.ask(machine.RESET)[0], 0)
        self.assertEqual(struct.unpack_from("<8xQ", store)[0], self.machine.shared.get(MACHINE))
        self.assert_alive(self.open(1))

    def test_machine_goes(self):
        """When QEMU goes its sessions end, and the next machine finds nothing of it"""
        slot = self.open()
        self.allocate(slot)
        self.machine.ram[MIB:MIB + 5] = b"words"
        slot.store[machine.STORE_BASE:machine.STORE_BASE + 5] = b"words"
        self.machine.close()
        self.wait_quiet()
        self.connect()
        self.assertEqual(bytes(self.machine.ram[MIB:MIB + 5]), bytes(5))
        slot = self.open()
        self.assertEqual(slot.store[machine.STORE_BASE:machine.STORE_BASE + 5], bytes(5))
        self.assert_alive(slot)

    def test_machine_comes_early(self):
        """A machine is greeted when nobody has the stores of the one before any more, and finds nothing in them"""
        store = self.machine.stores[1]
        store[machine.STORE_BASE:machine.STORE_BASE + 5] = b"words"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as early:
            with self.machine.store_held(1):
                self.machine.close()
                early.connect(str(self.server.socket))
                self.assertEqual(select.select([early], [], [], 0.2)[0], [])
            self.assertEqual(select.select([early], [], [], integ.PATIENCE)[0], [early])
            self.assertEqual(store[machine.STORE_BASE:machine.STORE_BASE + 5], bytes(5))
        self.connect()
        self.assert_alive(self.open())

    def test_machine_scribbles_into_the_header(self):
        """What a machine writes into the device's header is not the next one's"""
        size = machine.HEADER_MAILBOX
        before = bytes(self.machine.shared.view[:size])
        self.machine.shared.view[:size] = b"\xff" * size
        self.machine.close()
        self.wait_quiet()
        self.connect()
        self.assertEqual(bytes(self.machine.shared.view[:size]), before)

    def test_second_server(self):
        """A second server at the same place says so, and leaves what the first has written"""
        arguments = self.server.arguments()
        code, _, err = self.gdevd.run([self.gdevd.gdev, "vm", "serve", "--socket", self.server.socket])
        self.assertNotEqual(code, 0)
        self.assertIn("gdev vm serve", err)
        self.assertEqual(self.server.arguments(), arguments)
        self.assertTrue(self.server.socket.with_suffix(".ram").exists())

    def test_arguments_are_for_any_folder(self):
        """What serve was given as a path from its folder, QEMU gets as one from any"""
        given = Path("..") / self.gdevd.directory.name / "near"
        server = subprocess.Popen([self.gdevd.gdev, "vm", "serve", f"--socket={given}", "--memory", "64M"], cwd=self.gdevd.directory,
                                  env=self.gdevd.environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            near = self.gdevd.directory / "near"
            self.wait_until(near.exists, "the server listens")
            code, out, err = self.gdevd.run([self.gdevd.gdev, "vm", "args", f"--socket={near}"])
            self.assertEqual(code, 0, err)
            for path in re.search(r"mem-path=(.*?),share", out)[1], re.search(r"socket,id=gdev,path=(.*)", out)[1]:
                self.assertTrue(Path(path).is_absolute() and Path(path).exists(), out)
        finally:
            server.terminate()
            server.wait(integ.PATIENCE)
        self.assertFalse(Path(f"{near}.args").exists())

    def test_freed_before_the_answer(self):
        """Memory that is freed before its allocation is answered cannot be copied to"""
        slot, header = self.open(), struct.Struct("<HBBIIIQ")
        for _ in range(50):
            records = []
            for opcode, line in ((ALLOC, 0), (machine.FREE_MEMORY, 1)):
                value = slot.values[line] = slot.values.get(line, 0) + 1
                records.append(header.pack(opcode, 0, 0, 40, line, 0, value) + struct.pack("<QQ", slot.arena, 4 * MIB))
            slot.raw(b"".join(records))
            machine.wait_until(lambda: all(slot.completed(line) >= slot.values[line] for line in (0, 1)), "answers")
            status, _ = slot.ask(machine.COPY, address=slot.arena, size=4096, number=TO_DEVICE, runs=[(4096, 4096)])
            self.assertEqual(status, -22)

    def test_server_is_killed(self):
        """A server that is killed leaves no proxy behind"""
        self.open()
        proxies = self.proxies()
        self.server.process.kill()
        self.wait_until(lambda: not any(map(integ.alive, proxies)), "proxies have ended")
        self.wait_quiet()

    def test_gdevd_is_killed(self):
        """A gdevd that is killed and started again: sessions go on, and new ones begin"""
        slot = self.open(0)
        self.gdevd.process.kill()
        self.gdevd.process.wait()
        address = self.allocate_when_back(slot)
        self.assertEqual(slot.ask(machine.COPY, address=address, size=4096, number=TO_DEVICE, runs=[(4096, 4096)])[0], 0)
        self.assert_alive(self.open(1))

    def allocate_when_back(self, slot):
        """The worker asks gdevd for memory, and is answered by the next one."""
        value = slot.record(ALLOC, 0, struct.pack("<QQ", slot.arena, 4 * MIB))
        self.gdevd.start()
        machine.wait_until(lambda: slot.completed(0) >= value, "an answer")
        return slot.arena if slot.reply(0)[0] == 0 else self.allocate(slot)

    def test_storm(self):
        """Proxies, workers and whole machines are killed at random, and what is left is served"""
        chance = random.Random(5)
        end = time.monotonic() + STORM_SECONDS
        while time.monotonic() < end:
            for index in range(4):
                slot = self.machine.slot(index)
                if slot.state() == DEAD:
                    slot.close()
                if slot.state() == FREE and slot.open() == 0:
                    self.create_stream(slot)
                    slot.record(FILL, STREAM, fill_record(self.allocate(slot), 64, 1))
            what = chance.randrange(8)
            if what == 0:
                self.machine.close()
                self.connect()
            elif what < 5:
                self.kill_one(chance, self.proxies())
            else:
                self.kill_one(chance, [s["worker_pid"] for s in self.gdevd.status()["sessions"]])
            time.sleep(chance.random() * 0.05)
        self.machine.close()
        self.wait_quiet()
        self.connect()
        self.assert_alive(self.open())

    def kill_one(self, chance, pids):
        if pids:
            try:
                os.kill(chance.choice(pids), signal.SIGKILL)
            except ProcessLookupError:
                pass


def bad_runs(case, slot):
    """Requests that name what is not theirs: each a function."""
    address = case.allocate(slot)
    ram = 64 * MIB

    def copy(runs, size=None, entries=0, number=TO_DEVICE, device=address):
        size = sum(length for _, length in runs) if size is None else size
        return lambda: slot.ask(machine.COPY, entries=entries, address=device, size=size % 2**64, number=number, runs=runs)

    return {
        "beyond the RAM": copy([(ram - 4096, 8192)]),
        "between RAM and 4 GiB": copy([(ram, 4096)]),
        "above 4 GiB, where there is none": copy([(1 << 32, 4096)]),
        "a length that wraps": copy([(4096, 2**64 - 4096)]),
        "an empty run": copy([(4096, 0)]),
        "no run": copy([]),
        "more entries than there are": copy([(4096, 4096)], entries=4097),
        "another size than the list's": copy([(4096, 4096)], size=8192),
        "the store's header": copy([(machine.IN_STORE, 4096)]),
        "the end of the store's header": copy([(machine.IN_STORE | (machine.STORE_BASE - 1), 4096)]),
        "the store beyond its end": copy([(machine.IN_STORE | (64 * MIB - 4096), 8192)]),
        "no direction": copy([(4096, 4096)], number=7),
        "rows of no width": lambda: slot.ask(machine.COPY, address=address, size=4096, runs=[(4096, 4096)], width=0),
        "no whole rows": lambda: slot.ask(machine.COPY, address=address, size=4096, runs=[(4096, 4096)], width=100),
        "a log that is too long": lambda: slot.ask(machine.LOG, size=2 * 65536, runs=[(MIB, 2 * 65536)]),
        "an operation that is none": lambda: slot.ask(99, runs=[(4096, 4096)]),
    }


def bad_records(slot):
    """The same of records."""
    header = struct.Struct("<HBBIIIQ")
    query = struct.pack("<IIQ", 1, 0, 0)

    def put(tail):
        def publish():
            slot.tail = tail
            slot.publish()
        return publish

    return {
        "a length of 0": lambda: slot.raw(header.pack(QUERY, 0, 0, 0, 0, 0, 1)),
        "a length that is no multiple of 8": lambda: slot.raw(header.pack(QUERY, 0, 0, 41, 0, 0, 1) + bytes(24)),
        "a length beyond the tail": lambda: slot.raw(header.pack(QUERY, 0, 0, 64, 0, 0, 1) + bytes(16)),
        "shorter than its fixed part": lambda: slot.record(QUERY, 0, b""),
        "a reply slot of the proxy's": lambda: slot.record(QUERY, 28, query),
        "the stream of the proxy": lambda: slot.record(FILL, 4095, fill_record(slot.arena, 8, 0)),
        "a timeline that is none": lambda: slot.record(QUERY, 5000, query),
        "a stream's command in a reply slot": lambda: slot.record(FILL, 3, fill_record(slot.arena, 8, 0)),
        "a value of before": lambda: slot.record(QUERY, 0, query, value=0),
        "two requests in a reply slot": lambda: (slot.raw(header.pack(QUERY, 0, 0, 40, 0, 0, 1) + query, wait=True),
                                                 slot.raw(header.pack(QUERY, 0, 0, 40, 0, 0, 2) + query)),
        "an opcode that is none": lambda: slot.record(99, 0, query),
        "a stream of the proxy's in the record":
            lambda: slot.record(machine.STREAM_CREATE, 0, struct.pack("<IiII", 4095, 0, 0, 0)),
        "a stamp beyond the last": lambda: slot.record(STAMP, STREAM, struct.pack("<II", 20000, 0)),
        "a tail far ahead": put(1 << 40),
        "a tail that is no multiple of 8": put(4),
    }


class Machines(integ.Case):
    """Two machines, each with its own virtual GPU."""

    def setUp(self):
        self.context = integ.context_bytes()
        self.vgpus = {"gdev0": {}, "train": {"memory": 256 * MIB + self.context}}
        super().setUp()

    def test_two_machines(self):
        """Each of two machines has its virtual GPU, and neither sees the other's sessions or memory"""
        sizes = ("--memory", "64M", "--locked", "64M", "--sessions", "2")
        with guest.Server(self.gdevd, *sizes, name="first") as first, \
                guest.Server(self.gdevd, "--vgpu", "train", *sizes, name="second") as second:
            machines = [machine.Machine(server.socket) for server in (first, second)]
            slots = []
            for one in machines:
                self.assertEqual(one.control.ask(machine.RESET)[0], 0)
                slots.append(one.slot(0))
                self.assertEqual(slots[-1].open(), 0)
            machines[0].ram[4096:4101] = b"words"
            self.assertEqual(bytes(machines[1].ram[4096:4101]), bytes(5))
            totals = [struct.unpack("<QQ", slot.request(QUERY, struct.pack("<IIQ", 1, 0, 0))[1])[1] for slot in slots]
            self.assertEqual(totals, [self.gdevd.status()["devices"][0]["memory_bytes"], 256 * MIB + self.context])
            self.assertEqual(sorted(s["vgpu"] for s in self.gdevd.status()["sessions"]), ["gdev0", "train"])
            machines[0].close()
            self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == 1, "the first machine's session ends")
            self.assertEqual(slots[1].request(QUERY, struct.pack("<IIQ", 1, 0, 0))[0], 0)
            machines[1].close()

    def test_memory_is_oversubscribed(self):
        """Two machines use more memory than the device has, and keep what is in it; the limit of one is changed while it runs"""
        sizes, words = ("--memory", "64M", "--locked", "64M", "--sessions", "2"), {}
        set_memory = [self.gdevd.gdev, "vgpu", "set", "train", "--memory"]
        with guest.Server(self.gdevd, *sizes, name="first") as first, \
                guest.Server(self.gdevd, "--vgpu", "train", *sizes, name="second") as second:
            machines = [machine.Machine(server.socket) for server in (first, second)]

            def allocate(one, size):
                return one.request(ALLOC, struct.pack("<QQ", one.arena, size))[0]

            def used():
                vgpu = next(v for v in self.gdevd.status()["vgpus"] if v["vgpu"] == "train")
                return vgpu["memory_used_bytes"] - self.context

            def copy(number, one, direction):
                for i in range(8):
                    at, runs = one.arena + 64 * MIB * i, [(MIB + 4096 * i, 4096)]
                    if direction == TO_DEVICE:
                        words[number, i] = bytes([16 * number + i + 1]) * 4096
                        one.machine.ram[MIB + 4096 * i:MIB + 4096 * (i + 1)] = words[number, i]
                    self.assertEqual(one.ask(machine.COPY, address=at, size=4096, number=direction, runs=runs)[0], 0)
                    self.assertEqual(one.machine.ram[MIB + 4096 * i:MIB + 4096 * (i + 1)], words[number, i])

            slots = [one.slot(0) for one in machines]
            for one, slot in zip(machines, slots):
                self.assertEqual(one.control.ask(machine.RESET)[0], 0)
                self.assertEqual(slot.open(), 0)
            self.assertEqual(allocate(slots[0], 768 * MIB), 0)
            copy(0, slots[0], TO_DEVICE)
            self.assertEqual(allocate(slots[1], 512 * MIB), 0)
            copy(1, slots[1], TO_DEVICE)
            for _ in range(4):
                self.assertLessEqual(used(), 256 * MIB)
                self.assertEqual(self.gdevd.run([*set_memory, 128 * MIB + self.context])[0], 0)
                self.wait_until(lambda: used() <= 128 * MIB, "what is too much leaves")
                self.assertEqual(self.gdevd.run([*set_memory, 256 * MIB + self.context])[0], 0)
                copy(1, slots[1], TO_DEVICE)
            for number in (0, 1):
                machines[number].ram[MIB:MIB + 8 * 4096] = bytes(8 * 4096)
                copy(number, slots[number], FROM_DEVICE)
            self.assertGreaterEqual(self.gdevd.status()["devices"][0]["swap_used_bytes"], 256 * MIB)
            for one in machines:
                one.close()


class Hostile(Case):
    def test_bad_requests(self):
        """A request for memory that is not the guest's ends its session, and no other"""
        self.each_ends_its_session(lambda slot: bad_runs(self, slot))

    def test_bad_records(self):
        """A record that is broken, or on a timeline that is not the guest's, ends its session, and no other"""
        self.each_ends_its_session(bad_records)

    def each_ends_its_session(self, cases):
        other = self.open(3)
        names = cases(self.open(0)).keys()
        self.machine.slot(0).close()
        for name in names:
            with self.subTest(name):
                slot = self.open(0)
                cases(slot)[name]()
                machine.wait_until(lambda: slot.state() == DEAD, f"{name}: the end of the session")
                self.assertLess(slot.error(), 0)
                self.assert_alive(other)
                slot.close()

    def test_device_memory_of_nobody(self):
        """A copy to device memory that the session does not have fails, and the session goes on"""
        slot = self.open()
        for address in (0, slot.arena, slot.arena + (1 << 45), 2**64 - 4096):
            status, _ = slot.ask(machine.COPY, address=address, size=4096, number=TO_DEVICE, runs=[(4096, 4096)])
            self.assertEqual(status, -22)
        self.assert_alive(slot)

    def test_pages_unpinned_early(self):
        """Pages that a guest takes back during a copy, or gives back to the host, change what it has in them, and nothing else"""
        other, slot, pages = self.open(3), self.open(), range(1024, 1024 + 2 * 1024, 2)
        address, size = self.allocate(slot), len(pages) * 4096
        runs = [(page * 4096, 4096) for page in pages]
        kept = b"another session's" * 1000
        other.store[machine.STORE_BASE:machine.STORE_BASE + len(kept)] = kept
        ram = os.open(f"{self.server.socket}.ram", os.O_RDWR)
        self.addCleanup(os.close, ram)
        for direction in (TO_DEVICE, FROM_DEVICE) * 8:
            for page in range(pages[0] - 1, pages[-1] + 2):
                self.machine.ram[page * 4096:page * 4096 + 4096] = b"\xa5" * 4096 if page % 2 else b"\x01" * 4096
            slot.post(machine.COPY, address=address, size=size, number=direction, runs=runs)
            for page in pages[::-1]:
                what = page // 2 % 3
                if what == 0:
                    self.machine.ram[page * 4096:page * 4096 + 4096] = b"\x02" * 4096
                elif what == 1:  # the list, which the proxy has copied, or reads now: of this guest it is in either case
                    slot.memory.store(slot.at + machine.LIST + 16 * (page % 1000), (page + 4096) * 4096 % (32 * MIB))
                else:
                    punch_hole(ram, page * 4096, 4096)
            machine.wait_until(lambda: slot.answered() or slot.state() == DEAD, "an answer")
            self.assertEqual(slot.memory.get(slot.at + 80, "i"), 0)
            for page in pages:
                self.assertEqual(self.machine.ram[(page + 1) * 4096:(page + 2) * 4096], b"\xa5" * 4096)
            self.assert_alive(slot)
        self.assertEqual(other.store[machine.STORE_BASE:machine.STORE_BASE + len(kept)], kept)
        self.assert_alive(other)

    def test_doorbells_without_end(self):
        """Beside a guest's process that rings all the time, requests to open and close among them, another one's copies are right"""
        storming, slot = threading.Event(), self.open(1)
        address = self.allocate(slot)

        def storm():
            while not storming.is_set():
                for vector in range(5):
                    self.machine.ring(vector)

        self.open(0)
        thread = threading.Thread(target=storm)
        thread.start()
        try:
            for i in range(200):
                words = struct.pack("<I", i) * 1024
                self.machine.ram[MIB:MIB + 4096] = words
                for direction, at in ((TO_DEVICE, MIB), (FROM_DEVICE, 2 * MIB)):
                    self.assertEqual(slot.ask(machine.COPY, address=address, size=4096, number=direction, runs=[(at, 4096)])[0], 0)
                self.assertEqual(self.machine.ram[2 * MIB:2 * MIB + 4096], words)
            self.open(2).close()
        finally:
            storming.set()
            thread.join()
        self.assert_alive(slot)

    def test_scribbling(self):
        """Whatever the guest scribbles into all that it shares, the server lives, and a new machine is served"""
        chance = random.Random(7 if not integ.FULL else time.time())
        end = time.monotonic() + FUZZ_SECONDS
        while time.monotonic() < end:
            slot = self.revive(chance.randrange(4))
            for _ in range(chance.randrange(200)):
                self.scribble(chance, slot)
            self.machine.ring(chance.randrange(5))
            time.sleep(0.002)
            self.assertIsNone(self.server.process.poll())
        self.machine.close()
        self.wait_quiet()
        self.connect()
        self.assert_alive(self.open())

    def revive(self, index):
        """The slot with a session, if that is to be had soon."""
        slot = self.machine.slot(index)
        if slot.state() != FREE:
            slot.memory.put(slot.at + 12, 1, "I")
            self.machine.ring(0)
        end = time.monotonic() + 1
        while slot.state() != FREE and time.monotonic() < end:
            time.sleep(0.001)
        slot.posted = 0
        slot.post(machine.OPEN)
        while not slot.answered() and time.monotonic() < end:
            time.sleep(0.001)
        slot.arena = slot.memory.get(slot.at + 112) + (256 << 20)
        slot.locked = slot.memory.get(slot.at + 112) + slot.memory.get(slot.at + 128)
        return slot

    def scribble(self, chance, slot):
        memory, what = self.machine.shared, chance.randrange(6)
        value = chance.choice([0, 1, 8, 40, 4096, 1 << 20, 1 << 31, 1 << 63, 2**64 - 1, chance.randrange(2**64)])
        if what == 0:  # what the protocol has, or close to it
            memory.put(slot.at + 8 * chance.randrange(12), value)
        elif what == 1:
            memory.put(slot.segment + 64 * chance.randrange(12) + 8 * chance.randrange(2), value)
        elif what == 2:
            memory.put(slot.segment + machine.RING + 8 * chance.randrange(512), value)
        elif what == 3:  # a record that could be one
            slot.record(chance.choice([1, 2, 3, 4, 5, 6, 7, 8, 16, 18, 20, 22, 24, 25, 32, 33, 34, 35, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 64, 65]),
                        chance.choice([0, 1, 27, 32, 33, 40]), chance.randbytes(8 * chance.randrange(12)))
        elif what == 4:
            slot.post(chance.choice([machine.COPY, machine.IMAGE, machine.HOST]), size=4096, number=chance.randrange(2),
                      address=chance.choice([slot.arena, slot.locked + (2 << 20)]), runs=[(4096, 4096)])
        else:
            memory.put(machine.HEADER_MAILBOX + 8 * chance.randrange(12), value)


if __name__ == "__main__":
    integ.main()
