# SPDX-License-Identifier: MIT
"""A kernel in blocking mode is not on the device while it waits, and goes on after its context was given back."""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
from integ import BUILD, SOFTWARE  # noqa: E402

HOPS = 2
HOP_S = 3


class Retired(integ.Case):
    config = {"retire_after": "300ms", "host_swap": "2G", "warm_workers": "1",
              **({"device_memory": "512M", "context_memory": 32 << 20} if SOFTWARE else {})}

    @integ.measured  # who looks seldom may miss it
    def test_retired(self):
        """Callbacks that wait are called in a context that was made again, each time"""
        process = self.gdevd.popen(
            [self.gdevd.gdev, "run", BUILD / "tests" / "gloop" / "retired", HOPS, HOP_S],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        retirements = [0]
        while process.poll() is None:
            retirements += [s["retirements"] for s in self.gdevd.status()["sessions"] if s["pid"] == process.pid]
            time.sleep(0.05)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(out, "right\n")
        self.assertGreaterEqual(max(retirements), HOPS)


if __name__ == "__main__":
    integ.main()
