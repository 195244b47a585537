# SPDX-License-Identifier: MIT
"""Programs that need more device memory than there is, together and alone."""

import signal
import subprocess

import integ
from integ import PROGRAMS

SWAP = PROGRAMS / "swap"


class Small(integ.Case):
    config = {"device_memory": "96M"}

    def start(self, *arguments, **more):
        return self.gdevd.popen([self.gdevd.gdev, "run", SWAP, *arguments], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def finish(self, *processes, code=0):
        for process in processes:
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, f"{out}{err}")

    def test_alone(self):
        """one program's objects and kernels exceed the device's memory and all is right"""
        self.finish(self.start(3, 48, 3))

    def test_one_object(self):
        """a kernel works on an object one and a half times as large as the device"""
        self.finish(self.start(1, 144, 2))

    def test_together(self):
        """four programs of 64 MiB on 96 MiB are all right"""
        self.finish(*[self.start(2, 32, 4) for _ in range(4)])
        self.wait_quiet()
        device = self.gdevd.status()["devices"][0]
        self.assertEqual(device["swap_used_bytes"], 0)
        self.assertEqual(device["memory_used_bytes"], 0)
        self.assertGreater(sum(e["swap_in_bytes"] for e in self.gdevd.status()["ended"]), 0)


if __name__ == "__main__":
    integ.main()
