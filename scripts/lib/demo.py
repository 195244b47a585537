# SPDX-License-Identifier: MIT
"""Runs CUDA programs at the same time on one software GPU, each through `gdev run`, and shows what
became of them. Expects a built tree; scripts/demo builds it. Exit status 0: every result is right."""

import argparse
import json
import sys
import threading
import time

import lab
from lab import ROOT, Gdevd, LabError

# Sizes that take seconds on two cores; --scale makes them longer.
PROGRAMS = [
    ("loop", 40, 1),
    ("madd", 2048, 20),
    ("mmul", 1536, 8),
    ("lud", 1536, 2),
]


class Run:
    """A program that runs; what it says on stderr is shown as it comes."""

    def __init__(self, gdevd, name, size, repeat):
        self.name = name
        self.child = gdevd.popen(
            [gdevd.gdev, "run", gdevd.example(name), "--json", "--progress", f"--repeat={repeat}",
             str(size)],
            stdout=-1, stderr=-1, text=True)
        self.report = {}
        self.thread = threading.Thread(target=self.show, daemon=True)
        self.thread.start()

    def show(self):
        for line in self.child.stderr:
            print(f"  {line}", end="", flush=True)

    def wait(self, timeout):
        out = self.child.stdout.read()
        self.child.wait(timeout)
        self.thread.join(timeout)
        if out.strip():
            self.report = json.loads(out.strip().splitlines()[-1])
        return self


def mebibytes(count):
    return f"{count / (1 << 20):.1f} MiB"


def session_of(status, run):
    """What gdevd recorded of the program's session; {} when it has nothing."""
    for session in status.get("ended", []):
        if session.get("pid") == run.child.pid:
            return session
    return {}


def table(runs, status):
    rows = [("program", "virtual GPU", "wall time", "compute time", "bytes copied", "verified")]
    for run in runs:
        session = session_of(status, run)
        rows.append((
            run.name,
            session.get("vgpu", "?"),
            f"{run.report.get('wall_ms', 0) / 1e3:.2f} s",
            f"{session.get('compute_ns', 0) / 1e9:.2f} s",
            mebibytes(session.get("to_device_bytes", 0) + session.get("from_device_bytes", 0)),
            "yes" if run.report.get("verified") and run.child.returncode == 0 else "NO",
        ))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i in (0, 1, 5) else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip())


def demo(build, scale):
    with Gdevd(build) as gdevd:
        print(f"gdevd is running on the software GPU; starting {len(PROGRAMS)} programs at once: "
              f"{', '.join(name for name, _, _ in PROGRAMS)}", flush=True)
        start = time.monotonic()
        runs = [Run(gdevd, name, size, repeat * scale) for name, size, repeat in PROGRAMS]
        for run in runs:
            run.wait(600)
        seconds = time.monotonic() - start
        status = gdevd.status()
        print()
        table(runs, status)
        verified = sum(run.child.returncode == 0 and run.report.get("verified") is True
                       for run in runs)
        unknown = [run.name for run in runs if not session_of(status, run)]
        if unknown or verified != len(runs):
            print(f"\ngdevd's log:\n{gdevd.log()}", file=sys.stderr)
        if unknown:
            print(f"demo: gdevd has no record of {', '.join(unknown)}", file=sys.stderr)
        print(f"\nall at once in {seconds:.1f} s")
        print(f"{len(runs)} programs, {verified} verified")
        return 0 if verified == len(runs) and not unknown else 1


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--build", default=ROOT / "build", help="a folder that scripts/build made")
    parser.add_argument("--scale", type=int, default=1, metavar="N",
                        help="let each program compute N times as much")
    options = parser.parse_args()
    lab.end_on_signals()
    try:
        return demo(options.build, options.scale)
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
