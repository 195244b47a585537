# SPDX-License-Identifier: MIT
"""The programs of examples/, each at a size that is small and one that is not a multiple of anything, and those of
bench/cpu/programs/."""

import json
import subprocess
import time
import unittest

import integ
from integ import BUILD, MEMORY, SOFTWARE, Gdevd

SIZES = {
    "loop": (1, 2), "madd": (16, 129), "mmul": (16, 200), "cpy": (1, 3), "pincpy": (1, 3),
    "bp": (16, 5000), "bfs": (1, 30011), "hw": (1, 3), "hs": (16, 130), "lud": (16, 200),
    "bs": (1, 10007), "fwt": (1, 5000), "storegpu": (4, 1001),
    "nn": (1, 10007), "nw": (16, 300), "srad": (16, 130), "srad2": (16, 131),
    "search": (1, 5), "gloop-throttle": (1, 300), "gloop-throttle-plain": (1, 300), "gloop-grep": (1, 7),
    "gloop-grep-plain": (1, 7), "gloop-copy": (1, 5), "gloop-copy-plain": (1, 5),
    "gloop-grep-polling": (1, 7), "gloop-images": (1, 403), "gloop-images-plain": (1, 403),
    "gloop-server": (1, 7), "gloop-server-plain": (1, 7), "gloop-echo": (1, 70), "gloop-echo-plain": (1, 70),
    "gloop-mmul": (16, 200), "gloop-mmul-plain": (16, 200), "gloop-nw": (16, 300), "gloop-nw-plain": (16, 300),
    "gloop-bfs": (1, 30011), "gloop-bfs-plain": (1, 30011),
}

MEASURED = {
    "aes": 3001, "bitonic": 3000, "blackscholes": 10007, "histogram": 100003, "mandelbrot": 67, "nbody": 512,
    "radix": 70000, "reduction": 100003, "scan": 70001, "sgemm": 67, "spmv": 3001, "stencil": 35, "transpose": 96,
}


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gdevd = cls.enterClassContext(Gdevd(BUILD, {**MEMORY, "host_swap": "512M"}, {
            "gdev0": {}, "small": {"memory": "1G"}}))

    def check(self, name):
        for size in SIZES[name]:
            for seed in (1, 20120613):
                code, out, err = self.gdevd.run(
                    [self.gdevd.gdev, "run", self.gdevd.example(name), "--json", "--repeat=2",
                     f"--seed={seed}", str(size)])
                self.assertEqual(code, 0, f"{name} {size} --seed={seed}: {out}{err}")
                self.assertIs(json.loads(out)["verified"], True)

    def test_hello(self):
        """hello runs"""
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", self.gdevd.example("hello")])
        self.assertEqual(code, 0, out + err)
        self.assertIn(" 0 wrong", out)

    def test_ptask(self):
        """The dataflow graphs compute what the CPU computes, as graphs and in four ways by hand"""
        for command in (["pipeline"], ["split"], ["sort", "--variant=all", "--repeat=2", "12"],
                        ["fdtd", "--variant=all", "16", "3"], ["group", "--variant=all", "8192", "200"],
                        ["pca", "--variant=all", "48", "3"],
                        *(["gesture", f"--form={form}", "--frames=12", "--width=80", "--height=60"]
                          for form in ("host", "handcode", "modular", "pipes", "ptask")),
                        *(["matrices", "--variant=all", "--repeat=2", shape, task, "48", "4", "3"]
                          for shape in ("tree", "rectangle", "columns") for task in ("madd", "gemm", "mcopy"))):
            code, out, err = self.gdevd.run(
                [self.gdevd.gdev, "run", self.gdevd.example(f"ptask-{command[0]}"), *command[1:]])
            self.assertEqual(code, 0, f"{command}: {out}{err}")

    @integ.measured
    def test_ptask_steadily(self):
        """A graph that nobody competes with goes on without gdevd"""
        def wakeups():
            with open(f"/proc/{self.gdevd.process.pid}/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("voluntary"))

        graph = self.gdevd.popen([self.gdevd.gdev, "run", self.gdevd.example("ptask-matrices"), "--rates", "rectangle", "madd", "64",
                                  "6", "6"], stdin=-1, stdout=-1, text=True)
        for seconds in (1, 3):  # the first time code is loaded, and memory is taken
            before, begun = wakeups(), time.monotonic()
            graph.stdin.write(f"{seconds}\n")
            graph.stdin.flush()
            invocations = float(graph.stdout.readline()) * seconds
        # Of its own gdevd wakes up a few times a second, which a slow machine's invocations are not many against.
        woken, most = wakeups() - before, invocations / 20 + 20 * (time.monotonic() - begun)
        graph.stdin.close()
        self.assertEqual(graph.wait(60), 0)
        graph.stdout.close()
        self.assertLess(woken, most)

    def test_dataflow(self):
        """dataflow computes what the CPU computes: by hand, in processes, and with shared memory"""
        graphs = [("hand", shape, task) for shape in ("tree", "rectangle")
                  for task in ("madd", "mmul", "mcopy")]
        # A process for each node: on hardware each of them opens a context.
        graphs += [(variant, *graph) for variant in ("modular", "shm")
                   for graph in (("tree", "madd"), ("rectangle", "mmul"))][:4 if SOFTWARE else 1]
        for variant, shape, task in graphs:
            code, out, err = self.gdevd.run(
                [self.gdevd.gdev, "run", self.gdevd.example("dataflow"), "--json", "--repeat=2",
                 f"--variant={variant}", f"--shape={shape}", f"--task={task}", "48"])
            self.assertEqual(code, 0, f"{variant} {shape} {task}: {out}{err}")
            self.assertIs(json.loads(out)["verified"], True)
        # What was shared went with the last process.
        self.assertEqual(self.gdevd.status()["vgpus"][0]["shared_segments"], 0)

    def test_devices(self):
        """The programs of several devices compute on one, two and three what the CPU computes"""
        with Gdevd(BUILD, {**MEMORY, **({"devices": "cpu:2"} if SOFTWARE else {})},
                   {"gdev0": {}, "b": {}, "c": {}}) as gdevd:
            for vgpus in ("gdev0", "gdev0,gdev1" if SOFTWARE else "gdev0,b", "b,c", "gdev0,b,c"):
                for name, size in (("mmuls", 16), ("mmuls", 200), ("halo", 1), ("halo", 130), ("ring", 1),
                                   ("ring", 100003)):
                    code, out, err = gdevd.run(
                        [gdevd.gdev, "run", "--vgpu", vgpus, gdevd.example(name), "--json", "--repeat=2", str(size)])
                    self.assertEqual(code, 0, f"{name} {size} on {vgpus}: {out}{err}")
                    self.assertIs(json.loads(out)["verified"], True)

    def test_measured(self):
        """The programs that `scripts/bench cpu` measures besides compute what the CPU computes"""
        for name, size in MEASURED.items():
            code, out, err = self.gdevd.run(
                [self.gdevd.gdev, "run", BUILD / "bench" / "cpu" / name, "--json", "--repeat=2", str(size)])
            self.assertEqual(code, 0, f"{name} {size}: {out}{err}")
            self.assertIs(json.loads(out)["verified"], True)

    def test_other_libraries(self):
        """The other libraries that examples are measured on have what they call"""
        for library in ("direct", "cpu/openmp"):
            folder = BUILD / "bench" / library
            if not (folder / "libcuda.so.1").exists():
                continue
            code, out, err = self.gdevd.run([self.gdevd.example("madd"), "--json", "16"],
                                            environment={"LD_LIBRARY_PATH": str(folder),
                                                         "ASAN_OPTIONS": "detect_leaks=0"})  # of others' code
            self.assertEqual(code, 0, f"{library}: {out}{err}")
            self.assertIs(json.loads(out)["verified"], True)

    def test_usage(self):
        """A command line that is wrong is refused before anything is opened"""
        for arguments in (["0"], ["-1"], ["12x"], ["--seed="], ["1", "2"], ["--nonsense"],
                          ["99999999999"]):
            code, _, err = self.gdevd.run([self.gdevd.example("madd"), *arguments])
            self.assertEqual(code, 2, arguments)
            self.assertTrue(err, arguments)

    def test_turns(self):
        """With --turns a program computes as often as each line says, and answers each"""
        child = self.gdevd.popen(
            [self.gdevd.gdev, "run", self.gdevd.example("madd"), "--json", "--turns", "64"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        out, _ = child.communicate("2\n3\n", 60)
        *answers, report = out.splitlines()
        self.assertEqual(len(answers), 2, out)
        for answer in answers:
            whole, kernels, copies = map(float, answer.split())
            self.assertGreater(min(kernels, copies), 0, answer)
            self.assertLessEqual(kernels + copies, whole, answer)
        self.assertEqual(json.loads(report)["launches"], 5)
        self.assertIs(json.loads(report)["verified"], True)

    def test_too_large(self):
        """A program that wants more memory than there is says so, and what to do"""
        code, _, err = self.gdevd.run(
            [self.gdevd.gdev, "run", "--vgpu", "small", self.gdevd.example("cpy"), "2048"],
            environment={"ASAN_OPTIONS": "detect_leaks=0"})  # it ends where it is
        self.assertEqual(code, 2, err)
        self.assertIn("smaller SIZE", err)


def named(name):
    def test(self):
        self.check(name)

    test.__doc__ = f"{name} computes what the CPU computes"
    return test


for program in SIZES:
    setattr(Examples, f"test_{program}", named(program))

if __name__ == "__main__":
    integ.main()
