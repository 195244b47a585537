# SPDX-License-Identifier: MIT
"""Kernels with event loops (docs/gloop.md): `scripts/bench gloop`, and on a GPU `scripts/hardware --only gloop`:

  grep             of examples/gloop, over the same with all in device memory and one kernel (Figure 3)
  pair_throttle    two at once, each on a virtual GPU of its own, over one alone (Figure 4: 2.07); the mean of both
  pair_copy        likewise (Figure 4: 1.73), of files in the page cache
  share_error_pct  a kernel with event loops that never ends beside kernels of 1 ms (30/70): differences to the shares in
                   windows of a second, by their own counts of what they did, in points. The baseline is the same with an
                   ordinary program in its place: what the machine makes of it.

  callback_us, resume_us, file_read, modes.*: of bench/gloop.c

`gloop-figures` has the paper's own:

  figure3.NAME     grep, ms a round over vanilla-tuned: vanilla, which allocates its memory in each round; vanilla-tuned, which has
                   it; polling, as GPUfs does; gloop; and -bc, with a text that comes from the disk (TMPDIR)
  figure4.NAME.*   throttle, copy, and copy-bc: ms alone, and of two at once each (concurrent1, concurrent2), over one alone

`gloop-words` has grep with callbacks of 8, 16 and 32 words (words.N) over vanilla-tuned.

Measurement and baseline take turns, but for the shares. Three minutes in all, and as long for the figures."""

import json
import statistics
import threading

from contention import Contention, errors, is_software, two
from lab import LabError
from turns import Turns

TURNS = 5
SIZES = {"grep": 200, "throttle": 20000, "copy": 128}
SIZES_GPU = {**SIZES, "grep": 1000}  # with 200 it takes 16 ms
FIGURE3 = {"vanilla": ("grep-plain", {"GLOOP_UNTUNED": "1"}), "vanilla-tuned": ("grep-plain", {}), "polling": ("grep-polling", {}),
           "polling-bc": ("grep-polling", {"GLOOP_COLD": "1"}), "gloop": ("grep", {}), "gloop-bc": ("grep", {"GLOOP_COLD": "1"})}
FIGURE4 = {"throttle": ("throttle", {}), "copy": ("copy", {}), "copy-bc": ("copy", {"GLOOP_COLD": "1"})}
SHARES = (30, 70)
SHARE_S = 12


def side(gdevd, name, vgpu="v0", environment=None):
    sizes = SIZES if is_software(gdevd) else SIZES_GPU
    command = [gdevd.gdev, "run", "--vgpu", vgpu, gdevd.example("gloop-" + name), "--json", "--no-check", "--turns",
               sizes[name.partition("-")[0]]]
    program = Turns(gdevd, command, environment)
    program.turn(1)  # compiles
    program.ms.clear()
    return program


def together(programs):
    """A turn of all at once."""
    threads = [threading.Thread(target=program.turn, args=(1,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [program.ms[-1] for program in programs]


def greps(gdevd, variants):
    """The median of each, of rounds that take turns."""
    programs = [side(gdevd, name, environment=environment) for name, environment in variants]
    for _ in range(TURNS):
        for program in programs:
            program.turn(1)
    for program in programs:
        program.end()
    return [statistics.median(program.ms) for program in programs]


def pair(gdevd, name, environment=None):
    """Medians: of the two at once, each, and of one alone."""
    programs = [side(gdevd, name, vgpu, environment) for vgpu in ("v0", "v1")]
    both, alone = [], []
    for _ in range(TURNS):
        alone.append(statistics.mean(together([program])[0] for program in programs))
        both.append(together(programs))
    for program in programs:
        program.end()
    return [statistics.median(column) for column in zip(*both)], statistics.median(alone)


def share_errors(start):
    contention = Contention(start)
    for more in ({"gloop": True}, {}):
        case = two("gloop", SHARES, {"us": 200, **more} if more else {"us": 1000}, {"us": 1000}, seconds=SHARE_S)
        reports, _ = contention.measure(case, "fair")
        yield statistics.mean(errors(case, reports)["compute"])


def calls(gdevd):
    code, out, err = gdevd.run([gdevd.gdev, "run", gdevd.build / "bench" / "bench_gloop", 64], 300)
    if code:
        raise LabError(f"bench_gloop: {err}")
    for found in map(json.loads, out.splitlines()):
        yield found["metric"], found["value"], found["unit"], found["baseline"]


def results(start):
    """(metric, value, unit, baseline) each."""
    with start({"v0": {}, "v1": {}}) as gdevd:
        ms, plain_ms = greps(gdevd, [FIGURE3["gloop"], FIGURE3["vanilla-tuned"]])
        yield "grep", ms, "ms", plain_ms
        for name in ("throttle", "copy"):
            both_ms, alone_ms = pair(gdevd, name)
            yield "pair_" + name, statistics.mean(both_ms), "ms", alone_ms
    error, ordinary = share_errors(start)
    yield "share_error_pct", error, "%", ordinary
    with start() as gdevd:
        yield from calls(gdevd)


def figures(start):
    """As results()."""
    with start({"v0": {}, "v1": {}}) as gdevd:
        found = dict(zip(FIGURE3, greps(gdevd, FIGURE3.values())))
        for name, ms in found.items():
            yield f"figure3.{name}", ms, "ms", found["vanilla-tuned"]
        for name, (program, environment) in FIGURE4.items():
            both_ms, alone_ms = pair(gdevd, program, environment)
            yield f"figure4.{name}.alone", alone_ms, "ms", alone_ms
            for number, ms in enumerate(both_ms, 1):
                yield f"figure4.{name}.concurrent{number}", ms, "ms", alone_ms


def words(start):
    """As results()."""
    counts = (8, 16, 32)
    with start({"v0": {}, "v1": {}}) as gdevd:
        *found, plain_ms = greps(gdevd, [*[("grep", {"GLOOP_WORDS": str(count)}) for count in counts], FIGURE3["vanilla-tuned"]])
    for count, ms in zip(counts, found):
        yield f"words.{count}", ms, "ms", plain_ms


PARTS = {"gloop": results, "gloop-figures": figures, "gloop-words": words}
