# SPDX-License-Identifier: MIT
"""Dataflow graphs on a GPU, for `scripts/hardware --only ptask`, or of it ptask-tests, ptask-work, ptask-gesture: the tests of
tests/ptask, the pipeline, and the metrics of `scripts/bench ptask` and `ptask-gesture` (dataflow.py says what they are; each
piece of work verifies its results). What is otherwise here:

  *.cublas           pca by hand with cuBLAS, if a library is found: the machine's toolkit's, or PyTorch's
  two_devices        by the simulation of tests/ptask/test_scaling.c, with the times of `simulated.run_us` and `simulated.copy_us`, which are
                     measured here; one card cannot gain anything
  moved_pct          on two virtual GPUs of the card
  invoke_across_us   as there; all processes share the card's one worker

Six minutes in all."""

import glob
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import dataflow
from lab import ROOT, LabError

# Tests that want several devices, and those that use none.
PEERS, ALONE = ("test_ptask_devices", "test_ptask_random"), ("test_ptask_members", "test_ptask_policies", "test_ptask_scaling")
AT_ONCE = 4
LARGE = [("matrices", shape, "gemm", 1024, width, depth) for shape, width, depth in (("tree", 8, 0), ("rectangle", 4, 6))]
N = 1024  # of Figure 12's matrices
GESTURE = {"unconstrained": ("--frames=1000",), "real-time": ("--real-time", "--frames=60")}
CUBLAS = ["/usr/local/cuda*/lib64/libcublas.so.*", "/usr/local/cuda*/targets/*/lib/libcublas.so.*",
          "/usr/lib/x86_64-linux-gnu/libcublas.so.*"]


def check_tests(sides, tap, run_test, say):
    """(passed, failed) of each test, some at a time."""
    build = sides.gdevd.build
    folder, cuda = build / "tests" / "ptask", ROOT / "tests" / "cuda"
    tests = {}
    for program in filter(os.path.isfile, sorted(folder.glob("test_ptask_*"))):
        runner = [sys.executable, "-B", cuda / ("peer.py" if program.name in PEERS else "run.py")]
        tests[program.name] = [*([] if program.name in ALONE else runner), program]
    storm = [sys.executable, "-B", ROOT / "tests" / "ptask" / "test_storm.py", folder / "ptask_storm"]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        stormed = pool.submit(run_test, sides, storm, 120)
        told = pool.map(lambda test: (time.monotonic(), run_test(sides, test, 120), time.monotonic()), tests.values())
        counts = [tap(*answer).say(name, end - start) for name, (start, answer, end) in zip(tests, told)]
    code, text = stormed.result()
    if code:
        print(text[-3000:], flush=True)
    counts.append(say(not code, "ptask storm"))
    for name in "ptask-pipeline", "ptask-split":
        code, out, err = sides.gdevd.run([sides.gdevd.gdev, "run", sides.gdevd.example(name)], 60)
        counts.append(say(not code, f"{name}: {(out + err).strip()[-300:]}"))
    return counts


def find_cublas():
    site = [path + pattern for path in sys.path if path.endswith("packages")
            for pattern in ("/nvidia/cu*/lib/libcublas.so.*", "/nvidia/cublas/lib/libcublas.so.*")]
    found = [path for pattern in CUBLAS + site for path in sorted(glob.glob(pattern))]
    return found[0] if found else None


def measure_work(gdevd, failed):
    cublas = find_cublas()
    print(f"         cuBLAS: {cublas or 'skipped: none was found'}", flush=True)
    environment = {}
    if cublas:  # beside it is what it needs
        environment = {"CUBLAS_LIBRARY": cublas, "LD_LIBRARY_PATH": ":".join(
            filter(None, [os.path.dirname(cublas), os.environ.get("LD_LIBRARY_PATH")]))}
    yield from dataflow.ratios(gdevd, dataflow.WORK + LARGE, environment, failed)


def calls(gdevd):
    """bench/ptask.c, ptask_across.c and ptask_workers.c."""
    for name in ("ptask", "ptask_across", "ptask_workers"):
        code, out, err = gdevd.run([gdevd.gdev, "run", gdevd.build / "bench" / f"bench_{name}"], 120)
        if code:
            raise LabError(f"bench_{name}: {err}")
        for line in map(json.loads, out.splitlines()):
            yield line["metric"], line["value"], line["baseline"], line["unit"]


def hand_us(gdevd, *how):
    line, = dataflow.run(gdevd, "matrices", "--variant=hand", "--repeat=9", *how)
    return line["round_us"]


def simulate(gdevd):
    """Figure 12 by this card's times: what a level more takes, with a source a task and without."""
    run_us = (hand_us(gdevd, "rectangle", "gemm", N, 8, 6) - hand_us(gdevd, "rectangle", "gemm", N, 8, 1)) / 40
    level_us = (hand_us(gdevd, "columns", "gemm", N, 8, 6) - hand_us(gdevd, "columns", "gemm", N, 8, 1)) / 40
    copy_us = max(level_us - run_us, 0)
    code, out, err = gdevd.run([gdevd.build / "tests" / "ptask" / "test_ptask_scaling", run_us / 1000, copy_us / 1000])
    if code:
        raise LabError(f"test_ptask_scaling: {err}")
    yield "simulated.run_us", run_us, 1, "us"
    yield "simulated.copy_us", copy_us, 1, "us"
    yield "two_devices", json.loads(out)["two_devices"], 1, "x"


def moved(start):
    with start({"gdev0": {}, "other": {}}) as gdevd:
        found = [dataflow.columns(gdevd, ["gdev0", "other"], "data-aware", depth, N // 2)[1] for depth in (1, 3, 6)]
    yield "moved_pct", sum(found) / len(found), 1, "%"


def check(sides, start, parts, hooks, take):
    """(passed, failed), a pair a check. Whatever fails, the rest is tried. `hooks`: Tap, run_test and say of hardware.py."""
    tap, run_test, say = hooks
    counts = check_tests(sides, tap, run_test, say) if "ptask-tests" in parts else []

    def failed(what, error):
        counts.append(say(False, f"{what}: {str(error)[-1500:]}"))

    measurements = {
        "ptask-work": [lambda: measure_work(sides.gdevd, failed), lambda: calls(sides.gdevd), lambda: simulate(sides.gdevd),
                       lambda: moved(start), lambda: dataflow.priorities(start, 2, rounds=2)],
        "ptask-gesture": [lambda: dataflow.gesture(sides.gdevd, GESTURE, 1)],
    }
    for part in filter(measurements.get, parts):
        for measurement in measurements[part]:
            try:
                for metric, value, baseline, unit in measurement():
                    take(metric, (value, baseline, unit), part.replace("-work", ""))
            except (LabError, subprocess.TimeoutExpired, ValueError) as error:
                failed(part, error)
    return counts


EACH = ["ptask-tests", "ptask-work", "ptask-gesture"]
PARTS = {"ptask": EACH, **{part: [part] for part in EACH}}
