# SPDX-License-Identifier: MIT
"""What scripts/hardware --only vendor-tests keeps of a library that answers otherwise, and crashes: ours with
odd.c before it stands for NVIDIA's.

usage: test_answers.py LIBRARY_OF_ODD_C TEST_ERRORS
"""
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import hardware  # noqa: E402
import lab  # noqa: E402

EXPECTED = ["## Otherwise than expected", "`cuMemAlloc_v2(NULL, 16)` | INVALID_VALUE | INVALID_HANDLE |",
            "## NVIDIA's library crashes, as", "`cuDriverGetVersion(NULL)` | INVALID_VALUE | - |"]


class Odd(hardware.Sides):
    def environment(self, side):
        return {"LD_PRELOAD": self.vendor}


def main():
    odd, program = sys.argv[1:]
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build")
    hardware.cuda_programs = lambda sides: [Path(program)]
    with tempfile.TemporaryDirectory() as folder, lab.Gdevd(build, {"device_memory": "1G"}, {"gdev0": {}}) as gdevd:
        folder = Path(folder) / "results"
        _, failed = hardware.check_vendor(Odd(gdevd, odd), folder, {"device": "an odd one"})
        report = (folder / "errors.md").read_text()
        log = (folder / "vendor-tests.log").read_text()
        rows = (folder / "errors.tsv").read_text().splitlines()
    print(report)
    missing = [text for text in EXPECTED if text not in report]
    print(f"{len(rows)} rows, {failed} failed, missing: {missing}")
    same = sum("\tsame\t" in row for row in rows)
    return 1 if missing or failed < 2 or same < 800 or "cuDriverGetVersion" not in log else 0


sys.exit(main())
