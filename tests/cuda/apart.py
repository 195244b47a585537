# SPDX-License-Identifier: MIT
"""What waits for one device keeps nobody from another, nor from fork (apart.c).

usage: apart.py PROGRAM
"""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402


def main():
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build")
    memory = {"device_memory": "1G"} if lab.SOFTWARE else {}
    with lab.Gdevd(build, memory, {"gdev0": {}, "second": {}, "third": {}}) as gdevd:
        # Forked children end without giving back what they have.
        options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        program = gdevd.popen([gdevd.gdev, "run", "--vgpu", "gdev0,second,third", sys.argv[1], gdevd.process.pid], {"ASAN_OPTIONS": options},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        # It has a session on the first two devices, and wants to know the worker of the first.
        if program.stdout.readline() == "ready\n":
            worker = next(s["worker_pid"] for s in gdevd.status()["sessions"] if s["vgpu"] == "gdev0")
            program.stdin.write(f"{worker}\n")
            program.stdin.flush()
        for line in program.stdout:
            print(line, end="", flush=True)
        code = program.wait(250)
        if code:
            print("# gdevd's log:\n# " + gdevd.log(40).replace("\n", "\n# "))
    return 1 if code else 0


sys.exit(main())
