# SPDX-License-Identifier: MIT
"""Runs gdev on a machine's NVIDIA GPU: the example programs with their checks, the tests of the
CUDA API, of the backend and of whole systems (kill -9, waits between sessions, clients that lie), and the
benchmarks of bench/hardware.c and of the paper's Table 1 in turn with gdev and with the
vendor's library alone. Prints a table; --json FILE gets one JSON object a line, with date, driver and
commit. Needs no root, and leaves the GPU's settings alone.

A ratio is gdev's value over the vendor's: above 1 is faster for GB/s and 1/s, slower for times."""

import argparse
import datetime
import json
import math
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import answers
import cards
import conformance
import contention
import devices
import gloop
import lab
import preempt
import programs
import ptask
import starting
import swapping
import textures
from lab import ROOT, Gdevd, LabError

VENDOR_LIBRARIES = ["/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib64/libcuda.so.1",
                    "/usr/local/nvidia/lib64/libcuda.so.1"]
# (program, size): rounds of a size that keeps the device busy for a while.
TABLE1 = [("loop", 4), ("madd", 1024), ("mmul", 1024), ("cpy", 256), ("pincpy", 256), ("bp", 65536),
          ("bfs", 1000000), ("hw", 24), ("hs", 1024), ("lud", 1024), ("nn", 1000000), ("nw", 2048),
          ("srad", 1024), ("srad2", 1024)]
# Of examples/gloop, with event loops and without.
GLOOP = [("throttle", 1000), ("grep", 100), ("copy", 16), ("images", 403), ("server", 20), ("echo", 70), ("mmul", 512),
         ("nw", 512), ("bfs", 100000)]


# Of examples/pytorch: one of each kind, so that all fit into a minute.
TORCH = ["matmul_fp32", "matmul_bf16", "train_mlp", "train_conv", "train_transformer", "attention_flash",
         "train_graph", "streams", "triton_kernel"]


class Sides:
    """Runs a program with gdev, or with the vendor's library in gdev's place."""

    def __init__(self, gdevd, vendor):
        self.gdevd, self.vendor = gdevd, vendor

    def command(self, side, command):
        return [self.gdevd.gdev, "run", *command] if side == "gdev" else command

    def environment(self, side):
        environment = {"BENCH_START_NS": str(time.monotonic_ns())}
        if side == "vendor":
            environment["LD_PRELOAD"] = self.vendor
        return environment

    def run(self, side, command, timeout=300):
        code, out, err = self.gdevd.run(self.command(side, command), timeout, self.environment(side))
        if code:
            raise LabError(f"{side}: {' '.join(map(str, command))} ended with {code}:\n{err[-2000:]}")
        return out

    def run_twice_at_once(self, side, command):
        children = [self.gdevd.popen(self.command(side, command), self.environment(side),
                                     stdout=subprocess.PIPE, text=True) for _ in range(2)]
        return [child.communicate(timeout=300)[0] for child in children]


def parse(out):
    return {line["metric"]: (line["value"], line["unit"]) for line in map(json.loads, out.splitlines())}


def compare(sides, part, repetitions):
    """The medians of a part of bench/hardware.c over runs in turn: {metric: (gdev, vendor, unit)}."""
    values = {"gdev": {}, "vendor": {}}
    units = {}
    for _ in range(repetitions):
        for side, seen in values.items():
            if part == "pair":
                results = [parse(out) for out in sides.run_twice_at_once(side, program(sides, part))]
                result = {m: (sum(r[m][0] for r in results), u) for m, (_, u) in results[0].items()}
            else:
                result = parse(sides.run(side, program(sides, part)))
            for metric, (value, unit) in result.items():
                seen.setdefault(metric, []).append(value)
                units[metric] = unit
    return {metric: (statistics.median(gdev), statistics.median(values["vendor"][metric]), units[metric])
            for metric, gdev in values["gdev"].items()}


def program(sides, part):
    if part == "managed":
        return [sides.gdevd.build / "bench" / "bench_managed"]
    return [sides.gdevd.build / "bench" / "bench_hardware", part]


def check_examples(sides, every=TABLE1):
    """Every example verifies its result: (passed, failed)."""
    failed = 0
    for name, size in every:
        try:
            out = sides.run("gdev", [sides.gdevd.example(name), size])
            good = "verified" in out
            text = out.strip()
        except LabError as error:
            good, text = False, str(error)
        failed += not good
        print(f"  {'ok  ' if good else 'FAIL'} {text}", flush=True)
    return len(every) - failed, failed


class Tap:
    """What a test said: cases that passed, failed, were skipped (name, why), and lines that say more."""

    LINE = re.compile(r"(not ok|ok) \d+(?: -)? ?([^#]*)(# SKIP ?(.*))?")
    NOTE = re.compile(r"# (?!(not )?ok)")

    def __init__(self, code, text):
        self.code, self.lines = code, text.splitlines()
        cases = [match.groups() for match in map(self.LINE.match, self.lines) if match]
        self.skipped = [(name.strip(), why) for _, name, skip, why in cases if skip]
        self.failed = [name.strip() for verdict, name, skip, _ in cases if verdict == "not ok" and not skip]
        self.passed = len(cases) - len(self.skipped) - len(self.failed)
        # One that ended otherwise than its cases say counts as a failed case.
        self.wrong = len(self.failed) or int(bool(code) or not cases)

    def say(self, name, seconds=None):
        """Prints it: (passed, failed)."""
        print(f"  {'FAIL' if self.wrong else 'ok  '} {name}: {self.passed} passed, {len(self.failed)} failed, "
              f"{len(self.skipped)} skipped" + (f" in {seconds:.0f} s" if seconds else "")
              + (f"; it ended with {self.code}" if self.code else ""), flush=True)
        for case, why in self.skipped:
            print(f"         skipped: {': '.join(filter(None, (case, why)))}", flush=True)
        shown = self.lines[-150:] if self.wrong else [line for line in self.lines if self.NOTE.match(line)]
        for line in shown:
            print(f"         {line}", flush=True)
        return self.passed, self.wrong


def run_test(sides, command, timeout, environment=None):
    """(exit status or what went wrong, standard output and error) of a test that starts its own gdevd."""
    about = {"GDEV_TEST_DEVICE": sides.gdevd.config["device"], "GDEV_BUILD": str(sides.gdevd.build),
             "CMOCKA_MESSAGE_OUTPUT": "tap", **(environment or {})}
    try:
        code, out, err = sides.gdevd.run(command, timeout, about)
    except subprocess.TimeoutExpired as ended:
        return f"no end within {timeout} seconds", (ended.stdout or b"").decode()
    return code, out + "\n" + err


def cuda_programs(sides):
    return [program for program in sorted((sides.gdevd.build / "tests" / "cuda").glob("test_*"))
            if program.is_file() and os.access(program, os.X_OK)]


def check_cuda(sides):
    """The API tests that the build has, each case counted: (passed, failed)."""
    return add(Tap(*run_test(sides, sides.command("gdev", [program]), 300)).say(program.name)
               for program in cuda_programs(sides))


COUNT_MEMORY = ["test_context", "test_ipc", "test_memory", "test_vmm"]  # of the whole device: nobody else may use it


def keep(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    print(f"  wrote  {folder / name}", flush=True)


def check_vendor(sides, folder, about):
    """The same tests with NVIDIA's own library: what they expect is what CUDA does. All that they said is kept in
    the folder, and a table of its answers to what is wrong."""
    answers_file = folder / "errors.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    answers_file.unlink(missing_ok=True)
    environment = {**sides.environment("vendor"), "TEST_VENDOR": "1", "TEST_ANSWERS": str(answers_file.resolve())}

    def ask(program):
        return program, run_test(sides, [program], 60, environment)

    programs = [program for program in cuda_programs(sides) if program.name != "test_gdev"]  # libgdev's
    alone = [program for program in programs if program.name in COUNT_MEMORY]
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(ask, [program for program in programs if program not in alone])
        told = [answer for answers_of in (together, map(ask, alone)) for answer in answers_of]
    keep(folder, "vendor-tests.log", "".join(f"==== {program.name}: {code}\n{text}\n" for program, (code, text) in told))
    rows = answers.read(answers_file)
    keep(folder, "errors.md", answers.report(rows, ", ".join(map(str, about.values()))))
    for row in rows:
        if row.became in ("differs", "crashes", "hangs"):
            print(f"         {row.became}: {row.place}: {row.call}: ours {row.ours}, NVIDIA's {row.theirs}", flush=True)
    return add(Tap(*answer).say(f"NVIDIA's library: {program.name}") for program, answer in told)


# Those that speak TAP, with the folder that they are in.
SUITES = ["integ/test_examples.py", "integ/test_sessions.py", "integ/test_waits.py",
          "integ/test_failures.py", "integ/test_tune.py", "integ/test_trace.py",
          "integ/test_residue.py", "integ/test_model.py", "integ/test_swap.py", "integ/test_sharing.py",
          "integ/test_shares.py", "integ/test_charged.py", "integ/test_retire.py", "integ/test_peers.py"]
# What `meson test` has beyond that, and why it is not run here.
ELSEWHERE = {
    "device cpu, print, fatbin; ptx": "the software GPU and its compiler",
    "integ/test_driver.py; device test_backends, test_cuda, test_preempt and test_follow as they are there":
        "the driver library that is made for tests",
    "integ/test_doctor.py, integ/test_install.py": "what the software GPU cannot compile; building with a compiler",
    "unit, proto, sched, gdevd, cli; cuda names, header, covered": "they use no device",
}


def check_suite_of(sides, suite, timeout=300):
    start = time.monotonic()
    tap = Tap(*run_test(sides, [sys.executable, "-B", ROOT / "tests" / suite], timeout))
    return tap.say(suite, time.monotonic() - start)


def check_suites(sides):
    """The integration tests, each with a gdevd of its own on this device: (passed, failed)."""
    for suites, why in ELSEWHERE.items():
        print(f"  skip {suites}: {why}", flush=True)
    return add(check_suite_of(sides, suite) for suite in SUITES)


# {name: seconds}, which a machine that is had for ten minutes has; what is new comes first.
GUEST_SUITES = {"guest": 400, "proxy": 90, "records": 40}


def check_guests(sides):
    """CUDA in virtual machines beside this device, under QEMU's TCG: of a bundle that carries what they are made of
    (scripts/bundle --guest)."""
    return add(check_suite_of(sides, f"vm/test_{name}.py", timeout) for name, timeout in GUEST_SUITES.items())


def check_runtime(sides):
    """Programs that nvcc of this machine builds, with NVIDIA's runtime API."""
    def check(name):
        code, text = run_test(sides, [sys.executable, "-B", ROOT / "tests" / "cuda" / "runtime.py",
                                      ROOT / "tests" / "cuda" / name], 200)
        if code == 77:
            print(f"  skip runtime API: {name}: {text.strip()}", flush=True)
            return 0, 0
        if code:
            print(text[-3000:], flush=True)
        return say(not code, f"runtime API, built by nvcc here: {name}")

    return add(map(check, ("runtime.cu", "runtime_graph.cu")))


def check_processes(sides):
    """Forks, exits under way, contexts between threads, CUDA_VISIBLE_DEVICES."""
    folder = ROOT / "tests" / "cuda"
    return Tap(*run_test(sides, [sys.executable, "-B", folder / "processes.py",
                                 sides.gdevd.build / "tests" / "cuda" / "processes"], 120)).say("cuda processes")


def check_backend(sides):
    """What every backend holds to."""
    folder = sides.gdevd.build / "tests" / "device"
    return add([
        Tap(*run_test(sides, [folder / "test_device_backends", sides.gdevd.config["device"]], 120)).say(
            "device test_backends"),
        Tap(*run_test(sides, [folder / "test_device_cuda"], 120)).say("device test_cuda"),
        Tap(*run_test(sides, [folder / "test_device_cuda_context"], 120)).say("device test_cuda_context"),
        Tap(*run_test(sides, [folder / "test_device_cuda_array"], 120)).say("device test_cuda_array"),
        Tap(*run_test(sides, [folder / "test_device_preempt"], 120)).say("device test_preempt"),
        Tap(*run_test(sides, [folder / "test_device_parts", "cuda"], 120)).say("device test_parts"),
        Tap(*run_test(sides, [folder / "test_device_follow"], 120)).say("device test_follow"),
    ])


CROWD = [("madd", 1024), ("mmul", 256), ("lud", 512), ("cpy", 256), ("pincpy", 128), ("bfs", 200000),
         ("hs", 512), ("nn", 1000000)]


def start_client(sides, number):
    name, size = CROWD[number % len(CROWD)]
    return sides.gdevd.popen(sides.command("gdev", [sides.gdevd.example(name), "--repeat", 3, size]),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def say(good, text):
    print(f"  {'ok  ' if good else 'FAIL'} {text}", flush=True)
    return (1, 0) if good else (0, 1)


def check_crowd(sides):
    """Sixteen clients at once."""
    clients = [start_client(sides, number) for number in range(16)]
    right = sum("verified" in client.communicate(timeout=300)[0] for client in clients)
    return say(right == 16, f"16 clients at once: {right} verified")


def kill_somebody(sides, chance, victims):
    """kill -9 of a random client, or of a random client's worker."""
    sessions = sides.gdevd.status()["sessions"]
    if not sessions:
        return
    session = chance.choice(sessions)
    victims.add(session["pid"])
    try:
        os.kill(session[chance.choice(["pid", "worker_pid"])], signal.SIGKILL)
    except ProcessLookupError:
        pass


def check_kills(sides, rounds=40):
    """kill -9 of clients and workers, in the middle of whatever they do: all others are right."""
    chance = random.Random(1)
    victims, running, wrong, ended = set(), [], [], 0
    for number in range(rounds + 8):
        if number < rounds:
            running.append(start_client(sides, number))
        if len(running) > 8 or number >= rounds:
            client = running.pop(0)
            out = client.communicate(timeout=300)[0]
            ended += 1
            if client.pid not in victims and "verified" not in out:
                wrong.append(out)
        if number % 2 and number < rounds:
            time.sleep(chance.uniform(0, 0.3))
            kill_somebody(sides, chance, victims)
    for client in running:
        client.communicate(timeout=300)
    for out in wrong:
        print(f"         {out[-300:]}", flush=True)
    return say(not wrong, f"kill -9 of {len(victims)} clients or their workers among {rounds}: "
                          f"{len(wrong)} others wrong")


def query_gpu(*fields):
    """What nvidia-smi says; nothing where there is none."""
    try:
        return subprocess.run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def device_used_mib():
    out = query_gpu("memory.used")
    return int(out.split()[0]) if out else 0


def wait_unused(mib, timeout=10):
    """(what is in use, after how many seconds): as much as before, or what is left. A process that ends has no context
    any more when it still has the driver open, which is 4 MiB."""
    start = time.monotonic()
    while (used := device_used_mib()) != mib and time.monotonic() - start < timeout:
        time.sleep(0.5)
    return used, time.monotonic() - start


def check_warm(sides):
    """What warm workers hold of the device is there for a session that needs it, and they come back."""
    def wait_for(what, seconds=20):
        end = time.monotonic() + seconds
        while not what(status := gdevd.status()) and time.monotonic() < end:
            time.sleep(0.1)
        return status

    def is_warm(status):
        return status["workers"]["warm"] >= 2 and not status["sessions"]

    with Gdevd(sides.gdevd.build, {**sides.gdevd.config, "host_swap": "0"}) as gdevd:
        before = wait_for(is_warm)
        client = gdevd.popen([gdevd.gdev, "run", gdevd.build / "tests" / "integ" / "driver", "hold", 999999],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        held = next((line for line in iter(client.stdout.readline, "") if line.startswith("held ")), None)
        during = gdevd.status() if held else before
        client.communicate("\n")
        after = wait_for(is_warm)
    device = during["devices"][0]
    left = device["memory_bytes"] - device["memory_used_bytes"]
    text = ", ".join(f"{when} {status['workers']['warm_bytes'] >> 20} MiB in {status['workers']['warm']} warm "
                     "workers" for when, status in (("before", before), ("then", during), ("after", after)))
    return say(held and is_warm(before) and not during["workers"]["warm"] and is_warm(after),
               f"a session that takes all memory: {text}; it {held.strip() if held else 'failed'} MiB, "
               f"{left >> 20} MiB were left")


def torch_results(out):
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return {line["program"]: line for line in lines}


def check_torch(sides, names, take):
    """examples/pytorch with gdev and with the vendor's library: the same bits; how long a step takes."""
    command = [sys.executable, ROOT / "examples" / "pytorch" / "programs.py", *names]
    results, passed, failed = {}, 0, 0
    for side in ("gdev", "vendor"):
        try:
            _, out, err = sides.gdevd.run(sides.command(side, command), 240, sides.environment(side))
        except subprocess.TimeoutExpired:
            out, err = "", "no end within 240 seconds"
        results[side] = torch_results(out)
    if not results["vendor"]:
        return say(False, f"PyTorch: {err[-500:]}")
    for name, theirs in results["vendor"].items():
        ours = results["gdev"].get(name, {"error": "it did not come to this"})
        if "skipped" in theirs:
            print(f"  skip PyTorch: {name}: {theirs['skipped']}", flush=True)
            continue
        if "error" in theirs:
            print(f"  skip PyTorch: {name}: it fails with the vendor's library: {theirs['error']}", flush=True)
            continue
        wrong = ours.get("error") or ours.get("skipped")
        if not wrong and not math.isclose(ours["result"], theirs["result"], rel_tol=1e-3, abs_tol=1e-3):
            wrong = f"{ours['result']}, and with the vendor's library {theirs['result']}"
        if not wrong and ours["bits"] != theirs["bits"]:
            wrong = "other bits than with the vendor's library"
        good, bad = say(not wrong, f"PyTorch: {name}: {wrong or 'the same bits'}")
        passed, failed = passed + good, failed + bad
        if not wrong:
            take(f"torch.{name}", (ours["ms"], theirs["ms"], "ms"))
    return passed, failed


def check_managed(sides):
    """Memory that program and device have in turn, and programs that use it."""
    with programs.lab_for(sides.gdevd.build, sides.gdevd.config["device"]) as gdevd:
        every = [one for one in programs.all_programs() if "managed" in one.name]
        results, wrong = programs.run(gdevd, "hardware", every, {})
    return add([check_suite_of(sides, "integ/test_managed.py"), (len(results) - wrong, wrong)])


def check_programs(sides):
    """(passed, failed) of all that is not a benchmark."""
    checks = (check_examples, check_cuda, check_crowd, check_kills)
    return add(check(sides) for check in checks)


def check_gloop(sides):
    """Kernels with event loops; what they read comes by copy engines here."""
    folder = sides.gdevd.build / "tests" / "gloop"
    examples = [(f"gloop-{name}{way}", size) for name, size in GLOOP for way in ("", "-plain")]
    return add([*(Tap(*run_test(sides, sides.command("gdev", [folder / name]), 300)).say(f"gloop {name}")
                  for name in ("test_gloop", "test_requests")),
                check_examples(sides, [*examples, ("gloop-grep-polling", 100)])])


def check_tests(sides):
    """(passed, failed) of the tests that start daemons of their own, and of event loops."""
    return add(check(sides) for check in (check_backend, check_runtime, check_processes, check_warm, check_gloop,
                                          check_suites))


def add(counts):
    return tuple(map(sum, zip((0, 0), *counts)))


def table1(sides, repetitions):
    """Whole runs: copies and kernels, without the checks on the CPU and without the start."""
    def ms(side, name, size):
        out = json.loads(sides.run(side, [sides.gdevd.example(name), "--json", size]))
        return out["open_ms"] + out["copy_ms"] + out["compute_ms"]

    ratios = []
    for name, size in TABLE1:
        times = {"gdev": [], "vendor": []}
        for _ in range(repetitions):
            for side, seen in times.items():
                seen.append(ms(side, name, size))
        ours, theirs = (statistics.median(times[side]) for side in ("gdev", "vendor"))
        ratios.append(ours / theirs)
        yield f"table1.{name}", (ours, theirs, "ms")
    geomean = math.exp(statistics.mean(map(math.log, ratios)))
    yield "table1.geomean", (geomean, 1.0, "ratio")


def describe(build):
    driver = query_gpu("name", "driver_version")
    try:
        commit = (Path(build) / "commit").read_text().strip()  # a bundle knows
    except FileNotFoundError:
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                                capture_output=True, text=True).stdout.strip()
    return {"date": datetime.date.today().isoformat(), "device": driver, "commit": commit}


def parse_options():
    parser = argparse.ArgumentParser(prog="scripts/hardware", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT if (ROOT / "commit").exists() else ROOT / "bundle",
                        help="a built tree, or a bundle of it (default: the bundle that this script is in)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", metavar="FILE", help="append the results to FILE")
    parser.add_argument("--results", metavar="FOLDER", type=Path,
                        default=ROOT / "docs" / "results" if (ROOT / "docs").exists() else Path("results"),
                        help="where vendor-tests leaves errors.md, errors.tsv and vendor-tests.log, and conformance its "
                             + "log, record and hardware.def (default: %(default)s)")
    parser.add_argument("--only", metavar="PARTS",
                        help="of: programs tests torch copy launch graph alloc first pair managed table1; and, only when named, "
                             + "conformance vendor-tests textures guests programs-suite devices cards " + " ".join([*gloop.PARTS, *contention.BENCHES, *preempt.BENCHES, *swapping.BENCHES, *starting.BENCHES, *ptask.PARTS]))
    parser.add_argument("--torch", metavar="NAMES", help="programs of examples/pytorch (default: some)")
    parser.add_argument("--repetitions", type=int, default=3)
    contention.add_options(parser)
    return parser.parse_args()


class Lines:
    """What is measured: printed, and kept until it is saved."""

    def __init__(self, file, about):
        self.file, self.about, self.lines = file, about, []

    def take(self, metric, values, bench=None):
        ours, theirs, unit = values
        self.lines.append({"bench": bench or metric.partition(".")[0], "metric": metric, "value": ours, "unit": unit,
                           "baseline": theirs, "ratio": ours / theirs, **self.about})
        print(f"  {metric:24} {ours:12.5g} {theirs:12.5g} {unit:6} {ours / theirs:8.3f}", flush=True)

    def take_checks(self, passed, failed):
        self.lines += [{"bench": "checks", "metric": f"checks.{name}", "value": cases, "unit": "cases",
                        "baseline": passed + failed, "ratio": cases / (passed + failed), **self.about}
                       for name, cases in (("passed", passed), ("failed", failed))]

    def save(self):
        if self.file:
            with open(self.file, "a") as file:
                file.writelines(json.dumps(line) + "\n" for line in self.lines)
            self.lines.clear()


def measure(name, options, vendor, lines):
    """A benchmark that has gdevds of its own. Each line is saved as it comes."""
    def start(vgpus=None, **config):
        return Gdevd(options.build, {"device": options.device, **config}, vgpus)

    if name in contention.BENCHES:
        found = contention.results(name, start, options)
    elif name in gloop.PARTS:
        found = ((f"gloop.{metric}", (value, baseline, unit)) for metric, value, unit, baseline in gloop.PARTS[name](start))
    elif name in preempt.BENCHES:
        found = contention.results(name, start, options, preempt.BENCHES)
    elif name in starting.BENCHES:
        found = starting.results(name, start, options, vendor)
    else:
        found = swapping.results(name, start, options, False, vendor)
    for metric, values in found:
        lines.take(metric, values)
        lines.save()


def measure_devices(options, vendor, lines):
    """(passed, failed) of what uses several devices."""
    with Gdevd(options.build, {"device": options.device}, devices.VGPUS) as gdevd:
        counts = devices.check(Sides(gdevd, vendor), lambda *measured: lines.take(*measured, bench="peer"))
        if gdevd.log():
            print(gdevd.log(12), file=sys.stderr)
    lines.save()
    return counts


def measure_ptask(options, vendor, parts, lines):
    """(passed, failed) of dataflow graphs; each line is saved as it comes."""
    def start(vgpus=None, **config):
        return Gdevd(options.build, {"device": options.device, **config}, vgpus)

    def take(metric, values, bench):
        lines.take(metric, values, bench)
        lines.save()

    with start() as gdevd:
        counts = add(ptask.check(Sides(gdevd, vendor), start, parts, (Tap, run_test, say), take))
        if gdevd.log():
            print(gdevd.log(12), file=sys.stderr)
    return counts


def check_suite(options, vendor, about):
    """(passed, failed) of the programs of tests/cuda/programs, through gdev and with the vendor's library; all that came
    of them is in programs.json of the results."""
    options.results.mkdir(parents=True, exist_ok=True)
    every, counts = programs.all_programs(), []
    with programs.lab_for(options.build, options.device) as gdevd:
        for side, environment in (("hardware", {}), ("vendor", {"LD_PRELOAD": vendor})):
            results, wrong = programs.run(gdevd, side, every, environment, at_once=8)
            programs.save(options.results / "programs.json", every, side, results, about)
            counts.append((len(results) - wrong, wrong))
    return add(counts)


def measure_parts(sides, wanted, repetitions, take):
    """The parts of bench/hardware.c that are wanted, or all, on both sides in turn."""
    for part in ("copy", "launch", "graph", "alloc", "first", "pair", "managed"):
        if wanted and part not in wanted:
            continue
        for metric, values in compare(sides, part, 9 if part == "first" else repetitions).items():
            take(metric, values)
        if part == "pair":  # what one of them does alone
            alone = {side: parse(sides.run(side, program(sides, part)))["pair.throughput"]
                     for side in ("gdev", "vendor")}
            take("pair.alone", (alone["gdev"][0], alone["vendor"][0], alone["gdev"][1]))


def main():
    options = parse_options()
    lab.end_on_signals()
    vendor = next((path for path in VENDOR_LIBRARIES if os.path.exists(path)), None)
    if not vendor and options.only != "guests":  # of which nothing is compared
        sys.exit("hardware: no vendor library (libcuda.so.1) to compare with; is there a GPU driver?")
    about = describe(options.build)
    lines = Lines(options.json, about)
    wanted = options.only.split(",") if options.only else []
    apart = [*contention.BENCHES, *preempt.BENCHES, *swapping.BENCHES, *starting.BENCHES, *gloop.PARTS]
    passed = failed = 0
    for name in wanted:
        if name in apart:
            measure(name, options, vendor, lines)
        elif name == "devices":
            passed, failed = add([(passed, failed), measure_devices(options, vendor, lines)])
        elif name == "cards":
            found = cards.check(options.build, vendor, lambda *measured: lines.take(*measured, bench="peer"))
            passed, failed = add([(passed, failed), found])
            lines.save()
        elif name == "programs-suite":
            passed, failed = add([(passed, failed), check_suite(options, vendor, about)])
        elif name in ptask.PARTS:
            passed, failed = add([(passed, failed), measure_ptask(options, vendor, ptask.PARTS[name], lines)])
    wanted = [name for name in wanted if name not in [*apart, *ptask.PARTS, "devices", "cards", "programs-suite"]]
    if options.only and not wanted:
        if passed + failed:
            print(f"{passed} passed, {failed} failed")
        return 1 if failed else 0
    used_before = device_used_mib()
    with Gdevd(options.build, {"device": options.device}) as gdevd:
        sides = Sides(gdevd, vendor)
        time.sleep(2)  # a second warm worker
        if not wanted or "programs" in wanted:
            passed, failed = add([(passed, failed), check_programs(sides)])
        if not wanted or "tests" in wanted:
            passed, failed = add([(passed, failed), check_tests(sides)])
        if "vendor-tests" in wanted:
            passed, failed = add([(passed, failed), check_vendor(sides, options.results, about)])
        if not wanted or "managed" in wanted:
            passed, failed = add([(passed, failed), check_managed(sides)])
        if "conformance" in wanted:
            passed, failed = add([(passed, failed), *conformance.check(sides, options.results, run_test, say)])
        if "guests" in wanted:
            passed, failed = add([(passed, failed), check_guests(sides)])
        if "textures" in wanted:
            passed, failed = add([(passed, failed), *textures.check(sides, options, Tap, run_test, device_used_mib, say,
                                                                   lines.take)])
        if not wanted or "torch" in wanted:
            names = options.torch.split(",") if options.torch else TORCH
            passed, failed = add([(passed, failed), check_torch(sides, names, lines.take)])
        if not wanted or set(wanted) - {"programs", "tests", "torch", "vendor-tests", "conformance", "textures", "guests"}:
            print(f"  {'metric':24} {'gdev':>12} {'vendor':>12} {'unit':6} {'ratio':>8}")
        measure_parts(sides, wanted, options.repetitions, lines.take)
        if not wanted or "table1" in wanted:
            for metric, values in table1(sides, options.repetitions):
                lines.take(metric, values)
        if gdevd.log():
            print(gdevd.log(12), file=sys.stderr)
    if not wanted or "programs" in wanted:
        used_after, seconds = wait_unused(used_before)
        good, bad = say(used_after == used_before, f"device memory in use: {used_before} MiB before, "
                        f"{used_after} MiB {seconds:.0f} s after the end")
        passed, failed = passed + good, failed + bad
    if passed + failed:
        lines.take_checks(passed, failed)
    lines.save()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
