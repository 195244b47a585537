# SPDX-License-Identifier: MIT
"""Runs a benchmark and prints what it measured: a table, or with --json one line a metric,
{"bench": …, "metric": …, "value": …, "unit": …, "baseline": …, "ratio": …}, ratio = value / baseline.
What the baseline is, the benchmark's own file says (bench/NAME.c; idle and table1: below).

  launch   an empty kernel: the caller's time, launch and wait, launches a second
  copy     both directions, 64 B to 256 MiB, against memcpy
  open     opening a virtual GPU with a worker ready (warm) and without (cold)
  idle     CPU time of gdevd, the workers and a client over 30 idle seconds
  trace    launches while somebody traces, against the same while nobody does
  managed  managed memory: first touches against page-locked copies, access against device memory, launches beside it
  device   a device backend used directly in one process: what is below gdevd
  peer     copies between two devices, and a kernel that may use another device's memory
  devices  the same work on one, two and four software devices; what a message costs gdevd with 64 devices
  gloop    kernels with event loops against the same without, two at once, and their shares (scripts/lib/gloop.py)
  gloop-figures
           Figures 3 and 4 of the GLoop paper
  gloop-words
           grep by how many words a callback searches for
  ptask    dataflow graphs against the same by hand, on two devices, and with priorities (scripts/lib/dataflow.py)
  ptask-gesture
           PTask's gestural interface in five forms (Table 2; scripts/lib/dataflow.py)
  vm       a guest under QEMU: counts, and what the thesis on GPU virtualization has in its chapter 4 (scripts/lib/machines.py)
  table1   the programs of the paper's Table 1 through gdevd, against the same without it

Of programs that contend (scripts/lib/contention.py says what is measured, and how):

  isolation     shares of virtual GPUs under unequal loads (Figure 14), errors and throughput
  isolation-devices
                of one device while another one is saturated
  mrq           copies and kernels in queues of their own or in one (Figure 15)
  scale         four virtual GPUs that come one after another (Figure 16)
  priority      how long a program of high priority waits beside two that never stop (Figure 10)
  nice          programs that are nice beside one that is not (PTask's Tables 3 and 4)
  share-change  a share that changes while programs run
  handover      how long the device stands still between two programs
  uncontended   what being managed costs a program alone

Of memory that is swapped or shared (scripts/lib/swapping.py):

  swap            searches that together need more memory than there is (Figures 12 and 13)
  swap-bandwidth  what leaves the device, comes back, and does both, against page-locked copies
  dataflow        tasks that hand on data in shared device memory, or through the host (Figure 11)
  suspend         a program that is moved to the host and back

Of the software GPU (scripts/lib/kernels.py says what is measured; --only NAME... for some of the kernels):

  cpu  kernels, against the same in OpenCL C on PoCL, and in C with OpenMP

It starts a gdevd of its own, unless --runtime-dir names one that runs."""

import argparse
import json
import math
import os
import resource
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

import contention
import dataflow
import gloop
import kernels
import lab
import machines
import preempt
import swapping
from lab import ROOT, Gdevd, LabError
from turns import Turns

IDLE_SECONDS = 30


class Running:
    """A gdevd that somebody else runs, with the part of Gdevd's interface that benchmarks need."""

    def __init__(self, build, runtime):
        self.lab = Gdevd(build)
        self.lab.environment = {**os.environ, "GDEV_RUNTIME_DIR": str(runtime)}
        self.lab.runtime = Path(runtime)

    def __enter__(self):
        return self.lab

    def __exit__(self, *_reason):
        pass


def program(gdevd, name):
    return gdevd.build / "bench" / f"bench_{name}"


def lines(gdevd, command, timeout=1200, environment=None):
    """What a benchmark's program reports."""
    code, out, err = gdevd.run([gdevd.gdev, "run", *command], timeout, environment)
    if code:
        raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err}")
    return [json.loads(line) for line in out.splitlines()]


def line(bench, metric, value, unit, baseline):
    return {"bench": bench, "metric": metric, "value": value, "unit": unit, "baseline": baseline,
            "ratio": value / baseline}


# -- the benchmarks -----------------------------------------------------------------------------------

def bench_launch(start):
    with start() as gdevd:
        yield from lines(gdevd, [program(gdevd, "launch")])


def bench_copy(start):
    with start() as gdevd:
        yield from lines(gdevd, [program(gdevd, "copy")])


def bench_open(start):
    with start() as gdevd:
        yield from lines(gdevd, [program(gdevd, "open"), "warm_ms", 21, 500])
    with start(warm_workers=0) as gdevd:
        yield from lines(gdevd, [program(gdevd, "open"), "cold_ms", 21, 100])


def cpu_seconds(pid):
    """CPU time of all threads of a process."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def children(pid):
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            yield int(stat.parent.name)


def daemon_pid(gdevd):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(gdevd.runtime / "control.sock"))
        return struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def bench_idle(start):
    """The baseline is the time that passed: a ratio of 1 is one processor kept busy."""
    with start() as gdevd:
        client = gdevd.popen([gdevd.gdev, "run", program(gdevd, "idle")], stdout=-1, text=True,
                             stdin=-1)
        if client.stdout.readline() != "idle\n":
            raise LabError("the idle client did not come up")
        time.sleep(3)
        daemon = daemon_pid(gdevd)
        workers = list(children(daemon))

        def used():
            return (cpu_seconds(daemon), sum(map(cpu_seconds, workers)), cpu_seconds(client.pid))

        before, begin = used(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        passed = time.monotonic() - begin
        for name, then, now in zip(("daemon", "worker", "client"), before, used()):
            yield line("idle", f"{name}_cpu_s", now - then, "s", passed)
        client.stdin.close()
        client.wait(30)


def bench_trace(start):
    with start() as gdevd:
        yield from lines(gdevd, [program(gdevd, "trace")])


def bench_managed(start):
    with start() as gdevd:
        yield from lines(gdevd, [program(gdevd, "managed"), 256])


def bench_device(start):
    with start() as gdevd:
        code, out, err = gdevd.run([program(gdevd, "device_direct")], 600)
    if code:
        raise LabError(f"bench_device_direct ended with {code}:\n{err}")
    yield from map(json.loads, out.splitlines())


# glibc's memcpy reads what it is about to overwrite, unless it copies more than this; a copy of the software GPU never
# does. With what glibc chooses by itself (240 MiB have been seen) memcpy would have half as much again to move.
MEMCPY_STREAMS = {"GLIBC_TUNABLES": "glibc.cpu.x86_non_temporal_threshold=0x200000"}


def bench_peer(start):
    """Between two devices of the software GPU; on hardware between two virtual GPUs of one device. Half a minute."""
    if lab.SOFTWARE:
        with start(devices="cpu:2", device_memory="2G") as gdevd:
            yield from lines(gdevd, [program(gdevd, "peer"), "memcpy"], environment=MEMCPY_STREAMS)
    else:
        with start({"a": {}, "b": {}}) as gdevd:
            yield from lines(gdevd, ["--vgpu", "a,b", program(gdevd, "peer"), "device"])


DEVICES_TURNS = 15
DEVICES_SIZE = 1920
MESSAGES = 2000


def describe_us(gdevd):
    """gdevd's CPU time for a connection that asks one thing."""
    before = cpu_seconds(daemon_pid(gdevd))
    code, _, err = gdevd.run([program(gdevd, "describe"), MESSAGES])
    if code:
        raise LabError(f"bench_describe ended with {code}:\n{err}")
    return (cpu_seconds(daemon_pid(gdevd)) - before) * 1e6 / MESSAGES


def everybodys_seconds(gdevd, client):
    """CPU time of gdevd, its workers, and a client."""
    daemon = daemon_pid(gdevd)
    return sum(map(cpu_seconds, (daemon, client, *children(daemon))))


def bench_devices(start):
    """work_N: rounds a second of mmuls with all processors as N devices; the baseline is one device. The products are the
    same work, in the same bands, and more devices copy more: the first matrix goes from device to device. work_cpu_N: CPU time of such a
    round, of gdevd, the workers and the program, which says more where other programs run. message_us_64: gdevd's CPU time
    for a connection and a question with 64 devices; the baseline is one device. A minute and a half in all."""
    with start(devices="cpu") as one, start(devices="cpu:2") as two, start(devices="cpu:4") as four:
        sides = [Turns(gdevd, [gdevd.gdev, "run", gdevd.example("mmuls"), "--json", "--no-check", "--turns", DEVICES_SIZE])
                 for gdevd in (one, two, four)]
        cpu = [[] for _ in sides]
        for i in range(DEVICES_TURNS + 1):
            for side, gdevd, spent in zip(sides, (one, two, four), cpu):
                before = everybodys_seconds(gdevd, side.child.pid)
                side.turn(1)
                spent.append(everybodys_seconds(gdevd, side.child.pid) - before)
                if not i:  # compiles
                    side.ms.clear(), spent.clear()
        for side in sides:
            side.end()
    rates = [1000 / statistics.median(side.ms) for side in sides]
    for count, rate in (2, rates[1]), (4, rates[2]):
        yield line("devices", f"work_{count}", rate, "1/s", rates[0])
    spent = [statistics.median(seconds) * 1e3 for seconds in cpu]
    for count, ms in (2, spent[1]), (4, spent[2]):
        yield line("devices", f"work_cpu_{count}", ms, "ms", spent[0])
    with start(devices="null", device_memory="64M") as one, start(devices="null:64", device_memory="64M") as many:
        describe_us(one), describe_us(many)
        costs = [(describe_us(one), describe_us(many)) for _ in range(DEVICES_TURNS)]
    base, cost = (statistics.median(column) for column in zip(*costs))
    yield line("devices", "message_us_64", cost, "us", base)


# Sizes and rounds a whole run, of half a second and more each: (size, rounds).
TABLE1 = {
    "loop": (1, 12), "madd": (1024, 160), "mmul": (1024, 8), "cpy": (256, 10), "pincpy": (256, 10),
    "bp": (65536, 100), "bfs": (1000000, 5), "hw": (24, 4), "hs": (1024, 4), "lud": (1024, 12),
    "nn": (1000000, 100), "nw": (2048, 12), "srad": (1024, 2), "srad2": (1024, 4),
}
TABLE1_WHOLE_RUNS = 3
TABLE1_TURNS = 20
TICK = os.sysconf("SC_CLK_TCK")


def spent_s(pid, ended_children):
    """CPU time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15 if ended_children else 13])) / TICK


def service_s(daemon):
    """CPU time of gdevd and of all workers that there ever were."""
    total = spent_s(daemon, True)
    for worker in children(daemon):
        try:
            total += spent_s(worker, False)
        except (FileNotFoundError, ProcessLookupError):
            pass  # ended just now, and is counted the next time
    return total


class Run:
    """One run of a program: wall and CPU ms of the whole process."""

    def __init__(self, gdevd, daemon, command, environment=None):
        serviced, began = service_s(daemon), time.monotonic()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code, out, err = gdevd.run(command, 600, environment)
        self.wall = (time.monotonic() - began) * 1e3
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if code:
            raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err}")
        time.sleep(0.2)  # a worker ends, and the next one starts, after its client: that is the program's, too
        self.cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime +
                    service_s(daemon) - serviced) * 1e3


def rounds_in_turns(gdevd, through, alone, rounds):
    """Median ms of a round of each of two commands."""
    sides = [Turns(gdevd, *through), Turns(gdevd, *alone)]
    for side in sides:
        side.turn(1)  # the first one also waits until both are ready
        side.ms.clear()
    for i in range(TABLE1_TURNS):
        for side in sides[::-1] if i % 2 else sides:
            side.turn(rounds)
    for side in sides:
        side.end()
    return [statistics.median(side.ms) for side in sides]


def bench_table1(start):
    """NAME_ms: time of a round (copies and kernels; not opening and compiling) through gdevd; the baseline is
    the same binary on bench/direct: in its own process, on the same backend. Both are there at the same time and
    take turns of a tenth of a second or less, so that whatever else the machine does meets both. geomean is of
    these. Of whole runs, wall_geomean is the time from start to end, and cpu_geomean the CPU time, of gdevd and
    workers too, which says more where other programs run: gdevd has compiled code in its cache then, and
    the process alone compiles every time."""
    with start() as gdevd:
        daemon = daemon_pid(gdevd)
        direct = {"LD_LIBRARY_PATH": str(gdevd.build / "bench" / "direct")}
        ratios = {"rounds": [], "wall": [], "cpu": []}
        for name, (size, rounds) in TABLE1.items():
            base = [gdevd.example(name), "--json", "--no-check", "--warm-up"]
            command = [*base, f"--repeat={rounds}", size]
            through, alone = [], []
            for repetition in range(TABLE1_WHOLE_RUNS):
                sides = [lambda: through.append(Run(gdevd, daemon, [gdevd.gdev, "run", *command])),
                         lambda: alone.append(Run(gdevd, daemon, command, direct))]
                for side in sides[::-1] if repetition % 2 else sides:
                    side()
            for what in "wall", "cpu":
                ratios[what].append(statistics.median(getattr(run, what) for run in through) /
                                    statistics.median(getattr(run, what) for run in alone))
            command = [*base, "--turns", size]
            ours, theirs = rounds_in_turns(
                gdevd, ([gdevd.gdev, "run", *command],), (command, direct), max(1, rounds // 10))
            ratios["rounds"].append(ours / theirs)
            yield line("table1", f"{name}_ms", ours, "ms", theirs)
        for what, found in ratios.items():
            yield line("table1", {"rounds": "geomean"}.get(what, f"{what}_geomean"),
                       math.exp(statistics.fmean(map(math.log, found))), "x", 1)


def bench_ptask(start):
    with start() as gdevd:
        for metric, value, baseline, unit in dataflow.ratios(gdevd):
            yield line("ptask", metric, value, unit, baseline)
        yield from lines(gdevd, [program(gdevd, "ptask")])
        yield from lines(gdevd, [program(gdevd, "ptask_across")])
        yield from lines(gdevd, [program(gdevd, "ptask_workers")])
    with start(devices="cpu:2") as gdevd:
        for metric, value, baseline, unit in dataflow.two_devices(gdevd):
            yield line("ptask", metric, value, unit, baseline)
    for metric, value, baseline, unit in dataflow.priorities(start):
        yield line("ptask", metric, value, unit, baseline)


def bench_vm(start):
    for metric, value, unit, baseline in machines.results(start):
        yield line("vm", metric, value, unit, baseline)


def bench_ptask_gesture(start):
    with start() as gdevd:
        for metric, value, baseline, unit in dataflow.gesture(gdevd):
            yield line("ptask-gesture", metric, value, unit, baseline)


BENCHES = {name.removeprefix("bench_").replace("_", "-"): function for name, function in list(globals().items())
           if name.startswith("bench_")}


def measure(name, start, options):
    if name in BENCHES:
        yield from BENCHES[name](start)
        return
    if name in gloop.PARTS:
        for metric, value, unit, baseline in gloop.PARTS[name](start):
            yield line("gloop", metric, value, unit, baseline)
        return
    if name in kernels.BENCHES:
        yield from kernels.results(start, options)
        return
    if name in preempt.BENCHES:
        for metric, (value, baseline, unit) in contention.results(name, start, options, preempt.BENCHES):
            yield line(name, metric, value, unit, baseline)
        return
    module = contention if name in contention.BENCHES else swapping
    for metric, (value, baseline, unit) in module.results(name, start, options):
        yield line(name, metric, value, unit, baseline)


def show(found):
    width = max(len(f["metric"]) for f in found)
    print(f"{'':{width}}  {'value':>12} {'unit':<4} {'baseline':>12}  ratio")
    for f in found:
        print(f"{f['metric']:{width}}  {f['value']:>12.6g} {f['unit']:<4} {f['baseline']:>12.6g}  "
              f"{f['ratio']:.4g}")


def main():
    everything = [*BENCHES, *gloop.PARTS, *contention.BENCHES, *preempt.BENCHES, *swapping.BENCHES, *kernels.BENCHES]
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", choices=[*everything, "all"], metavar="NAME")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--build", default=ROOT / "build-bench", metavar="FOLDER",
                        help="a built tree (default: build-bench, which is made when it is not there)")
    parser.add_argument("--runtime-dir", metavar="DIR", help="of a gdevd that runs")
    contention.add_options(parser)
    kernels.add_options(parser)
    options = parser.parse_args()
    lab.end_on_signals()

    def start(vgpus=None, **config):
        if not options.runtime_dir:
            return Gdevd(options.build, config, vgpus)
        if config or vgpus:
            raise LabError("this measurement needs a gdevd with its own configuration")
        return Running(options.build, options.runtime_dir)

    try:
        for name in everything if options.name == "all" else [options.name]:
            found = []
            for measured in measure(name, start, options):
                if options.json:
                    print(json.dumps(measured), flush=True)
                else:
                    found.append(measured)
            if found:
                print(f"\n{name}")
                (kernels.show if name in kernels.BENCHES else show)(found)
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
