# SPDX-License-Identifier: MIT
"""How soon programs start, and how soon a process has what it uses for the first time: gdev in turn with the vendor's
library. For scripts/hardware."""

import json
import re
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hardware
from lab import ROOT, Gdevd, LabError

BENCHES = ["starts", "operators"]
STARTS = 24
DOZEN = 12
TURNS = 5  # of the operators


def results(name, start, options, vendor):
    with start() as gdevd:
        sides = hardware.Sides(gdevd, vendor)
        gdevd.context_bytes(60)
        yield from {"starts": starts, "operators": operators}[name](sides, options)


# -- storms of short programs -----------------------------------------------------------------------


class Program:
    """A program with one small kernel of its own, so that its PTX is in no cache the first time."""

    def __init__(self, sides):
        self.sides, self.salt = sides, int(time.time())
        self.binary = sides.gdevd.build / "bench" / "bench_hardware"

    def run(self, side, *arguments, environment=None):
        """Seconds from its start to its end, with a right result."""
        begin = time.monotonic()
        code, _out, err = self.sides.gdevd.run(
            self.sides.command(side, [self.binary, *arguments]), 60,
            {**self.sides.environment(side), **(environment or {})})
        if code:
            raise LabError(f"{side}: {arguments} ended with {code}: {err[-500:]}")
        return time.monotonic() - begin

    def storm(self, side, at_once, count):
        """(Seconds in all, seconds of each.)"""
        begin = time.monotonic()
        with ThreadPoolExecutor(at_once) as pool:
            each = list(pool.map(lambda _: self.run(side, "start", self.salt), range(count)))
        return time.monotonic() - begin, sorted(each)

    def cold(self, side):
        """The same with PTX that nobody has seen, and an empty cache of the vendor's."""
        self.salt += 1
        with tempfile.TemporaryDirectory() as cache:
            return self.run(side, "start", self.salt, environment={"CUDA_CACHE_PATH": cache})


def starts(sides, _options):
    program = Program(sides)
    for side in ("gdev", "vendor"):
        program.run(side, "start", program.salt)
    for at_once in (1, 4, 8):
        total, each = {}, {}
        for side in ("gdev", "vendor"):
            total[side], each[side] = program.storm(side, at_once, STARTS)
        for metric, of in (("total_s", total), ("p50_s", {s: statistics.median(e) for s, e in each.items()}),
                           ("worst_s", {s: e[-1] for s, e in each.items()})):
            yield f"starts.at_{at_once}_{metric}", (of["gdev"], of["vendor"], "s")
    time.sleep(5)  # the pool fills
    _, ours = program.storm("gdev", DOZEN, DOZEN)
    _, theirs = program.storm("vendor", DOZEN, DOZEN)
    yield "starts.dozen_worst_s", (ours[-1], theirs[-1], "s")
    yield "starts.dozen_p50_s", (statistics.median(ours), statistics.median(theirs), "s")
    for metric, run in (("cold_ptx_s", program.cold), ("ask_s", lambda side: program.run(side, "ask"))):
        each = {"gdev": [], "vendor": []}
        for _ in range(5):
            for side, seen in each.items():
                seen.append(run(side))
                time.sleep(0.5)
        yield f"starts.{metric}", (statistics.median(each["gdev"]), statistics.median(each["vendor"]), "s")


# -- the first use of operators ---------------------------------------------------------------------


OPERATORS = [sys.executable, ROOT / "examples" / "pytorch" / "operators.py", "--passes", "1"]


def sweep(sides, side, out):
    """(Seconds of the first pass over all operators in a process, {case: what it computed}.)"""
    command = [*OPERATORS, "--out", out]
    code, text, err = sides.gdevd.run(sides.command(side, command), 400, sides.environment(side))
    if code:
        raise LabError(f"{side}: operators.py ended with {code}: {err[-1000:]}")
    rows = [json.loads(line) for line in Path(out).read_text().splitlines()]
    return json.loads(text.splitlines()[-1])["seconds"][0], {
        row["case"]: row.get("bits") or row["error"] for row in rows}


CALLED = re.compile(r"^libcuda\[\d+\]: (.+): (\d+) times, ([\d.]+) s, ([\d.]+) s at most$", re.M)
STEP = re.compile(r"^gdev-cuda: (.+) took (\d+) ns$", re.M)
CALLS_SHOWN = 25


def breakdown(sides):
    """Prints where one more process under gdev spends its time: in which calls, and on which steps of its worker. Its gdevd is
    one of its own, which logs; a line of the log is a few microseconds, so that this one is not compared with anything."""
    with Gdevd(sides.gdevd.build, sides.gdevd.config, None, {"GDEV_LOG": "debug"}) as gdevd:
        code, text, err = gdevd.run([gdevd.gdev, "run", *OPERATORS], 400, {"GDEV_LOG": "times"})
        steps = STEP.findall(gdevd.log_path.read_text(errors="replace"))
    if code:
        raise LabError(f"operators.py ended with {code}: {err[-1000:]}")
    print(f"  operators: a pass of {json.loads(text.splitlines()[-1])['seconds'][0]:.2f} s; by the calls of its process:")
    for name, count, seconds, most in CALLED.findall(err)[:CALLS_SHOWN]:
        print(f"    {float(seconds):9.4f} s  {count:>7} times, {1e3 * float(most):8.2f} ms at most  {name}")
    print("  by the steps of its worker:")
    for name in sorted({name for name, _ in steps}):
        each = [int(ns) / 1e9 for step, ns in steps if step == name]
        print(f"    {sum(each):9.4f} s  {len(each):>7} times, {1e3 * max(each):8.2f} ms at most  {name}", flush=True)


def operators(sides, _options):
    seconds, seen = {"vendor": [], "gdev": []}, {"vendor": [], "gdev": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(-1, TURNS):  # before the first, what both keep on disk is made
            for side in seconds:
                took, bits = sweep(sides, side, f"{folder}/{side}")
                seen[side].append(bits)
                if turn >= 0:
                    seconds[side].append(took)
    cases = seen["vendor"][0]
    breakdown(sides)
    # Some operators' results depend on the order in which threads come: with the vendor's library they vary, too.
    same = {case for case in cases if len({bits[case] for bits in seen["vendor"]}) == 1}
    wrong = sorted(case for case in same if any(bits.get(case) != cases[case] for bits in seen["gdev"]))
    for case in wrong:
        print(f"  FAIL operators: {case}: not as with the vendor's library", flush=True)
    yield "operators.first_pass_s", (statistics.median(seconds["gdev"]), statistics.median(seconds["vendor"]), "s")
    yield "operators.same_bits", (len(same) - len(wrong), len(same), "cases")

