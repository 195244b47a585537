# SPDX-License-Identifier: MIT
"""Runs the programs of tests/cuda/programs, each of which shows one feature of CUDA and checks itself.

usage: programs.py [--build FOLDER] [--json FILE] [NAME...]

On the software GPU, or on GDEV_TEST_DEVICE. `scripts/test programs` runs all of them so, and `scripts/hardware --only
programs-suite` runs them on a GPU, through gdev and with the vendor's library alone. The exit status is 0 if each program
passed, was skipped because the device has no such thing, or fails as MISSING says.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lab
from lab import ROOT, Gdevd

SOURCES = ROOT / "tests" / "cuda" / "programs"
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
TIMEOUT = 60
LIBRARY_TIMEOUT = 300  # the software GPU compiles many large kernels of a library

# What gdev has not yet: {program: {side: why}}. A program that is named here and passes is a failure, too.
MISSING = {
    "runtime/graph_device_launch": {"hardware": "the NVIDIA backend takes no graphs that kernels launch"},
}


class Program:
    """One source. Its comment says what it shows, and may say how it is to be built: ` * nvcc ARGUMENTS`."""

    def __init__(self, source):
        self.source = source
        self.name = f"{source.parent.name}/{source.stem}"
        comment = source.read_text().partition("*/")[0].splitlines()[2:]
        lines = [line.strip(" *") for line in comment]
        self.arguments = [word for line in lines if line.startswith("nvcc ") for word in line.split()[1:]]
        text = " ".join(line for line in lines if not line.startswith("nvcc "))
        self.shows = min((text.split(mark)[0] for mark in (". ", ": ")), key=len).strip().rstrip(".")
        self.timeout = LIBRARY_TIMEOUT if source.stem.startswith("library_") else TIMEOUT
        self.several = source.stem.startswith("peer_")  # wants two devices

    def binary(self, build):
        return build / "tests" / "cuda" / "programs" / self.name

    def build(self, build):
        """Builds it if it is older than what it is made of. What the compiler said, if that failed."""
        binary, words = self.binary(build), self.arguments
        sources = [self.source, *(self.source.parent / word for word in words if word.endswith(".cu"))]
        beside = [SOURCES / "program.h", *self.source.parent.glob("*.h"), *self.source.parent.glob("*.ptx")]
        if binary.exists() and binary.stat().st_mtime > max(path.stat().st_mtime for path in sources + beside):
            return ""
        binary.parent.mkdir(parents=True, exist_ok=True)
        if self.source.suffix == ".cu":
            command = [NVCC, "-o", binary, *sources, *(word for word in words if not word.endswith(".cu"))]
        else:
            command = ["cc", "-std=gnu17", "-Wall", "-O1", f"-I{ROOT}/include/gdev/cuda",
                       f'-DKERNELS_PTX="{self.source.parent}/kernels.ptx"', "-o", binary, *sources,
                       build / "lib" / "cuda" / "libcuda.so.1"]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.stderr + done.stdout if done.returncode else ""

    def lacks(self):
        """A library that it is to be linked with, and that is not there, or None."""
        root = Path(NVCC).resolve().parents[1]
        folders = [root / name for name in ("lib64", "lib64/stubs", "lib", "lib/stubs")]
        wanted = [word[2:] for word in self.arguments if word.startswith("-l")]
        return next((name for name in wanted if not any([*folder.glob(f"lib{name}.*")] for folder in folders)), None)

    def run(self, gdevd, side, environment):
        """(what came of it, all that it said)"""
        binary = self.binary(gdevd.build)
        if not NVCC and self.source.suffix == ".cu":
            return "skipped: there is no nvcc on this machine", ""
        if NVCC and (library := self.lacks()):
            return f"skipped: there is no lib{library} on this machine", ""
        if wrong := self.build(gdevd.build):
            return "failed: it cannot be built", wrong
        command = [binary]
        if side != "vendor":
            command = [gdevd.gdev, "run", *(["--vgpu", "gdev0,other"] if self.several else []), binary]
        try:
            code, out, err = gdevd.run(command, self.timeout, environment)
        except subprocess.TimeoutExpired:
            return f"failed: no end within {self.timeout} s", ""
        last = (out.strip().splitlines() or ["it said nothing"])[-1]
        if code == 0 and last == "passed":
            return "passed", ""
        if code == 77 and last.startswith("skipped: "):
            return last, ""
        return f"failed: {last}" if code == 1 else f"failed: it ended with {code}: {last}", f"{out}{err}"


def all_programs():
    sources = [*SOURCES.glob("runtime/*.cu"), *SOURCES.glob("driver/*.c")]
    return [Program(source) for source in sorted(sources) if not source.stem.endswith("_part")]


def judge(program, side, result):
    """What is wrong with a result, or None."""
    reason = MISSING.get(program.name, {}).get(side)
    if reason and result == "passed":
        return "it passes, and MISSING says that it cannot"
    return result if result.startswith("failed") and not reason else None


def run(gdevd, side, programs, environment=None, at_once=2):
    """{name: result} of these programs, in any order; prints what is wrong."""
    def one(program):
        result, text = program.run(gdevd, side, {"GDEV_LOG": "failed", **(environment or {})})
        wrong = judge(program, side, result)
        if wrong:
            lines = "".join(f"         {line}\n" for line in text.splitlines()[-12:])
            print(f"  FAIL {side}: {program.name}: {wrong}\n{lines}", end="", flush=True)
        return program.name, result, wrong

    with ThreadPoolExecutor(at_once) as pool:
        told = list(pool.map(one, programs))
    results = {name: result for name, result, _ in told}
    wrong = sum(bool(bad) for _, _, bad in told)
    kinds = [result.partition(":")[0] for result in results.values()]
    print(f"  {side}: {kinds.count('passed')} of {len(kinds)} passed, {kinds.count('skipped')} skipped, "
          f"{kinds.count('failed')} failed, of which {kinds.count('failed') - wrong} are known to be missing", flush=True)
    return results, wrong


def save(file, programs, side, results, about):
    """Sets the side's results in the file, a program a line, and keeps those of the other sides."""
    kept = {}
    if file.exists():
        kept = {line["program"]: line for line in map(json.loads, file.read_text().splitlines())}
    lines = []
    for program in programs:
        line = {"program": program.name, "shows": program.shows}
        line.update({key: value for key, value in kept.get(program.name, {}).items() if key not in line})
        if program.name in results:
            why = MISSING.get(program.name, {}).get(side)
            missing = {"missing": why} if why and results[program.name] != "passed" else {}
            line[side] = {"result": results[program.name], **missing, **about}
        lines.append(line)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def lab_for(build, device):
    """A gdevd that has what the programs want: a second virtual GPU, for those of several devices."""
    memory = {"device_memory": "2G"} if device == "cpu" else {}
    return Gdevd(build, {"device": device, **memory}, {"gdev0": {}, "other": {}})


def main():
    parser = argparse.ArgumentParser(prog="programs.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("GDEV_BUILD") or ROOT / "build"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the results there")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of programs, or parts of names (default: all)")
    options = parser.parse_args()
    lab.end_on_signals()
    programs = everything = all_programs()
    if options.names:
        programs = [program for program in programs if any(name in program.name for name in options.names)]
    side, start = "software" if lab.SOFTWARE else "hardware", time.monotonic()
    with lab_for(options.build, lab.DEVICE) as gdevd:
        results, wrong = run(gdevd, side, programs)
        if wrong:
            print("gdevd's log:\n" + gdevd.log(20), file=sys.stderr)
    print(f"  in {time.monotonic() - start:.0f} s")
    if options.json:
        save(options.json, everything, side, results, {})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
