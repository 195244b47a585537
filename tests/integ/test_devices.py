# SPDX-License-Identifier: MIT
"""One gdevd with several software GPUs; the program is devices.c."""

import json
import os
import signal
import unittest

import integ
from integ import PROGRAMS, SOFTWARE


@unittest.skipUnless(SOFTWARE, "several devices are the software GPU's here")
class Devices(integ.Case):
    config = {"device": "cpu:3", "device_memory": "256M", "threads": "1"}
    vgpus = {}

    def test_program_sees_all(self):
        """A program sees the first virtual GPU of each device, and has memory and kernels on all of them at once"""
        code, out, err = self.gdev_run(PROGRAMS / "devices", "3")
        self.assertEqual(code, 0, out + err)

    def test_program_sees_what_it_is_given(self):
        """--vgpu gives it some of them, in that order"""
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", "--vgpu", "gdev2,gdev0", PROGRAMS / "devices", "2"])
        self.assertEqual(code, 0, out + err)

    def test_program_does_not_see_a_drained_device(self):
        """A program that begins sees the devices that are not drained; one that was given a drained one is told so"""
        drain = [self.gdevd.gdev, "device"]
        self.addCleanup(self.gdevd.run, drain + ["undrain", "cpu:0"])
        code, _, err = self.gdevd.run(drain + ["drain", "cpu:0"])
        self.assertEqual(code, 0, err)
        code, out, err = self.gdev_run(PROGRAMS / "devices", "2")
        self.assertEqual(code, 0, out + err)
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", "--vgpu", "gdev0", PROGRAMS / "devices", "1"],
                                        environment={"GDEV_LOG": "error"})
        self.assertNotEqual(code, 0)
        self.assertIn("is drained and takes no new sessions", err)
        self.assertIn('"gdev0" takes no sessions: its device cpu:0 is drained', err)

    def capability(self, *arguments):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", "--vgpu", "old", PROGRAMS / "capability", *arguments])
        self.assertEqual(code, 0, out + err)
        return dict(line.split() for line in out.splitlines())

    def capability_of(self, name):
        listed = json.loads(self.gdevd.run([self.gdevd.gdev, "vgpu", "list", "--json"])[1])["vgpus"]
        return next(vgpu["compute_capability"] for vgpu in listed if vgpu["vgpu"] == name)

    def test_compute_capability(self):
        """A virtual GPU has the compute capability that it is given, and takes no PTX for a newer one; without one it does"""
        vgpu = [self.gdevd.gdev, "vgpu"]
        code, _, err = self.gdevd.run(vgpu + ["create", "old", "--compute-capability", "7.5"])
        self.assertEqual(code, 0, err)
        self.addCleanup(self.gdevd.run, vgpu + ["delete", "old"])
        self.assertEqual(self.capability("70", "75", "80", "90a"), {
            "device": "7.5", "context": "7", "70": "CUDA_SUCCESS", "75": "CUDA_SUCCESS", "80": "CUDA_ERROR_INVALID_PTX",
            "90a": "CUDA_ERROR_INVALID_PTX"})
        self.assertEqual(self.gdevd.run(vgpu + ["set", "old", "--compute-capability", "8.9"])[0], 0)
        self.assertEqual(self.capability("89", "90"), {
            "device": "8.9", "context": "8", "89": "CUDA_SUCCESS", "90": "CUDA_ERROR_INVALID_PTX"})
        self.assertEqual(self.capability_of("old"), "8.9")
        self.assertEqual(self.gdevd.run(vgpu + ["set", "old", "--compute-capability", "device"])[0], 0)
        self.assertEqual(self.capability("90a", "120"), {
            "device": "9.0", "context": "9", "90a": "CUDA_SUCCESS", "120": "CUDA_SUCCESS"})
        self.assertEqual(self.capability_of("gdev0"), "9.0")
        code, _, err = self.gdevd.run(vgpu + ["set", "old", "--compute-capability", "8.1"])
        self.assertNotEqual(code, 0)
        self.assertIn("from 5.0 to 12.1", err)

    def test_a_lost_worker_is_one_devices(self):
        """When a worker is killed, sessions on other devices go on"""
        endless = [self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", f"gdev{i}", PROGRAMS / "endless"], stdout=-1, stderr=-2,
                                    text=True) for i in range(2)]
        self.wait_until(lambda: len([s for s in self.gdevd.status()["sessions"] if s["streams_busy"]]) == 2, "both to run")
        first = next(s for s in self.gdevd.status()["sessions"] if s["vgpu"] == "gdev0")
        os.kill(first["worker_pid"], signal.SIGKILL)
        self.assertNotEqual(endless[0].wait(60), 0)
        self.assertIsNone(endless[1].poll())
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", "--vgpu", "gdev0,gdev2", PROGRAMS / "devices", "2"])
        self.assertEqual(code, 0, out + err)
        self.assertIsNone(endless[1].poll())
        endless[1].kill()
        endless[1].wait()


if __name__ == "__main__":
    integ.main()
