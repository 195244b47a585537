# SPDX-License-Identifier: MIT
"""Contexts of idle programs are given back, and had again: nothing that a program can see is different. On the software
GPU, which counts some memory for a context, and over the driver that is made for tests; or on a GPU."""

import os
import signal
import subprocess
import time
import unittest

import integ
from idle import Idle
from integ import BUILD, SANITIZED, SOFTWARE, Gdevd

FAKE = BUILD / "tests" / "device" / "libcuda-fake.so"
CONTEXT = 32 << 20  # of the software GPU
SOON = "300ms"
MANY = 64


class Retire(Idle):
    config = {"retire_after": SOON, "host_swap": "2G", "warm_workers": "1",
              **({"device_memory": "512M", "context_memory": CONTEXT} if SOFTWARE else {})}

    def wait_context(self, process, state):
        self.wait_until(lambda: self.session(process)["context"] == state, f"the context is {state}")

    def wait_retired(self, process):
        self.wait_context(process, "retired")
        self.wait_until(lambda: not self.session(process)["memory_bytes"], "its memory is returned")

    def restart(self, **config):
        self.gdevd.stop()
        self.gdevd.config = {**self.config, **config}
        self.gdevd.write_config()
        self.gdevd.start()

    def held(self, status=None):
        """Bytes of device memory that sessions have."""
        status = status or self.gdevd.status()
        return status["devices"][0]["memory_used_bytes"] - status["workers"]["warm_bytes"]

    def test_contents(self):
        """all that a program has made is as it was, however often its context was given back"""
        process, before = self.start(3), 0
        for round in range(3):
            self.wait_retired(process)
            session = self.session(process)
            self.assertGreaterEqual(session["swapped_bytes"], 4 << 20)
            self.assertGreater(session["retirements"], before)  # by more than one if the program was slow
            before = session["retirements"]
            self.go(process)
            if round < 2:
                self.expect_ready(process)
        self.finish(process)

    def test_account(self):
        """a context's memory is returned, and taken again, to the byte"""
        context, process = self.gdevd.context_bytes(), self.start(0)
        self.wait_context(process, "retired")
        self.wait_until(lambda: self.held() == 0, "nothing is held")
        self.wait_until(lambda: not self.gdevd.status()["vgpus"][0]["memory_used_bytes"], "the account is empty")

        def is_charged():
            """The context and the objects are, at one look: it is given back again soon."""
            self.go(process)
            self.expect_ready(process)
            status = self.gdevd.status()
            session = next(s for s in status["sessions"] if s["pid"] == process.pid)
            return session["context"] == "open" and self.held(status) == session["memory_bytes"] >= context + (4 << 20)

        self.wait_until(is_charged, "the context and the objects are charged")
        self.finish(process)
        self.wait_quiet()
        self.assertEqual(self.held(), 0)

    def test_killed(self):
        """a program that is killed while it has no context leaves nothing behind"""
        process = self.start(1)
        self.wait_context(process, "retired")
        os.kill(self.session(process)["pid"], signal.SIGKILL)
        self.wait_quiet()
        self.assertEqual(self.held(), 0)
        self.assertEqual(self.gdevd.status()["devices"][0]["swap_used_bytes"], 0)

    def test_race(self):
        """a launch that comes while the context is being given back finds one"""
        rounds = 12 if SOFTWARE and not SANITIZED else 6
        processes = [self.start(rounds, "race", 700_000) for _ in range(3)]
        self.finish(*processes)
        self.wait_quiet()
        self.assertEqual(self.held(), 0)

    def test_suspend(self):
        """a suspended program gives its context back, and has it again when it is resumed and goes on"""
        process = self.start(1)
        suspend = [self.gdevd.gdev, "suspend", process.pid]
        self.wait_until(lambda: self.gdevd.run(suspend)[0] == 0, "it is suspended")
        self.wait_retired(process)
        self.go(process)
        time.sleep(0.5)
        self.assertIsNone(process.poll())
        self.assertEqual(self.session(process)["context"], "retired")
        self.assertEqual(self.gdevd.run([self.gdevd.gdev, "resume", process.pid])[0], 0)
        self.finish(process)

    def test_restart(self):
        """a program has its context again when gdevd is gone, and from the next one"""
        process = self.start(2)
        self.wait_context(process, "retired")
        self.gdevd.stop()
        self.go(process)
        self.expect_ready(process)
        self.restart(retire_after="never")
        self.wait_until(lambda: self.gdevd.status()["sessions"], "the session is back")
        self.assertGreaterEqual(self.held(), 4 << 20)
        self.restart()
        self.wait_until(lambda: self.gdevd.status()["sessions"], "the session is back")
        self.wait_context(process, "retired")
        self.wait_until(lambda: self.held() == 0, "nothing is held")
        self.restart()
        self.wait_until(lambda: self.gdevd.status()["sessions"], "the session is back again")
        self.assertEqual(self.session(process)["context"], "retired")
        self.go(process)
        self.finish(process)

    def test_many(self):
        """many idle programs are there at once, where a few contexts have room, and all go on"""
        count = 16 if SANITIZED or not SOFTWARE else MANY
        memory = 5 * self.gdevd.context_bytes() + (16 << 20)
        self.restart(device_memory=memory, retire_after="60s", swap_reserve=0, warm_workers=0)
        processes = [self.start(1) for _ in range(count)]
        device = self.gdevd.status()["devices"][0]
        self.assertLessEqual(device["memory_used_bytes"], device["memory_bytes"])
        states = [session["context"] for session in self.gdevd.status()["sessions"]]
        self.assertEqual(len(states), count)
        self.assertGreaterEqual(states.count("retired"), count - 5)
        for process in processes:
            self.go(process)
        self.finish(*processes)
        self.wait_quiet()
        self.assertEqual(self.held(), 0)

    def test_kept(self):
        """a program that shares memory keeps its context, and status says why"""
        process = self.start(1, "shared")
        self.wait_until(lambda: self.session(process)["kept_because"], "it is said why")
        session = self.session(process)
        self.assertEqual(session["context"], "open")
        self.assertIn("shares memory", session["kept_because"])
        self.assertIn("kept: it shares memory", self.gdevd.run([self.gdevd.gdev, "status"])[1])
        self.go(process)
        self.finish(process)

    def named(self):
        process = self.start(1, "named")
        self.wait_until(lambda: self.session(process)["kept_because"], "it is said why")
        self.assertIn("variables", self.session(process)["kept_because"])
        self.go(process)
        self.finish(process)

    def test_never(self):
        """retire_after = never: no context is given back"""
        self.restart(retire_after="never")
        process = self.start(1)
        time.sleep(1)
        self.assertEqual(self.session(process)["context"], "open")
        self.go(process)
        self.finish(process)


class Device(Retire, integ.Case):
    """On the software GPU, or on hardware."""

    @unittest.skipIf(SOFTWARE, "its variables stay where they are")
    def test_named(self):
        """a program that knows the address of a module's variable keeps its context, and status says why"""
        self.named()

    @unittest.skipIf(SOFTWARE, "it has no contexts")
    def test_memory_falls(self):
        """the GPU's own count of its memory falls when contexts are given back, and programs have theirs again"""
        def used():
            out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i",
                                  integ.DEVICE.partition(":")[2] or "0"], check=True, capture_output=True, text=True)
            return int(out.stdout.split()[0]) << 20

        context, count = self.gdevd.context_bytes(), 8
        self.restart(warm_workers=0, retire_after="never")  # until all of them have been counted
        none = used()
        processes = [self.start(1) for _ in range(count)]
        before = used()
        self.assertGreater(before - none, count * context * 8 // 10)
        self.restart(warm_workers=0)
        self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == count, "they are back")
        for process in processes:
            self.wait_context(process, "retired")
        self.wait_until(lambda: used() < before - count * context * 8 // 10,
                        f"{before} bytes used become less by those of {count} contexts of {context}")
        print(f"# {count} programs: {before >> 20} MiB with contexts, {used() >> 20} MiB without, {none >> 20} MiB "
              "before there were any", flush=True)
        for process in processes:
            self.go(process)
        self.finish(*processes)


class Driver(Retire, integ.Case):
    """Over the driver that is made for tests."""

    config = {"device": "cuda:0", "retire_after": SOON, "host_swap": "2G", "warm_workers": "1"}

    def setUp(self):
        self.gdevd = self.enterContext(Gdevd(BUILD, self.config, self.vgpus, {"GDEV_CUDA_DRIVER": str(FAKE)}))

    def test_named(self):
        """a program that knows the address of a module's variable keeps its context, and status says why"""
        self.named()


if not SOFTWARE:
    del Driver  # it has nothing to do with the hardware
elif SANITIZED:
    Driver = unittest.skip("workers would have to load the sanitizer first")(Driver)

if __name__ == "__main__":
    integ.main()
