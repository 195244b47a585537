# SPDX-License-Identifier: MIT
"""Programs that make what they need, say so, and wait to be told to go on (idle.c)."""

import subprocess

from integ import PROGRAMS


class Idle:
    """For a Case."""

    def start(self, *arguments, vgpu=None):
        """One that waits; with "race" one that is at work."""
        where = ["--vgpu", vgpu] if vgpu else []
        process = self.gdevd.popen([self.gdevd.gdev, "run", *where, PROGRAMS / "idle", *arguments], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if "race" not in arguments:
            self.expect_ready(process)
        return process

    def expect_ready(self, process):
        line = process.stdout.readline()
        self.assertEqual(line, "ready\n", line or process.communicate()[1])

    def go(self, process):
        process.stdin.write("go\n")
        process.stdin.flush()

    def finish(self, *processes):
        for process in processes:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, f"{out}{err}")

    def sessions(self, process):
        return [s for s in self.gdevd.status()["sessions"] if s["pid"] == process.pid]

    def session(self, process):
        return self.sessions(process)[0]
