# SPDX-License-Identifier: MIT
"""What a GPU costs in a virtual machine, and the tables and figures of chapter 4 of the thesis on GPU virtualization with QEMU.

The guest runs under QEMU's TCG, where time says nothing of a hypervisor's. So what is measured is counts, processor time of the
host's processes (a guest's programs have a worker as others do, and a proxy), ratios within one guest, and the same programs on
the host in the same run. Processor time of the guest itself is in no figure. bench/vm.c says what is asked of programs.

  exits_per_launch     doorbells of a burst of launches, for one
  bytes_copied         bytes that processors copied for copies of pageable memory, for each that was asked; 1 on the host
  proxy_us             processor time of the proxy for a launch of the burst, looking included; against half a microsecond
  launch_cost          processor time of the worker for a launch of the burst; the baseline is a client of the host that launches
                       at the guest's pace
  interrupts_per_wait, exits_per_wait, proxy_alone_us, launch_alone_cost
                       of launches that are waited for one by one, with pauses in which everybody sleeps
  proxy_near_us, proxy_far_us
                       proxy_alone_us when proxy, worker and QEMU have one processor, and when the proxy has one of its own.
                       The baseline is a process that is woken up twice, and wakes another each time, by the same means, with
                       the same pauses and on such processors (bench_wake), in turn: no proxy that sleeps does without
  proxy_own_us         proxy_near_us without its baseline
  table4.1.HOW.SIZE_ms, _pct
                       products of matrices in the guest, waited for busily, asleep, and as gdev does (`hybrid`): time, and the
                       guest's processor; baselines are those of `busy`
  table4.2 to 4.4      processor time of the proxy for cuMemAlloc, cuMemFree and cuLaunchKernel; the baseline is the call on the host
  figure4.1.*, 4.4.*, 4.5.*
                       processor time of a round: worker and proxy; the baseline is worker and client on the host. The `proxy`
                       lines are the proxy's part
  figure4.2.*, 4.3.*   where the time of a copy goes in the guest: library, copying in the guest (none), module and waiting, copying
                       on the host, the rest of the proxy; the baseline is the whole
  figure4.6.*          n programs at once on the host, in one guest, and in n guests: worker and proxy, or worker and client, of
                       all; the baseline is one on the host"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lab

sys.path.insert(0, str(lab.ROOT / "tests" / "vm"))

import guest  # noqa: E402
import parts  # noqa: E402

RUNS, LAUNCHES, WAITS, PAUSE_US, COPY = 9, 5000, 100, 2000, 16 << 20
KIB, MIB = 1 << 10, 1 << 20
# PROGRAM: the thesis's name, SIZE, rounds
PROGRAMS = {"bs": ("BS", 1 << 18, 6), "lud": ("LUD", 512, 4), "bp": ("BP", 65536, 4), "fwt": ("FWT", 1 << 20, 6),
            "mmul": ("MM", 512, 4)}
WAITING = ("busy", "sleep", "hybrid")
WAIT_SIZES = [8 * KIB << i for i in range(9)]
CALLS = 40
CALL_SIZES = (8 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB)
COPY_SIZES = (8 * KIB, 64 * KIB, 512 * KIB, MIB, 4 * MIB, 16 * MIB)
VGPUS = ("gdev0", "one", "two")
SCALE = range(1, len(VGPUS) + 1)
TURNS = 5
SCALE_SIZE, SCALE_ROUNDS = 1 << 18, 4


def text_of(size):
    return f"{size // MIB}M" if size >= MIB else f"{size // KIB}K"


def cpu_us(pid):
    """Of all threads that there are. They stay as long as their process."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(task.read_text().split()[0])
    return total / 1e3


class Meter:
    """Processor time of a set of processes since the last look."""

    def __init__(self, pids):
        self.pids, self.seen = pids, {}
        self.take()

    def take(self):
        now = {pid: cpu_us(pid) for pid in self.pids}
        used = sum(us - self.seen.get(pid, us) for pid, us in now.items())
        self.seen = now
        return used


class Program:
    """A program that obeys lines, with the processes that work for it: `parts`, {name: Meter}."""

    def __init__(self, gdevd, start):
        before = self.workers(gdevd)
        start()
        end = time.monotonic() + 120
        while len(found := self.workers(gdevd) - before) != 1:
            if time.monotonic() > end:
                raise lab.LabError("a program has no worker")
            time.sleep(0.05)
        self.parts = {"worker": Meter(found)}

    @staticmethod
    def workers(gdevd):
        return {session["worker_pid"] for session in gdevd.status()["sessions"]}

    def used(self):
        return {name: meter.take() for name, meter in self.parts.items()}

    def cost(self, line, answers=1):
        """(answers, {part: us}) of what the line asks for."""
        self.used()
        said = self.ask(line, answers)
        time.sleep(0.02)  # everybody sleeps
        return said, self.used()


class Local(Program):
    def __init__(self, gdevd, path, *options):
        super().__init__(gdevd, lambda: self.start(gdevd, path, options))
        self.parts["client"] = Meter({self.process.pid})

    def start(self, gdevd, path, options):
        self.process = gdevd.popen([gdevd.gdev, "run", path, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().strip()

    def ask(self, line, answers=1):
        self.tell(line)
        return [self.answer() for _ in range(answers)]

    def end(self):
        self.process.stdin.close()
        if self.process.wait(60):
            raise lab.LabError(f"a program ended with {self.process.returncode}")


class Guests(Program):
    """A program in a guest: its input and its output are pipes there."""

    def __init__(self, gdevd, server, machine, number, name, *options):
        self.machine, self.number, self.name = machine, number, f"/t/{name}"
        known = children(server.process.pid)
        super().__init__(gdevd, lambda: self.start(options))
        self.parts["proxy"] = Meter(children(server.process.pid) - known)

    def start(self, options):
        n = self.number
        self.machine.ask(f"rm -f /tmp/i{n} /tmp/o{n}; mkfifo /tmp/i{n} /tmp/o{n}; {self.name} {' '.join(map(str, options))} "
                         f"0<>/tmp/i{n} 1<>/tmp/o{n} & p{n}=$!")

    def tell(self, line):
        self.machine.ask(f"echo '{line}' >/tmp/i{self.number}")

    def answer(self):
        return self.machine.ask(f"read -r a </tmp/o{self.number}; echo \"$a\"").strip()

    def ask(self, line, answers=1):
        n = self.number
        return self.machine.ask(f"echo '{line}' >/tmp/i{n}; for i in $(seq {answers}); do read -r a </tmp/o{n}; echo \"$a\"; done"
                                ).split("\n")[:answers]

    def end(self):
        self.machine.ask(f"kill $p{self.number}; wait $p{self.number}; true")


def children(pid):
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@contextlib.contextmanager
def machines(gdevd, vgpus=("gdev0",), options=()):
    """[(server, guest that obeys)], one for each virtual GPU."""
    made_of = parts.find(gdevd.build)
    programs = {f"t/{name}": gdevd.example(name) for name in (*PROGRAMS, "storegpu")}
    files = guest.image(gdevd.build, made_of, {"t/vm": gdevd.build / "bench" / "bench_vm", **programs})
    with contextlib.ExitStack() as stack:
        pairs = []
        for vgpu in vgpus:
            server = stack.enter_context(guest.Server(gdevd, "--vgpu", vgpu, *options, name=f"vm-{vgpu}"))
            machine = guest.Guest(server, made_of, files, "insmod /gdev.ko || exit 1\n" + guest.SHELL,
                                  stack.enter_context(tempfile.TemporaryDirectory()))
            stack.callback(machine.kill)
            machine.start()
            pairs.append((server, machine))
        for _, machine in pairs:
            machine.obey()
        yield pairs


# -- the counts ---------------------------------------------------------------------------------------

def of_launches(gdevd, ours, theirs):
    """Of launches in a burst, and of those that are waited for; medians of a few runs."""
    found = {}

    def note(**values):
        for name, value in values.items():
            found.setdefault(name, []).append(value)

    for _ in range(RUNS):
        (said,), used = ours.cost(f"burst {LAUNCHES} 0")
        said = json.loads(said)
        _, local = theirs.cost(f"burst {LAUNCHES} {int(said['us'] * 1e3 / LAUNCHES)}")
        note(doorbells=said["doorbells"] / LAUNCHES, proxy=used["proxy"] / LAUNCHES, cost=used["worker"] / LAUNCHES,
             local=local["worker"] / LAUNCHES)
        (said,), used = ours.cost(f"alone {WAITS} {PAUSE_US}")
        said = json.loads(said)
        _, local = theirs.cost(f"alone {WAITS} {PAUSE_US}")
        note(interrupts=said["interrupts"] / WAITS, exits=said["doorbells"] / WAITS, alone=used["proxy"] / WAITS,
             alone_cost=used["worker"] / WAITS, alone_local=local["worker"] / WAITS)
        note(**of_places(gdevd, ours))
    return {name: statistics.median(values) for name, values in found.items()}


def wakes_us(gdevd, relay, others):
    """Processor time of a process that is woken up and wakes another, twice: as a proxy is and does for a launch alone."""
    code, out, err = gdevd.run([gdevd.build / "bench" / "bench_wake", f"--gap-us={PAUSE_US}", f"--relay={relay}",
                                f"--others={others}"], 60)
    if code:
        raise lab.LabError(err)
    return json.loads(out)["cpu_us"]


def put(pids, processors):
    """All threads of the processes onto these."""
    for task in (task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), processors)


def of_places(gdevd, ours):
    """Of launches alone, when the proxy and those that it wakes have one processor, and when the proxy has one of its own."""
    everywhere = os.sched_getaffinity(0)
    first, last = min(everywhere), max(everywhere)
    proxy, others = ours.parts["proxy"].pids, ours.parts["worker"].pids | {ours.machine.process.pid}
    found = {}
    for name, other in (("near", first), ("far", last)):
        put(proxy, {first})
        put(others, {other})
        _, used = ours.cost(f"alone {WAITS} {PAUSE_US}")
        found |= {name: used["proxy"] / WAITS, f"{name}_wakes": wakes_us(gdevd, first, other)}
    put(proxy | others, everywhere)
    return found | {"own": found["near"] - found["near_wakes"]}


def counts(gdevd, ours, theirs):
    found = of_launches(gdevd, ours, theirs)
    copied = [json.loads(ours.ask(f"copy {where} {COPY} 4")[0]) for where in ("to", "from")]
    yield "exits_per_launch", found["doorbells"], "", 1
    yield "bytes_copied", sum(said["copied_bytes"] for said in copied) / sum(said["asked_bytes"] for said in copied), "", 1
    yield "proxy_us", found["proxy"], "us", 0.5
    yield "launch_cost", found["cost"], "us", found["local"]
    yield "interrupts_per_wait", found["interrupts"], "", 1
    yield "exits_per_wait", found["exits"], "", 1
    yield "proxy_alone_us", found["alone"], "us", found["far"]
    yield "proxy_near_us", found["near"], "us", found["near_wakes"]
    yield "proxy_far_us", found["far"], "us", found["far_wakes"]
    yield "proxy_own_us", found["own"], "us", 3
    yield "launch_alone_cost", found["alone_cost"], "us", found["alone_local"]


# -- tables -------------------------------------------------------------------------------------------

def waiting(ours):
    """Table 4.1."""
    for size in WAIT_SIZES:
        rounds = max(2, min(40, MIB // size))
        said = {how: json.loads(ours.ask(f"product {how} {size} {rounds}")[0]) for how in WAITING}
        for how, found in said.items():
            name = f"table4.1.{how}.{text_of(size)}"
            yield f"{name}_ms", found["us"] / 1e3, "ms", said["busy"]["us"] / 1e3
            yield f"{name}_pct", found["busy_pct"], "%", said["busy"]["busy_pct"]


def calls(ours, theirs):
    """Tables 4.2 to 4.4."""
    for size in CALL_SIZES:
        for table, line in (("4.2", f"alloc {size} {CALLS}"), ("4.3", "free"), ("4.4", f"launch {size} {CALLS}")):
            _, used = ours.cost(line)
            outside = json.loads(theirs.ask(line)[0])
            yield f"table{table}.{text_of(size)}_us", used["proxy"] / CALLS, "us", outside["us"]


# -- figures ------------------------------------------------------------------------------------------

def breakdown(ours):
    """Figures 4.2 and 4.3."""
    for figure, where in (("4.2", "to"), ("4.3", "from")):
        for size in COPY_SIZES:
            number = max(4, min(100, 4 * MIB // size))
            said = json.loads(ours.ask(f"copy {where} {size} {number}")[0])
            host, bend = said["exec_us"] / 2 / number, said["bend_us"] / 2 / number
            parts = {"lib": max(0, said["us"] - said["module_us"]), "copy": 0,
                     "fend": max(0, said["module_us"] - host - bend), "exec": host, "bend": bend}
            for part, us in parts.items():
                yield f"figure{figure}.{text_of(size)}.{part}", us, "us", sum(parts.values())


def in_turn(virtual, native, line):
    """{where: {part: us}} of what both do, and `copying` if they say that: medians of some turns."""
    found = {"virtual": {}, "native": {}}
    for _ in range(TURNS):
        for where, program in (("virtual", virtual), ("native", native)):
            (said,), used = program.cost(line)
            if not said.startswith("{"):
                used["copying"] = float(said.split()[2]) * 1e3
            for part, us in used.items():
                found[where].setdefault(part, []).append(us)
    return {where: {part: statistics.median(values) for part, values in parts.items()} for where, parts in found.items()}


def rounds_of(gdevd, server, machine, name, size, rounds):
    """{where: {part: us of a round}} of a program of examples/."""
    options = ("--no-check", "--warm-up", "--turns", size)
    both = Guests(gdevd, server, machine, 9, name, *options), Local(gdevd, gdevd.example(name), *options)
    for program in both:
        program.ask("1")
    found = in_turn(*both, rounds)
    for program in both:
        program.end()
    return {where: {part: us / rounds for part, us in parts.items()} for where, parts in found.items()}


def programs(gdevd, server, machine):
    """Figure 4.1."""
    for name, (shown, size, rounds) in PROGRAMS.items():
        found = rounds_of(gdevd, server, machine, name, size, rounds)
        native = found["native"]["worker"] + found["native"]["client"]
        yield f"figure4.1.{shown}", (found["virtual"]["worker"] + found["virtual"]["proxy"]) / 1e3, "ms", native / 1e3
        yield f"figure4.1.{shown}.proxy", found["virtual"]["proxy"] / 1e3, "ms", native / 1e3


def sizes(ours, theirs):
    """Figure 4.4."""
    for size in WAIT_SIZES:
        rounds = max(2, min(40, MIB // size))
        virtual, native = in_turn(ours, theirs, f"product hybrid {size} {rounds}").values()
        base = (native["worker"] + native["client"]) / rounds / 1e3
        yield f"figure4.4.{text_of(size)}", (virtual["worker"] + virtual["proxy"]) / rounds / 1e3, "ms", base
        yield f"figure4.4.{text_of(size)}.proxy", virtual["proxy"] / rounds / 1e3, "ms", base


def hashing(gdevd, server, machine):
    """Figure 4.5. What the program itself computes is taken to cost a guest what it costs the host."""
    found = rounds_of(gdevd, server, machine, "storegpu", 4096, 10)
    native, virtual = found["native"], found["virtual"]
    own = max(0, native["client"] - native["copying"])
    inside, outside = virtual["worker"] + virtual["proxy"], native["worker"] + native["client"] - own
    yield "figure4.5.Cuda", inside / 1e3, "ms", outside / 1e3
    yield "figure4.5.Total", (inside + own) / 1e3, "ms", (outside + own) / 1e3


def together(programs):
    """Processor time of the host's processes, of all programs at once."""
    for program in programs:
        program.ask("1")
        program.used()
    for program in programs:
        program.tell(SCALE_ROUNDS)
    for program in programs:
        program.answer()
    time.sleep(0.02)
    used = sum(sum(program.used().values()) for program in programs) / SCALE_ROUNDS / 1e3
    for program in programs:
        program.end()
    return used


def scaling(gdevd):
    """Figure 4.6."""
    options = ("--no-check", "--warm-up", "--turns", SCALE_SIZE)
    with machines(gdevd, VGPUS, ("--memory", "512M", "--locked", "64M")) as pairs:
        for number in SCALE:
            ways = {
                "native": [lambda: Local(gdevd, gdevd.example("bs"), *options)] * number,
                "processes": [lambda i=i: Guests(gdevd, *pairs[0], i, "bs", *options) for i in range(number)],
                "guests": [lambda i=i: Guests(gdevd, *pairs[i], 0, "bs", *options) for i in range(number)],
            }
            for way, starts in ways.items():
                used = together([start() for start in starts])
                if number == 1 and way == "native":
                    base = used
                yield f"figure4.6.{way}.{number}", used, "ms", base


def results(start):
    """(metric, value, unit, baseline)"""
    try:
        with start() as gdevd, machines(gdevd) as ((server, machine),):
            ours, theirs = Guests(gdevd, server, machine, 0, "vm"), Local(gdevd, gdevd.build / "bench" / "bench_vm")
            yield from counts(gdevd, ours, theirs)
            yield from waiting(ours)
            yield from calls(ours, theirs)
            yield from breakdown(ours)
            yield from sizes(ours, theirs)
            ours.end()
            theirs.end()
            yield from programs(gdevd, server, machine)
            yield from hashing(gdevd, server, machine)
        with start({vgpu: {} for vgpu in VGPUS}) as gdevd:
            yield from scaling(gdevd)
    except parts.Missing as missing:
        raise lab.LabError(str(missing)) from None
