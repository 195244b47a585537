# SPDX-License-Identifier: MIT
"""Managed memory that the process and the device have in turn; the cases are in managed.c. On the software GPU, whose kernels
are real, or on hardware; and over the driver made for tests, whose memory the process cannot reach."""

import unittest

import integ
from integ import BUILD, DEVICE, PROGRAMS, SANITIZED, SOFTWARE, Gdevd

FAKE = BUILD / "tests" / "device" / "libcuda-fake.so"


class Managed(integ.Case):
    def managed(self, case, error=""):
        code, out, err = self.gdev_run(PROGRAMS / "managed", case, timeout=120)
        self.assertEqual(code, 0, f"{DEVICE}: {out}{err}")
        if not SANITIZED and SOFTWARE:  # workers would have to load the sanitizer first
            self.over_fake(case, error)

    def over_fake(self, case, error="", **environment):
        gdevd = self.enterContext(Gdevd(BUILD, {"device": "cuda:0"}, None, {"GDEV_CUDA_DRIVER": str(FAKE), **environment}))
        code, out, err = gdevd.run([gdevd.gdev, "run", PROGRAMS / "managed", case], 120, {"GDEV_LOG": "error"})
        self.assertEqual(code, 0, f"driver made for tests: {out}{err}")
        self.assertIn(error, err)

    def test_turns(self):
        """Each side finds what the other has written, and only that is copied"""
        self.managed("turns")

    @unittest.skipIf(SANITIZED, "workers would have to load the sanitizer first")
    def test_large(self):
        """The process has it in large pages where the kernel has some, and it is right without"""
        self.over_fake("large") if SOFTWARE else self.managed("large")

    def test_ahead(self):
        """What is copied ahead of its touch is not older than what kernels and the process have written"""
        self.managed("ahead")

    def test_fresh(self):
        """New memory is zeros to both sides, small pieces share a page, and freed ones harm no others"""
        self.managed("fresh")

    def test_waits(self):
        """A touch while a kernel runs waits for it; one of memory that is newer than the kernel does not"""
        self.managed("waits")

    def test_deadlock(self):
        """A touch that the kernel waits for is handed on as a fault, and the log says so"""
        self.managed("deadlock", "came to no end")

    def test_handlers(self):
        """Other faults go to the program's handlers, set before ours or later, also to those that pass on to ours"""
        self.managed("handlers")

    @unittest.skipIf(SANITIZED, "the sanitizer takes the signal, and ends the program itself")
    def test_dies(self):
        """A program without a handler dies of a fault, of a signal, and of a touch after a fork"""
        self.managed("dies")

    def test_calls(self):
        """System calls on pages of the device fail with EFAULT, and work on pages that were opened"""
        self.managed("calls")

    @unittest.skipIf(SANITIZED, "such a build has no libgdev-io.so")
    def test_run(self):
        """Under gdev run the calls of the C library that read and write the program's memory open it first"""
        self.managed("run")

    @unittest.skipIf(SANITIZED, "such a build has no libgdev-io.so")
    def test_signals(self):
        """Under gdev run handlers of signals write, whatever they interrupt"""
        self.managed("signals")

    def test_functions(self):
        """What a host function touches is on the device for what was sent before it ran"""
        self.managed("functions")

    def test_commands(self):
        """Copies and fills of what the process has written, and parameters in managed memory"""
        self.managed("commands")

    def test_threads(self):
        """Threads that touch a page while others launch lose nothing"""
        self.managed("threads")

    def test_stacks(self):
        """A small alternate stack is enough for a touch; after an error touches go on"""
        self.managed("stacks")

    @unittest.skipIf(SANITIZED or not SOFTWARE, "the driver made for tests fails on demand")
    def test_lost(self):
        """A page whose copy back has failed is not opened"""
        self.over_fake("lost", FAKE_CUDA_FAIL="cuMemcpyAsync:2@1")


if __name__ == "__main__":
    integ.main()
