# SPDX-License-Identifier: MIT
"""Dataflow graphs (PTask, section 6.3): the programs of examples/ptask/ as a graph and by hand, in turn within one process.

Ratios of speed, geometric means over all of the work; 1 and more: the graph is at least as fast:
  over_handcoded   one thread, each array copied once, one thing after the other
  over_streams     the same with streams and events
  over_modular     a thread a task, each copying its inputs in and its output out
  over_single      a task after the other, each copying
  worst_handcoded  the least of over_handcoded's ratios
  two_devices      speed of data-aware on two devices over the same on one of them (software GPU: halves of the processors)
  moved_pct        invocations that moved data between these two, of all, over the same work (Figure 12)
  invoke_us        processor time of invoking an empty ptask, within the process; the baseline is a launch by hand
  invoke_across_us        from one datablock to the next, pushed by one process through an empty ptask and pulled by another;
                          the baseline is two pipes with a thread between
  invoke_across_alone_us  the same of one datablock alone, from the push to the pull"""

import json
import statistics

from lab import LabError

ROUNDS = 15
# SHAPE TASK N WIDTH DEPTH; a tree of 8 has 15 tasks, a rectangle of 4 x 6 has 24.
MATRICES = [(shape, task, n, width, depth)
            for shape, width, depth in (("tree", 8, 0), ("rectangle", 4, 6))
            for task, sizes in (("madd", (64, 256, 1024)), ("mcopy", (64, 256, 1024)), ("gemm", (64, 256)))
            if (shape, task) != ("tree", "mcopy")
            for n in sizes]
SORTS = (12, 16, 18)  # log2 of the number of elements: 10, 36 and 55 ptasks
WORK = [("ptask-sort", log2) for log2 in SORTS] + [("ptask-matrices", *how) for how in MATRICES]


def rounds_us(gdevd, name, *how):
    """Of each variant, the median time of a round."""
    command = [gdevd.gdev, "run", gdevd.example(name), "--variant=all", f"--repeat={ROUNDS}", *how]
    code, out, err = gdevd.run(command, 600)
    if code:
        raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err}")
    return {found["variant"]: found["round_us"] for found in map(json.loads, out.splitlines())}


def ratios(gdevd):
    """Of each variant, how much longer than the graph it takes, for each piece of work. Yields each piece as it is
    measured: (name, us of the graph, us by hand)."""
    found = {"hand": [], "streams": [], "modular": [], "single": []}
    for work in WORK:
        us = rounds_us(gdevd, *work)
        for variant, values in found.items():
            values.append(us[variant] / us["graph"])
        yield "_".join(map(str, work)).removeprefix("ptask-"), us["graph"], us["hand"]
    for metric, variant in (("over_handcoded", "hand"), ("over_streams", "streams"), ("over_modular", "modular"),
                            ("over_single", "single")):
        yield metric, statistics.geometric_mean(found[variant]), None
    yield "worst_handcoded", min(found["hand"]), None


DEPTHS = (1, 2, 4, 6)  # of Figure 12, whose breadth is 8
DEVICE_TURNS = 3


def two_devices(gdevd, n=384):
    """On `cpu:2`: (speed over one device, percent of invocations that moved data)."""
    gained, moved = [], []
    for depth in DEPTHS:
        us = {1: [], 2: []}
        for _ in range(DEVICE_TURNS):
            for count, vgpus in ((1, "gdev0"), (2, "gdev0,gdev1")):
                command = [gdevd.gdev, "run", gdevd.example("ptask-matrices"), "--repeat=3", f"--vgpus={vgpus}",
                           "--schedule=data-aware", "columns", "gemm", n, 8, depth]
                code, out, err = gdevd.run(command, 600)
                if code:
                    raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err}")
                found = json.loads(out)
                us[count].append(found["round_us"])
                if count == 2:
                    moved.append(found["moved_pct"])
        gained.append(statistics.median(us[1]) / statistics.median(us[2]))
    return statistics.geometric_mean(gained), statistics.fmean(moved)
