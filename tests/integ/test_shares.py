# SPDX-License-Identifier: MIT
"""That shares, priorities and nice values order what programs get. Not by how much: that
is measured in the benchmarks, on machines that do nothing else."""

import os
import subprocess
import time

import integ
from integ import PROGRAMS, SANITIZED, SOFTWARE

ROUNDS = 1000000 if SOFTWARE else 5000  # some milliseconds
WORK_NS = 3_000_000_000 if not SANITIZED else 1_500_000_000


class Shares(integ.Case):
    config = {"device_memory": "256M", "threads": "1"} if SOFTWARE else {}
    vgpus = {"small": {"compute": "25"}, "large": {"compute": "75"}}

    def busy(self, vgpu, nice=0):
        """A program that always wants the device; once it does."""
        program = self.gdevd.popen(["nice", "-n", nice, self.gdevd.gdev, "run", "--vgpu", vgpu,
                                    PROGRAMS / "shares", ROUNDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(program.stdout.readline(), b"busy\n")
        return program

    def end(self, *programs):
        for program in programs:
            program.stdin.close()
        for program in programs:
            self.assertEqual(program.wait(60), 0)
            program.stdout.close()

    def used(self, kind, key):
        return {one[key]: one.get("resources", {}).get("compute", {}).get("used_ns", 0)
                for one in self.top()[kind]}

    def last_second(self, name):
        """(used_pct, waited_pct)"""
        vgpu = next(vgpu for vgpu in self.top()["vgpus"] if vgpu["vgpu"] == name)
        last = vgpu["resources"]["compute"]["last_1s"]
        return last["used_pct"], last["waited_pct"]

    def got_pct(self, name):
        """What it used in the last second, of the time for which it wanted the device: all of the time is not to be had on a
        machine that is busy."""
        used, waited = self.last_second(name)
        return 100 * used / (used + waited) if used else 0

    def used_meanwhile(self, kind="vgpus", key="vgpu"):
        """What each used until all together have used a certain time of the device."""
        before = self.used(kind, key)
        end = time.monotonic() + 2 * integ.PATIENCE
        while time.monotonic() < end:
            now = self.used(kind, key)
            difference = {name: now[name] - before.get(name, 0) for name in now}
            if sum(difference.values()) > WORK_NS:
                return difference
        self.fail(f"nobody uses the device: {difference}")

    @integ.measured
    def test_share(self):
        """Who has the larger share gets clearly more, and the other its part; a change turns it around"""
        programs = [self.busy("small"), self.busy("large")]
        used = self.used_meanwhile()
        self.assertGreater(used["large"], 1.7 * used["small"])
        self.assertGreater(used["small"], 0.1 * used["large"])
        for name, share in (("small", "75"), ("large", "25")):
            self.assertEqual(self.gdevd.run([self.gdevd.gdev, "vgpu", "set", name, "--compute", share])[0], 0)
        used = self.used_meanwhile()
        self.assertGreater(used["small"], 1.7 * used["large"])
        self.end(*programs)

    @integ.measured
    def test_idle_share_is_lent(self):
        """What nobody else uses, one gets beyond its share; a strict one does not"""
        program = self.busy("small")
        self.used_meanwhile()
        self.wait_until(lambda: self.got_pct("small") > 50, "it gets more than its share")
        changed = self.gdevd.run([self.gdevd.gdev, "vgpu", "set", "small", "--compute", "5", "--strict"])
        self.assertEqual(changed[0], 0)
        self.assertGreater(self.last_second("small")[0], 0)
        time.sleep(1.2)  # the second of which it is told
        self.assertLess(self.last_second("small")[0], 10)
        self.end(program)

    @integ.measured
    def test_nice(self):
        """Of two programs of one virtual GPU, the nicer one gets clearly less"""
        if os.nice(0) > 9:
            self.skipTest("nobody can be so much nicer than this test")
        programs = [self.busy("large"), self.busy("large", nice=10)]
        nices = sorted(session["nice"] for session in self.top()["sessions"])
        ours = os.nice(0)
        self.assertEqual(nices, [ours, ours + 10])
        by_nice = {}
        used = self.used_meanwhile("sessions", "session")
        for session in self.top()["sessions"]:
            by_nice[session["nice"]] = used[session["session"]]
        self.assertGreater(by_nice[nices[0]], 3 * by_nice[nices[1]])
        self.end(*programs)

    def test_deleted(self):
        """Who uses a virtual GPU that is deleted by force is told, and nobody else notices"""
        lost, other = self.busy("small"), self.busy("large")
        code = self.gdevd.run([self.gdevd.gdev, "vgpu", "delete", "small", "--force"])[0]
        self.assertEqual(code, 0)
        self.assertEqual(lost.wait(60), 1)
        lost.stdin.close()
        lost.stdout.close()
        self.used_meanwhile()
        self.end(other)


if __name__ == "__main__":
    integ.main()
