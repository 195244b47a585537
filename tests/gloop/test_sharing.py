# SPDX-License-Identifier: MIT
"""That kernels with event loops which never end get what their virtual GPUs should have, and no more. Not how exactly: that
is `scripts/bench gloop`, on machines that do nothing else."""

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
from integ import BUILD, PROGRAMS, SANITIZED, SOFTWARE  # noqa: E402

WORK_NS = 3_000_000_000 if not SANITIZED else 1_500_000_000
ROUNDS = 1000000 if SOFTWARE else 5000  # of the ordinary program: kernels of some milliseconds


class Sharing(integ.Case):
    config = {"device_memory": "256M", "threads": "1"} if SOFTWARE else {}
    vgpus = {"small": {"compute": "25"}, "large": {"compute": "75"}, "limited": {"time_limit_ms": "300"}}

    def start(self, vgpu, *command):
        """A program that always wants the device; once it does."""
        program = self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", vgpu, *command], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), b"busy\n")
        return program

    def loops(self, vgpu, mode):
        return self.start(vgpu, BUILD / "tests" / "gloop" / "endless", mode)

    def ordinary(self, vgpu):
        return self.start(vgpu, PROGRAMS / "shares", ROUNDS)

    def used(self):
        return {one["vgpu"]: one.get("resources", {}).get("compute", {}).get("used_ns", 0)
                for one in self.top()["vgpus"]}

    def check(self, *programs):
        """The large one uses clearly more, and the small one its part, of a certain time of the device."""
        before, end, used = self.used(), time.monotonic() + 200, {}
        while sum(used.values()) < WORK_NS:
            self.assertLess(time.monotonic(), end, "nobody uses the device")
            now = self.used()
            used = {name: now[name] - before[name] for name in now}
        self.assertGreater(used["large"], 1.7 * used["small"])
        self.assertGreater(used["small"], 0.1 * used["large"])
        for program in programs:
            program.stdin.close()
        for program in programs:
            self.assertEqual(program.wait(120), 0)
            program.stdout.close()

    @integ.measured
    def test_beside_ordinary(self):
        """A kernel that never ends leaves an ordinary program its larger share"""
        self.check(self.loops("small", "blocking"), self.ordinary("large"))

    @integ.measured
    def test_over_ordinary(self):
        """A kernel that never ends has its larger share beside an ordinary program"""
        self.check(self.loops("large", "blocking"), self.ordinary("small"))

    @integ.measured
    def test_both(self):
        """Two kernels that never end, both polling, have their shares"""
        self.check(self.loops("small", "polling"), self.loops("large", "polling"))

    @integ.measured
    def test_limit(self):
        """A callback that takes longer than its virtual GPU allows ends the run, and the error says so"""
        program = BUILD / "tests" / "gloop" / "endless"
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", "--vgpu", "limited", program, "stuck"])
        self.assertEqual(code, 1, out + err)
        self.assertIn("CUDA's error 702", err)  # CUDA_ERROR_LAUNCH_TIMEOUT
        self.check(self.loops("small", "blocking"), self.ordinary("large"))  # nothing else is harmed


if __name__ == "__main__":
    integ.main()
