# SPDX-License-Identifier: MIT
"""What `gdev run --check` says of each kernel of faults.cu and faults_tiles.cu: the fault that its comment names, at that line, and nothing
else; and nothing of programs without faults.

usage: test.py PROGRAM EXAMPLE...
       test.py --ptx     makes faults.ptx and faults_tiles.ptx anew
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = ["faults", "faults_tiles"]
sys.path.insert(0, str(HERE.parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

STATUS = 77 + 1
REPORT = re.compile(r"=+ (.*)\n=+   at kernel (\w+), line \d+ of the PTX, \S*/(\w+)\.cu:(\d+)\n"
                    r"=+   by thread \(\d+,\d+,\d+\) of block \(\d+,\d+,\d+\)\n=+   (.*)")


def make_ptx():
    for source in SOURCES:
        subprocess.run(["clang-19", "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib",
                        "--cuda-gpu-arch=sm_90", "--cuda-path=/nonexistent", "--cuda-feature=+ptx80", "-fdeclspec",
                        "-gline-tables-only", f"-ffile-prefix-map={HERE.parents[2]}/=", "-O2",
                        "-S", "-I" + str(HERE.parents[2] / "examples"), source + ".cu", "-o", source + ".ptx"], cwd=HERE,
                       check=True)


def planted():
    """The kernels, and (kernel, place, first words of the report) of each fault."""
    kernels, faults = [], []
    for source in SOURCES:
        for number, line in enumerate((HERE / (source + ".cu")).read_text().splitlines(), 1):
            begins = re.match(r"KERNEL (\w+)\(", line)
            if begins:
                kernels.append(begins.group(1))
            fault = re.search(r"/\* FAULT: (.*?) \*/", line)
            if fault:
                faults.append((kernels[-1], f"{source}.cu:{number}", fault.group(1)))
    return kernels, faults


def main():
    kernels, faults = planted()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build")
    wrong = []
    with lab.Gdevd(build, {"device_memory": "1G"}, {"gdev0": {}}) as gdevd:
        code, out, err = gdevd.run([gdevd.gdev, "run", "--check", f"--error-exitcode={STATUS}", sys.argv[1], *kernels],
                                   timeout=550)
        reports = [(kernel, f"{source}.cu:{line}", title, detail)
                   for title, kernel, source, line, detail in REPORT.findall(err)]
        for kernel, place, title, detail in reports:
            if not any(fault[:2] == (kernel, place) and title.startswith(fault[2]) for fault in faults):
                wrong.append(f"{kernel}, {place}: {title}: {detail} (there is no such fault)")
        for kernel, place, title in faults:
            if not any(report[:2] == (kernel, place) and report[2].startswith(title) for report in reports):
                wrong.append(f"{kernel}, {place}: {title}: not reported")
        if code != STATUS:
            wrong.append(f"exit status {code}")
        if "leak: 1234 bytes of device memory" not in err or err.count("leak:") != 1:
            wrong.append("leaks")
        for name in sys.argv[2:]:
            code, out, err = gdevd.run([gdevd.gdev, "run", "--check", f"--error-exitcode={STATUS}",
                                        *name.split(":")], timeout=550)
            if code or "========= 0 found" not in err:
                wrong.append(f"{name}: {code}, {err[-2000:]}")
        code, out, err = gdevd.run([gdevd.gdev, "run", "--check=initcheck", sys.argv[1], "read_fresh", "exported:read_fresh"])
        if code or "========= 1 found" not in err:
            wrong.append(f"memory that others may write: {code}, {err[-2000:]}")
        code, out, err = gdevd.run([gdevd.gdev, "run", "--check=nonsense", sys.argv[1]])
        if code != 125:
            wrong.append(f"--check=nonsense: {code}")
    print(f"{len(faults)} faults, {len(reports)} reports")
    print("\n".join(wrong))
    return 1 if wrong else 0


if sys.argv[1:] == ["--ptx"]:
    make_ptx()
else:
    sys.exit(main())
