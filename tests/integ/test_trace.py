# SPDX-License-Identifier: MIT
"""gdev trace: the timeline of what really ran, whatever becomes of the program."""

import json
import os
import signal
import time

import integ


class Timeline:
    """A file of gdev trace, whose shape is checked on the way in."""

    def __init__(self, case, path):
        self.whole = json.loads(path.read_text())
        self.events = self.whole["traceEvents"]
        self.tracks = {}
        for event in self.slices():
            self.tracks.setdefault((event["pid"], event["tid"]), []).append(event)
        for track, slices in self.tracks.items():
            self.check_nesting(case, track, slices)
            case.assertIn(("thread_name", *track), self.names())
            case.assertIn("process_name", [kind for kind, pid, _ in self.names() if pid == track[0]])

    @staticmethod
    def check_nesting(case, track, slices):
        """A slice lies within the one before, or after it."""
        ends = []
        for event in sorted(slices, key=lambda e: (e["ts"], -e["dur"])):
            while ends and ends[-1] <= event["ts"] + 1e-4:  # a float of microseconds since the start
                ends.pop()
            end = event["ts"] + event["dur"]
            case.assertTrue(not ends or end <= ends[-1] + 1e-3, (track, event))
            ends.append(end)

    def names(self):
        return {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in self.events
                if e["ph"] == "M" and e["name"].endswith("_name")}

    def processes(self):
        return sorted(name for (kind, _, _), name in self.names().items() if kind == "process_name")

    def slices(self, category=None, name=None):
        return [e for e in self.events if e["ph"] == "X" and category in (None, e["cat"]) and
                name in (None, e["name"])]

    def arrows(self):
        """{the call: what it started}"""
        found = {}
        for event in self.events:
            if event["ph"] in "sf":
                at = [e for e in self.tracks[event["pid"], event["tid"]] if e["ts"] == event["ts"]]
                found.setdefault(event["id"], []).append(at[0]["name"])
        return list(map(tuple, found.values()))


SPIN = integ.PROGRAMS / "shares", 100000 if integ.SOFTWARE else 1000  # launches until its standard input ends


class Trace(integ.Case):
    def setUp(self):
        super().setUp()
        self.output = self.gdevd.directory / "out.json"

    def trace(self, *arguments, expect=0, timeout=120):
        code, _, err = self.gdevd.run([self.gdevd.gdev, "trace", "-o", self.output, *arguments], timeout)
        self.assertEqual(code, expect, err)
        return Timeline(self, self.output)

    def test_example(self):
        """A program's calls, copies and kernels are there, in order, with arrows between them"""
        found = self.trace(self.gdevd.example("mmul"), 256)
        self.assertEqual(found.processes(), ["device " + integ.DEVICE, "mmul", "virtual GPU gdev0 of " + integ.DEVICE])
        kernel, = found.slices("kernel")
        self.assertEqual(kernel["name"], "mmul")
        self.assertEqual(kernel["args"]["blocks"] * kernel["args"]["threads_per_block"], 256 * 256)
        there, back = found.slices(name="copy to device"), found.slices(name="copy from device")
        self.assertEqual(sum(e["args"]["bytes"] for e in there), 2 * 256 * 256 * 4)
        self.assertEqual(sum(e["args"]["bytes"] for e in back), 256 * 256 * 4)
        for copy in there:
            self.assertLessEqual(copy["ts"] + copy["dur"], kernel["ts"])
        for copy in back:
            self.assertGreaterEqual(copy["ts"], kernel["ts"] + kernel["dur"])
        launch, = found.slices("call", "cuLaunchKernel")
        self.assertLess(launch["ts"], kernel["ts"])
        self.assertIn(("cuLaunchKernel", "mmul"), found.arrows())
        for call in ("cuMemAlloc", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuModuleGetFunction"):
            self.assertTrue(found.slices("call", call), call)
        for grant in found.slices("grant"):
            self.assertIn("mmul (", grant["name"])
        self.assertTrue(found.slices("grant"))
        self.assertEqual(found.whole["otherData"]["lost_events"], 0)
        self.assertEqual(found.whole["otherData"]["damaged_events"], 0)

    def test_dataflow_graph(self):
        """Each invocation of a ptask is there by the ptask's name, with an arrow to its kernel; so are callbacks, pushes and pulls"""
        frames = 12
        found = self.trace(self.gdevd.example("ptask-gesture"), f"--frames={frames}", "--width=80", "--height=60")
        kernels = {"xform_0": "xform", "xform_1": "xform", "filter": "filter"}
        for ptask in *kernels, "hidinput":
            self.assertEqual(len(found.slices("call", f"ptask {ptask}")), frames, ptask)
        for ptask, kernel in kernels.items():
            self.assertEqual(found.arrows().count((f"ptask {ptask}", kernel)), frames, ptask)
        self.assertEqual(len(found.slices("kernel", "filter")), frames)
        self.assertTrue(found.slices("call", "push channel"))
        self.assertTrue(found.slices("call", "pull channel"))

    def test_children(self):
        """All that a command starts is in its trace, and what others do is not"""
        other = self.gdevd.popen([self.gdevd.gdev, "run", *SPIN], stdin=-1, stdout=-3, stderr=-3)
        self.wait_until(lambda: self.launches() > 20, "the other program launches")
        script = f"{self.gdevd.example('madd')} 128 & {self.gdevd.example('lud')} 64; wait"
        found = self.trace("sh", "-c", script)
        self.assertEqual(found.processes(), ["device " + integ.DEVICE, "lud", "madd", "virtual GPU gdev0 of " + integ.DEVICE])
        self.assertTrue(found.slices("kernel", "madd"))
        self.assertTrue(any(e["name"].startswith("lud") for e in found.slices("kernel")))
        other.communicate("")

    def test_killed(self):
        """A program that is killed in the middle leaves a whole file with what it had done"""
        (program, rounds), pid_file = SPIN, self.gdevd.directory / "pid"
        tracer = self.gdevd.popen(
            [self.gdevd.gdev, "trace", "-o", self.output, "sh", "-c", f"echo $$ > {pid_file}; exec {program} {rounds}"],
            stdin=-1, stdout=-3, stderr=-3)
        self.wait_until(lambda: self.launches() > 20, "the program launches")
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        self.assertEqual(tracer.wait(60), 128 + signal.SIGKILL)
        tracer.stdin.close()
        found = Timeline(self, self.output)
        self.assertGreater(len(found.slices("kernel", "spin")), 10)
        self.assertGreater(len(found.slices("call", "cuLaunchKernel")), 10)

    def launches(self):
        return sum(s["launches"] for s in self.gdevd.status()["sessions"])

    @integ.measured  # there may be no second without pauses
    def test_all(self):
        """What runs already is traced with --all, and costs nothing afterwards"""
        program = self.gdevd.popen([self.gdevd.gdev, "run", *SPIN], stdin=-1, stdout=-3, stderr=-3)
        self.wait_until(lambda: self.launches() > 20, "the program launches")
        begin = time.monotonic() * 1e6
        found = self.trace("--all", "--seconds", "1")
        self.assertIn("shares", found.processes())
        kernels = found.slices("kernel", "spin")
        self.assertGreater(len(kernels), 1)
        self.assertTrue(all(e["ts"] + e["dur"] >= begin for e in kernels))
        self.assertTrue(found.slices("grant"))
        again = self.trace("--all", "--seconds", "0.5").slices("kernel")
        self.assertTrue(again)
        self.assertGreaterEqual(min(e["ts"] + e["dur"] for e in again), max(e["ts"] for e in kernels))
        program.communicate("")

    def test_statuses(self):
        """It ends as its program does, and wrong usage says what is right"""
        self.trace("sh", "-c", "exit 7", expect=7)
        code, _, err = self.gdevd.run([self.gdevd.gdev, "trace", "-o", "/dev/null/x", "true"])
        self.assertEqual(code, 125)
        self.assertIn("cannot write /dev/null/x", err)
        for program, status in ("./no-such-program", 127), ("/dev/null", 126):
            kept = self.gdevd.directory / "kept.json"
            kept.write_text("of before")
            self.assertEqual(self.gdevd.run([self.gdevd.gdev, "trace", "-o", kept, program])[0], status)
            self.assertEqual(kept.read_text(), "of before")  # nothing ran: nothing is written
        for wrong in ([], ["--all", "true"], ["--seconds", "1", "true"], ["--all", "--seconds", "x"]):
            code, _, err = self.gdevd.run([self.gdevd.gdev, "trace", *wrong])
            self.assertEqual(code, 2, err)
            self.assertIn("gdev help trace", err)


class Swapped(Trace):
    """Only where the device's memory can be as small as the objects of a test."""

    config = {"device_memory": "96M", "host_swap": "1G"}
    test_example = test_children = test_killed = test_all = test_statuses = None

    def setUp(self):
        if not integ.SOFTWARE:
            self.skipTest("a context of the hardware takes more than these objects")
        super().setUp()

    def test_swap(self):
        """Where memory is short, what leaves the device and what comes are there step by step"""
        swap, go = f"{integ.PROGRAMS}/swap 2 24 6 wait", f"{self.gdevd.directory}/go"
        # What all three have together is more than there is.
        found = self.trace("sh", "-c", f"mkfifo {go}.1 {go}.2 {go}.3; for i in 1 2 3; do {swap} <{go}.$i >>{go} & done; "
                           f"exec 4>{go}.1 5>{go}.2 6>{go}.3; until [ $(wc -l <{go}) = 3 ]; do sleep 0.05; done; "
                           "for i in 4 5 6; do echo go >&$i; done; wait")
        for name in ("make room for others", "wait for room", "get host swap"):
            self.assertTrue(found.slices("memory", name), name)
        for first, then in (("copy to host swap", "unmap"), ("unmap", "give back"), ("make", "map"),
                            ("map", "copy from host swap")):
            before = found.slices("memory", first)
            self.assertTrue(found.slices("memory", then), then)
            for event in found.slices("memory", then):
                same = [e for e in before if e["pid"] == event["pid"] and
                        e["args"]["address"] == event["args"]["address"] and e["ts"] <= event["ts"]]
                # What nobody has written leaves without a copy.
                self.assertTrue(same or first == "copy to host swap", (first, event))


if __name__ == "__main__":
    integ.main()
