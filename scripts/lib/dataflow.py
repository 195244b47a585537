# SPDX-License-Identifier: MIT
"""Dataflow graphs (PTask, section 6): the programs of examples/ptask/ as a graph and by hand, in turn within one process.

Ratios of speed, geometric means over all of the work; 1 and more: the graph is at least as fast:
  over_handcoded   one thread, each array copied once, one thing after the other
  over_streams     the same with streams and events
  over_modular     a thread a task, each copying its inputs in and its output out
  over_single      a task after the other, each copying
  worst_handcoded  the least of over_handcoded's ratios
  *.cublas         the graph beside pca by hand with cuBLAS, where that is (ptask.py); it counts as the one by hand then
  figure11.*       speed of each variant over `single`, by work (Figure 11)
  figure12.*       speed on two devices over one, of columns of products 8 wide, by schedule and depth (Figure 12; on the
                   software GPU devices are halves of the processors); the baseline is first-available on one device
  two_devices      of these, data-aware's, over all depths; moved_pct: invocations of it that moved data, of all
  figure13.*       invocations a second of four graphs of 36 ptasks at a time, by policy of the device and priority (Figure
                   13); the baseline is fifo, which does not look at priorities; fair has shares in proportion to them
  priority_r2      how linear that is under `effective`
  invoke_us        processor time of invoking an empty ptask, within the process; the baseline is a launch by hand
  invoke_across_us        from one datablock to the next, pushed by one process through an empty ptask and pulled by another;
                          the baseline is two pipes with a thread between
  invoke_across_alone_us  the same of one datablock alone, from the push to the pull
  invoke_workers_us       from one datablock to the next through three empty ptasks, of which the middle one runs in another
                          process's session: two hops between workers; the baseline has all three in one worker
  invoke_workers_alone_us, invoke_workers_4m_us   the same of one datablock alone, and of datablocks of 4 MiB

The gestural interface (section 6.1; `gesture`): frames a second, latency and processor time of the forms of Table 2; baselines
are those of handcode."""

import json
import statistics

from lab import SOFTWARE, LabError

ROUNDS = 15
# SHAPE TASK N WIDTH DEPTH; a tree of 8 has 15 tasks, a rectangle of 4 x 6 has 24.
MATRICES = [(shape, task, n, width, depth)
            for shape, width, depth in (("tree", 8, 0), ("rectangle", 4, 6))
            for task, sizes in (("madd", (64, 256, 1024)), ("mcopy", (64, 256, 1024)), ("gemm", (64, 256)))
            for n in sizes]
# log2 of the number of elements: 10, 36 and 55 ptasks; 30 and 60 ptasks; 229 and 1,197; 7.
OTHERS = [("sort", 12), ("sort", 16), ("sort", 18), ("fdtd", 32, 5), ("fdtd", 64, 10), ("pca", 64, 10), ("pca", 512, 10),
          ("pca", 256, 54), ("group", 1 << 19, 128), ("group", 1 << 21, 512)]
WORK = OTHERS + [("matrices", *how) for how in MATRICES]
VARIANTS = {"hand": "over_handcoded", "streams": "over_streams", "modular": "over_modular", "single": "over_single"}


def run(gdevd, name, *options, environment=None):
    """The lines that an example prints."""
    command = [gdevd.gdev, "run", gdevd.example(f"ptask-{name}"), *options]
    code, out, err = gdevd.run(command, 600, environment)
    if code:
        raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err}")
    return [json.loads(line) for line in out.splitlines()]


def ratios(gdevd, every=WORK, environment=None, failed=None):
    """Yields (metric, value, baseline, unit): of each piece of work as it is measured, and at last the means. Work that fails is
    left out if `failed` is called of it."""
    found = {variant: [] for variant in VARIANTS}
    for name, *how in every:
        work = "_".join(map(str, (name, *how)))
        try:
            lines = run(gdevd, name, "--variant=all", f"--repeat={ROUNDS}", *how, environment=environment)
        except LabError as error:
            if not failed:
                raise
            failed(work, error)
            continue
        us = {line["variant"]: line["round_us"] for line in lines}
        yield work, us["graph"], us["hand"], "us"
        for variant in ("modular", "hand", "streams", "graph"):
            yield f"figure11.{work}.{variant}", us["single"] / us[variant], 1, "x"
        if "cublas" in us:
            yield f"{work}.cublas", us["graph"], us["cublas"], "us"
            us["hand"] = us["cublas"]
        for variant, values in found.items():
            values.append(us[variant] / us["graph"])
    for variant, metric in VARIANTS.items():
        yield metric, statistics.geometric_mean(found[variant]), 1, "x"
    yield "worst_handcoded", min(found["hand"]), 1, "x"


# -- Figure 12 ----------------------------------------------------------------------------------------

DEPTHS = range(1, 7)
SCHEDULES = ("first-available", "priority", "data-aware")
DEVICE_TURNS = 3


def columns(gdevd, vgpus, schedule, depth, n=560):
    line, = run(gdevd, "matrices", "--repeat=3", f"--vgpus={','.join(vgpus)}", f"--schedule={schedule}", "columns", "gemm", n, 8,
                depth)
    return line["round_us"], line["moved_pct"]


def two_devices(gdevd):
    """On two devices. Yields as ratios() does."""
    gained, moved = [], []
    for depth in DEPTHS:
        one, two = [], {schedule: [] for schedule in SCHEDULES}
        for _ in range(DEVICE_TURNS):
            one.append(columns(gdevd, ["gdev0"], "first-available", depth)[0])
            for schedule, times in two.items():
                us, moved_pct = columns(gdevd, ["gdev0", "gdev1"], schedule, depth)
                times.append(us)
                if schedule == "data-aware":
                    moved.append(moved_pct)
        for schedule, times in two.items():
            gain = statistics.median(one) / statistics.median(times)
            yield f"figure12.{schedule}.d{depth}", gain, 1, "x"
            if schedule == "data-aware":
                gained.append(gain)
    yield "two_devices", statistics.geometric_mean(gained), 1, "x"
    yield "moved_pct", statistics.fmean(moved), 1, "%"


# -- Figure 13 ----------------------------------------------------------------------------------------

PRIORITIES = (2, 4, 6, 8)
POLICIES = ("fifo", "effective", "fair")
COMPETE_S = 5


def rates(start, policy, compete_s, first=0):
    """Invocations a second of each of four graphs that compete. The graph of that index is the first to start: who is that makes
    a difference, also where nothing tells them apart."""
    order = PRIORITIES[first:] + PRIORITIES[:first]
    vgpus = {f"p{priority}": {"priority": priority, "compute": 100 * priority // sum(PRIORITIES)} for priority in order}
    with start(vgpus, policy=policy) as gdevd:
        graphs = [gdevd.popen([gdevd.gdev, "run", "--vgpu", name, gdevd.example("ptask-matrices"), "--rates",
                               "rectangle", "gemm", 128, 6, 6], stdin=-1, stdout=-1, text=True) for name in vgpus]
        for seconds in (1, compete_s):  # the first one also waits until all are ready
            for graph in graphs:
                graph.stdin.write(f"{seconds}\n")
                graph.stdin.flush()
            answers = [graph.stdout.readline() for graph in graphs]
        for graph in graphs:
            graph.stdin.close()
            if graph.wait(60):
                raise LabError(f"a graph under {policy} ended with {graph.returncode}")
    found = dict(zip(order, map(float, answers)))
    return [found[priority] for priority in PRIORITIES]


def priorities(start, compete_s=COMPETE_S, rounds=1):
    """Yields as ratios() does: means of four turns a round, in each of which another graph starts first."""
    turns = {policy: [] for policy in POLICIES}
    for first in [*range(len(PRIORITIES))] * rounds:
        for policy, measured in turns.items():
            measured.append(rates(start, policy, compete_s, first))
    found = {policy: [statistics.fmean(graph) for graph in zip(*measured)] for policy, measured in turns.items()}
    for policy, values in found.items():
        for priority, value, base in zip(PRIORITIES, values, found["fifo"]):
            yield f"figure13.{policy}.p{priority}", value, base, "1/s"
    yield "priority_r2", statistics.correlation(PRIORITIES, found["effective"]) ** 2, 1, "x"


# -- the gestural interface ---------------------------------------------------------------------------

FORMS = ("host", "handcode", "modular", "pipes", "ptask")
FORM_TURNS = 3
# What a software GPU can do in a time that is bearable.
SLOW_MODES = {"unconstrained": ("--frames=200",), "real-time": ("--real-time", "--frames=100", "--width=160", "--height=120")}
FAST_MODES = {"unconstrained": ("--frames=1000",), "real-time": ("--real-time", "--frames=100")}
UNITS = {"fps": "1/s", "mb_per_s": "MB/s", "latency_ms": "ms", "user_pct": "%", "sys_pct": "%", "threads": "", "memory_kib": "KiB"}


def forms(gdevd, options, repetitions):
    """{form: {metric: median}}, where forms take turns."""
    found = {form: [] for form in FORMS}
    for _ in range(repetitions):
        for form, lines in found.items():
            lines += run(gdevd, "gesture", f"--form={form}", *options)
    return {form: {metric: statistics.median(line[metric] for line in lines) for metric in UNITS if metric in lines[0]}
            for form, lines in found.items()}


def gesture(gdevd, modes=SLOW_MODES if SOFTWARE else FAST_MODES, repetitions=FORM_TURNS):
    """Yields as ratios() does."""
    for mode, options in modes.items():
        found = forms(gdevd, options, repetitions)
        for form, values in found.items():
            for metric, value in values.items():
                yield f"{mode}.{form}.{metric}", value, found["handcode"][metric] or 1, UNITS[metric]
        if mode == "unconstrained":
            for over, form in (("fps_over_handcoded", "handcode"), ("fps_over_pipes", "pipes")):
                yield over, found["ptask"]["fps"] / found[form]["fps"], 1, "x"
