# SPDX-License-Identifier: MIT
"""That all which a program has on the device is charged to its virtual GPU, and to no other."""

import subprocess
import time

import integ
from integ import PROGRAMS, SOFTWARE


def processor_ns(pid):
    """What a process has had of the machine's processors: its CPU-time clock (clock_getcpuclockid(3))."""
    return time.clock_gettime_ns(~pid << 3 | 2)


class Charged(integ.Case):
    vgpus = {"busy": {}, "idle": {}}

    def setUp(self):
        streams = self._testMethodName == "test_streams"
        self.config = {**integ.MEMORY, "threads": 2 if streams else 1} if SOFTWARE else {}
        super().setUp()

    def program(self, vgpu, *command):
        """One that says "ready", and then does what it reads."""
        process = self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", vgpu, *command], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def told(self, process, line):
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return process.stdout.readline()

    def end(self, *processes):
        for process in processes:
            process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0)

    def used(self, kind="vgpus", key="vgpu"):
        """{who: {resource: ns ever used}}"""
        return {one[key]: {name: resource["used_ns"] for name, resource in one["resources"].items()}
                for one in self.top()[kind]}

    def worker(self, process):
        """The process that executes what the program has on the device."""
        return next(s["worker_pid"] for s in self.gdevd.status()["sessions"] if s["pid"] == process.pid)

    def check(self, kind, times, at_once=1):
        """`at_once`: threads that do it."""
        busy, idle = (self.program(vgpu, PROGRAMS / "charged", kind) for vgpu in ("busy", "idle"))
        worker = self.worker(busy)
        before, before_ns = self.used(), processor_ns(worker)
        events_ns = float(self.told(busy, times))
        after, worked_ns = self.used(), processor_ns(worker) - before_ns
        charged_ns = after["busy"]["compute"] - before["busy"]["compute"]
        # The software GPU is the worker's threads, and its time what they had of the machine.
        least_ns = worked_ns / at_once if SOFTWARE else events_ns
        print(f"# {kind}: charged {charged_ns / 1e6:.1f} ms, worker {worked_ns / 1e6:.1f}, "
              f"events {events_ns / 1e6:.1f}", flush=True)
        self.assertGreater(charged_ns, 0.6 * least_ns)
        self.assertLess(charged_ns, 1.02 * events_ns)
        # What the idle one did to begin with may be charged after that.
        self.assertLess(after["idle"]["compute"] - before["idle"]["compute"], 0.02 * charged_ns)
        self.assertEqual({**after["idle"], "compute": 0}, {**before["idle"], "compute": 0})
        self.assertEqual({**after["busy"], "compute": 0}, {**before["busy"], "compute": 0})
        self.assertEqual([used["compute"] for used in self.used("devices", "device").values()],
                         [after["busy"]["compute"] + after["idle"]["compute"]])
        self.end(busy, idle)

    @integ.measured
    def test_launches(self):
        """Launches are charged to the virtual GPU whose program launches, and not to the other"""
        self.check("launches", 50)

    @integ.measured
    def test_list(self):
        """A command list is charged as its commands are"""
        self.check("list", 15)

    @integ.measured
    def test_inside(self):
        """Copies within the device are charged"""
        self.check("inside", 50 if SOFTWARE else 2000)

    @integ.measured
    def test_memset(self):
        """Filling memory is charged"""
        self.check("memset", 50 if SOFTWARE else 2000)

    @integ.measured
    def test_together(self):
        """Cooperative launches are charged"""
        self.check("together", 50, at_once=2)

    @integ.measured
    def test_streams(self):
        """Kernels on many streams are charged, and those that overlap once"""
        self.check("streams", 5, at_once=2)


if __name__ == "__main__":
    integ.main()
