# SPDX-License-Identifier: MIT
"""What a GPU costs in a virtual machine: counts of a guest that is booted under QEMU's TCG (tests/vm/counted.c), since times
there say nothing of a hypervisor's. Medians of a few runs in one boot. The baseline is what is counted against:

  exits_per_launch  doorbells of a burst of launches, against the launches
  bytes_copied      MiB that processors copied for copies of pageable memory, against what was asked for (the worker copies what
                    is page-locked, as on the host)
  proxy_us          processor time of the proxy for a launch of the burst, looking included, against half a microsecond
  interrupts_per_wait, exits_per_wait, proxy_alone_us
                    of launches that are waited for one by one, with pauses in which everybody sleeps; against 1, 1, and 3 us"""

import json
import statistics
import sys
import tempfile

import lab

sys.path.insert(0, str(lab.ROOT / "tests" / "vm"))

import guest  # noqa: E402

RUNS, LAUNCHES, MIB = 5, 5000, 16
LIMIT_S = 600
SCRIPT = f"insmod /gdev.ko && for i in $(seq {RUNS}); do /t/counted {LAUNCHES} {MIB} || exit 1; done\n"


def counts(gdevd):
    """What each run of the program has counted."""
    cache = gdevd.build / "vm-cache"
    cache.mkdir(exist_ok=True)
    version = guest.headers()
    image = guest.base_image(gdevd.build, version, cache, {"t/counted": gdevd.build / "tests" / "vm" / "counted"})
    with guest.Server(gdevd) as server, tempfile.TemporaryDirectory() as folder:
        machine = guest.Guest(server, guest.kernel(cache, version), image, SCRIPT, folder)
        try:
            machine.start()
            said = machine.finish(LIMIT_S)
        finally:
            machine.kill()
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    if len(found) != RUNS:
        raise lab.LabError(f"the guest has not counted:\n{said}")
    return found


def results(gdevd):
    """(metric, value, unit, baseline)"""
    try:
        found = counts(gdevd)
    except guest.Missing as missing:
        raise lab.LabError(str(missing)) from None

    def median(name):
        return statistics.median(run[name] for run in found)

    yield "exits_per_launch", median("burst_doorbells"), "", median("launches")
    yield "bytes_copied", median("copied_bytes") / 2**20, "MiB", median("asked_bytes") / 2**20
    yield "proxy_us", median("proxy_ns") / median("launches") / 1e3, "us", 0.5
    yield "interrupts_per_wait", median("wait_interrupts") / median("waits"), "", 1
    yield "exits_per_wait", median("wait_doorbells") / median("waits"), "", 1
    yield "proxy_alone_us", median("wait_proxy_ns") / median("waits") / 1e3, "us", 3
