# SPDX-License-Identifier: MIT
"""Sessions of one process reach each other's memory; the cases are in peers.c."""

import json
import os
import signal
import subprocess
import unittest

import integ
from integ import PROGRAMS, SOFTWARE


class OneDevice(integ.Case):
    """Two virtual GPUs of one device"""

    vgpus = {"gdev0": {}, "second": {}}
    pair = "gdev0,second"

    def peers(self, case):
        code, out, err = self.gdev_run("--vgpu", self.pair, PROGRAMS / "peers", case)
        self.assertEqual(code, 0, out + err)
        self.wait_quiet()

    def test_small(self):
        """Kernels, fills and copies of one session work on what another has carved of an object"""
        self.peers("small")

    def test_large(self):
        """They work on memory of many chunks"""
        self.peers("large")

    def test_host(self):
        """Page-locked memory of one session is the other's at the same address"""
        self.peers("host")

    def test_freed(self):
        """Memory that its owner has freed is gone from both"""
        self.peers("freed")

    def test_turns(self):
        """Streams of two sessions wait for each other's fences"""
        self.peers("turns")

    def play(self):
        self.peers("play")
        self.assertEqual([vgpu["resources"]["compute"]["overdue"] for vgpu in self.gdevd.status()["vgpus"]], [0, 0])

    def test_play(self):
        """Kernels of two sessions that wait for each other advance, and nobody has to be told to leave"""
        self.play()

    def test_owner_dies(self):
        """A worker that is killed leaves the other session usable"""
        self.kill_owner("owner-dies")

    def test_owner_lost(self):
        """Its memory is not there any more"""
        self.kill_owner("owner-lost")

    def test_restart(self):
        """It outlives gdevd"""
        process = self.begin("restart")
        self.gdevd.process.kill()
        self.gdevd.process.wait()
        self.gdevd.start()
        self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == 2, "the sessions are back")
        self.wait_until(lambda: [segment["attached"] for segment in self.segments()] == [2], "both to have it again")
        self.finish(process)

    def segments(self):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "shm", "list", "--json"])
        self.assertEqual(code, 0, err)
        return json.loads(out)["segments"]

    def begin(self, case):
        process = self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", self.pair, PROGRAMS / "peers", case], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def finish(self, process):
        out, _ = process.communicate("\n", timeout=120)
        self.assertEqual(process.returncode, 0, out)
        self.wait_quiet()

    def kill_owner(self, case):
        process = self.begin(case)
        owner = next(s for s in self.gdevd.status()["sessions"] if s["vgpu"] == "gdev0")
        os.kill(owner["worker_pid"], signal.SIGKILL)
        self.wait_until(lambda: owner["session"] not in [s["session"] for s in self.gdevd.status()["sessions"]],
                        "gdevd to see it", 60)
        self.finish(process)

    def test_stranger(self):
        """Another process reaches it, with its token, when it was published, and not before"""
        self.peers("stranger")


@unittest.skipUnless(SOFTWARE, "the kernels of a software GPU are threads")
class OneProcessor(integ.Case):
    vgpus = {"gdev0": {}, "second": {}}
    pair = "gdev0,second"
    config = {"threads": "1"}
    peers, play = OneDevice.peers, OneDevice.play

    def setUp(self):
        processors = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, processors)
        os.sched_setaffinity(0, {min(processors)})
        super().setUp()

    def test_play(self):
        """They do on one processor"""
        self.play()


@unittest.skipUnless(SOFTWARE, "several devices are the software GPU's here")
class TwoDevices(OneDevice):
    """One virtual GPU on each of two devices"""

    config = {"device": "cpu:2", "device_memory": "512M", "threads": "1"}
    vgpus = {}
    pair = "gdev0,gdev1"


@unittest.skipUnless(SOFTWARE, "a small device is the software GPU's here")
class Pressure(integ.Case):
    vgpus = {"gdev0": {}, "second": {}}
    pair = "gdev0,second"
    config = {"device_memory": "256M", "host_swap": "2G"}

    def begin(self, case):
        return self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", self.pair, PROGRAMS / "peers", case], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self, process, lines=""):
        out, _ = process.communicate(lines, timeout=300)
        self.assertEqual(process.returncode, 0, out)

    def test_pressure(self):
        """What another session has mapped is right while others need more than there is"""
        self.finish(self.begin("pressure"))
        self.wait_quiet()


@unittest.skipUnless(SOFTWARE, "several devices are the software GPU's here")
class PressureOnTwo(Pressure):
    config = {"device": "cpu:2", "device_memory": "256M", "host_swap": "2G", "threads": "1"}
    vgpus = {}
    pair = "gdev0,gdev1"


@unittest.skipUnless(SOFTWARE, "a small device is the software GPU's here")
class Leaving(Pressure):
    config = {"device_memory": "64M", "host_swap": "1G"}
    test_pressure = None

    def test_leaving(self):
        """What two sessions of a device have leaves it, and comes back for either"""
        programs = []
        for _ in range(2):
            programs.append(self.begin("leaving"))
            self.assertEqual(programs[-1].stdout.readline(), "ready\n")
        for _ in range(3):  # in turn
            for process in programs:
                process.stdin.write("\n")
                process.stdin.flush()
                self.assertEqual(process.stdout.readline(), "ready\n")
        self.assertGreaterEqual(self.gdevd.status()["vgpus"][0]["shared_evictions"], 5)
        for process in programs:  # and at once
            process.stdin.write("\n" * 2)
            process.stdin.flush()
        for process in programs:
            self.finish(process)
        self.wait_quiet()


class LeavingWithLimits(Leaving):
    """The second virtual GPU has no room for what the first has"""

    vgpus = {"gdev0": {"memory": "60M"}, "second": {"memory": "20M"}}


if __name__ == "__main__":
    integ.main()
