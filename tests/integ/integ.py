# SPDX-License-Identifier: MIT
"""What the integration tests share: the build under test, a runner that speaks TAP, and looks at the
daemon from outside. A test is named by the first line of its docstring: the behaviour it holds."""

import functools
import json
import os
import signal
import sys
import tempfile
import time
import traceback
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402
from lab import Gdevd  # noqa: E402,F401

BUILD = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build").resolve()
DEVICE, SOFTWARE = lab.DEVICE, lab.SOFTWARE
PATIENCE = 60  # seconds, for what must come, on a machine that is busy with other things
FULL = bool(os.environ.get("GDEV_TEST_FULL"))
SANITIZED = "ASAN_OPTIONS" in os.environ
PROGRAMS = BUILD / "tests" / "integ"
# Pages of a file that are used where they are: NVIDIA's driver takes those of a tmpfs, and none of a disk.
FILES_TO_MAP = tempfile.gettempdir() if SOFTWARE else "/dev/shm"
# A device that takes no pages of a disk's files: the software GPU of tests/device/no_files.c. Of gdevd's environment.
NO_FILES = {"GDEV_PLUGIN_DIR": str(BUILD / "tests" / "device")} if SOFTWARE else {}
# Of the software GPU; hardware has what it has.
MEMORY = {"device_memory": "1G"} if SOFTWARE else {}


@functools.cache
def context_bytes():
    """What a context takes of the device's memory: nothing on the software GPU."""
    if SOFTWARE:
        return 0
    with Gdevd(BUILD, {"warm_workers": "1"}) as gdevd:
        return gdevd.context_bytes()


class Case(unittest.TestCase):
    """A test with a gdevd of its own: self.gdevd. `config`, `vgpus` and `environment` as Gdevd takes them."""

    config = MEMORY
    vgpus = {"gdev0": {}}
    environment = {}

    def setUp(self):
        self.gdevd = self.enterContext(Gdevd(BUILD, self.config, self.vgpus, self.environment))

    def tearDown(self):
        failed = self._outcome.result.failed_now(self)
        if failed:
            print(f"# gdevd's log:\n{indent(self.gdevd.log(60))}", flush=True)

    def gdev_run(self, *command, timeout=120, environment=None):
        return self.gdevd.run([self.gdevd.gdev, "run", *command], timeout, environment)

    def run_verified(self, name, *arguments, timeout=120):
        """Runs an example through `gdev run`; its result must be right."""
        code, out, err = self.gdev_run(self.gdevd.example(name), *arguments, timeout=timeout)
        self.assertEqual(code, 0, f"{name} ended with {code}\n{out}{err}")

    def top(self):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "top", "--json"])
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def stop(self, pid):
        """Stops all threads of the process, and returns when they stand still: a signal alone may be some milliseconds late."""
        os.kill(pid, signal.SIGSTOP)
        self.wait_until(lambda: all(read_if_there(task).rpartition(")")[2].split()[:1] in (["T"], ["Z"], [])
                                    for task in Path(f"/proc/{pid}/task").glob("*/stat")), "a process that has stopped")

    def wait_until(self, condition, what, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.fail(f"not within {seconds} seconds: {what}")
            time.sleep(0.05)

    def wait_quiet(self, seconds=PATIENCE):
        """Until no session is left, nor memory of one or of a segment that is gone, and the pool of workers is full again."""
        def quiet():
            status = self.gdevd.status()
            workers = status["workers"]
            return not status["sessions"] and not workers["leaving"] and not workers["starting"] \
                and not workers["carrying"] \
                and not any(device["memory_freeing_bytes"] or device["swap_freeing_bytes"]
                            for device in status["devices"])

        self.wait_until(quiet, "no session is left", seconds)


MEASUREMENTS = 5


def measured(test):
    """Of a test of how long something takes, or how much somebody gets: a machine that is busy with other things for a moment
    spoils the measurement, and it is made again, from the start. What is wrong is so each time."""
    @functools.wraps(test)
    def run(self):
        for tries in range(1, MEASUREMENTS):
            try:
                return test(self)
            except self.failureException as error:
                print(f"# measured again: {error}", flush=True)
            self.tearDown()
            self.doCleanups()
            time.sleep(2 ** tries)
            self.setUp()
        return test(self)

    return run


def indent(text):
    return "\n".join(f"#   {line}" for line in text.splitlines())


# -- processes ----------------------------------------------------------------------------------------

def read_if_there(path):
    """A file of a process or a thread, which may end meanwhile: "" then."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def children(pid):
    """Processes whose parent is `pid`, but zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def alive(pid):
    """There, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def footprint(pid):
    """(memory in KiB, descriptors, threads) of a process."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return (int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")),
            int(status["Threads"]))


# -- TAP ----------------------------------------------------------------------------------------------

class TapResult(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.number = 0
        self.said = None  # the last test of which there is a verdict

    def failed_now(self, test):
        return any(failed is test for failed, _ in self.failures + self.errors)

    def say(self, verdict, test, more="", text=""):
        self.number += 1
        self.said = test
        name = (test.shortDescription() or str(test)).rstrip(".")
        if text:
            print(indent(text))
        print(f"{verdict} {self.number} - {name}{more}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say("not ok", test, text=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say("not ok", test, text=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            print(indent(f"{subtest}: {''.join(traceback.format_exception(*err))}"))

    def stopTest(self, test):
        super().stopTest(test)
        if self.said is not test:  # its subtests alone have failed
            self.say("not ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("ok", test, f" # SKIP {reason}")


def main():
    lab.end_on_signals()
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    if len(sys.argv) > 1:
        suite = unittest.TestSuite(test for group in suite for test in group
                                   if any(name in test.id() for name in sys.argv[1:]))
    print(f"1..{suite.countTestCases()}", flush=True)
    result = TapResult()
    suite.run(result)
    sys.exit(0 if result.wasSuccessful() else 1)
