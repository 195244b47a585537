# SPDX-License-Identifier: MIT
"""Arrays whose memory leaves the device and comes back, under the handles that programs have: on the software GPU, and over
the driver that is made for tests, in which whatever touches an array without its memory breaks the device."""

import contextlib
import subprocess
import unittest

import integ
from integ import BUILD, PROGRAMS, SANITIZED, Gdevd

FAKE = BUILD / "tests" / "device" / "libcuda-fake.so"
MIB = 1 << 20
PINNED = 4 * MIB  # on hardware: the one of one dimension, and the cube
CONTEXT = 512 * MIB


class Program:
    def __init__(self, gdevd, mib):
        self.process = gdevd.popen([gdevd.gdev, "run", PROGRAMS / "arrays", mib], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.rounds = 0
        self.says()

    def says(self):
        return self.process.stdout.readline().strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.says()


@unittest.skipIf(SANITIZED, "workers would have to load the sanitizer first")
class Arrays(unittest.TestCase):
    wait_until = integ.Case.wait_until

    @contextlib.contextmanager
    def hardware(self, config=None, **environment):
        settings = {"device": "cuda:0", "warm_workers": "0", "host_swap": "2G", **(config or {})}
        with Gdevd(BUILD, settings, None, {"GDEV_CUDA_DRIVER": str(FAKE), **environment}) as gdevd:
            yield gdevd

    def round(self, program):
        self.assertEqual(program.ask("round"), f"round {program.rounds} wrong 0")
        program.rounds += 1

    def end(self, gdevd, programs):
        for program in programs:
            self.assertEqual(program.ask("end"), "none")
            program.process.communicate("", timeout=integ.PATIENCE)
            self.assertEqual(program.process.returncode, 0)
        self.wait_until(lambda: not gdevd.status()["sessions"] and not gdevd.status()["devices"][0]["memory_used_bytes"],
                        "all of it back")

    def session(self, gdevd, program):
        return next(s for s in gdevd.status()["sessions"] if s["pid"] == program.pid)

    def suspended(self, gdevd, program, stays):
        self.wait_until(lambda: gdevd.run([gdevd.gdev, "suspend", program.pid])[0] == 0, "it is suspended")
        self.wait_until(lambda: self.session(gdevd, program)["memory_bytes"] == stays, f"no more than {stays} bytes stay")

    def resumed(self, gdevd, program):
        self.wait_until(lambda: gdevd.run([gdevd.gdev, "resume", program.pid])[0] == 0, "it is resumed")

    def check_suspending(self, gdevd, mib, stays):
        program = Program(gdevd, mib)
        full = self.session(gdevd, program)["memory_bytes"]
        for _ in range(2):
            self.round(program)
            self.suspended(gdevd, program, stays)
            self.resumed(gdevd, program)
        self.round(program)
        self.assertGreaterEqual(self.session(gdevd, program)["memory_bytes"], full)
        self.end(gdevd, [program])

    def test_suspended(self):
        """what is in the arrays of a suspended program leaves, and is there again when it goes on"""
        with self.hardware() as gdevd:
            self.check_suspending(gdevd, 48, CONTEXT + PINNED)  # one array that is larger than any chunk

    def test_software(self):
        """on the software GPU arrays are memory"""
        with Gdevd(BUILD, {"device_memory": "256M"}, None) as gdevd:
            self.check_suspending(gdevd, 48, 0)

    def test_file(self):
        """arrays no larger than a chunk leave for the swap file, too; larger ones stay when there is no memory for them"""
        config = {"host_swap": "8M", "file_swap": "1G"}
        with self.hardware(config) as gdevd:
            self.check_suspending(gdevd, 20, CONTEXT + PINNED)
        with self.hardware(config) as gdevd:
            self.check_suspending(gdevd, 48, CONTEXT + PINNED + 48 * MIB)

    def test_refused(self):
        """a driver that maps none keeps them all, as before"""
        for fail in "cuMemMapArrayAsync:801@1+", "cuArray3DCreate:1@1,cuMipmappedArrayCreate:1@1":
            with self.hardware(FAKE_CUDA_FAIL=fail) as gdevd:
                program = Program(gdevd, 4)
                self.round(program)
                self.wait_until(lambda: gdevd.run([gdevd.gdev, "suspend", program.pid])[0] == 0, "it is suspended")
                self.resumed(gdevd, program)
                self.round(program)
                self.end(gdevd, [program])

    def test_shared_device(self):
        """two programs whose arrays the device does not hold at once take turns, and each finds its own; less is ordered to leave
        than an array has"""
        with self.hardware(FAKE_CUDA_MEMORY="1536") as gdevd:
            programs = [Program(gdevd, 250), Program(gdevd, 120)]
            for _ in range(2):
                for program in programs:
                    self.round(program)
            self.assertGreater(self.session(gdevd, programs[0])["swap_out_bytes"], 250 * MIB)
            self.end(gdevd, programs)

    def test_beside_memory(self):
        """a program with arrays and one with other memory share a device that does not hold both"""
        with self.hardware(FAKE_CUDA_MEMORY="1536") as gdevd:
            program = Program(gdevd, 250)
            other = gdevd.popen([gdevd.gdev, "run", PROGRAMS / "swap", 12, 16, 20])
            while other.poll() is None:
                self.round(program)
            self.assertEqual(other.returncode, 0)
            self.assertGreater(self.session(gdevd, program)["swap_out_bytes"], 250 * MIB)
            self.end(gdevd, [program])

    def test_own_memory(self):
        """a program whose arrays have left, and which has filled the device with other memory since, gets its arrays back"""
        with self.hardware(FAKE_CUDA_MEMORY="1536") as gdevd:
            first, second = Program(gdevd, 230), Program(gdevd, 300)
            self.wait_until(lambda: self.session(gdevd, first)["swapped_bytes"] >= 230 * MIB, "the first one's arrays have left")
            self.assertEqual(second.ask("drop"), "dropped")
            self.wait_until(lambda: self.session(gdevd, second)["memory_bytes"] < CONTEXT + 20 * MIB, "the large one is gone")
            self.assertEqual(first.ask("alloc 300"), "allocated")
            self.assertGreater(self.session(gdevd, first)["memory_bytes"], CONTEXT + 300 * MIB)
            for _ in range(2):
                self.round(first)
            self.assertGreater(self.session(gdevd, first)["mapped_bytes"], 0)
            self.end(gdevd, [first, second])


if __name__ == "__main__":
    integ.main()
