# SPDX-License-Identifier: MIT
"""Ten thousand random operations on device memory, by eight processes, some of which are killed: every byte is
compared with a model in the process (model.c), and in the end nothing is left."""

import json
import os
import random
import signal
import tempfile
import time

import integ
from integ import BUILD, FILES_TO_MAP, FULL, PROGRAMS, SANITIZED, SOFTWARE

PROCESSES = 8
OPERATIONS = 100000 if FULL else 10000 if SOFTWARE and not SANITIZED else 3000
A_RUN = 250  # operations of one process, then another takes its place
STORMS_MAX = 4
RIGHT, WRONG = 0, 1


class Model(integ.Case):
    # What the processes may have together is more than there is: on hardware, beside the contexts of all. Nobody waits
    # there in advance for the next, whose room would be that of objects meanwhile.
    config = {"device_memory": "96M"}
    context = 0  # of the software GPU
    LIMIT_MIB = 40
    # Who carries out segments that killed processes have left finds room for its context there: more than one, beside eight.
    RESERVE_PCT = {"test_some_are_killed": 12}

    @classmethod
    def setUpClass(cls):
        if not SOFTWARE:
            cls.context = integ.context_bytes()

    def setUp(self):
        if self.context:
            reserve = self.RESERVE_PCT.get(self._testMethodName, 0)
            memory = ((96 << 20) + PROCESSES * self.context) * 100 // (100 - reserve)
            self.config = {**self.config, "device_memory": memory, "warm_workers": "0", "swap_reserve": reserve}
            if SOFTWARE:
                self.config["context_memory"] = self.context
        super().setUp()

    def start_process(self, folder):
        process = self.gdevd.popen(
            [self.gdevd.gdev, "run", PROGRAMS / "model", folder, random.randrange(1 << 30), A_RUN,
             self.LIMIT_MIB], {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
            if SANITIZED else None, stdout=-1, stderr=-1, text=True)
        process.hurt = False
        return process

    def finish_process(self, process):
        out, err = process.communicate(timeout=240)
        self.gdevd.children.remove(process)
        self.assertNotEqual(process.returncode, WRONG, err)
        if process.hurt and process.returncode != RIGHT:
            self.sums["hurt"] += 1
            return
        self.assertEqual(process.returncode, RIGHT, f"it was not hurt: {err}")
        self.ended += 1
        for what, count in json.loads(out).items():
            self.sums[what] += count

    def kill_somebody(self, processes):
        sessions = self.gdevd.status()["sessions"]
        if not sessions:
            return
        session = random.choice(sessions)
        for process in processes:
            if process.pid == session["pid"]:
                self.killed += not process.hurt
                process.hurt = True
        try:
            os.kill(session[random.choice(["pid", "worker_pid"])], signal.SIGKILL)
        except ProcessLookupError:
            pass

    def storm(self, folder, kill):
        processes = []
        next_kill = time.monotonic() + 1
        end = self.sums["operations"] + OPERATIONS
        while self.sums["operations"] < end:
            while len(processes) < PROCESSES:
                processes.append(self.start_process(folder))
            # A context takes long to make, on hardware: as many come to their end as are killed.
            if kill and time.monotonic() >= next_kill and self.killed <= self.ended:
                self.kill_somebody(processes)
                next_kill = time.monotonic() + random.uniform(0.05, 0.6)
            for process in [p for p in processes if p.poll() is not None]:
                processes.remove(process)
                self.finish_process(process)
            time.sleep(0.02)
        for process in processes:
            self.finish_process(process)
        print(f"# {self.sums}", flush=True)

    def evictions(self):
        return self.gdevd.status()["vgpus"][0]["shared_evictions"]

    def check(self, kill):
        # Where contexts take memory it is chance: the next one's room is there for a while, and nobody can carry out what
        # no program has attached when there is none for one context more. So it is where those who carry are killed.
        enough = OPERATIONS // 2000 if SOFTWARE and not kill else 0
        self.killed = self.ended = 0
        self.sums = dict.fromkeys(("operations", "compared", "shared", "refused", "hurt"), 0)
        seed = int(os.environ.get("GDEV_TEST_SEED") or time.time())
        print(f"# GDEV_TEST_SEED={seed}", flush=True)
        random.seed(seed)
        with tempfile.TemporaryDirectory(prefix="gdev-model-") as folder:
            # How many processes are there at once is the machine's to say: one that is busy may have them meet seldom.
            for _ in range(STORMS_MAX):
                self.storm(folder, kill)
                if self.evictions() >= enough:
                    break
            self.assertTrue(self.sums["compared"] and self.sums["shared"], "something was compared")
            code, out, err = self.gdev_run(PROGRAMS / "model", folder)
            self.assertEqual(code, 0, err)
            if not kill:
                self.assertEqual(out, "0 keys were left\n")
        self.wait_quiet()
        vgpu = self.gdevd.status()["vgpus"][0]
        self.assertEqual((vgpu["memory_used_bytes"], vgpu["swapped_bytes"], vgpu["shared_segments"]), (0, 0, 0))
        print(f"# segments left the device {vgpu['shared_evictions']} times", flush=True)
        self.assertGreaterEqual(vgpu["shared_evictions"], enough)

    def test_all_live(self):
        """Random operations by eight processes: no byte is wrong, and nothing is left"""
        self.check(kill=False)

    def test_some_are_killed(self):
        """Random operations while processes and workers are killed: no byte is wrong, and nothing is left"""
        self.check(kill=True)


class InFiles(Model):
    """The same where most of what is in swap is in files."""
    config = {**Model.config, "host_swap": "48M", "file_swap": "2G", "swap_directory": FILES_TO_MAP}
    test_all_live = None


class OnADisk(Model):
    """The same where the device cannot use files: what must be mapped is in memory, and others make room there."""
    config = {**InFiles.config, "swap_directory": tempfile.gettempdir()}
    environment = integ.NO_FILES


class BesideContexts(Model):
    """The same where contexts take memory, as on hardware."""
    context = 64 << 20
    test_all_live = None


if not SOFTWARE:
    del BesideContexts


if __name__ == "__main__":
    integ.main()
