# SPDX-License-Identifier: MIT
"""GDEV_LOG=failed says of every call that fails why it does, in a sentence: the program of all errors runs under it.

usage: reasons.py PROGRAM   (tests/cuda/test_errors.c)
"""
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

FAILED = re.compile(r"^libcuda\[\d+\]: (cu\w+)\(.*\) = (CUDA_ERROR_\w+)(.*)$", re.M)
UNKNOWN = "the reason is not known"
LEAST = 1000  # failing calls of that program: fewer mean that the log is not what is looked at


def main():
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build")
    with lab.Gdevd(build, {"device_memory": "1G"} if lab.SOFTWARE else {}, {"gdev0": {}}) as gdevd:
        code, _, said = gdevd.run([gdevd.gdev, "run", sys.argv[1]], 550, {"GDEV_LOG": "failed"})
    calls = FAILED.findall(said)
    bare = {f"{name}: {result}{why}" for name, result, why in calls if not re.match(r": \S.{5}", why) or UNKNOWN in why}
    for line in sorted(bare):
        print(f"without a reason: {line}")
    print(f"{len(calls)} calls failed, of {len({name for name, _, _ in calls})} functions; exit status {code}")
    return 1 if code or bare or len(calls) < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
