# SPDX-License-Identifier: MIT
"""CUDA in a virtual machine: Debian's kernel with our module, under QEMU's TCG. `scripts/test vm` runs it.

The machine is booted once for each class. In the programs of tests/cuda some tests fail, since the guest does not have
what they are about: each is named here with the reason, and one that passes all the same fails."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
import guest  # noqa: E402
import lab  # noqa: E402
import parts  # noqa: E402

# Of a bundle's machine, on which few others work, and which is had for ten minutes, less: what a guest has said is to be seen.
LIMIT_S = 200 if parts.is_carried(integ.BUILD) else 900

# The programs of tests/cuda. {program: {test: why it fails, or skips itself}}
CUDA = {name: {} for name in (
    "context", "memory", "copy", "stream", "code", "launch", "async_13000", "graph", "graph_branches", "graph_memory",
    "pool", "vmm", "array", "texture", "ipc", "event_ipc", "conditional", "errors", "gdev", "api4")}
CUDA["calls"] = {"files_are_written_from_device_memory": "a file is written where device memory is mapped"}
if not integ.SOFTWARE:
    CUDA["memory"] = dict.fromkeys(("managed_variables_are_reached_by_both", "managed_variables_are_of_one_context",
                                    "managed_variables_need_no_context"), "variables that the host reaches are in no guest there")
CUDA["gdev"] = dict.fromkeys(("mapped_memory_is_the_devices", "small_segments_can_be_mapped"), "device memory is not mapped in a guest")
# hello, and those of the paper's Table 1; with sizes that QEMU is done with in a second or so.
EXAMPLES = {"hello": "", "loop": 2, "madd": 129, "mmul": 64, "cpy": 3, "pincpy": 3, "bp": 1000, "bfs": 3001, "hw": 1, "hs": 66, "lud": 64,
            "nn": 1007, "nw": 64, "srad": 66, "srad2": 67}
# Where other programs keep the processors a burst pauses, and the proxy rests: the best of three.
COUNTED = ("counted-1", "counted-2", "counted-3")

BEGIN = "insmod /gdev.ko || exit 1\n"


class Case(unittest.TestCase):
    """A machine that has executed self.script by the time of the first test; `files` are programs in /t."""

    script = ""
    files = {}
    debug = False

    @classmethod
    def setUpClass(cls):
        build = integ.BUILD
        made_of = parts.find(build, cls.debug)
        files = guest.image(build, made_of, {f"t/{name}": build / path for name, path in cls.files.items()})
        cls.gdevd = cls.enterClassContext(lab.Gdevd(build, integ.MEMORY, {"gdev0": {}}))
        cls.server = cls.enterClassContext(guest.Server(cls.gdevd, "--memory", "1G"))
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        machine = guest.Guest(cls.server, made_of, files, BEGIN + cls.script, folder)
        try:
            machine.start()
            cls.beside(machine)
            cls.output = machine.finish(LIMIT_S)
        finally:
            machine.kill()

    @classmethod
    def beside(cls, machine):
        """What is done from outside while the script runs."""

    said = guest.said


class Programs(Case):
    files = {**{f"test_{name}": f"tests/cuda/test_{name}" for name in CUDA},
             **{name: f"examples/{name}" for name in EXAMPLES}, "counted": "tests/vm/counted"}
    script = guest.RUN + f"export CMOCKA_MESSAGE_OUTPUT=TAP GDEV_TEST_DEVICE={integ.DEVICE}\n" + "\n".join(
        ["run status gdev status", "run doctor gdev doctor /t/hello", "run top gdev top --once", "run vgpus gdev vgpu list",
         "run trace gdev trace /t/hello"]
        + [f"run {name} /t/counted 2000 4" for name in COUNTED]
        + [f"run example-{name} gdev run /t/{name} {size}" for name, size in EXAMPLES.items()]
        + [f"run cuda-{name} timeout 600 /t/test_{name}" for name in CUDA]) + "\n"

    def device_name(self):
        return self.gdevd.status()["devices"][0]["name"]

    def test_status(self):
        """gdev status names the device"""
        code, text = self.said("status")
        self.assertEqual(code, 0, text)
        self.assertIn(f"/dev/gdev0: {self.device_name()}", text)

    def test_verbs(self):
        """gdev doctor knows the device; what only the host can answer says so"""
        code, text = self.said("doctor")
        self.assertEqual(code, 0, text)
        self.assertIn(f"you may use the GPU of this virtual machine, /dev/gdev0: {self.device_name()}", text)
        for name in "top", "vgpus", "trace":
            with self.subTest(name):
                code, text = self.said(name)
                self.assertEqual(code, 3, text)
                self.assertIn("this is a virtual machine", text)

    def test_examples(self):
        """Examples, unmodified, give right results"""
        for name in EXAMPLES:
            with self.subTest(name):
                code, text = self.said(f"example-{name}")
                self.assertEqual(code, 0, text)
                self.assertIn("0 wrong" if name == "hello" else "verified", text)

    def test_cuda(self):
        """The CUDA tests pass, but for those that are named"""
        for name, exceptions in CUDA.items():
            with self.subTest(name):
                _, text = self.said(f"cuda-{name}")
                verdicts = re.findall(r"^(not ok|ok) \d+ -? ?(# SKIP )?(\w+)", text, re.M)
                planned = sum(map(int, re.findall(r"^1\.\.(\d+)", text, re.M)))
                self.assertTrue(planned and planned == len(verdicts), text)
                # On other devices tests skip themselves for other reasons, too.
                failed = {test for verdict, skipped, test in verdicts if verdict == "not ok" and (integ.SOFTWARE or not skipped)}
                self.assertEqual(failed - set(exceptions), set(), text)
                self.assertTrue(failed == set(exceptions) or not integ.SOFTWARE, text)

    def test_counts(self):
        """Launches of a burst do not ring, and each byte is copied once"""
        rung = []
        for name in COUNTED:
            code, text = self.said(name)
            self.assertEqual(code, 0, text)
            counts = json.loads(text.strip().splitlines()[-1])
            print(f"# {counts}")
            self.assertEqual(counts["launches"], 2000)
            self.assertEqual(counts["asked_bytes"], 2 * (4 << 20))  # what is page-locked the worker copies
            # A copy of which a part asks for its turn moves that part twice, as on the host; and through the staging memory all.
            self.assertLess(counts["copied_bytes"] / counts["asked_bytes"], 1.1 if integ.SOFTWARE else 2.1)
            rung.append(counts["burst_doorbells"])
        self.assertLess(min(rung), 200)
        self.assertLessEqual(counts["wait_interrupts"], counts["waits"])


# $p launches without end, until it is told.
LAUNCHING = """
launching() {
    : >/tmp/launching; /t/counted 0 8 >/tmp/launching 2>&1 & p=$!
    until grep -q launches /tmp/launching; do kill -0 $p || return 1; usleep 9999; done
}
"""

# Programs are right beside processes that do whatever they like with the device.
HOSTILE = """
run hostile sh -c 'for i in 1 2 3; do /t/hostile $i %d & h="$h $!"; done
    while kill -0 $h 2>/dev/null; do /t/counted 300 2 || exit 1; done; for i in $h; do wait $i || exit 2; done'
run after-hostile /t/hello
"""


class Deaths(Case):
    files = {"counted": "tests/vm/counted", "hostile": "tests/vm/hostile", "hello": "examples/hello"}
    script = guest.RUN + LAUNCHING + HOSTILE % 8 + """
run together sh -c 'for i in 1 2 3 4 5 6; do /t/counted 300 2 & p="$p $!"; done; for i in $p; do wait $i || exit 1; done'
run killed sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    /t/counted 0 8 >/dev/null 2>&1 & p=$!; usleep $((100000 * (i % 6) + 50000)); kill -9 $p; wait $p; done; true'
run after-kills /t/hello
run removed sh -c 'for i in $(seq 200); do rmmod gdev && insmod /gdev.ko || exit 1; done'
run after-removals /t/hello
in_use() { launching || return 2; rmmod gdev; s=$?; kill -9 $p; wait $p; [ $s != 0 ]; }
run in-use in_use
suspended() {
    launching; echo mem >/sys/power/state; s=$?; echo AWAKE; [ $s = 0 ] || return 1
    kill $p && wait $p; s=$?; cat /tmp/launching; return $s
}
run suspended suspended
mkdir -p /etc; echo user:x:1000:1000::/:/bin/sh >>/etc/passwd
run nobody su user -c /t/hello
run nobody-runs su user -c 'gdev run /t/hello'
run nobody-asks su user -c 'gdev status; gdev doctor'
chmod 666 /dev/gdev0
run everybody su user -c /t/hello
run no-complaints sh -c 'dmesg | grep -E "BUG|WARNING|Oops|Call Trace|stay pinned"; true'
"""

    @classmethod
    def beside(cls, machine):
        machine.wait_for("<<suspended", LIMIT_S)
        machine.wake("AWAKE", LIMIT_S)

    def setUp(self):
        self.maxDiff = None

    def test_together(self):
        """Six processes at a time"""
        code, text = self.said("together")
        self.assertEqual(code, 0, text)
        self.assertEqual(text.count('"launches": 300'), 6, text)

    def test_killed(self):
        """Processes that are killed at any point leave a module that works"""
        code, text = self.said("after-kills")
        self.assertEqual(code, 0, text)

    def test_removed(self):
        """The module is removed and loaded 200 times, and not while somebody uses it"""
        self.assertEqual(self.said("removed")[0], 0, self.said("removed")[1])
        self.assertEqual(self.said("after-removals")[0], 0, self.said("after-removals")[1])
        self.assertEqual(self.said("in-use")[0], 0, self.said("in-use")[1])

    def test_suspended(self):
        """The guest is suspended while a program launches, which goes on afterwards until it is told, and is right"""
        code, text = self.said("suspended")
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r'"launches": \d+')

    def test_mode(self):
        """The mode of the file says who may use the device"""
        code, text = self.said("nobody")
        self.assertNotEqual(code, 0, text)
        code, text = self.said("nobody-runs")
        self.assertEqual(code, 125, text)
        self.assertIn("you may not use /dev/gdev0", text)
        code, text = self.said("nobody-asks")
        self.assertEqual(code, 1, text)
        self.assertEqual(text.count("you may not use /dev/gdev0"), 2, text)
        code, text = self.said("everybody")
        self.assertEqual(code, 0, text)

    def test_hostile(self):
        """Processes that do anything with the device disturb no other process of the guest"""
        for name in ("hostile", "after-hostile"):
            self.assertEqual(self.said(name)[0], 0, self.said(name)[1])

    def test_kernel_is_content(self):
        """The guest's kernel has complained of nothing"""
        self.assertEqual(self.said("no-complaints")[1], "")

    def test_host_is_left_clean(self):
        """The host has no session of the machine any more"""
        integ.Case.wait_until(self, lambda: not self.gdevd.status()["sessions"], "no session is left")
        self.assertNotIn("signal", self.server.log())


@unittest.skipUnless(integ.FULL, "a kernel is built for it: with --full")
class Debug(Case):
    """Under a kernel that watches its memory and its locks."""

    debug = True
    files = Deaths.files
    script = guest.RUN + HOSTILE % 20 + """
mount -t debugfs debug /sys/kernel/debug
echo scan=off >/sys/kernel/debug/kmemleak
run counted /t/counted 300 4
run together sh -c 'for i in 1 2 3; do /t/counted 100 1 & p="$p $!"; done; for i in $p; do wait $i || exit 1; done'
run killed sh -c 'for i in 1 2; do
    /t/counted 0 4 >/dev/null 2>&1 & p=$!; usleep $((600000 * i)); kill -9 $p; wait $p; done; true'
run removed sh -c 'rmmod gdev && insmod /gdev.ko'
run after /t/hello
rmmod gdev
run leaks sh -c 'for i in 1 2; do sleep 6; echo scan >/sys/kernel/debug/kmemleak; done; cat /sys/kernel/debug/kmemleak'
run watched sh -c 'dmesg | grep -E "kmemleak: Kernel memory leak detector initialized|Lock dependency validator"'
run complaints sh -c 'dmesg | grep -E -A 30 "BUG|WARNING|KASAN:|possible .* (lock|deadlock)|Oops|stay pinned"; true'
"""

    def test_debug_kernel(self):
        """A kernel with KASAN, lockdep and kmemleak complains of nothing"""
        for name in ("hostile", "after-hostile", "counted", "together", "killed", "removed", "after"):
            with self.subTest(name):
                self.assertEqual(self.said(name)[0], 0, self.said(name)[1])
        self.assertEqual(self.said("watched")[1].count("\n"), 2, self.said("watched")[1])
        self.assertEqual(self.said("leaks"), (0, ""))
        self.assertEqual(self.said("complaints")[1], "")


class Together(unittest.TestCase):
    """Two machines with shares of 70 to 30, beside programs of the host."""

    FILES = {"shares": "tests/integ/shares", "swap": "tests/integ/swap", **Deaths.files}
    ROUNDS = 5000000 if integ.SOFTWARE else 25000  # so long that a guest that has few processors keeps some queued

    @classmethod
    def setUpClass(cls):
        build, made_of = integ.BUILD, parts.find(integ.BUILD)
        files = guest.image(build, made_of, {f"t/{name}": build / path for name, path in cls.FILES.items()})
        vgpus = {"gdev0": {"compute": "20"}, "one": {"compute": "56"},
                 "two": {"compute": "24", "memory": (64 << 20) + integ.context_bytes()}}
        cls.gdevd = cls.enterClassContext(lab.Gdevd(build, integ.MEMORY, vgpus))
        cls.guests = []
        for vgpu in ("one", "two"):
            server = cls.enterClassContext(guest.Server(cls.gdevd, "--vgpu", vgpu, "--memory", "256M", "--locked", "64M", name=vgpu))
            folder = cls.enterClassContext(tempfile.TemporaryDirectory())
            machine = guest.Guest(server, made_of, files, BEGIN + guest.SHELL, folder, reboots=True)
            cls.addClassCleanup(machine.kill)
            machine.start()
            cls.guests.append(machine)
        for machine in cls.guests:
            machine.obey()

    def used_ns(self):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "top", "--json"])
        self.assertEqual(code, 0, err)
        return {vgpu["vgpu"]: vgpu["resources"]["compute"]["used_ns"] for vgpu in json.loads(out)["vgpus"]}

    def sessions(self, count):
        end = time.monotonic() + 300
        while len(self.gdevd.status()["sessions"]) != count:
            self.assertLess(time.monotonic(), end, f"not {count} sessions")
            time.sleep(0.1)

    def test_memory(self):
        """A program that needs more than its virtual GPU has is right"""
        self.guests[1].ask("timeout 600 /t/swap 3 32 3", 700)

    @integ.measured
    def test_shares(self):
        """Two guests have their shares beside a program of the host"""
        for machine in self.guests:
            machine.ask(": >/tmp/busy; tail -f /dev/null | /t/shares %d >/tmp/busy & until grep -q busy /tmp/busy; do usleep 9999; done"
                        % self.ROUNDS)
        beside = self.gdevd.popen([self.gdevd.gdev, "run", integ.PROGRAMS / "shares", self.ROUNDS], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.assertEqual(beside.stdout.readline(), b"busy\n")
        before = self.used_ns()
        time.sleep(10)
        used = {name: now - before[name] for name, now in self.used_ns().items()}
        beside.stdin.close()
        self.assertEqual(beside.wait(60), 0)
        beside.stdout.close()
        for machine in self.guests:
            machine.ask("killall tail")
        self.sessions(0)
        print(f"# {used}")
        self.assertAlmostEqual(used["one"] / (used["one"] + used["two"]), 0.7, delta=0.06, msg=used)
        self.assertAlmostEqual(used["gdev0"] / sum(used.values()), 0.2, delta=0.06, msg=used)

    def test_then_reboots(self):
        """A guest that reboots while its programs run finds the device free, and the other's program goes on"""
        self.guests[1].ask("/t/counted 0 8 >/dev/null & echo $! >/tmp/p")
        self.guests[0].ask("for i in 1 2 3; do /t/counted 0 8 >/dev/null & done")
        self.sessions(4)
        self.guests[0].process.stdin.write(b"reboot -f\n")
        self.guests[0].process.stdin.flush()
        self.guests[0].wait_for("LISTENS", 300, times=2)
        self.sessions(1)
        self.guests[0].ask("/t/hello")
        self.guests[1].ask("kill -0 $(cat /tmp/p) && kill -9 $(cat /tmp/p)")
        self.sessions(0)


STORM_SECONDS = 120 if integ.FULL else 15
STORM = """while true; do
    /t/counted 300 1 >/dev/null 2>&1 & p=$!
    [ $((RANDOM % 3)) = 0 ] && usleep $((RANDOM * 20)) && kill -9 $p
    wait $p; echo ROUND $?; done
"""


class Storm(unittest.TestCase):
    """Three machines at once."""

    def test_storm(self):
        """Processes in guests, proxies, workers, gdevd and whole guests are killed at random; what is left is served"""
        build, made_of = integ.BUILD, parts.find(integ.BUILD)
        files = guest.image(build, made_of, {f"t/{name}": build / path for name, path in Deaths.files.items()})
        self.gdevd = self.enterContext(lab.Gdevd(build, integ.MEMORY, {"gdev0": {}, "one": {}, "two": {}}))
        servers = [self.enterContext(guest.Server(self.gdevd, "--vgpu", vgpu, "--memory", "256M", "--locked", "64M", name=vgpu))
                   for vgpu in ("gdev0", "one", "two")]
        guests = []
        for server in servers:
            folder = self.enterContext(tempfile.TemporaryDirectory())
            guests.append(guest.Guest(server, made_of, files, BEGIN + STORM, folder))
            self.addCleanup(guests[-1].kill)
            guests[-1].start()
        for machine in guests:
            machine.wait_for("ROUND 0", 300)
        rounds = self.kill_at_random(servers, guests)
        print(f"# {rounds}")
        for server, machine in zip(servers, guests):
            machine.kill()
            self.assertIsNone(server.process.poll(), server.log())
            self.assertNotRegex(server.log(), r"by signal (?!9\b)|Sanitizer|runtime error")
            machine.start()
            machine.wait_for("ROUND 0", 300)

    def kill_at_random(self, servers, guests):
        chance, killed = random.Random(9), dict.fromkeys(("proxy", "worker", "gdevd", "guest"), 0)
        end = time.monotonic() + STORM_SECONDS
        while time.monotonic() < end:
            what = chance.choices(list(killed), (30, 30, 3, 1))[0]
            if what == "guest":
                machine = chance.choice(guests)
                machine.kill()
                machine.start()
            elif what == "gdevd":
                self.gdevd.process.kill()
                self.gdevd.process.wait()
                self.gdevd.start()
            else:
                pids = (integ.children(chance.choice(servers).process.pid) if what == "proxy"
                        else [session["worker_pid"] for session in self.gdevd.status()["sessions"]])
                if not pids:  # a guest boots
                    time.sleep(0.1)
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.kill(chance.choice(pids), signal.SIGKILL)
            killed[what] += 1
            time.sleep(chance.random() * 0.4)
        return killed


if __name__ == "__main__":
    try:
        parts.require(integ.BUILD)
    except parts.Missing as missing:
        print(f"1..0 # SKIP {missing}")
        sys.exit(0)
    os.environ.pop("CMOCKA_MESSAGE_OUTPUT", None)
    integ.main()
