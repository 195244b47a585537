# SPDX-License-Identifier: MIT
"""Kernels on the software GPU, against the same in OpenCL C on PoCL and in C with OpenMP: `scripts/bench cpu`.

A kernel is a program: those of examples/, and those of bench/cpu/programs/. The three sides are the same binary with three
libraries called libcuda.so.1 (bench/cpu/README.md). They are there at the same time and take turns of a few rounds, so that
whatever else the machine does meets all. Measured is the time of the kernels of a round, from the first launch to completion;
the data is already there. (`cpy` and `pincpy` have none: it is that of their copies.) At the end every side compares its
results with the same serial computation. Of a kernel's three times (medians) are made:

  geomean         speed over PoCL
  geomean_others  the same without sgemm and nbody, at which PoCL is poor
  worst           that of the kernel in which it is least
  openmp          time over OpenMP's, openmp_worst of the kernel in which it is most
  cold_ms         a small program of the Runtime API (of the Driver API where there is no nvcc) from its start to its end, when its
                  kernel is in no cache and a worker is ready; the baseline is starting a process that does nothing
  warm_ms         the same program again
  compile_cold_s  loading the largest example's module and compiling its kernels, which are in no cache: what its first
                  round takes more than later ones; load_warm_ms when they are in the cache"""

import json
import math
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from lab import ROOT, LabError
from turns import Turns

BENCHES = ["cpu"]

# Of the kernels: SIZE, for some milliseconds to some tens of them.
EXAMPLES = {
    "loop": 1, "madd": 2048, "mmul": 1024, "cpy": 64, "pincpy": 64, "bp": 262144, "bfs": 1000000, "hw": 4,
    "hs": 1024, "lud": 1024, "nn": 4000000, "nw": 2048, "srad": 1024, "srad2": 1024,
}
PROGRAMS = {
    "sgemm": 500, "reduction": 4 << 20, "scan": 4 << 20, "histogram": 16 << 20, "bitonic": 1 << 19, "nbody": 4096,
    "blackscholes": 1 << 20, "aes": 1 << 18, "stencil": 192, "spmv": 200000, "mandelbrot": 1024, "transpose": 2048,
    "radix": 1 << 20,
}
KERNELS = {**EXAMPLES, **PROGRAMS}
POOR_ON_POCL = {"sgemm", "nbody"}

SIDES = ["gdev", "opencl", "openmp"]
MISSING = {
    "opencl": "PoCL is missing; install pocl-opencl-icd, ocl-icd-opencl-dev and opencl-headers",
    "openmp": "OpenMP is missing; use a C compiler that has -fopenmp",
}
TURNS = 15         # of a kernel, or fewer, TURNS_MIN, of one that takes longer than KERNEL_S in all
TURNS_MIN = 3
KERNEL_S = 12
TURN_MS = 40       # about as long as a turn is
PAUSE_S = 0.01     # between turns: threads of the one before go on waiting for work for a while
SPINS = "1000"     # before a thread of OpenMP sleeps: where other programs run, it keeps from work those that it waits for
STARTS = 5
LARGEST = ["lud", 64]


def add_options(parser):
    group = parser.add_argument_group("kernels on the software GPU")
    group.add_argument("--only", metavar="NAME", nargs="+", choices=list(KERNELS), help="cpu: these kernels")


class Side(Turns):
    """One of the three, computing when it is told to; ms are of kernels."""

    def __init__(self, gdevd, name, kernel, size):
        folder = gdevd.build / "bench" / "cpu"
        binary = gdevd.example(kernel) if kernel in EXAMPLES else folder / kernel
        command = [binary, "--json", "--turns", size]
        environment = {}
        if name == "gdev":
            command = [gdevd.gdev, "run", *command]
        else:
            environment = {
                "LD_LIBRARY_PATH": str(folder / name),
                "BENCH_OPENCL_TEXT": str(folder / f"{kernel}.cl"),
                "POCL_CACHE_DIR": str(gdevd.directory / "pocl"),
                "GOMP_SPINCOUNT": SPINS,
            }
        self.name = name
        super().__init__(gdevd, command, environment)

    def time_of(self, answer):
        _whole, kernels, copies = map(float, answer.split())
        return kernels or copies

    def end(self):
        self.child.stdin.close()

    def verdict(self):
        if self.child.wait():
            raise LabError(f"{self.name}: {self.command} ended with {self.child.returncode}")
        self.child.stdout.close()


def in_turns(gdevd, kernel, size):
    """Median ms of a round of each side."""
    sides = [Side(gdevd, name, kernel, size) for name in SIDES]
    begin = time.monotonic()
    for side in sides:
        side.turn(1)  # the first one compiles
    rounds = max(1, min(100, int(TURN_MS / max(side.ms[0] for side in sides))))
    for side in sides:
        side.ms.clear()
    for i in range(TURNS):
        if i >= TURNS_MIN and time.monotonic() - begin > KERNEL_S:
            break
        for side in sides[i % 3:] + sides[:i % 3]:
            time.sleep(PAUSE_S)
            side.turn(rounds)
    for side in sides:
        side.end()  # all, so that they compute serially at the same time
    for side in sides:
        side.verdict()
    return [statistics.median(side.ms) for side in sides]


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def metric(name, value, unit="x", baseline=1, **more):
    return {"bench": "cpu", "metric": name, "value": value, "unit": unit, "baseline": baseline,
            "ratio": value / baseline, **more}


# -- starts -------------------------------------------------------------------------------------------

def hello(gdevd, folder):
    """A small program, as its users build it."""
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not nvcc:
        return gdevd.example("hello")
    program = Path(folder) / "hello"
    subprocess.run([nvcc, "-o", program, ROOT / "bench" / "cpu" / "hello.cu"], check=True)
    return program


def ms_of(gdevd, command):
    begin = time.monotonic()
    code, _out, err = gdevd.run(command, 60)
    if code:
        raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err}")
    return (time.monotonic() - begin) * 1e3


def load_ms(gdevd):
    """What the first round of the largest example takes for its module."""
    name, size = LARGEST
    rounds = []
    for more in [], ["--warm-up"]:
        gdevd.context_bytes(60)  # a worker is ready, and no other is being started beside
        code, out, err = gdevd.run([gdevd.gdev, "run", gdevd.example(name), "--json", *more, size], 60)
        if code:
            raise LabError(f"{name} ended with {code}:\n{err}")
        rounds.append(json.loads(out))
    first, later = rounds
    return first["load_ms"] + first["compute_ms"] - later["compute_ms"]


def starts(start):
    cold, warm, nothing, compiled, loaded = [], [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(STARTS):
            with start() as gdevd:
                command = [gdevd.gdev, "run", hello(gdevd, folder)]
                gdevd.context_bytes(60)  # a worker is ready
                cold.append(ms_of(gdevd, command))
                for _ in range(STARTS):
                    gdevd.context_bytes(60)
                    warm.append(ms_of(gdevd, command))
                    nothing.append(ms_of(gdevd, ["true"]))
                compiled.append(load_ms(gdevd) / 1e3)
                loaded += [load_ms(gdevd) for _ in range(STARTS)]
    for name, found in (("cold_ms", cold), ("warm_ms", warm)):
        yield metric(name, statistics.median(found), "ms", statistics.median(nothing))
    yield metric("compile_cold_s", statistics.median(compiled), "s")
    yield metric("load_warm_ms", statistics.median(loaded), "ms")


# -- all ----------------------------------------------------------------------------------------------

def results(start, options):
    with start() as gdevd:
        for side in SIDES[1:]:
            if not (gdevd.build / "bench" / "cpu" / f"libcuda-{side}.so").exists():
                raise LabError(f"{MISSING[side]}; then remove {gdevd.build} and run this again")
        speed, openmp = {}, {}
        for kernel in options.only or KERNELS:
            ours, pocl, in_c = in_turns(gdevd, kernel, KERNELS[kernel])
            speed[kernel], openmp[kernel] = pocl / ours, ours / in_c
            yield metric(kernel, ours, "ms", pocl, openmp=in_c)
    yield metric("geomean", geomean(speed.values()))
    others = [value for kernel, value in speed.items() if kernel not in POOR_ON_POCL]
    if others:
        yield metric("geomean_others", geomean(others))
    yield metric("worst", min(speed.values()))
    yield metric("openmp", geomean(openmp.values()))
    yield metric("openmp_worst", max(openmp.values()))
    if not options.only:
        yield from starts(start)


def show(found):
    print(f"{'ms':14} {'gdev':>9} {'PoCL':>9} {'OpenMP':>9}   speed over PoCL   time over OpenMP")
    for f in found:
        if "openmp" in f:
            print(f"{f['metric']:14} {f['value']:9.3f} {f['baseline']:9.3f} {f['openmp']:9.3f}"
                  f"   {f['baseline'] / f['value']:15.2f}   {f['value'] / f['openmp']:16.2f}")
    for f in found:
        if "openmp" not in f:
            print(f"{f['metric']:14} {f['value']:9.3f} {f['unit']}")
