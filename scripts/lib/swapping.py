# SPDX-License-Identifier: MIT
"""Benchmarks of memory that is swapped and shared: swap, swap-bandwidth, dataflow and suspend.

  dataflow        graphs of matrix tasks (examples/dataflow) as processes that share device memory, and by hand;
                  the baseline is the same processes with copies through the host (the paper's Figure 11)
  swap            how long n searches (examples/search) take beside a large one of higher priority, when
                  together they need more memory than there is; with temporary swap space, without it (Figure
                  12), and with the device split among 1, 2 and 4 virtual GPUs (Figure 13). The baseline is the
                  same searches in batches that fit, one batch after another
  swap-bandwidth  GB/s at which memory leaves the device, comes back, and does both; the baseline is what
                  copies of page-locked memory reach in the same run. restore_temporary: how much longer a launch
                  takes for what was to leave and was wanted back before it had, which moves no byte; the
                  baseline is what it may take at most. On hardware, both_driver: what the vendor's driver leaves of
                  `both` to two processes without gdev that exchange as many bytes (bench/exchange.c)
  suspend         GB/s of `gdev suspend` and `gdev resume`; the same baseline

Sizes are those of the device: 8 GiB of hardware, some hundred MiB of the software GPU, where a copy is a
memcpy and no bus is between. `short` makes less of everything."""

import json
import socket
import statistics
import struct
import subprocess
import time

from lab import LabError

MIB = 1 << 20


class Swapping:
    """Runs the benchmarks on devices that `start(vgpus, **config)` makes."""

    def __init__(self, start, short=False, software=True, vendor=None):
        self.start, self.short, self.software, self.vendor = start, short, software, vendor
        self.device_mib = (160 if short else 320) if software else 8192
        # What the paper has in 1.6 GB: one search of 1 GB, some of 128 MB. A context of the hardware, which
        # cannot be swapped, is a large part of what so small a device has: fewer and larger searches there.
        self.large_mib = self.device_mib * 5 // 8 if software else 3072
        self.small_mib = self.device_mib * 5 // 64 if software else 1536
        self.context_mib = 0 if software else 520


def run_json(gdevd, *command, timeout=600, environment=None):
    code, out, err = gdevd.run(command, timeout, environment)
    if code:
        raise LabError(f"{' '.join(map(str, command))} ended with {code}:\n{err[-2000:]}")
    return json.loads(out)


# -- dataflow -----------------------------------------------------------------------------------------

def dataflow_cases(runs):
    """(task, shape, size)"""
    if runs.short:
        return [("madd", "tree", 256 if runs.software else 1024)]
    if runs.software:
        return [("madd", "tree", 512), ("madd", "tree", 1024), ("madd", "rectangle", 1024),
                ("mcopy", "tree", 1024), ("mmul", "tree", 256)]
    return [("madd", "tree", 1024), ("mcopy", "tree", 1024), ("mmul", "tree", 1024),
            ("madd", "rectangle", 1024)]


def dataflow(runs):
    repetitions, rounds = (1, 3) if runs.short or not runs.software else (3, 5)
    with runs.start(None, **({"device_memory": "2G"} if runs.software else {})) as gdevd:
        def ms(variant, task, shape, size, vendor=None):
            command = [gdevd.example("dataflow"), "--json", "--no-check", "--warm-up",
                       f"--repeat={rounds}", f"--variant={variant}", f"--task={task}",
                       f"--shape={shape}", size]
            if vendor:
                return run_json(gdevd, *command, environment={"LD_PRELOAD": vendor})["run_ms"] / rounds
            return run_json(gdevd, gdevd.gdev, "run", *command)["run_ms"] / rounds

        for case in dataflow_cases(runs):
            times = {variant: [] for variant in ("modular", "shm", "hand")}
            for _ in range(repetitions):
                for variant, seen in times.items():
                    seen.append(ms(variant, *case))
            middle = {variant: statistics.median(seen) for variant, seen in times.items()}
            name = "_".join(map(str, case))
            for variant in ("shm", "hand"):
                yield f"{name}.{variant}_ms", (middle[variant], middle["modular"], "ms")
            # How many times faster, and what the paper has.
            yield f"{name}.speedup", (middle["modular"] / middle["shm"], 1.49, "x")
            if runs.vendor:
                yield f"{name}.modular_ms", (middle["modular"], ms("modular", *case, runs.vendor), "ms")


# -- swap ---------------------------------------------------------------------------------------------

def searches(gdevd, vgpu, size, count, rounds):
    """Starts searches; their results are checked."""
    return [gdevd.popen([gdevd.gdev, "run", "--vgpu", vgpu, gdevd.example("search"), "--json",
                         f"--repeat={rounds}", f"--seed={seed + 1}", size],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for seed in range(count)]


def finish(processes, what):
    for process in processes:
        _, err = process.communicate(timeout=900)
        if process.returncode:
            raise LabError(f"{what} ended with {process.returncode}:\n{err[-2000:]}")


class Makespan:
    """How long searches take beside a large one, which runs all the while."""

    def __init__(self, runs, reserve, vgpus=1, large=True):
        self.runs, self.large = runs, large
        self.config = {"device_memory": f"{runs.device_mib}M"}
        if reserve is not None:
            self.config["swap_reserve"] = reserve
        share = f"{runs.device_mib // vgpus}M"
        self.vgpus = {f"v{i}": {"memory": share} for i in range(vgpus)}
        if large:
            self.vgpus = {"v0": {"priority": 0}, "large": {"priority": 10}}
        # Some seconds for one search.
        self.rounds = (1 if runs.short else 4) if runs.software else (200 if runs.short else 1000)
        self.pairs = 5 if runs.software and not runs.short else 1  # of which one alone says little

    def measure(self, counts):
        """{count: (seconds at once, seconds in batches that fit)}, medians of some pairs."""
        runs = self.runs
        room = runs.device_mib // max(len(self.vgpus), 1) * 0.85
        if self.large:
            room = runs.device_mib * 0.9 - runs.large_mib - runs.context_mib
        fit = max(int(room / (runs.small_mib + runs.context_mib)), 1)
        seen = {}
        with self.runs.start(self.vgpus, **self.config) as gdevd:
            other = []
            if self.large:
                other = searches(gdevd, "large", self.runs.large_mib, 1, 1000000)
                self.wait_for_launches(gdevd)
            for count in [min(fit, max(counts)), *counts]:  # the first is not counted
                pairs = [(self.seconds(gdevd, count), count > fit and self.in_batches(gdevd, count, fit))
                         for _ in range(self.pairs if count > fit else 1)]
                at_once, batches = map(statistics.median, zip(*pairs))
                seen[count] = (at_once, batches or at_once)
            for process in other:
                if process.poll() is not None:
                    raise LabError(f"the large search ended: {process.communicate()[1][-2000:]}")
                process.kill()
                process.wait()
        return seen

    def wait_for_launches(self, gdevd, seconds=60):
        end = time.monotonic() + seconds
        while not any(session["launches"] > 2 for session in gdevd.status()["sessions"]):
            if time.monotonic() > end:
                raise LabError(f"the large search did not begin within {seconds} seconds")
            time.sleep(0.1)

    def in_batches(self, gdevd, count, fit):
        whole, rest = divmod(count, fit)
        measured = whole if self.runs.software else 1  # of those that are alike
        batches = whole / measured * sum(self.seconds(gdevd, fit) for _ in range(measured))
        return batches + (self.seconds(gdevd, rest) if rest else 0)

    def seconds(self, gdevd, count):
        start = time.monotonic()
        finish(searches(gdevd, "v0", self.runs.small_mib, count, self.rounds), "a search")
        return time.monotonic() - start


def search_ms(gdevd, runs):
    """Copies and kernels of a search that has the device to itself."""
    size, rounds = (16, 4) if runs.software else (256, 500)
    out = run_json(gdevd, gdevd.gdev, "run", gdevd.example("search"), "--json", "--no-check",
                   f"--repeat={rounds}", size)
    return out["copy_ms"] + out["compute_ms"]


def fits(runs):
    """What is lost when nothing has to leave: the baseline has no host swap, and so no reserve."""
    config = {"device_memory": f"{runs.device_mib}M", "warm_workers": 1}
    times = {"on": [], "off": []}
    with runs.start(None, **config) as on, runs.start(None, **config, host_swap=0) as off:
        for repetition in range(4 if runs.short else 12):
            for name, gdevd in (("on", on), ("off", off)):
                times[name].append(search_ms(gdevd, runs))
    return tuple(statistics.median(seen[1:]) for seen in times.values())


def swap(runs):
    yield "fits_ms", (*fits(runs), "ms")
    counts = (1, 6) if runs.short else (1, 2, 3, 4, 6, 8) if runs.software else (1, 2, 4, 6)
    for vgpus in (1, 4) if runs.short and runs.software else (1, 2, 4) if runs.software else (1, 2):
        some = (*counts, 16) if runs.software and vgpus == 1 else counts  # ten fit
        for count, (at_once, batches) in Makespan(runs, None, vgpus, False).measure(some).items():
            yield f"vgpus{vgpus}.n{count}_s", (at_once, batches, "s")
    for name, reserve in (("reserve", None), ("no_reserve", 0)):
        for count, (at_once, batches) in Makespan(runs, reserve).measure(counts).items():
            yield f"{name}.n{count}_s", (at_once, batches, "s")


# -- swap-bandwidth and suspend -----------------------------------------------------------------------

class Filler:
    """A process of bench/swap.c."""

    def __init__(self, gdevd, object_mib, total_mib):
        self.gdevd = gdevd
        self.process = gdevd.popen(
            [gdevd.gdev, "run", gdevd.build / "bench" / "bench_swap", object_mib, total_mib],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise LabError(f"bench_swap ended: {self.process.communicate()[1][-2000:]}")
        return line

    def begin(self, letter):
        self.process.stdin.write(letter + "\n")
        self.process.stdin.flush()

    def do(self, letter):
        """Seconds."""
        self.begin(letter)
        return int(self.answer()) / 1e9

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()


def pinned_rates(filler):
    """GB/s of page-locked copies: from the device, to it, and the sum of both at once."""
    megabytes = 256 * MIB / 1e9
    return megabytes / filler.do("o"), megabytes / filler.do("i"), 2 * megabytes / filler.do("b")


def moved(gdevd):
    """Bytes that left and came back so far."""
    sessions = gdevd.status()["sessions"]
    return (sum(s["swap_out_bytes"] for s in sessions), sum(s["swap_in_bytes"] for s in sessions))


TURN_S = 0.05  # so long after the last command of a session with memory brought in another gets the device at once


def rate(gdevd, filler, letter):
    """(GB/s, bytes out, bytes in) of what one letter makes move."""
    before = moved(gdevd)
    time.sleep(TURN_S)  # docs/memory.md, rule 8: a pause of the other's does not end its turn
    seconds = filler.do(letter)
    out, back = (after - then for after, then in zip(moved(gdevd), before))
    return (out + back) / 1e9 / seconds, out, back


def driver_exchange(runs, gdevd, piece_count):
    """GB/s of two processes that exchange so many pieces of 32 MiB without gdev."""
    command = [gdevd.build / "bench" / "bench_exchange", str(piece_count), "drops_maps"]
    return run_json(gdevd, *command, environment={"LD_PRELOAD": runs.vendor})["value"]


def measure_bandwidth(runs, gdevd, object_mib):
    """What leaves, comes back, and does both: {what: [GB/s]}, and the same of page-locked copies."""
    total = runs.device_mib * 13 // 16 // object_mib * object_mib
    one, other = (Filler(gdevd, object_mib, total) for _ in range(2))
    seen, pinned = ({what: [] for what in ("evict", "restore", "both")} for _ in range(2))
    for filler in (one, other):
        filler.do("a"), filler.do("w"), filler.do("t")
    # A first time each, for what is made once: slots of host swap.
    one.do("t"), other.do("t")
    for _ in range(2 if runs.short else 5):
        for what, value in zip(seen, pinned_rates(one)):
            pinned[what].append(value)
        other.do("t")
        both, out, _ = rate(gdevd, one, "t")
        seen["both"].append(both)
        if runs.vendor and object_mib == 32:
            seen.setdefault("both_driver", []).append(driver_exchange(runs, gdevd, out // MIB // 32))
            pinned["both_driver"] = pinned["both"]
        other.do("f"), other.do("a")
        seen["evict"].append(rate(gdevd, other, "t")[0])  # never written: nothing comes in
        other.do("f")
        seen["restore"].append(rate(gdevd, one, "t")[0])
        one.do("c")
        other.do("a"), other.do("w")
    one.end()
    other.end()
    return seen, pinned


class Limit:
    """Changes the memory of a virtual GPU without starting a process."""

    def __init__(self, gdevd, vgpu):
        self.vgpu = vgpu
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(gdevd.runtime / "control.sock"))

    def begin(self, mib):
        body = json.dumps({"command": "vgpu-set", "name": self.vgpu, "keys": {"memory": f"{mib}M"}}).encode()
        self.socket.send(struct.pack("=IHHIi", 16 + len(body), 4, 1, 1, 0) + body)  # proto/control.h

    def end(self):
        status = struct.unpack_from("=i", self.socket.recv(65536), 12)[0]
        if status < 0:
            raise LabError(f"the limit could not be set: {status}")


def restore_temporary(runs):
    """Seconds a GiB. A lower limit makes objects leave, and a launch, which needs them, comes close behind it. Where
    the launch was late, and something had left, or early, and nothing was to leave, nothing is measured."""
    device = 1024 if runs.software else runs.device_mib  # of less, a launch's own time says more than the bytes
    total = device * 13 // 16 // 32 * 32
    config = {"device_memory": f"{device}M", "swap_reserve": 0, "warm_workers": 0}
    seen = []
    with runs.start({"gdev0": {"memory": f"{device}M"}}, **config) as gdevd:
        filler, limit = Filler(gdevd, 32, total), Limit(gdevd, "gdev0")
        filler.do("a"), filler.do("w")
        plain = statistics.median(filler.do("t") for _ in range(21))
        for repetition in range(20 if runs.short else 100):
            before = gdevd.status()["sessions"][0]
            limit.begin(total // 2)
            time.sleep(repetition % 5 * 1e-4)
            filler.begin("t")
            limit.end()
            seconds = int(filler.answer()) / 1e9 - plain
            limit.begin(device)
            limit.end()
            after = gdevd.status()["sessions"][0]
            rescued = after["rescued_bytes"] - before["rescued_bytes"]
            if rescued and after["swap_in_bytes"] == before["swap_in_bytes"]:
                seen.append(max(seconds, 0) * (1 << 30) / rescued)
            while gdevd.status()["sessions"][0]["moving"]:
                time.sleep(0.01)
            filler.do("t")
        filler.do("c")
        filler.end()
    if not seen:
        raise LabError("no launch came while something was about to leave")
    return statistics.median(seen)


def swap_bandwidth(runs):
    """Two processes; the objects of one fill the device, but for what contexts and buffers take."""
    for object_mib in (32, 2):
        config = {"device_memory": f"{runs.device_mib}M", "swap_reserve": 0, "warm_workers": 0}
        with runs.start(None, **config) as gdevd:
            seen, pinned = measure_bandwidth(runs, gdevd, object_mib)
        for what, values in seen.items():
            yield (f"{what}.{object_mib}MiB",
                   (statistics.median(values), statistics.median(pinned[what]), "GB/s"))
    yield "restore_temporary_ms_per_GiB", (1000 * restore_temporary(runs), 1, "ms")


def suspend(runs):
    config = {"device_memory": f"{runs.device_mib * 11 // 8}M", "warm_workers": 0}
    seen, pinned = {"suspend": [], "resume": []}, {"suspend": [], "resume": []}
    with runs.start(None, **config) as gdevd:
        filler = Filler(gdevd, 32, runs.device_mib)
        filler.do("a"), filler.do("w"), filler.do("t")
        for repetition in range(3 if runs.short else 6):
            rates = pinned_rates(filler)
            for verb, baseline in zip(seen, rates):
                before, start = sum(moved(gdevd)), time.monotonic()
                code, _, err = gdevd.run([gdevd.gdev, verb, filler.process.pid])
                if code:
                    raise LabError(f"gdev {verb} failed: {err}")
                if verb == "resume":
                    filler.do("t")  # all of it is back
                seconds = time.monotonic() - start
                if repetition:  # the first one makes the slots of host swap
                    seen[verb].append((sum(moved(gdevd)) - before) / 1e9 / seconds)
                    pinned[verb].append(baseline)
            filler.do("c")
        filler.end()
    for verb, values in seen.items():
        yield f"{verb}", (statistics.median(values), statistics.median(pinned[verb]), "GB/s")


BENCHES = {"swap": swap, "swap-bandwidth": swap_bandwidth, "dataflow": dataflow, "suspend": suspend}


def results(name, start, options, software=True, vendor=None):
    """The metrics of a benchmark: (metric, (value, baseline, unit))."""
    for metric, values in BENCHES[name](Swapping(start, options.short, software, vendor)):
        yield f"{name}.{metric}", values
