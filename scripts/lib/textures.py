# SPDX-License-Identifier: MIT
"""Arrays, textures and surfaces on a GPU: `scripts/hardware --only textures`.

  the tests of the API, the program of the Runtime API, and the programs of tests/cuda/programs that are about them;
  random fetches (bench/texture.c): with gdev the same bits as with the vendor's library; how far the software GPU is from them
  what arrays take of the device, which must be no more than what is charged
  a program with arrays is suspended and goes on: their memory leaves the device, and what is in them is the same after that
  texture.*   fetches and copies to an array, with gdev and with the vendor's library in turn"""

import json
import re
import statistics
import subprocess
import sys
import time

import lab
import programs
from lab import ROOT, Gdevd

TESTS = ["test_array", "test_array_per_thread", "test_texture", "test_errors"]
SUITE = re.compile(r"(runtime|driver)/(texture|surface|array_copies|copies_3d)")
SEEDS = range(1, 9)
NEAR = 1 / 256  # of values that are filtered by weights of 8 bits
ARRAYS_MIB = 1024
ROUNDS = 3  # that a program with arrays is suspended


def check_suite(build, device, vendor):
    wanted = [program for program in programs.all_programs() if SUITE.match(program.name)]
    counts = []
    with programs.lab_for(build, device) as gdevd:
        for side, environment in (("hardware", {}), ("vendor", {"LD_PRELOAD": vendor})):
            results, wrong = programs.run(gdevd, side, wanted, environment, at_once=4)
            counts.append((len(results) - wrong, wrong))
    return counts


def fetch(sides, side, seed):
    return sides.run(side, [sides.gdevd.build / "bench" / "bench_texture", "random", seed]).splitlines()


def differences(ours, theirs):
    """How far the numbers of two lines lie apart."""
    numbers = [list(map(float, line.rpartition(": ")[2].split())) for line in (ours, theirs)]
    return max(abs(a - b) for a, b in zip(*numbers))


def check_random(sides, say):
    """The same bits on both sides."""
    counts = []
    for seed in SEEDS:
        ours, theirs = fetch(sides, "gdev", seed), fetch(sides, "vendor", seed)
        wrong = [f"{a}\n         vendor: {b}" for a, b in zip(ours, theirs) if a != b]
        for line in wrong[:4]:
            print(f"         gdev:   {line}", flush=True)
        counts.append(say(ours and ours == theirs,
                          f"{len(ours)} random fetches (seed {seed}): {len(wrong)} differ from the vendor's"))
    return counts


def show_software(sides):
    """How far the software GPU is from hardware, if it is there. It is no failure."""
    far, most, example = [], 0.0, ""
    with Gdevd(sides.gdevd.build, {"device": "cpu", "device_memory": "1G"}) as gdevd:
        software = type(sides)(gdevd, sides.vendor)
        for seed in SEEDS:
            for theirs, ours in zip(fetch(sides, "gdev", seed), fetch(software, "gdev", seed)):
                apart = differences(theirs, ours)
                far.append(apart > NEAR)
                if apart > most:
                    most, example = apart, f"\n         {theirs}\n         software GPU: {ours.rpartition(': ')[2]}"
    print(f"         the software GPU: {sum(far)} of {len(far)} are more than {NEAR:.4f} off, at most {most:.4f}{example}",
          flush=True)


def hold_arrays(gdevd, mib, used_mib):
    """(MiB that are charged, that are in use on the device, and that were had), while a program has so much of arrays."""
    client = gdevd.popen([gdevd.gdev, "run", gdevd.build / "tests" / "integ" / "driver", "arrays", mib],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    held = next((line for line in iter(client.stdout.readline, "") if line.startswith("held ")), "held 0")
    charged = sum(session["memory_bytes"] for session in gdevd.status()["sessions"]) >> 20
    used = used_mib()
    client.communicate("\n")
    return charged, used, int(held.split()[1])


def check_account(sides, used_mib, say):
    """Arrays of 16 MiB: nothing of the device that is not charged."""
    with Gdevd(sides.gdevd.build, {**sides.gdevd.config, "warm_workers": "0"}) as gdevd:
        none, some = (hold_arrays(gdevd, mib, used_mib) for mib in (0, ARRAYS_MIB))
    charged, used = some[0] - none[0], some[1] - none[1]
    return [say(some[2] == ARRAYS_MIB and used <= charged, f"arrays of {some[2]} MiB: {charged} MiB are charged, and "
                f"{used} MiB of the device are in use")]


def check_leaving(sides, used_mib, say):
    """tests/integ/arrays.c, suspended between its rounds. It goes on in any case: a driver that maps no arrays keeps them."""
    with Gdevd(sides.gdevd.build, {**sides.gdevd.config, "warm_workers": "0", "host_swap": f"{4 * ARRAYS_MIB}M"}) as gdevd:
        program = gdevd.popen([gdevd.gdev, "run", gdevd.build / "tests" / "integ" / "arrays", ARRAYS_MIB],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lines, left, took_s = [program.stdout.readline().strip()], [], []

        def ask(line):
            program.stdin.write(line + "\n")
            program.stdin.flush()
            lines.append(program.stdout.readline().strip())

        for _ in range(ROUNDS):
            ask("round")
            full = used_mib()
            code, _, err = gdevd.run([gdevd.gdev, "suspend", program.pid], 60)
            end = time.monotonic() + 60
            while used_mib() > full - ARRAYS_MIB and time.monotonic() < end:
                time.sleep(0.1)
            left.append(full - used_mib())
            lines.append(f"suspend {code} {err}".strip())
            begun = time.monotonic()
            gdevd.run([gdevd.gdev, "resume", program.pid], 60)
            ask("round")
            took_s.append(time.monotonic() - begun)
        ask("end")
        program.communicate("", timeout=60)
    right = [line for line in lines if re.fullmatch(r"round \d+ wrong 0", line)]
    return [say(len(right) == 2 * ROUNDS and program.returncode == 0,
                f"arrays of {ARRAYS_MIB} MiB and small ones of every kind are right after each of {ROUNDS} times that the program "
                f"was suspended (resuming and a round took {min(took_s):.2f} s at best)"
                + "".join(f"\n         {line}" for line in lines if line not in [*right, "made", "none", "suspend 0"])),
            say(min(left) >= ARRAYS_MIB, f"{min(left)} MiB of them leave the device meanwhile")]


def show_pinned(sides, options):
    """Fetches from arrays that never leave, to compare. It is no failure."""
    seen = {}
    with Gdevd(sides.gdevd.build, sides.gdevd.config, None, {"GDEV_CUDA_DEFERRED": "0"}) as gdevd:
        pinned = type(sides)(gdevd, sides.vendor)
        for _ in range(options.repetitions):
            for line in map(json.loads, pinned.run("gdev", [gdevd.build / "bench" / "bench_texture", "speed"]).splitlines()):
                seen.setdefault(line["metric"], []).append(line["value"])
    for metric, values in seen.items():
        print(f"         without deferred mapping: {metric} {statistics.median(values):.2f}", flush=True)


def measure(sides, repetitions, take):
    values, units = {"gdev": {}, "vendor": {}}, {}
    for _ in range(repetitions):
        for side, seen in values.items():
            for line in map(json.loads, sides.run(side, [sides.gdevd.build / "bench" / "bench_texture", "speed"]).splitlines()):
                seen.setdefault(line["metric"], []).append(line["value"])
                units[line["metric"]] = line["unit"]
    for metric, ours in values["gdev"].items():
        take(metric, (statistics.median(ours), statistics.median(values["vendor"][metric]), units[metric]))


def check(sides, options, tap, run_test, used_mib, say, take):
    """(passed, failed), a pair a check. Whatever fails, the rest is tried."""
    folder = ROOT / "tests" / "cuda"
    counts = [tap(*run_test(sides, sides.command("gdev", [sides.gdevd.build / "tests" / "cuda" / name]), 300)).say(name)
              for name in TESTS]
    code, text = run_test(sides, [sys.executable, "-B", folder / "runtime.py", folder / "runtime_texture.cu"], 200)
    if code not in (0, 77):
        print(text[-3000:], flush=True)
    counts.append(say(code in (0, 77), "runtime_texture.cu" + (": skipped: no nvcc" if code == 77 else "")))
    counts += check_suite(options.build, options.device, sides.vendor)
    for part in (lambda: check_random(sides, say), lambda: check_account(sides, used_mib, say),
                 lambda: check_leaving(sides, used_mib, say),
                 lambda: measure(sides, options.repetitions, take)):
        try:
            counts += part() or []
        except (lab.LabError, subprocess.TimeoutExpired) as error:
            counts.append(say(False, str(error)))
    try:
        show_pinned(sides, options)
        show_software(sides)
    except (lab.LabError, subprocess.TimeoutExpired) as error:  # a bundle may be without it
        print(f"         beside the software GPU: {error}", flush=True)
    return counts
