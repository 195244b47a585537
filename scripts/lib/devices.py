# SPDX-License-Identifier: MIT
"""Several devices on hardware, where two virtual GPUs of one card stand in for two: the metrics of `scripts/bench peer`
against the vendor's own copies and kernels, the examples that use all devices, and NCCL with one rank. For
scripts/hardware --only devices. It ends within two minutes, whatever a program does."""

import json
import subprocess
import sys
import time

import hardware
from lab import ROOT, LabError

SECONDS = 100  # for all programs together; a gdevd starts and ends besides
VGPUS = {"a": {}, "b": {}}
EXAMPLES = [("mmuls", 1024), ("halo", 2048), ("ring", 1 << 24)]


class Devices:
    longest = 45  # seconds, of one program

    def __init__(self, sides, take, seconds, vgpus=None):
        self.sides, self.take, self.vgpus = sides, take, vgpus
        self.end = time.monotonic() + seconds

    def run(self, side, command, vgpus, environment=None):
        """(exit status or what went wrong, standard output, standard error). vgpus None: all that a program sees."""
        left = min(self.longest, self.end - time.monotonic())
        if left < 1:
            return "the time is over", "", ""
        if side == "gdev" and vgpus:
            command = ["--vgpu", vgpus, *command]
        try:
            return self.sides.gdevd.run(self.sides.command(side, command), left,
                                        {**self.sides.environment(side), **(environment or {})})
        except subprocess.TimeoutExpired as ended:
            return (f"no end within {left:.0f} seconds", *((text or b"").decode(errors="replace")
                                                          for text in (ended.stdout, ended.stderr)))

    def measure(self, side, kind, vgpus):
        """What bench_peer says: (by metric, None), or (None, why not)."""
        code, out, err = self.run(side, [self.sides.gdevd.build / "bench" / "bench_peer", kind], vgpus)
        if code:
            return None, f"{side}: bench_peer {kind}: {code}: {err[-1000:]}"
        return {line["metric"]: line for line in map(json.loads, out.splitlines())}, None

    def peer(self):
        """What copies and kernels take between the two, against the vendor's on one device."""
        found = {}
        for side, kind in (("gdev", "device"), ("vendor", "alone")):
            found[side], why = self.measure(side, kind, self.vgpus)
            if why:
                return hardware.say(False, why)
        copy = found["vendor"]["copy_256M"]["value"]
        for name in "copy_256M", "both_256M":
            ours = found["gdev"][name]
            self.take(name, (ours["value"], copy, ours["unit"]))
            print(f"         {ours['ratio']:.3f} of a copy within one of them", flush=True)
        access, kernel = found["gdev"]["access"], found["vendor"]["access"]["value"]
        self.take("access", (access["value"], access["baseline"], access["unit"]))
        print(f"         {access['value'] / kernel:.3f} of the vendor's", flush=True)
        return hardware.say(True, "copies between two virtual GPUs, and a kernel with access")

    def example(self, name, size):
        code, out, err = self.run("gdev", [self.sides.gdevd.example(name), size], self.vgpus)
        good = not code and "verified" in out
        return hardware.say(good, out.strip() if good else f"{name}: {code}: {(out + err)[-1000:]}")

    def nccl(self, command, vgpus, ranks, environment=None):
        """With the vendor's library only what does not work with ours."""
        about = {"NCCL_DEBUG": "INFO", "GDEV_LOG": "failed", **(environment or {})}
        code, out, err = self.run("gdev", command, vgpus, about)
        ours = hardware.torch_results(out)
        passed = failed = 0
        for name, line in ours.items():
            if "skipped" in line:
                print(f"  skip NCCL: {line['skipped']}", flush=True)
                return passed, failed
            good, bad = hardware.say("error" not in line, f"{name}, {ranks}: " + (
                line.get("error") or f"{line['result']:.6g} in {line['ms']:.3f} ms"))
            passed, failed = passed + good, failed + bad
        if code or not ours:
            good, bad = hardware.say(False, f"NCCL, {ranks}: it ended with {code}; what it said last:")
            passed, failed = passed + good, failed + bad
            said = [line for line in out.splitlines() if not line.startswith("{")]
            for line in said[-30:] + err.splitlines()[-60:]:
                print(f"         {line}", flush=True)
            code, out, _ = self.run("vendor", command, None, environment)
            for name, line in hardware.torch_results(out).items():
                print(f"         with the vendor's library: {name}: {line.get('error', 'right')}", flush=True)
            if code:
                print(f"         with the vendor's library it ended with {code}", flush=True)
        return passed, failed


def check(sides, take):
    """(passed, failed); take(metric, (value, baseline, unit)) is told what was measured."""
    devices = Devices(sides, take, SECONDS, "a,b")
    counts = [devices.peer()]
    counts += [devices.example(name, size) for name, size in EXAMPLES]
    counts.append(devices.nccl([sys.executable, ROOT / "examples" / "pytorch" / "collectives.py"], "a", "one rank"))
    return hardware.add(counts)
