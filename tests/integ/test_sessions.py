# SPDX-License-Identifier: MIT
"""Many clients: at once, one after another, and with no daemon there."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import integ
from integ import BUILD, FULL, SANITIZED, SOFTWARE, alive, children, footprint

# A context on hardware costs a third of a second and half a GiB of the device.
AT_ONCE = 64 if SOFTWARE else 16
ONE_AFTER_ANOTHER = 1000 if FULL else 150 if SOFTWARE else 20


class AtOnce(integ.Case):
    def test_at_once(self):
        """Many clients at once open, compute, verify and leave"""
        names = ["madd", "mmul", "lud", "hs"]
        clients = [self.gdevd.popen([self.gdevd.gdev, "run", self.gdevd.example(names[i % 4]),
                                     f"--seed={i + 1}", "128"],
                                    stdout=-1, stderr=-1, text=True) for i in range(AT_ONCE)]
        for i, client in enumerate(clients):
            out, err = client.communicate(timeout=240)
            self.assertEqual(client.returncode, 0, f"client {i}: {out}{err}")
        self.wait_quiet()


class OneAfterAnother(integ.Case):
    def measure(self):
        self.wait_quiet()
        return footprint(self.gdevd.process.pid), self.device_memory()

    def device_memory(self):
        return [device["memory_used_bytes"] for device in self.gdevd.status()["devices"]]

    def test_no_growth(self):
        """Many sessions one after another leave the daemon as it was"""
        client = [self.gdevd.gdev, "run", self.gdevd.example("madd"), "64"]
        for _ in range(20 if SOFTWARE else 5):
            self.assertEqual(self.gdevd.run(client)[0], 0)
        first, device_before = before, _ = self.measure()
        grown = []
        # The allocator may keep a little (a sanitizer's, what was freed lately), and more once; a leak of a session's
        # bookkeeping would be far more, each time.
        while not grown or grown[-1] >= (65536 if SANITIZED else 1024):
            self.assertLess(len(grown), 3, f"KiB of memory: {grown}")
            for _ in range(ONE_AFTER_ANOTHER):
                self.assertEqual(self.gdevd.run(client)[0], 0)
            after, device_after = self.measure()
            grown.append(after[0] - first[0])
            first = after
        self.wait_until(lambda: footprint(self.gdevd.process.pid)[1] <= before[1] + 8,
                        "the end of descriptors that are being closed (warm workers have some)", 60)
        self.wait_until(lambda: footprint(self.gdevd.process.pid)[2] <= before[2], "no more threads than before")
        self.assertEqual(device_after, device_before, "device memory")


HOLD = """import fcntl, sys, time
lock = open(sys.argv[1], "r+")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(1)
"""


class Ends(integ.Case):
    def ended(self, program):
        return [end["reason"] for end in self.gdevd.status()["ended"] if end["program"] == program]

    def test_ends(self):
        """gdev status says of a program that was killed that it was, and of one that ended by itself that it is done"""
        self.assertEqual(self.gdevd.run([self.gdevd.gdev, "run", self.gdevd.example("hello")])[0], 0)
        self.wait_until(lambda: self.ended("hello"), "the end of a program")
        self.assertEqual(self.ended("hello"), ["done"])
        client = self.gdevd.popen([self.gdevd.gdev, "run", integ.PROGRAMS / "idle", "3"], stdin=-1, stdout=-1)
        self.assertEqual(client.stdout.readline(), b"ready\n")
        client.kill()
        client.wait()
        client.stdin.close()
        client.stdout.close()
        self.wait_until(lambda: self.ended("idle"), "the end of another")
        self.assertIn("killed", self.ended("idle")[0])
        self.assertRegex(self.gdevd.run([self.gdevd.gdev, "status"])[1], r"idle .* killed, or by _exit\n")


class NoDaemon(unittest.TestCase):
    def test_private(self):
        """gdev run without a daemon starts one, says so, and that one leaves with its last client"""
        directory = Path(tempfile.mkdtemp(prefix="gdev-lab-"))
        self.addCleanup(shutil.rmtree, directory, True)
        os.chmod(directory, 0o711)
        gdevd = integ.Gdevd(BUILD)
        gdevd.environment = {**os.environ, "GDEV_RUNTIME_DIR": str(directory / "run"),
                             "GDEV_STATE_DIR": str(directory / "state")}
        code, out, err = gdevd.run([gdevd.gdev, "run", gdevd.example("hello")], 60)
        self.assertEqual(code, 0, out + err)
        self.assertIn("private", err)
        socket = directory / "run" / "control.sock"
        integ.Case.wait_until(self, lambda: not socket.exists(), "the private daemon has left")

    @unittest.skipUnless(SOFTWARE, "it is the software GPU that makes kernels here")
    def test_kernels_to_read(self):
        """GDEV_CPU_DUMP has the private gdevd write PTX, IR and assembly, also of what the cache has"""
        directory = Path(tempfile.mkdtemp(prefix="gdev-lab-"))
        self.addCleanup(shutil.rmtree, directory, True)
        os.chmod(directory, 0o711)
        (directory / "gdev.conf").write_text("[gdevd]\ndevice = cpu\n")
        gdevd = integ.Gdevd(BUILD)
        gdevd.environment = {**os.environ, "GDEV_RUNTIME_DIR": str(directory / "run"),
                             "GDEV_STATE_DIR": str(directory / "state")}
        for name, error in (("first", ""), ("second", ""), ("run/gdevd.log/no", "")):
            folder = directory / name
            # The path is of the working directory, which gdevd leaves.
            gdevd.environment["GDEV_CPU_DUMP"] = os.path.relpath(folder)
            code, out, err = gdevd.run([gdevd.gdev, "run", gdevd.example("hello")], 60)
            self.assertEqual(code, 0, out + err)
            integ.Case.wait_until(self, lambda: not (directory / "run" / "control.sock").exists(), "gdevd has left")
            if not folder.parent.is_dir():
                continue
            for end, mark in (("ptx", ".entry axpy"), ("ll", "; axpy, block "), ("opt.ll", "; axpy, block "),
                              ("s", "# axpy, block ")):
                texts = [path.read_text() for path in folder.glob(f"[0-9]*[0-9].{end}")]
                self.assertIn(mark, "".join(texts), end)
        self.assertIn("GDEV_CPU_DUMP: cannot write", (directory / "run" / "gdevd.log").read_text())

    def test_one_after_the_other(self):
        """A program that comes while the private daemon of the one before is leaving has one of its own"""
        directory = Path(tempfile.mkdtemp(prefix="gdev-lab-"))
        self.addCleanup(shutil.rmtree, directory, True)
        os.chmod(directory, 0o711)
        gdevd = integ.Gdevd(BUILD)
        gdevd.environment = {**os.environ, "GDEV_RUNTIME_DIR": str(directory / "run"),
                             "GDEV_STATE_DIR": str(directory / "state")}
        command = [gdevd.gdev, "run", gdevd.example("hello")]
        for _ in range(3):
            code, out, err = gdevd.run(command, 60)
            self.assertEqual(code, 0, out + err)
        integ.Case.wait_until(self, lambda: not (directory / "run" / "control.sock").exists(), "the daemon has left")
        # One that takes its time: it does not listen any more, and has the lock.
        leaving = subprocess.Popen([sys.executable, "-c", HOLD, directory / "run" / "gdevd.lock"], stdout=subprocess.PIPE)
        self.assertEqual(leaving.stdout.readline(), b"held\n")
        code, out, err = gdevd.run(command, 60)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(leaving.wait(60), 0)
        leaving.stdout.close()

    def test_exit_status(self):
        """gdev run ends as its program does"""
        with integ.Gdevd(BUILD) as gdevd:
            for command, expected in ((["true"], 0), (["false"], 1), (["sh", "-c", "exit 42"], 42),
                                      (["/nonexistent/program"], 127)):
                code, out, err = gdevd.run([gdevd.gdev, "run", *command], 60)
                self.assertEqual(code, expected, out + err)


class Orderly(integ.Case):
    def test_shutdown(self):
        """gdevd ends at SIGTERM, and takes its idle workers and its sockets along"""
        self.run_verified("hello")
        pid = self.gdevd.process.pid
        self.wait_until(lambda: self.gdevd.status()["workers"]["warm"], "there are warm workers")
        workers = children(pid)
        self.gdevd.process.terminate()
        self.assertEqual(self.gdevd.process.wait(60), 0)
        self.wait_until(lambda: not any(map(alive, workers)),
                        "the workers have left")
        self.assertEqual(list(self.gdevd.runtime.glob("*.sock")), [])


if __name__ == "__main__":
    integ.main()
