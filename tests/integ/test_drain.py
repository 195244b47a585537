# SPDX-License-Identifier: MIT
"""Sessions go from a drained device to another while their programs run, and nothing that a program can see is different.
On two software GPUs, and over the driver that is made for tests, which has two devices; or on two cards, which
GDEV_TEST_CARDS names."""

import json
import os
import signal
import subprocess
import unittest

import integ
from idle import Idle
from integ import BUILD, PROGRAMS, SANITIZED, SOFTWARE

FAKE = BUILD / "tests" / "device" / "libcuda-fake.so"


class Drain(Idle):
    vgpus = {}
    rounds = 4 if SANITIZED else 10

    def setUp(self):
        super().setUp()
        self.wait_until(lambda: all(d["ready"] for d in self.gdevd.status()["devices"]), "the devices are known")

    def start(self, *arguments, vgpu="gdev0"):
        process = super().start(*arguments, vgpu=vgpu)
        self.wait_until(lambda: self.sessions(process), "its session to begin")
        return process

    def device(self, verb, *arguments):
        return self.gdevd.run([self.gdevd.gdev, "device", verb, *arguments])

    def drain(self, index, *options):
        code, out, err = self.device("drain", self.names[index], "--move", "--json", *options)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def undrain(self, index):
        code, _, err = self.device("undrain", self.names[index])
        self.assertEqual(code, 0, err)

    def held(self, index):
        """Bytes that sessions have of a device; none of a drained one's are its warm workers'."""
        return self.gdevd.status()["devices"][index]["memory_used_bytes"]

    def test_there_and_back(self):
        """an idle program's session goes to the other device, and back, and finds what it has made"""
        process = self.start(3)
        for index in (0, 1):
            self.assertEqual(self.session(process)["vgpu"], f"gdev{index}")
            answer = self.drain(index)
            self.assertEqual((answer["moved"], answer["sessions"]), (1, []))
            session = self.session(process)
            self.assertEqual((session["device"], session["vgpu"]), (self.names[1 - index], f"gdev{1 - index}"))
            self.assertFalse(session["suspended"])
            self.wait_until(lambda: not self.held(index), "nothing is on the drained device")
            self.go(process)
            self.expect_ready(process)
            self.assertEqual(self.session(process)["context"], "open")
            self.assertGreaterEqual(self.held(1 - index), 4 << 20)
            self.assertEqual(self.held(index), 0)
            self.undrain(index)
        self.assertEqual(self.session(process)["device_changes"], 2)
        self.go(process)
        self.finish(process)
        self.wait_quiet()

    def test_at_work(self):
        """programs that are at work go on on the other device, and their results are right"""
        processes = [self.start(0, "race", 100_000) for _ in range(2)]  # until finish()
        moved = 0
        for turn in range(4):
            answer = self.drain(turn % 2)
            self.assertEqual(answer["sessions"], [])
            moved += answer["moved"]
            self.undrain(turn % 2)
        self.assertEqual(moved, 2 * 4)
        self.finish(*processes)
        self.wait_quiet()

    def test_what_is_kept_is_listed(self):
        """what shares memory with others stays, and is listed with that; it goes on"""
        process = self.start(2, "shared")
        code, out, err = self.device("drain", self.names[0], "--move")
        self.assertEqual(code, 0, err)
        self.assertIn("0 sessions went to other devices", out)
        self.assertRegex(out, rf"{process.pid} \(\w+\) stays: it shares memory with other sessions")
        self.assertFalse(self.session(process)["suspended"])
        self.go(process)
        self.expect_ready(process)
        self.assertEqual(self.session(process)["device"], self.names[0])
        self.go(process)
        self.finish(process)

    def test_suspended_stays_suspended(self):
        """a session that an administrator suspended goes, and stays suspended"""
        process = self.start(1)
        suspend = [self.gdevd.gdev, "suspend", process.pid]
        self.wait_until(lambda: self.gdevd.run(suspend)[0] == 0, "it is suspended")
        self.assertEqual(self.drain(0)["moved"], 1)
        self.assertTrue(self.session(process)["suspended"])
        self.go(process)
        self.assertIsNone(process.poll())
        self.assertEqual(self.gdevd.run([self.gdevd.gdev, "resume", process.pid])[0], 0)
        self.finish(process)

    def test_virtual_gpu_of_its_own(self):
        """a virtual GPU with another name begins its sessions on the device that stands in, also after a restart"""
        code, _, err = self.gdevd.run([self.gdevd.gdev, "vgpu", "create", "own", "--device", self.names[0]])
        self.assertEqual(code, 0, err)
        first = self.start(2, vgpu="own")
        self.assertEqual(self.drain(0)["moved"], 1)
        second = self.start(1, vgpu="own")
        self.assertEqual([self.session(p)["device"] for p in (first, second)], [self.names[1]] * 2)
        self.gdevd.stop()
        self.gdevd.start()
        self.wait_until(lambda: self.sessions(first) and self.sessions(second), "the sessions are back")
        self.assertEqual([self.session(p)["device"] for p in (first, second)], [self.names[1]] * 2)
        third = self.start(1, vgpu="own")
        self.assertEqual(self.session(third)["device"], self.names[1])
        self.undrain(0)
        fourth = self.start(1, vgpu="own")
        self.assertEqual(self.session(fourth)["device"], self.names[0])
        self.go(first)
        self.expect_ready(first)
        self.assertEqual(self.drain(1)["moved"], 3)  # home
        for process in (first, second, third, fourth):
            self.assertEqual(self.session(process)["device"], self.names[0])
            self.go(process)
        self.finish(first, second, third, fourth)
        self.wait_quiet()

    def test_any(self):
        """a session of a virtual GPU of any device goes to its part on the other"""
        code, _, err = self.gdevd.run([self.gdevd.gdev, "vgpu", "create", "either", "--device", "any"])
        self.assertEqual(code, 0, err)
        process = self.start(1, vgpu="either")
        index = self.names.index(self.session(process)["device"])
        self.assertEqual(self.drain(index)["moved"], 1)
        session = self.session(process)
        self.assertEqual((session["device"], session["vgpu"]), (self.names[1 - index], "either"))
        self.go(process)
        self.finish(process)

    def test_killed(self):
        """whoever is killed in the middle takes nobody along, and leaves nothing behind"""
        for whom in ("client", "worker"):
            others = [self.start(self.rounds, "race", 100_000) for _ in range(2)]
            process = self.start(0, "race", 1000)
            pid = process.pid if whom == "client" else self.session(process)["worker_pid"]
            mover = self.gdevd.popen([self.gdevd.gdev, "device", "drain", self.names[0], "--move"], stdout=-3)
            self.wait_until(lambda: any(s["changes_device"] or s["device_changes"] for s in self.sessions(process)),
                            "it is on its way")
            os.kill(pid, signal.SIGKILL)
            self.assertNotEqual(process.wait(60), 0)
            self.assertEqual(mover.wait(60), 0)
            self.finish(*others)
            self.undrain(0)
            self.wait_quiet()

    def test_gdevd_killed(self):
        """when gdevd is killed in the middle, sessions go on where they are, and the next gdevd knows where that is"""
        for delay in (0, 0.02, 0.05, 0.1):
            processes = [self.start(0, "race", 100_000) for _ in range(2)]
            mover = self.gdevd.popen([self.gdevd.gdev, "device", "drain", self.names[0], "--move"], stdout=-3, stderr=-3)
            self.wait_until(lambda: any(s["changes_device"] or s["device_changes"] for p in processes
                                        for s in self.sessions(p)), "they are on their way")
            try:
                processes[0].wait(delay)
            except subprocess.TimeoutExpired:
                pass
            os.killpg(self.gdevd.process.pid, signal.SIGKILL)
            self.gdevd.process.wait()
            mover.wait(60)
            self.gdevd.start()
            self.wait_until(lambda: all(self.sessions(p) or p.poll() is not None for p in processes), "they are back")
            self.wait_until(lambda: self.device("drain", self.names[0], "--move")[0] == 0, "its model is known")
            self.assertEqual([s for s in self.gdevd.status()["sessions"] if s["device"] == self.names[0]], [])
            self.finish(*processes)
            self.undrain(0)
            self.wait_quiet()


@unittest.skipUnless(SOFTWARE, "two software GPUs")
class Software(Drain, integ.Case):
    config = {"device": "cpu:2", "device_memory": "256M", "threads": "1", "host_swap": "1G", "warm_workers": "1"}
    names = ["cpu:0", "cpu:1"]

    def test_running(self):
        """a kernel that does not end keeps its session, which is not suspended then"""
        process = self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", "gdev0", PROGRAMS / "endless"], stdout=-3, stderr=-3)
        self.wait_until(lambda: any(s["streams_busy"] for s in self.sessions(process)), "it runs")
        answer = self.drain(0)
        self.assertEqual([s["stays_because"] for s in answer["sessions"]], ["its commands do not end"])
        process.kill()
        process.wait()

    def test_no_other(self):
        """a device beside which there is no other of its model is not drained"""
        self.drain(0)
        code, _, err = self.device("drain", self.names[1], "--move")
        self.assertEqual(code, 1)
        self.assertIn("nothing has been drained", err)
        self.assertFalse(self.gdevd.status()["devices"][1]["drained"])


@unittest.skipUnless(SOFTWARE and FAKE.exists(), "over the driver that is made for tests")
class Driver(Drain, integ.Case):
    config = {"device": "cuda:0,cuda:1", "host_swap": "1G", "warm_workers": "1"}
    environment = {"GDEV_CUDA_DRIVER": str(FAKE), "FAKE_CUDA_DEVICES": "2"}
    names = ["cuda:0", "cuda:1"]
    rounds = 4  # its kernels are slow

    def test_named(self):
        """a program that knows the address of a module's variable stays"""
        process = self.start(1, "named")
        answer = self.drain(0)
        self.assertEqual([s["stays_because"] for s in answer["sessions"]], ["it may know addresses of its modules' variables"])
        self.go(process)
        self.finish(process)


@unittest.skipUnless(os.environ.get("GDEV_TEST_CARDS"), "two cards")
class Cards(Drain, integ.Case):
    names = os.environ.get("GDEV_TEST_CARDS", "").split(",")
    config = {"device": ",".join(names), "warm_workers": "1"}


if SANITIZED:
    Driver = unittest.skip("workers would have to load the sanitizer first")(Driver)

if __name__ == "__main__":
    integ.main()
