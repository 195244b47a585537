# SPDX-License-Identifier: MIT
"""Benchmarks of programs that contend for a device: isolation, mrq, scale, priority, nice and
share-change. The loads are bench/load.c, which logs by the device's own clock what it got, and the
figures are made of these logs alone; only where the paper's programs themselves run (LUD, heart wall,
SRAD) is it gdevd's account of the device time.

A group's share in a window is its part of the work done in the window, in time that this work takes alone;
its error is the difference to what it should have, in percentage points. The first seconds do not
count. Throughput is the sum over all of what each did, as a part of what it does alone: 1 when nothing
is lost. The baseline of an error is the 7 % of the paper, of a throughput 1."""

import json
import re
import math
import statistics
import struct
import subprocess
import sys
import time

from lab import LabError

PAPER_ERROR_PCT = 7
BIN_S = 0.01
SERIES_S = 0.1


class Load:
    """What one process does in the virtual GPU `vgpu`: kernels of `us` (on `streams`, or in a `batch` that it waits for),
    or copies (`copy` "to" or "from") of `nbytes`, a few ahead, or of its own memory, which it waits for (`waits`); or one
    kernel with event loops, without end (`gloop`; bench/load_gloop.c). With `waves` a kernel has so many times the
    blocks, each of which takes `us`."""

    def __init__(self, vgpu, us=0, streams=1, batch=0, think_us=0, vary_us=0, copy=None, nbytes=0, waits=False, nice=0,
                 start_s=0, gloop=False, waves=1, text=None):
        self.gloop = gloop
        self.vgpu, self.us, self.copy, self.nice, self.start_s = vgpu, us, copy, nice, start_s
        self.text = text or self.describe(us, streams, batch, copy, nbytes)
        self.options = ["--streams", streams] if streams > 1 else []
        if batch:
            self.options += ["--batch", batch, "--think-us", think_us]
        if vary_us:
            self.options += ["--vary-us", vary_us]
        if copy:
            self.options += ["--copy", copy]
        if nbytes:
            self.options += ["--bytes", nbytes]
        if waves > 1:
            self.options += ["--waves", waves]
        if waits:
            self.options += ["--wait"]
        self.key = (us, gloop, tuple(self.options))
        self.resource = f"copy-{copy}" if copy else "compute"

    @staticmethod
    def describe(us, streams, batch, copy, nbytes):
        """For a legend."""
        if copy:
            return f"copies of {nbytes >> 10} KiB"
        text = f"{us} us" if us < 1000 else f"{us / 1000:g} ms"
        if streams > 1:
            text += f", {streams} streams"
        return text + (f", {batch} at a time" if batch else "")


class Case:
    """figure, column: where it is drawn, if not beside the same under other policies. named: it runs only when
    --cases names it."""

    def __init__(self, name, vgpus, loads, seconds=8, window_s=1, config=None, figure=None, column=None,
                 named=False):
        self.name, self.vgpus, self.loads, self.named = name, vgpus, loads, named
        self.figure, self.column = figure or name, column
        self.seconds, self.window_s, self.config = seconds, window_s, config or {}


def is_software(gdevd, vgpu=None):
    """The device of the virtual GPU, or the one that gdevd has."""
    return gdevd.vgpus.get(vgpu, {}).get("device", gdevd.config["device"]).startswith("cpu")


def split(*shares):
    return {f"v{i}": {"compute": share, "copy": share} for i, share in enumerate(shares)}


def two(name, shares, one, other, **more):
    return Case(name, split(*shares), [Load("v0", **one), Load("v1", **other)], **more)


def stream(us, **more):
    return {"us": us, **more}


def isolation_cases():
    cases = []
    for shares in ((50, 50), (30, 70), (10, 90)):
        cases.append(two("short-long-%d-%d" % shares, shares, stream(20), stream(5000)))
    cases += [
        two("tiny-batches-long", (50, 50), stream(20, batch=1000), stream(5000, batch=1)),
        two("many-streams", (30, 70), stream(500, streams=16), stream(5000)),
        Case("four", split(25, 25, 25, 25),
             [Load("v0", 20), Load("v1", 1000), Load("v2", 5000), Load("v3", 500, batch=1)]),
        two("copies", (30, 70), {"copy": "to", "nbytes": 4 << 20}, {"copy": "to", "nbytes": 256 << 10}),
        # Where device memory cannot be mapped, one that waits for its copies cannot use its share.
        two("copies-waited", (30, 70), {"copy": "to", "nbytes": 4 << 20, "waits": True},
            {"copy": "to", "nbytes": 256 << 10, "waits": True}, named=True),
        Case("copy-compute", {"v0": {"compute": 30, "copy": 70}, "v1": {"compute": 70, "copy": 30}},
             [Load("v0", 1000), Load("v1", 1000), Load("v0", copy="to", nbytes=4 << 20),
              Load("v1", copy="to", nbytes=4 << 20)]),
        two("huge-kernels", (30, 70), stream(20), stream(50000), seconds=22, window_s=10),
        Case("sixteen", split(*[6] * 16),
             [Load(f"v{i}", (100, 1000, 5000, 500)[i % 4], batch=i // 8) for i in range(16)],
             seconds=22, window_s=10),
    ]
    return cases


# -- running ------------------------------------------------------------------------------------------

class Contention:
    """Runs cases on devices that `start(vgpus, **config)` makes, and keeps what loads do alone."""

    def __init__(self, start, short=False, series=None):
        self.start, self.short, self.series = start, short, series
        self.calibrated, self.alone = {}, {}

    def program(self, gdevd, load=None):
        return gdevd.build / "bench" / ("bench_load_gloop" if load and load.gloop else "bench_load")

    @staticmethod
    def shape(gdevd, load):
        """The software GPU runs the threads of a block one after another: one is enough. A kernel with event loops has so
        few that all of its blocks are on the device at once, whatever registers it needs."""
        if is_software(gdevd, load.vgpu):
            return ["--blocks", 16, "--threads", 1]
        return ["--threads", 128] if load.gloop else []

    def calibrate(self, gdevd, load):
        key = load.us, *self.shape(gdevd, load)
        if key not in self.calibrated:
            command = [gdevd.gdev, "run", "--vgpu", load.vgpu, self.program(gdevd),
                       "--calibrate", load.us, *self.shape(gdevd, load)]
            code, out, err = gdevd.run(command, 120)
            if code:
                raise LabError(f"bench_load could not calibrate: {err}")
            self.calibrated[key] = json.loads(out)
        return self.calibrated[key]

    def command(self, gdevd, load, seconds):
        words = [gdevd.gdev, "run", "--vgpu", load.vgpu, self.program(gdevd, load), *load.options,
                 *self.shape(gdevd, load), "--seconds", int(seconds) + 2]
        if load.us:
            known = self.calibrate(gdevd, load)
            words += ["--rounds", int(known["rounds"]), "--kernel-ns", known["kernel_ns"]]
        return ["nice", "-n", load.nice, *words] if load.nice else words

    def logged(self, gdevd, loads, seconds, during=None):
        """Runs the loads together: [[(begin, end) of each kernel, in ns], …]."""
        paths = [gdevd.directory / f"log{number}" for number in range(len(loads))]
        self.run(gdevd, loads, seconds, during, more=[["--log", path] for path in paths])
        return [list(struct.iter_unpack("QQ", path.read_bytes())) for path in paths]

    def run(self, gdevd, loads, seconds, during=None, more=None):
        """Runs the loads together: their reports, with work a bin from the common begin on."""
        more = more or [[]] * len(loads)
        children = []
        for load, words in zip(loads, more):
            child = gdevd.popen(self.command(gdevd, load, seconds) + words, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)
            children.append(child)
            # One after another: a load of copies measures first what one takes alone.
            self.expect(gdevd, child, "ready")
        self.wait_for_workers(gdevd)
        begin = time.time_ns() + 100_000_000
        end = begin + int(seconds * 1e9)
        for load, child in zip(loads, children):
            child.stdin.write(f"{begin + int(load.start_s * 1e9)} {end}\n")
            child.stdin.flush()
        if during:
            during(begin)
        # And once more when all are over.
        copying = [child for load, child in zip(loads, children) if load.copy]
        reports = {child: self.report(gdevd, child, seconds) for child in children if child not in copying}
        for child in copying:
            self.expect(gdevd, child, "over")
        reports.update({child: self.report(gdevd, child, seconds) for child in copying})
        for load, child in zip(loads, children):
            reports[child]["bins"] = [0] * round(load.start_s / BIN_S) + reports[child]["bins"]
        return [reports[child] for child in children]

    @staticmethod
    def wait_for_workers(gdevd, seconds=10):
        """Until there are warm workers again in the place of those that the loads have: while the driver makes a
        context, others wait."""
        end = time.monotonic() + seconds
        while gdevd.status()["workers"]["starting"] and time.monotonic() < end:
            time.sleep(0.05)

    @staticmethod
    def expect(gdevd, child, word):
        if child.stdout.readline() != f"{word}\n":
            raise LabError(f"a load did not say \"{word}\"\n{gdevd.log()}")

    @staticmethod
    def report(gdevd, child, seconds):
        out = child.communicate("\n", timeout=seconds + 120)[0]
        if child.returncode:
            raise LabError(f"a load ended with {child.returncode}\n{gdevd.log()}")
        return json.loads(out)

    def rate_alone(self, gdevd, load):
        """Its work a second when nobody else is there."""
        if load.key not in self.alone:
            seconds = 1.5 if self.short or load.us < 20000 else 3
            plain = Load(load.vgpu)
            plain.__dict__.update({**load.__dict__, "start_s": 0, "nice": 0})
            report = self.run(gdevd, [plain], seconds)[0]
            bins = report["bins"][50:]
            self.alone[load.key] = (sum(bins) / (len(bins) * BIN_S), report)
        return self.alone[load.key][0]

    def measure(self, case, policy, seconds=None, during=None):
        """(reports, rates alone) of a case under a policy."""
        seconds = seconds or case.seconds
        with self.start(case.vgpus, policy=policy, **case.config) as gdevd:
            rates = [self.rate_alone(gdevd, load) for load in case.loads]
            reports = self.run(gdevd, case.loads, seconds,
                               during and (lambda begin: during(gdevd, begin)))
        self.keep_series(case, policy, reports)
        return reports, rates

    def keep_series(self, case, policy, reports):
        if not self.series:
            return
        with open(self.series, "a") as file:
            for number, (load, report) in enumerate(zip(case.loads, reports)):
                used = [w / 1e9 / SERIES_S for w in windows(report["bins"], 0, SERIES_S)]
                share = case.vgpus[load.vgpu].get("copy" if load.copy else "compute")
                file.write(json.dumps({
                    "case": case.name, "figure": case.figure, "column": case.column or policy,
                    "policy": policy, "load": number, "text": load.text, "vgpu": load.vgpu,
                    "resource": load.resource, "share": share, "step_s": SERIES_S,
                    "utilization_pct": [round(100 * u, 2) for u in used]}) + "\n")


def windows(bins, skip_s, window_s):
    first, each = round(skip_s / BIN_S), round(window_s / BIN_S)
    return [sum(bins[at:at + each]) for at in range(first, len(bins) - each + 1, each)]


def errors(case, reports, skip_s=2):
    """{resource: differences to the share, in points, one a group and window}."""
    found = {}
    for resource in dict.fromkeys(load.resource for load in case.loads):
        key = "copy" if resource.startswith("copy") else "compute"
        groups = {}
        for load, report in zip(case.loads, reports):
            if load.resource == resource:
                used = windows(report["bins"], skip_s, case.window_s)
                groups[load.vgpu] = [a + b for a, b in zip(groups[load.vgpu], used)] \
                    if load.vgpu in groups else used
        whole = sum(case.vgpus[name][key] for name in groups)
        for at in range(len(next(iter(groups.values())))):
            total = sum(used[at] for used in groups.values()) or 1
            for name, used in groups.items():
                wanted = 100 * case.vgpus[name][key] / whole
                found.setdefault(resource, []).append(abs(100 * used[at] / total - wanted))
    return found


def throughput(case, reports, rates, skip_s=2):
    """What was done of what each does alone, a resource."""
    sums = {}
    for load, report, rate in zip(case.loads, reports, rates):
        bins = report["bins"][round(skip_s / BIN_S):]
        done = sum(bins) / (len(bins) * BIN_S) / rate
        sums[load.resource] = sums.get(load.resource, 0) + done
    return statistics.mean(sums.values())


def result(metric, value, unit, baseline):
    return metric, (value, baseline, unit)


# -- the benchmarks: each yields (metric, (value, baseline, unit)) -------------------------------------

# Programs: size, and how many at once. One of them alone leaves an H200 idle for half of the time, and waits for
# the processor.
FIGURE_14 = {"cpu": [("lud", 1024, 1), ("hw", 24, 1)], "cuda": [("lud", 4096, 2), ("hw", 1000, 8)]}
FIGURE_14_LATER_S, FIGURE_14_S = 30, 45  # when the second starts; all


def follow(gdevd, seconds, during):
    """gdevd's account of the compute time of v0 and v1, as bins of SERIES_S."""
    begin, used, seen = time.monotonic(), {"v0": [], "v1": []}, {"v0": {}, "v1": {}}
    for number in range(1, round(seconds / SERIES_S) + 1):
        during(time.monotonic() - begin)
        time.sleep(max(0, begin + number * SERIES_S - time.monotonic()))
        now = {"v0": {}, "v1": {}}
        for session in gdevd.status()["sessions"]:
            now[session["vgpu"]][session["session"]] = session["compute_ns"]
        for name, bins in used.items():
            bins.append(sum(ns - seen[name].get(at, 0) for at, ns in now[name].items()))
        seen = now
    return used


def figure_14(contention, policy):
    """LUD on one virtual GPU, heart wall on the other, which starts later."""
    name, later, seconds = "lud-hw", FIGURE_14_LATER_S, FIGURE_14_S
    if contention.short:
        later, seconds = 2, 7
    vgpus = split(50, 50)
    with contention.start(vgpus, policy=policy) as gdevd:
        programs = FIGURE_14["cpu" if is_software(gdevd) else "cuda"]
        running = []
        for program, size, _ in programs:  # so that their code is in the cache
            gdevd.run([gdevd.gdev, "run", "--vgpu", "v0", gdevd.example(program), "--no-check", size])

        def during(passed):
            if len(running) < len(programs) and passed >= len(running) * later:
                program, size, count = programs[len(running)]
                running.append([gdevd.popen(
                    [gdevd.gdev, "run", "--vgpu", f"v{len(running)}", gdevd.example(program), "--no-check",
                     "--repeat", 1000000, size], stdout=subprocess.DEVNULL) for _ in range(count)])

        used = follow(gdevd, seconds, during)
    case = Case(name, vgpus, [Load("v0", text="LUD"), Load("v1", text="heart wall")])
    reports = [{"bins": [ns * BIN_S / SERIES_S for ns in bins for _ in range(round(SERIES_S / BIN_S))]}
               for bins in used.values()]
    contention.keep_series(case, policy, reports)
    lud, hw = (windows(report["bins"], later + 2, 1) for report in reports)
    yield result(f"isolation.{policy}.{name}.lud_pct", statistics.mean(lud) / 1e7, "%", 50)
    yield result(f"isolation.{policy}.{name}.hw_pct", statistics.mean(hw) / 1e7, "%", 50)
    alone = windows(reports[0]["bins"][:round(later / BIN_S)], later / 2, 1)
    if statistics.mean(lud) < 0.9 * statistics.mean(alone):  # else the device is too fast for them: nobody lacks anything
        found = errors(case, reports, later + 2)["compute"]
        yield result(f"isolation.{policy}.{name}.error_avg_pct", statistics.mean(found), "points",
                     PAPER_ERROR_PCT)
        yield result(f"isolation.{policy}.{name}.error_worst_pct", max(found), "points", PAPER_ERROR_PCT)


def isolation(contention, policies=None, only=None):
    """Shares under loads that differ: every policy where kernels are short and long, `fair` on all."""
    averages, worsts, copies, through = [], [], [], []
    policies = policies or (("fair",) if contention.short else ("fifo", "credit", "band", "fair"))
    if not only or "lud-hw" in only:
        for policy in policies:
            yield from figure_14(contention, policy)
    for case in isolation_cases():
        if case.name not in only if only else case.named:
            continue
        if contention.short and not only and case.name not in ("short-long-30-70", "four", "copies"):
            continue
        seconds = 5 if contention.short else case.seconds
        tried = policies if case.name == "short-long-50-50" or only else policies[-1:]
        for policy in tried:
            reports, rates = contention.measure(case, policy, seconds)
            worked = throughput(case, reports, rates)
            for resource, found in errors(case, reports).items():
                name = f"isolation.{policy}.{case.name}"
                if len({load.resource for load in case.loads}) > 1:
                    name += f".{resource}"
                yield result(f"{name}.error_avg_pct", statistics.mean(found), "points", PAPER_ERROR_PCT)
                yield result(f"{name}.error_worst_pct", max(found), "points", PAPER_ERROR_PCT)
                if policy == policies[-1]:
                    (copies if resource != "compute" else averages).append(statistics.mean(found))
                    worsts.append(max(found))
            yield result(f"isolation.{policy}.{case.name}.throughput", worked, "x", 1)
            if policy == policies[-1]:
                through.append(worked)
    if averages:
        yield result("isolation.error_avg_pct", statistics.mean(averages), "points", PAPER_ERROR_PCT)
        yield result("isolation.error_worst_pct", max(worsts), "points", PAPER_ERROR_PCT)
    if copies:
        yield result("isolation.copy_error_pct", statistics.mean(copies), "points", PAPER_ERROR_PCT)
    if through:
        yield result("isolation.throughput", statistics.mean(through), "x", 1)


# What gdevd is to serve: (one device, its name), (both, the first's name, the other's).
DEVICES = {True: (("cpu", "cpu"), ("cpu:2", "cpu:0", "cpu:1")),
           False: (("cuda:0", "cuda:0"), ("cuda:0,cpu", "cuda:0", "cpu"))}


def isolation_devices(contention, policies=None):
    """Shares of a device by itself, and while another device is saturated: of two software GPUs of a processor each,
    or of a GPU and the software GPU. The most that it may be worse is a point."""
    found = {"alone": [], "beside": []}
    with contention.start() as gdevd:
        software = is_software(gdevd)
    threads = {"threads": 1} if software else {}
    loads = [Load("v0", 20), Load("v1", 5000)]
    others = [Load("w0", 1000), Load("w1", 5000, batch=1)]
    seconds = 6 if contention.short else 12
    for _ in range(1 if contention.short else 3):
        for name, (devices, first, *other) in zip(found, DEVICES[software]):
            vgpus = {vgpu: {**keys, "device": first} for vgpu, keys in split(30, 70).items()}
            case = Case(f"isolation-devices-{name}", vgpus, loads)
            more = {load.vgpu: {"device": other[0]} for load in others if other}
            with contention.start({**vgpus, **more}, devices=devices, **threads) as gdevd:
                reports = contention.run(gdevd, loads + others if other else loads, seconds)
            found[name].append(errors(case, reports[:len(loads)])["compute"])
    averages = {name: statistics.mean(map(statistics.mean, runs)) for name, runs in found.items()}
    worsts = {name: max(map(max, runs)) for name, runs in found.items()}
    yield result("isolation-devices.error_avg_pct", averages["beside"], "points", averages["alone"])
    yield result("isolation-devices.error_worst_pct", worsts["beside"], "points", worsts["alone"])
    yield result("isolation-devices.worse", averages["beside"] - averages["alone"], "points", 1)


def mrq(contention, policies=None):
    """Figure 15: the same two virtual GPUs with copies and kernels in one queue (SDQ), and in queues of
    their own (MRQ): what a program of copies and one of kernels get done together."""
    done = {}
    for mode in ("sdq", "mrq"):
        case = Case(f"mrq-{mode}", split(50, 50),
                    [Load("v0", 500), Load("v0", copy="to", nbytes=1 << 20),
                     Load("v1", 2000), Load("v1", copy="to", nbytes=4 << 20)],
                    seconds=4 if contention.short else 8, config={"queues": mode}, figure="mrq",
                    column=mode.upper())
        reports, rates = contention.measure(case, "fair")
        done[mode] = throughput(case, reports, rates)
        if mode == "mrq":
            for resource, found in errors(case, reports).items():
                yield result(f"mrq.{resource}.error_avg_pct", statistics.mean(found), "points",
                             PAPER_ERROR_PCT)
    yield result("mrq.throughput", done["mrq"], "x", done["sdq"])


def scale(contention, policies=None):
    """Figure 16: four virtual GPUs of a quarter each, one after another, with the same load each."""
    step = 2 if contention.short else 3
    case = Case("scale", split(25, 25, 25, 25),
                [Load(f"v{i}", 300, batch=30, start_s=i * step) for i in range(4)], seconds=4 * step + 2)
    for policy in policies or (("fair",) if contention.short else ("band", "fair")):
        reports, rates = contention.measure(case, policy)
        found = errors(case, reports, skip_s=3 * step + 1)["compute"]
        name = f"scale.{policy}"
        yield result(f"{name}.error_avg_pct", statistics.mean(found), "points", PAPER_ERROR_PCT)
        yield result(f"{name}.error_worst_pct", max(found), "points", PAPER_ERROR_PCT)


def waits_us(contention, case, policy, during=None):
    """How long the first load waited for each of its batches."""
    with contention.start(case.vgpus, policy=policy) as gdevd:
        contention.rate_alone(gdevd, case.loads[0])
        path = gdevd.directory / "batches"
        contention.run(gdevd, case.loads, case.seconds, during and (lambda begin: during(gdevd, begin)),
                       more=[["--batches", path], *[[]] * (len(case.loads) - 1)])
        batches = list(struct.iter_unpack("QQ", path.read_bytes()))
    longest = sorted(batches, key=lambda batch: batch[0] - batch[1])[:12]
    print(f"# {policy}, {len(case.loads)} loads: the longest of {len(batches)} waits, in us (and when, in s):", ", ".join(
        f"{(end - begin) / 1e3:.0f} ({(begin - batches[0][0]) / 1e9:.2f})" for begin, end in longest), file=sys.stderr)
    return [(end - begin) / 1e3 for begin, end in batches]


def percentile(values, part):
    return sorted(values)[int(len(values) * part)]


# A program of high priority that asks for a kernel now and then, beside what it does. If its pauses are all alike it comes
# to the same moment of the others' turns again and again: p99 is then that of one moment.
ASKING, VARIED = {"us": 500, "batch": 1, "think_us": 9500}, {"us": 500, "batch": 1, "think_us": 9500, "vary_us": 5000}
SATURATING = {"us": 1000}
PAUSING = {"us": 1000, "batch": 200, "think_us": 100000, "vary_us": 50000}
SITUATIONS = {
    "": (ASKING, SATURATING, SATURATING),
    "varied_": (VARIED, SATURATING, SATURATING),
    "beside_one_": (ASKING, SATURATING),
    "beside_pauses_": (ASKING, PAUSING, PAUSING),
    "beside_starts_": (ASKING, SATURATING, SATURATING),
}


def start_others(gdevd, begin):
    """Programs, for each of which a worker is made."""
    for second in (2, 4, 6):
        time.sleep(max(0, begin / 1e9 + second - time.time()))
        code, _, err = gdevd.run([gdevd.gdev, "run", "--vgpu", "low", gdevd.example("loop"), 1])
        if code:
            raise LabError(f"loop ended with {code}: {err}")


def priority(contention, policies=None):
    """Figure 10's shape: a program that asks for a kernel now and then, beside two that never stop, in
    virtual GPUs of priorities 10 and 0; under `fair` also beside one, beside two that pause after 200 kernels, and while
    other programs start. Several times in turn. Then in one, with nice 19 for the others. And what waking up a
    thread takes on this machine, of which such a wait has several."""
    vgpus = {"high": {"compute": 40, "priority": 10}, "low": {"compute": 60}}
    kinds = [("fifo", ""), *(("priority", name) for name in ("", "varied_")), *(("fair", name) for name in SITUATIONS)]
    waits = {kind: [] for kind in kinds}
    for repetition in range(1 if contention.short else 3):
        for policy, name in kinds[repetition > 0:]:  # fifo is there to compare with, once
            loads = [Load("low" if number else "high", **load) for number, load in enumerate(SITUATIONS[name])]
            waits[policy, name] += waits_us(contention, Case("priority", vgpus, loads), policy,
                                            start_others if name == "beside_starts_" else None)
    alone = contention.alone[Load("high", **ASKING).key][1]
    for (policy, name), found in waits.items():
        yield result(f"priority.{policy}.{name}p99_us", percentile(found, 0.99), "us", alone["p99_us"])
        yield result(f"priority.{policy}.{name}p50_us", percentile(found, 0.5), "us", alone["p50_us"])
    with contention.start(vgpus) as gdevd:
        code, out, err = gdevd.run([gdevd.build / "bench" / "bench_wake"])
        if code:
            raise LabError(f"bench_wake: {err}")
        wake = json.loads(out)
        yield result("wake.p99_us", wake["p99_us"], "us", wake["p50_us"])
    case = Case("nice-19", {"v0": {"compute": 100}},
                [Load("v0", 2000, batch=1), Load("v0", 1000, nice=19), Load("v0", 1000, nice=19)],
                seconds=4 if contention.short else 8)
    reports, rates = contention.measure(case, "fair")
    bins = reports[0]["bins"][100:]
    yield result("priority.nice19.speed", sum(bins) / (len(bins) * BIN_S) / rates[0], "x", 1)


def nice(contention, policies=("fifo", "fair")):
    """PTask's Tables 3 and 4: a program that copies in, encrypts (a kernel), and copies out, beside one or
    two that loop over kernels of 19 ms, which are nice; then two such programs, of which one is nice."""
    seconds = 4 if contention.short else 8
    crypt = {"us": 1000, "batch": 1, "nbytes": 1 << 20}
    vgpu = {"v0": {"compute": 100}}
    for policy in policies:
        for others in (1, 2):
            case = Case(f"nice-{others}", vgpu, [Load("v0", **crypt)] + [
                Load("v0", 19000, nice=19) for _ in range(others)], seconds=seconds)
            reports, rates = contention.measure(case, policy)
            bins = reports[0]["bins"][100:]
            yield result(f"nice.{policy}.beside_{others}", sum(bins) / (len(bins) * BIN_S) / rates[0],
                         "x", 1)
        case = Case("nice-two", vgpu, [Load("v0", **crypt), Load("v0", **crypt, nice=19)], seconds=seconds)
        reports, rates = contention.measure(case, policy)
        for name, report, rate in zip(("nice_0", "nice_19"), reports, rates):
            bins = report["bins"][100:]
            yield result(f"nice.{policy}.{name}", sum(bins) / (len(bins) * BIN_S) / rate, "x", 1)


SHARES = ((50, 25), (20, 55))  # of the first two, in turn; the third has 25
CHANGE_S = 2


def share_change(contention, policies=None):
    """Shares change at run time, from 50/25/25 to 20/55/25 and back, every two seconds: how long until the windows of
    100 ms show it, and by how much the third, whose share stays, is disturbed: its mean in the windows of 1.5 s after and
    before. (One change alone says little of that: a turn of the third is a hundredth of such a window.)"""
    count = 4 if contention.short else 8
    case = Case("share-change", split(50, 25, 25), [Load("v0", 20), Load("v1", 2000), Load("v2", 1000)],
                seconds=CHANGE_S * (count + 1))
    changed = []  # the bins in which a change begins, and after it

    def change(gdevd, begin):
        for number in range(1, count + 1):
            time.sleep(max(0, begin / 1e9 + CHANGE_S * number - time.time()))
            first = (time.time_ns() - begin) // 10_000_000
            for name, share in zip(("v0", "v1"), SHARES[number % 2]):
                code, _, err = gdevd.run([gdevd.gdev, "vgpu", "set", name, "--compute", share])
                if code:
                    raise LabError(f"gdev vgpu set: {err}")
            changed.append((first, math.ceil((time.time_ns() - begin) / 1e7)))

    reports, _ = contention.measure(case, "fair", during=change)
    bins = [report["bins"] for report in reports]

    def shares(at, count):
        """In `count` bins from one on."""
        used = [sum(b[at:at + count]) for b in bins]
        return [100 * u / (sum(used) or 1) for u in used]

    def shows(at, new, old):
        """Whether in the 100 ms from a bin on both are nearer to the new shares than to the old."""
        return all(abs(now - n) <= abs(n - o) / 2 for now, n, o in zip(shares(at, 10), new, old))

    effects = []
    for number, (_, after) in enumerate(changed, 1):
        new, old = SHARES[number % 2], SHARES[(number - 1) % 2]
        at = next((at for at in range(after, len(bins[0]) - 10) if shows(at, new, old)), len(bins[0]))
        effects.append(10 * (at - after) + 100)
    yield result("share-change.effect_ms", statistics.median(effects), "ms", 100)
    yield result("share-change.effect_worst_ms", max(effects), "ms", 100)
    yield result("share-change.third_pct", statistics.mean(shares(after + 10, 150)[2] for _, after in changed), "%",
                 statistics.mean(shares(first - 160, 150)[2] for first, _ in changed))


def gaps_us(logs):
    """From the end of one program's kernel to the begin of the next, another's, in us."""
    kernels = sorted((begin, end, number) for number, log in enumerate(logs) for begin, end in log)
    return [(then[0] - now[1]) / 1e3 for now, then in zip(kernels, kernels[1:])
            if now[2] != then[2] and then[0] > now[1]]


def handover_steps(trace, logs, offset_ns):
    """What a handover consists of, in us each, from a trace (CLOCK_MONOTONIC; `offset_ns` later by the logs'
    clock) of loads on virtual GPUs of their own, v0, v1, ...: from the end of the last kernel until the worker
    of the one that leaves notices it, until it says so to gdevd, and until the other's worker knows that it has
    the device (below 0: before the end); and from then on until its first kernel begins."""
    names, grants, kernels = {}, {}, {}
    for event in trace["traceEvents"]:
        if event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        span = [round(event["ts"] * 1e3) + offset_ns, round((event["ts"] + event["dur"]) * 1e3) + offset_ns]
        if event.get("cat") == "kernel":
            kernels.setdefault(event["pid"], []).append(span[1])
        elif event.get("cat") == "grant" and (found := re.match(r"virtual GPU v(\d+) ", names[event["pid"]])):
            number = int(found[1])
            grants.setdefault(number, []).append(span)
            names[number] = int(event["name"].split("(")[-1][:-1])
    steps = {"noticed": [], "released": [], "given": [], "begun": []}
    ordered = sorted((begin, end, number) for number, log in enumerate(logs) for begin, end in log)
    for now, then in zip(ordered, ordered[1:]):
        if now[2] == then[2]:
            continue
        # The last thing that happened of each kind before the other's first kernel began.
        noticed = max((at for at in kernels.get(names.get(now[2]), []) if at < then[0]), default=0)
        released = max((end for _, end in grants.get(now[2], []) if end < then[0]), default=0)
        given = max((begin for begin, _ in grants.get(then[2], []) if begin < then[0]), default=0)
        if now[1] - 20_000 < noticed <= released and given > now[1] - 500_000:
            for name, ns in zip(steps, (noticed - now[1], released - now[1], given - now[1], then[0] - given)):
                steps[name].append(ns / 1e3)
    return steps


def handover(contention, policies=None):
    """How long the device stands still when one program follows another: with gdev, and as the device
    changes by itself, after each kernel of two programs that both wait for theirs (policy null). Then what the
    time goes into, by a trace."""
    seconds = 2 if contention.short else 4
    found = {}

    def loads(batch):
        return [Load(f"v{i}", 1000, batch=batch) for i in range(2)]

    for policy, batch in (("null", 1), ("fair", 0)):
        with contention.start(split(50, 50), policy=policy) as gdevd:
            logs = contention.logged(gdevd, loads(batch), seconds)
            found[policy] = sorted(gaps_us(logs)) or [0]
    own = statistics.median(found["null"])
    yield result("handover.gap_us", statistics.median(found["fair"]), "us", own)
    yield result("handover.gap_p90_us", found["fair"][len(found["fair"]) * 9 // 10], "us", own)
    with contention.start(split(50, 50), policy="fair") as gdevd:
        path = gdevd.directory / "trace.json"
        logs = contention.logged(gdevd, loads(0), 2, during=lambda _: gdevd.popen(
            [gdevd.gdev, "trace", "--all", "--seconds", 2.5, "-o", path]))
        gdevd.children[-1].wait(60)
        offset_ns = time.time_ns() - time.monotonic_ns()
        steps = handover_steps(json.loads(path.read_text()), logs, offset_ns)
    for name, values in steps.items():
        if values:
            yield result(f"handover.{name}_us", statistics.median(values), "us", own)


def uncontended(contention, policies=None):
    """What being managed costs one alone: fair, with another virtual GPU there that nobody uses, to the
    same where nobody manages (policy null)."""
    rates = {}
    for repetition in range(1 if contention.short else 2):
        for policy in ("null", "fair"):
            with contention.start(split(50, 50), policy=policy) as gdevd:
                report = contention.run(gdevd, [Load("v0", 20)], 2.5)[0]
                bins = report["bins"][50:]
                rates.setdefault(policy, []).append(sum(bins) / (len(bins) * BIN_S))
    yield result("uncontended.speed", statistics.median(rates["fair"]) / 1e9, "s/s",
                 statistics.median(rates["null"]) / 1e9)


def add_options(parser):
    group = parser.add_argument_group("programs that contend")
    group.add_argument("--short", action="store_true", help="fewer and shorter runs")
    group.add_argument("--series", metavar="FILE",
                       help="append utilization over time, for scripts/plot")
    group.add_argument("--policies", metavar="NAMES", help="isolation, scale, nice: instead of all of them")
    group.add_argument("--cases", metavar="NAMES", help="isolation, preempt: only these")


def results(name, start, options, benches=None):
    """The metrics of a benchmark, of these here or of others: (metric, (value, baseline, unit))."""
    arguments = {}
    if options.cases and name in ("isolation", "preempt"):
        arguments["only"] = options.cases.split(",")
    if options.policies:
        arguments["policies"] = tuple(options.policies.split(","))
    yield from (benches or BENCHES)[name](Contention(start, options.short, options.series), **arguments)


BENCHES = {"isolation": isolation, "isolation-devices": isolation_devices, "mrq": mrq, "scale": scale, "priority": priority, "nice": nice,
           "share-change": share_change, "handover": handover, "uncontended": uncontended}
