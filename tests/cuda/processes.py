# SPDX-License-Identifier: MIT
"""Beginnings and ends of processes that use CUDA: exits while threads launch, forks, dlclose, which devices
CUDA_VISIBLE_DEVICES shows, and what GDEV_LOG says of calls that fail.

usage: processes.py PROGRAM   (tests/cuda/processes.c; GDEV_TEST_REPEAT: how often each exit is tried, 10)
"""
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

EXITS = {"exit-under-way": 7, "exit-from-a-thread": 8, "call-at-exit": 9, "exit-with-work-queued": 10}
ONCE = ["fork-and-start-anew", "fork-under-way", "contexts-between-threads", "many-contexts", "open-and-close"]
NO_DEVICE = ["100"]
DEVICE = "GPU-67646576-2d73-6f66-7477-6172652d3000"  # the software GPU's, and so that of its first virtual GPU


class Checks:
    def __init__(self):
        self.count = self.failed = 0

    def check(self, name, good, why=""):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}", flush=True)
        if not good:
            print("# " + str(why).replace("\n", "\n# "))


def visible(checks, run):
    code, out, err = run("show-devices")
    every = out.split()
    checks.check("two devices are seen without CUDA_VISIBLE_DEVICES", code == 0 and len(set(every)) == 2, out + err)
    if len(every) != 2:
        return
    _, out, err = run("show-list")
    checks.check("programs that count the machine's cards are told how many they have", out.strip() == "0,1", out + err)
    _, out, err = run("show-list", {"CUDA_VISIBLE_DEVICES": "1"})
    checks.check("and not if CUDA_VISIBLE_DEVICES is set", out.strip() == "1", out + err)
    a, b = every
    cases = {
        "0": [a], "1": [b], "1,0": [b, a], "0,1,7": [a, b], "7,0": NO_DEVICE, "-1": NO_DEVICE, "": NO_DEVICE,
        "0,-1,1": [a], "0,0": NO_DEVICE, "nothing": NO_DEVICE, " 1": [b], "0,nothing,1": [a], "1x": [b],
        b: [b], f"{b},{a}": [b, a], "GPU-" + b[4:].upper(): [b], "GPU-nothing": NO_DEVICE, "GPU-": NO_DEVICE,
        f"{a},{a}": NO_DEVICE,
        b[:30]: [b] if a[:30] != b[:30] else NO_DEVICE,  # a part that may be of both
    }
    if lab.SOFTWARE:
        cases[DEVICE] = [DEVICE]
    for value, expected in cases.items():
        _, out, err = run("show-devices", {"CUDA_VISIBLE_DEVICES": value})
        checks.check(f"CUDA_VISIBLE_DEVICES={value!r}", out.split() == expected, f"{out}{err}expected {expected}")


def reasons(checks, run):
    """What fails says nothing by itself, and why where GDEV_LOG asks."""
    quiet, said = (run("fail-in-all-ways", environment) for environment in (None, {"GDEV_LOG": "failed"}))
    checks.check("failures end as they do", quiet[0] == said[0] == 0, f"{quiet} {said}")
    checks.check("failures are silent by themselves", not quiet[2], quiet[2])
    unwanted = re.search("cuGetExportTable", said[2])
    checks.check("GDEV_LOG=failed says nothing of tables that are asked for", not unwanted, said[2])
    for pattern in (r"the image is neither PTX nor a fat binary\n", "cuMulticastCreate: not supported",
                    r"cuModuleLoadData\(.*\) = CUDA_ERROR_INVALID_IMAGE: the image is neither PTX",
                    r"cuCtxSynchronize.* = CUDA_ERROR_ILLEGAL_ADDRESS: .*: a kernel went to 0x1000\n",
                    r"cuCtxSynchronize.* = CUDA_ERROR_UNSUPPORTED_PTX_VERSION: .*kernel calling, block 1x1x1: .*line 7.*'nobody'\n",
                    r"cuModuleGetFunction\(.*\"strange\"\) = CUDA_ERROR_UNSUPPORTED_PTX_VERSION: .*line 7 of the PTX: .*'vmad",
                    r"cuMulticastCreate\(\.\.\.\) = CUDA_ERROR_NOT_SUPPORTED: gdev does not have cuMulticastCreate",
                    r"cuLaunchGrid\(.*: the kernel stray takes 8 bytes of parameters, and 4 are given\n"):
        checks.check(f"GDEV_LOG=failed says '{pattern}'", re.search(pattern, said[2]), said[2])


def main():
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build")
    repeat = int(os.environ.get("GDEV_TEST_REPEAT") or (10 if lab.SOFTWARE else 3))
    checks = Checks()
    memory = {"device_memory": "1G"} if lab.SOFTWARE else {}
    with lab.Gdevd(build, memory, {"gdev0": {}, "second": {}}) as gdevd:
        def run(case, environment=None, timeout=250):
            # Neither a forked child nor a process that exits under way gives back what it has.
            options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
            try:
                return gdevd.run([gdevd.gdev, "run", "--vgpu", "gdev0,second", sys.argv[1], case], timeout,
                                 {"ASAN_OPTIONS": options, **(environment or {})})
            except Exception as error:  # a time-out is what is looked for
                return -1, "", f"{type(error).__name__}: {error}"

        visible(checks, run)
        if lab.SOFTWARE:  # where a driver says neither these words nor the address
            reasons(checks, run)
        for case in ONCE:
            code, out, err = run(case)
            checks.check(case, code == 0, f"exit status {code}\n{out}{err}")
        for case, expected in EXITS.items():
            wrong = []
            for _ in range(repeat):
                code, out, err = run(case)
                if code != expected:
                    wrong.append(f"exit status {code}\n{out}{err}")
            checks.check(f"{case}, {repeat} times", not wrong, "\n".join(wrong[:3]))
        if checks.failed:
            print("# " + gdevd.log(40).replace("\n", "\n# "))
    print(f"1..{checks.count}")
    return 1 if checks.failed else 0


sys.exit(main())
