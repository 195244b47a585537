# SPDX-License-Identifier: MIT
"""Runs one program of tests/cuda under a gdevd of its own, on the software GPU (or GDEV_TEST_DEVICE). One that launches
nothing but kernels which the driver made for tests knows, or those of its tests that do not, on that, too.

usage: run.py PROGRAM [ARGUMENT...]
With TEST_VENDOR set the program runs as it is, on whatever libcuda the machine has.
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

SANITIZED = "ASAN_OPTIONS" in os.environ  # that driver's workers would have to load the sanitizer first
FAKED = {"test_array": [], "test_array_per_thread": [], "test_green": [],
         "test_context": ["what_is_not_there_is_in_no_attribute"], "test_calls": ["tensor_maps*"]}  # the tests; [] all


def main():
    if os.environ.get("TEST_VENDOR"):
        os.execv(sys.argv[1], sys.argv[1:])
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build").resolve()
    code = run(build, {"device_memory": "1G"} if lab.SOFTWARE else {}, {})
    name = Path(sys.argv[1]).name
    if lab.SOFTWARE and not SANITIZED and name in FAKED:
        code = code or run(build, {"device": "cuda:0"},
                           {"GDEV_CUDA_DRIVER": str(build / "tests" / "device" / "libcuda-fake.so")}, FAKED[name])
    return code


def run(build, config, environment, tests=()):
    with lab.Gdevd(build, config, {"gdev0": {}}, environment) as gdevd:
        code, out, err = gdevd.run([gdevd.gdev, "run", *sys.argv[1:], *tests], timeout=550)
        sys.stdout.write(out)
        sys.stderr.write(err)
        if code:
            print("gdevd's log:\n" + gdevd.log(40), file=sys.stderr)
    return code if code >= 0 else 1


sys.exit(main())
