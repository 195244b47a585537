# SPDX-License-Identifier: MIT
"""Everything that a change must pass, in stages:

  style    shell scripts, formatting, that layers use only those before them, that errors of CUDA have reasons
  suites   all test suites, in an ordinary build
  asan     the same under the address and undefined-behaviour sanitizers, but what repeats them
  tsan     tests with threads that run in one process, under the thread sanitizer
  fuzz     each fuzz target for 25 seconds
  demo     scripts/demo
  attacks  the attack programs by themselves; without a stage's name they run among the suites
  conformance  each instruction of PTX by itself; it is among the suites, too
  vm       CUDA in a virtual machine, under QEMU (docs/vm.md says what it needs)
  delays   the suites by themselves, three times, with threads that are late now and then (tests/delays.c): what a busy machine
           would show in weeks; without the tests that measure times
  programs  all programs of tests/cuda/programs, some of which are among the suites; writes docs/results/programs.json

Counts individual tests: the lines of a program that speaks TAP (cmocka does when asked), else the
program. The last line is `N passed, N failed, N skipped`, and the exit status 0 if none failed. What the
sanitizers cover is gdev's own code; code that the software GPU generates is not instrumented.
"""

import argparse
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lab
import programs
from lab import ROOT

PROCESSORS = len(os.sched_getaffinity(0))
WAITING = 2  # tests beside those that calculate: the longest that may run beside others wait for limits of time
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
STAGES = ("style", "suites", "asan", "tsan", "fuzz", "demo", "vm")
DELAYS = ("100,30000", "1000,20000", "100,200000")  # tests/delays.c
ALONE = ("attacks", "conformance", "delays", "programs")  # run when named: parts of a stage, and what takes long


class Results:
    def __init__(self):
        self.count = collections.Counter()

    def add(self, verdict, name, text=""):
        """verdict: passed, failed or skipped; text: why, or what it printed."""
        self.count[verdict] += 1
        if verdict == "skipped":
            print(f"  skipped: {name}: {text or 'it does not say why'}", flush=True)
        elif verdict == "failed":
            print(f"  FAILED: {name}", flush=True)
            for line in text.splitlines()[-60:]:
                print(f"    {line}", flush=True)

    def summary(self):
        return ", ".join(f"{self.count[v]} {v}" for v in ("passed", "failed", "skipped"))


class Children:
    """The processes that execute() has started and that have not ended. The lock protects both words: after end() none
    is started."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.ended = False

    def start(self, command, environment):
        with self.lock:
            if self.ended:
                raise KeyboardInterrupt
            child = subprocess.Popen([str(word) for word in command], cwd=ROOT, text=True, errors="replace",
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     start_new_session=True, env={**os.environ, **(environment or {})})
            self.running.add(child)
            return child

    def forget(self, child):
        with self.lock:
            self.running.discard(child)

    def end(self):
        """Ends those that other threads wait for. ninja and meson end what they have started."""
        with self.lock:
            self.ended = True
            for child in self.running:
                child.terminate()


CHILDREN = Children()


def execute(command, timeout=None, environment=None):
    """Runs a command to its end: (exit status, what it printed). Ends it, and its descendants, when
    we are interrupted or it takes too long (status None)."""
    child = CHILDREN.start(command, environment)
    try:
        out, _ = child.communicate(timeout=timeout)
        return child.returncode, out
    except subprocess.TimeoutExpired as late:
        text = late.output or b""
        return None, text.decode(errors="replace") if isinstance(text, bytes) else text
    finally:
        if child.poll() is None:
            # Politely first: meson ends the tests that it has started.
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                pass
        lab.kill_group(child)
        CHILDREN.forget(child)


# -- build trees --------------------------------------------------------------------------------------

# Programs of the same source for the API of several years, of which one does under a sanitizer.
REPEATED = re.compile(r"async_1[0-2]000(_per_thread)?")
ONE_THREAD = re.compile(r"(sched|cli) .*|ptask policies")
ONE_PROCESS = {"unit", "proto"}


def is_for_asan(name, _suites):
    return not REPEATED.fullmatch(name)


def is_for_tsan(name, suites):
    return suites & ONE_PROCESS and not ONE_THREAD.fullmatch(name)


def introspect(folder, what):
    out = subprocess.run(["meson", "introspect", folder, what], cwd=ROOT, text=True, capture_output=True, check=True)
    return json.loads(out.stdout)


def programs_of(is_chosen):
    """What the chosen tests need, in a tree that is set up: a function of its folder."""
    def files(folder):
        paths = {target["id"]: target["filename"] for target in introspect(folder, "--targets")}
        return sorted({os.path.relpath(path, ROOT / folder) for test in introspect(folder, "--tests")
                       if is_chosen(test["name"], {suite.split(":")[-1] for suite in test["suite"]})
                       for target in test["depends"] for path in paths[target]})
    return files


class Tree:
    def __init__(self, folder, *options, environment=None, targets=lambda folder: ()):
        """targets: what ninja builds of it, all if nothing is named."""
        self.folder, self.options, self.environment, self.targets = folder, options, environment, targets

    def build(self, nice):
        """None when it is built and up to date, else what the failed command printed."""
        steps = [lambda: ["ninja", "-C", self.folder, *self.targets(self.folder)]]
        if not (ROOT / self.folder / "build.ninja").exists():
            steps.insert(0, lambda: ["meson", "setup", self.folder, *self.options])
        for step in steps:
            code, out = execute([*nice, *step()], environment=self.environment)
            if code:
                return out
        return None


ORDINARY = Tree("build")
TREES = {  # of the stages that test what is in one
    "suites": ORDINARY, "attacks": ORDINARY, "conformance": ORDINARY, "delays": ORDINARY, "programs": ORDINARY,
    "vm": ORDINARY,
    "asan": Tree("build-asan", "-Db_sanitize=address,undefined", "-Db_lundef=false"),
    # The sanitizer takes no account of fences, and gcc says so.
    "tsan": Tree("build-tsan", "-Db_sanitize=thread", "-Db_lundef=false", "-Dc_args=-Wno-tsan",
                 targets=programs_of(is_for_tsan)),
    "fuzz": Tree("build-fuzz", "-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                 environment={"CC": "clang-19"}, targets=lambda folder: ["fuzz"]),
}
# A session's processes share one weight, if the kernel groups them so; nice counts within it alone.
NICE = ("sh", "-c", 'echo 19 2>/dev/null >/proc/self/autogroup; exec nice -n 19 "$@"', "sh")


class Builder:
    """Builds the trees of these stages in their order, by one thread, while earlier stages run: many tests only wait. The
    first has nobody beside it; the others give way to tests."""

    def __init__(self, stages):
        self.pool = ThreadPoolExecutor(1)
        self.built = {}
        for tree in dict.fromkeys(TREES[stage] for stage in stages if stage in TREES):
            self.built[tree] = self.pool.submit(tree.build, NICE if self.built else ())

    def ready(self, results, stage):
        """Waits for the stage's tree. False when it cannot be built."""
        tree = TREES[stage]
        out = self.built[tree].result()
        if out is not None:
            results.add("failed", f"build of {tree.folder}", out)
        return out is None

    def end(self):
        self.pool.shutdown(wait=False, cancel_futures=True)
        CHILDREN.end()
        self.pool.shutdown()


# -- style --------------------------------------------------------------------------------------------

# A layer and those that it may use; see meson.build. lib holds the client's side: it shares nothing
# with the daemon's but base and proto.
LAYERS = {
    "base": (),
    "proto": ("base",),
    "device": ("base", "proto"),
    "worker": ("base", "proto", "device"),
    "gdevd": ("base", "proto"),
    "lib": ("base", "proto"),
    "vm": ("base", "proto", "lib"),  # a client that also needs records as they are
    "cli": ("base", "proto", "device"),  # the doctor asks the devices what they know
}


def sources(*suffixes):
    """Files that git knows, or would."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.split("\n")
    return [name for name in listed if name.endswith(suffixes) and (ROOT / name).is_file()]


def wrong_includes():
    include = re.compile(r'\s*#\s*include\s+["<](\w+)/')
    for name in sources(".c", ".h"):
        layer = name.split("/")[0]
        if layer not in LAYERS or "/" not in name:
            continue
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
            match = include.match(line)
            if match and match[1] in LAYERS and match[1] != layer and match[1] not in LAYERS[layer]:
                yield f"{name}:{number}: {layer} may not use {match[1]}"


# What a macro's parameter is called when it stands for a name, not for a value: nothing is evaluated.
NAMES = re.compile(r"type|member|item|after|\w+_name")
DECLARES = re.compile(r'[{#"]|(?!(?:do|for|if|while|return|sizeof)\b)\w+(?!\w*\()\b')


def without_calls_of(names, text):
    """The text without these operators and what they are applied to."""
    kept, at = "", 0
    for match in re.finditer(rf"\b(?:{names})\s*\**\s*\(", text):
        if match.start() < at:
            continue
        kept += text[at:match.start()]
        at, depth = match.end(), 1
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
    return kept + text[at:]


def repeated_arguments():
    """Macros that evaluate an argument more than once: it may call a function, or load a word that a stranger writes
    meanwhile. Each parameter may stand once in a macro's body, not counting __typeof__, sizeof and offsetof, # and ##.
    What evaluates nothing is not counted either: names (NAMES), the X of a table X(a, b) X(c, d), and macros in capitals
    that make declarations or initialisers (DECLARES)."""
    blank = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
    define = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)(.*)$", re.M)
    for name in sources(".c", ".h", ".cu"):
        text = blank.sub(lambda found: '""' if found[0][0] == '"' else " ", (ROOT / name).read_text())
        for macro, parameters, body in define.findall(text.replace("\\\n", " ")):
            if macro.isupper() and DECLARES.match(body.strip()):
                continue
            body = without_calls_of("__typeof__|sizeof|offsetof", body)
            for parameter in re.findall(r"\w+", parameters.replace("...", "__VA_ARGS__")):
                word = rf"\b{parameter}\b"
                uses = re.sub(rf"##?\s*{word}|{word}\s*##|[.>]{word}|{word}\(", " ", body)
                if len(re.findall(word, uses)) > 1 and not NAMES.fullmatch(parameter):
                    yield f"{name}: {macro} evaluates {parameter} more than once"


def unexplained_errors():
    """Errors of CUDA that lib/cuda names without a reason: all but those of fail(), and those that a result is compared
    with. Comments do not count."""
    comment = re.compile(r"/\*.*?\*/", re.S)
    allowed = re.compile(r"(\bfail\(|[=!]=|\bcase)\s*$")
    for name in sources(".c"):
        if not name.startswith("lib/cuda/"):
            continue
        text = comment.sub(lambda match: re.sub(r"\S", " ", match[0]), (ROOT / name).read_text())
        for match in re.finditer(r"\bCUDA_ERROR_\w+|\bcuda_result\((?!int)", text):
            if not allowed.search(text[:match.start()]) and (match[0].startswith("CUDA") or name != "lib/cuda/errors.c"):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: {match[0]} without a reason: say it with fail() (lib/cuda/internal.h)"


def stage_style(results, _options):
    def check(name, tool, command):
        if not shutil.which(tool):
            results.add("skipped", name, f"{tool} is not installed")
            return
        code, out = execute(command)
        results.add("passed" if code == 0 else "failed", name, out)

    shell = [name for name in sources("") if "." not in Path(name).name and
             (ROOT / name).read_bytes()[:64].startswith((b"#!/bin/sh", b"#!/bin/bash",
                                                         b"#!/usr/bin/env bash"))]
    check("shell scripts", "shellcheck", ["shellcheck", *shell])
    check("formatting", "clang-format",
          ["clang-format", "--dry-run", "-Werror", *sources(".c", ".h", ".cu")])
    wrong = list(wrong_includes())
    results.add("failed" if wrong else "passed", "layers", "\n".join(wrong))
    wrong = list(repeated_arguments())
    results.add("failed" if wrong else "passed", "macros evaluate once", "\n".join(wrong))
    wrong = list(unexplained_errors())
    results.add("failed" if wrong else "passed", "reasons of errors", "\n".join(wrong))


# -- suites -------------------------------------------------------------------------------------------

TAP_LINE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*([^#]*)(#\s*(SKIP|TODO)\b\s*(.*))?$", re.I)


def count_tap(results, name, record):
    """Adds the tests of one program. True when it speaks TAP."""
    out = record.get("stdout") or ""
    planned, seen, failed, before = None, 0, 0, ""
    for line in out.splitlines():
        plan = re.match(r"^1\.\.(\d+)", line)
        planned = int(plan[1]) if plan else planned
        match = TAP_LINE.match(line)
        if not match:
            before = line.lstrip("# ") or before
            continue
        seen += 1
        test = f"{name}: {match[2].strip() or seen}"
        if match[4] and match[4].upper() == "SKIP":
            # cmocka puts the name behind SKIP, and a test says why in the line before.
            why = match[5] if match[2].strip() else before
            results.add("skipped", test if match[2].strip() else f"{name}: {match[5]}", why)
        elif match[1]:
            failed += 1
            results.add("failed", test, out + (record.get("stderr") or ""))
        else:
            results.add("passed", test)
        before = ""
    if not seen:
        return False
    if planned is not None and seen < planned and record["result"] != "OK":
        results.add("failed", f"{name}: ended after {seen} of {planned} tests",
                    f"{record['result']}\n{out}{record.get('stderr') or ''}")
    elif record["result"] not in ("OK", "SKIP") and not failed:
        results.add("failed", f"{name}: {record['result']}, exit status {record['returncode']}",
                    out + (record.get("stderr") or ""))
    return True


def selection(results, folder, is_chosen, without):
    """Names of the chosen tests, but those that cannot run there."""
    listed = subprocess.run(["meson", "test", "-C", folder, "--no-rebuild", "--list"], cwd=ROOT,
                            text=True, capture_output=True, check=True).stdout.splitlines()
    for line in listed:
        groups, _, name = line.partition(" / ")
        if name and is_chosen(name, set(groups.split(":")[-1].split("+"))):
            if name in without:
                results.add("skipped", f"{folder}: {name}", without[name])
            else:
                yield name


def run_suites(results, folder, is_chosen=None, environment=None, slower=1, full=False, without=()):
    """The tests that is_chosen(name, suites), or all."""
    log = ROOT / folder / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    command = ["meson", "test", "-C", folder, "--no-rebuild", "--num-processes", PROCESSORS + WAITING,
               "--timeout-multiplier", slower * (10 if full else 1)]
    if is_chosen:
        command += list(selection(results, folder, is_chosen, without))
    environment = {"CMOCKA_MESSAGE_OUTPUT": "TAP", **(environment or {})}
    if full:
        environment["GDEV_TEST_FULL"] = "1"
    code, out = execute(command, environment=environment)
    if not log.exists():
        if "No suitable tests" in out or "No tests defined" in out:
            return
        results.add("failed", f"meson test in {folder}", out)
        return
    for line in log.read_text().splitlines():
        record = json.loads(line)
        name = f"{folder}: {record['name']}"
        if count_tap(results, name, record):
            continue
        output = (record.get("stdout") or "") + (record.get("stderr") or "")
        verdict = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}.get(
            record["result"], "failed")
        if verdict == "skipped":
            output = output.strip().split("\n")[-1]
        elif verdict == "failed":
            output = f"{record['result']}, exit status {record['returncode']}\n{output}"
        results.add(verdict, name, output)


def check_mistakes(results):
    """clang-tidy, with .clang-tidy's checks, over what is compiled into gdev."""
    if not shutil.which("clang-tidy"):
        results.add("skipped", "clang-tidy", "clang-tidy is not installed")
        return
    # The instructions' bitcode is for a newer clang.
    names = [name for name in sources(".c") if name.split("/")[0] in LAYERS
             and Path(name).name != "builtins.c"]
    with ThreadPoolExecutor(PROCESSORS) as pool:
        parts = [names[first::PROCESSORS] for first in range(PROCESSORS)]
        done = list(pool.map(lambda part: execute(["clang-tidy", "-p", "build", "--quiet", *part]), parts))
    failed = any(code for code, _ in done)
    results.add("failed" if failed else "passed", "clang-tidy", "".join(out for code, out in done if code))


def stage_suites(results, options):
    check_mistakes(results)
    run_suites(results, "build", full=options.full)


def stage_attacks(results, options):
    run_suites(results, "build", lambda _name, suites: "attacks" in suites, full=options.full)


def stage_conformance(results, options):
    run_suites(results, "build", lambda _name, suites: "conformance" in suites, full=options.full)


def stage_delays(results, options):
    """All tests but those that measure times, which run alone for that reason."""
    measuring = {test["name"] for test in introspect("build", "--tests") if not test["is_parallel"]}
    for delays in DELAYS:
        run_suites(results, "build", lambda name, _suites: name not in measuring, slower=4, full=options.full,
                   environment={"LD_PRELOAD": str(ROOT / "build" / "tests" / "libdelays.so"), "GDEV_TEST_DELAYS": delays})


def stage_vm(results, options):
    environment = {"GDEV_BUILD": "build", **({"GDEV_TEST_FULL": "1"} if options.full else {})}
    for name in ("guest", "service") if options.full else ("guest",):
        code, out = execute([sys.executable, "-B", f"tests/vm/test_{name}.py"], timeout=7200 if options.full else 1800,
                            environment=environment)
        record = {"stdout": out, "result": "OK" if code == 0 else "FAIL", "returncode": code}
        if not count_tap(results, f"vm {name}", record):
            results.add("failed" if code else "skipped", f"vm {name}", out.strip().rpartition("# SKIP ")[2] or out)


def stage_programs(results, _options):
    """Each program counts. One that fails as MISSING says is skipped, with the reason."""
    every = programs.all_programs()
    with programs.lab_for(ROOT / "build", "cpu") as gdevd:
        told, _ = programs.run(gdevd, "software", every)
    programs.save(ROOT / "docs" / "results" / "programs.json", every, "software", told, {})
    for program in every:
        result = told[program.name]
        verdict, _, why = result.partition(": ")
        if wrong := programs.judge(program, "software", result):
            verdict, why = "failed", wrong
        elif verdict == "failed":
            verdict, why = "skipped", programs.MISSING[program.name]["software"]
        results.add(verdict, program.name, why)


def stage_asan(results, options):
    run_suites(results, "build-asan", is_for_asan, environment=SANITIZER_OPTIONS, slower=4, full=options.full)


def stage_tsan(results, options):
    """The thread sanitizer owns the addresses where arenas are, so that whole sessions cannot run
    under it: the suites that stay in one process do. What has one thread has nothing for it to find."""
    without = {
        "session": "the two sides are two mappings of one memory, whose order the sanitizer does "
                   "not see, and it does not follow a fork",
    }
    run_suites(results, "build-tsan", is_for_tsan, environment=SANITIZER_OPTIONS, slower=6,
               full=options.full, without=without)


# -- fuzzing, demo ------------------------------------------------------------------------------------

def stage_fuzz(results, options):
    # The same inputs every time: what another change finds by chance is not this change's fault. Addresses are among what
    # the fuzzer makes inputs of. --full looks further, with other inputs each time.
    seconds, seed = (1200, 0) if options.full else (options.fuzz_seconds, 1)
    fixed = ["setarch", "--addr-no-randomize"]
    if options.full or not shutil.which("setarch") or execute([*fixed, "true"])[0] != 0:
        fixed = []
    targets = sorted(path for path in (ROOT / "build-fuzz" / "tests" / "fuzz").glob("fuzz_*")
                     if path.is_file() and os.access(path, os.X_OK))

    def fuzz(target):
        corpus = ROOT / "build-fuzz" / "corpus" / target.name
        if not options.full:
            shutil.rmtree(corpus, ignore_errors=True)
        corpus.mkdir(parents=True, exist_ok=True)
        seeds = ROOT / "tests" / "fuzz" / "corpus" / target.name
        return target, execute(
            [*fixed, target, f"-seed={seed}", f"-max_total_time={seconds}", "-rss_limit_mb=4096",
             "-timeout=60", "-print_final_stats=1", f"-artifact_prefix={corpus.parent}/{target.name}-",
             corpus, *([seeds] if seeds.is_dir() else [])],
            timeout=seconds + 120, environment={**SANITIZER_OPTIONS, "ASAN_OPTIONS": ""})

    with ThreadPoolExecutor(PROCESSORS) as pool:
        for target, (code, out) in pool.map(fuzz, targets):
            results.add("passed" if code == 0 else "failed", f"{target.name}, {seconds} seconds",
                        out)


def stage_demo(results, _options):
    code, out = execute([ROOT / "scripts" / "demo"], timeout=600)
    results.add("passed" if code == 0 else "failed", "demo", out)


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/test", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("stage", nargs="*", metavar="STAGE",
                        help="run only these (default: all)")
    parser.add_argument("--full", action="store_true",
                        help="long fuzzing, soak, exhaustive suites: hours")
    parser.add_argument("--fuzz-seconds", type=int, default=25, metavar="N",
                        help="for each fuzz target (default 25)")
    options = parser.parse_args()
    for stage in options.stage:
        if stage not in STAGES + ALONE:
            parser.error(f"no stage is called {stage}; there are {', '.join(STAGES + ALONE)}")

    lab.end_on_signals()
    results = Results()
    stages = [stage for stage in STAGES + ALONE if stage in (options.stage or STAGES)]
    builder = Builder(stages)
    try:
        for stage in stages:
            start = time.monotonic()
            print(f"{stage} …", flush=True)
            if stage not in TREES or builder.ready(results, stage):
                globals()[f"stage_{stage}"](results, options)
            print(f"{stage}: {time.monotonic() - start:.0f} s; so far {results.summary()}",
                  flush=True)
    except KeyboardInterrupt:
        print("test: interrupted", file=sys.stderr)
        return 130
    finally:
        builder.end()
    print(results.summary())
    return 1 if results.count["failed"] or not results.count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
