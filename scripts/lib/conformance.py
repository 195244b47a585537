# SPDX-License-Identifier: MIT
"""PTX as hardware understands it: every form of tests/ptx/isa.def and random kernels against the interpreter's values,
and the questions of tests/ptx/hardware.def. Once with the vendor's library, and once with gdev."""

import gzip
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor

from lab import ROOT

PTX = ROOT / "tests" / "ptx"


def check(sides, folder, run_test, say):
    """(passed, failed). The folder gets conformance.log, with the random kernels that differ, the first of them shrunk;
    what the device gave as conformance.gz, which `on_device recorded` reads; and hardware.def with its answers."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "conformance.record"
    record.unlink(missing_ok=True)
    on_device = sides.gdevd.build / "tests" / "ptx" / "on_device"
    logs = []
    contradicted = set()  # the driver's optimiser contradicts its compiler; gdev does not hand on the optimisation level

    def ask(side, timeout, *arguments):
        start = time.monotonic()
        environment = sides.environment(side) if side == "vendor" else {}
        code, text = run_test(sides, sides.command(side, [on_device, *map(str, arguments)]), timeout, environment)
        lines = text.strip().splitlines()
        summary = next((line for line in reversed(lines) if line[:1].isdigit()), "it did not come to an end")
        logs.append(f"==== {side}: {' '.join(map(str, arguments))}: {code}\n{text}\n")
        (folder / "conformance.log").write_text("".join(logs))
        differing = {number: bool(plain) for number, plain in re.findall(
            r"^random kernel (\d+): thread .*?(; right without the driver's optimiser)?$", text, re.MULTILINE)}
        contradicted.update(number for number, plain in differing.items() if plain)
        if code == 1 and differing and contradicted.issuperset(differing) and ", 0 refused by the driver, 0 did not run" in summary:
            code = 0
        told = [line for line in lines if line.startswith(("differs", "random kernel", "# ", "does not", "ends its", "fails"))]
        for line in told[:40] if code else []:
            print(f"         {line[:200]}", flush=True)
        return say(code == 0, f"{side}: {arguments[0]}: {summary}, in {time.monotonic() - start:.0f} s"
                   + ("" if code in (0, 1) else f"; it ended with {code}"))

    counts = []
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, "vendor", 70, "conformance", PTX / "isa.def", record),
                 pool.submit(ask, "vendor", 70, "questions", PTX / "hardware.def", folder / "hardware.def")]
        counts += [one.result() for one in asked]
    if record.exists():
        with open(record, "rb") as source, gzip.open(folder / "conformance.gz", "wb") as target:
            shutil.copyfileobj(source, target)
        record.unlink()
    counts.append(ask("vendor", 50, "random", 1, 20000, 35))
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, "gdev", 40, "conformance", PTX / "isa.def"),
                 pool.submit(ask, "gdev", 40, "random", 1, 20000, 10)]
        counts += [one.result() for one in asked]
    return counts
