# SPDX-License-Identifier: MIT
"""Kernels that leave the device between blocks: `scripts/bench preempt`, and on a GPU `scripts/hardware --only preempt`.

  gone_p99_us      from the word that the device is to be left to when nothing runs there, of a kernel of 100 ms whose blocks take
                   `block_us` each: bench/preempt.c, on the backend alone; lost_us is what a stop costs the kernel. For blocks
                   of 256 threads, and as wide.* for blocks of 1,024
  latency_p99_us   a kernel of 100 us every 10 ms in a virtual GPU of higher priority, beside one that has kernels of 100 ms,
                   of blocks of 50 us: from its launch to the end of the wait for it. latency.off is the same where kernels do not
                   leave; the baseline of both is what the program waits alone
  speed            what the other keeps of the work that it does alone
  inference_*_us   eight kernels of 35 us, one behind the other and waited for together, as a small inference has layers, every
                   10 ms in a virtual GPU of higher priority, beside one that saturates the device with kernels of 200 us, as long
                   as its GEMMs: p50 and p99 of the wait, over the same alone; inference_speed is what the other keeps.
                   inference.off_* is the same where kernels do not leave, which machine code cannot
  cost_geomean     the programs of Table 1 when nobody waits, over the same not rewritten, in turn (hardware alone)"""

import json
import math
import statistics

from contention import Case, Load, is_software, percentile, result, waits_us
from lab import LabError
from turns import Turns

ASKING = {"us": 100, "batch": 1, "think_us": 9900, "vary_us": 5000}
LONG = {"us": 50, "waves": 2000}
INFERENCE = {"us": 35, "batch": 8, "think_us": 9720, "vary_us": 5000}
GEMMS = {"us": 200}
# (program, size, rounds a turn)
PROGRAMS = [("loop", 4, 1), ("madd", 1024, 5), ("mmul", 1024, 5), ("cpy", 64, 2), ("pincpy", 64, 2), ("bp", 65536, 5),
            ("bfs", 1000000, 2), ("hw", 24, 2), ("hs", 1024, 2), ("lud", 1024, 5), ("nn", 1000000, 5), ("nw", 2048, 5),
            ("srad", 1024, 1), ("srad2", 1024, 1)]
TURNS = 9


def gone(gdevd, threads):
    device = gdevd.config["device"]
    code, out, err = gdevd.run([gdevd.build / "bench" / "bench_preempt", device, 50, threads], 300)
    if code:
        raise LabError(f"bench_preempt: {err}")
    for line in map(json.loads, out.splitlines()):
        yield line["metric"].partition(".")[2], line["value"], line["baseline"]


def beside(contention, mode, asking, other):
    """One that asks, beside another whose kernels leave by `mode`: its waits, its report alone, and what the other keeps."""
    vgpus = {"high": {"compute": 50, "priority": 10}, "low": {"compute": 50, "preempt": mode}}
    case = Case(f"preempt-{mode}", vgpus, [Load("high", **asking), Load("low", **other)])
    waits = waits_us(contention, case, "fair")
    reports, rates = contention.measure(case, "fair")
    bins = reports[1]["bins"][200:]
    return waits, contention.alone[case.loads[0].key][1], sum(bins) / (len(bins) * 0.01) / rates[1]


def cost(gdevd):
    """(program, ms when rewritten, ms as it is)."""
    for name, size, rounds in PROGRAMS:
        command = [gdevd.example(name), "--json", "--no-check", "--warm-up", "--turns", size]
        sides = [Turns(gdevd, [gdevd.gdev, "run", f"--preempt={mode}", *command]) for mode in ("blocks", "off")]
        for side in sides:
            side.turn(1)
            side.ms.clear()
        for turn in range(TURNS):
            for side in sides[::-1] if turn % 2 else sides:
                side.turn(rounds)
        for side in sides:
            side.end()
        yield name, *(statistics.median(side.ms) for side in sides)


def preempt(contention, only=("gone", "latency", "inference", "cost")):
    with contention.start() as gdevd:
        software = is_software(gdevd)
        for prefix, threads in (("", 1 if software else 256), *([] if software else [("wide.", 1024)])) if "gone" in only else ():
            for metric, value, baseline in gone(gdevd, threads):
                yield result(f"preempt.{prefix}{metric}", value, "us", baseline)
    for mode in ("blocks",) if software else ("blocks", "off"):
        off = ".off" if mode == "off" else ""
        for name, kept_name, loads in (("latency", f"speed{off}", (ASKING, LONG)),
                                       ("inference", f"inference{off}_speed", (INFERENCE, GEMMS))):
            if name not in only:
                continue
            waits, alone, kept = beside(contention, mode, *loads)
            yield result(f"preempt.{name}{off}_p99_us", percentile(waits, 0.99), "us", alone["p99_us"])
            yield result(f"preempt.{name}{off}_p50_us", percentile(waits, 0.5), "us", alone["p50_us"])
            yield result(f"preempt.{kept_name}", kept, "x", 1)
    if software or "cost" not in only:
        return
    with contention.start() as gdevd:
        ratios = []
        for name, rewritten_ms, plain_ms in cost(gdevd):
            ratios.append(rewritten_ms / plain_ms)
            yield result(f"preempt.cost.{name}", rewritten_ms, "ms", plain_ms)
        yield result("preempt.cost_geomean", math.exp(statistics.fmean(map(math.log, ratios))), "x", 1)


BENCHES = {"preempt": preempt}
