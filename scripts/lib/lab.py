# SPDX-License-Identifier: MIT
"""A gdevd of one's own: for the demo, the tests and the benchmarks.

with Gdevd(build) as gdevd starts the daemon of a build tree on the software GPU (or on what
GDEV_TEST_DEVICE names, such as cuda:0), with a temporary directory for its sockets and its cache, and on
the way out, whatever the reason, ends it and everything that was started through it, and removes the
directory. Processes get their own sessions, so that Ctrl-C
reaches only the script, which then cleans up in order.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEVICE = os.environ.get("GDEV_TEST_DEVICE") or "cpu"
SOFTWARE = DEVICE == "cpu"


class LabError(Exception):
    """Something of ours did not work; the text says what."""


def end_on_signals():
    """Makes SIGTERM and SIGHUP end the script as Ctrl-C does: through its `finally` clauses."""

    def stop(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


def kill_group(process):
    """Ends a process that start() made, and its descendants that are still in its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


class Gdevd:
    def __init__(self, build, config=None, vgpus=None, environment=None):
        """config: keys of [gdevd]; vgpus: {name: keys of [vgpu name]}."""
        self.build = Path(build).resolve()
        self.config = {"device": DEVICE, **(config or {})}
        self.vgpus = vgpus or {}
        self.extra_environment = environment or {}
        self.process = None
        self.children = []

    # -- life ---------------------------------------------------------------------------------------

    def __enter__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="gdev-lab-"))
        # Workers may run as another user, and must be able to come back to workers.sock.
        os.chmod(self.directory, 0o711)
        self.runtime = self.directory / "run"
        self.environment = {
            **os.environ,
            "GDEV_RUNTIME_DIR": str(self.runtime),
            "GDEV_STATE_DIR": str(self.directory / "state"),
            **self.extra_environment,
        }
        self.environment.pop("GDEV_VGPU", None)
        try:
            self.write_config()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_reason):
        for child in self.children:
            if child.poll() is None:
                kill_group(child)
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def write_config(self):
        lines = ["[gdevd]"] + [f"{key} = {value}" for key, value in self.config.items()]
        for name, keys in self.vgpus.items():
            keys = keys or {"mode": "0660"}  # a section without keys is none
            lines += [f"[vgpu {name}]"] + [f"{key} = {value}" for key, value in keys.items()]
        (self.directory / "gdev.conf").write_text("\n".join(lines) + "\n")

    def start(self, timeout=60):
        """Starts gdevd (again) and waits until it answers."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                # A script that is killed takes its gdevd along.
                ["setpriv", "--pdeathsig", "TERM", "--", self.build / "gdevd" / "gdevd",
                 "--foreground", "--config", self.directory / "gdev.conf"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment,
                start_new_session=True)
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise LabError(f"gdevd ended with {self.process.returncode}:\n{self.log()}")
            if subprocess.run([self.gdev, "status", "--json"], env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        raise LabError(f"gdevd does not answer after {timeout} seconds:\n{self.log()}")

    def stop(self, timeout=60):
        """Ends gdevd as a service manager does; what is left after `timeout` is killed."""
        if not self.process:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        kill_group(self.process)

    # -- use ----------------------------------------------------------------------------------------

    @property
    def gdev(self):
        return self.build / "cli" / "gdev"

    @property
    def log_path(self):
        return self.directory / "gdevd.log"

    def log(self, lines=30):
        try:
            text = self.log_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(text[-lines:])

    def example(self, name):
        return self.build / "examples" / name

    def popen(self, command, environment=None, **arguments):
        """Starts a program with this gdevd's environment; it is ended with the lab."""
        arguments.setdefault("stdin", subprocess.DEVNULL)
        child = subprocess.Popen([str(word) for word in command],
                                 env={**self.environment, **(environment or {})},
                                 start_new_session=True, **arguments)
        self.children.append(child)
        return child

    def run(self, command, timeout=300, environment=None):
        """Runs a program to its end: (exit status, stdout, stderr)."""
        child = self.popen(command, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
        try:
            out, err = child.communicate(timeout=timeout)
        except BaseException:
            child.terminate()  # it may be a test, with a gdevd of its own to end
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                pass
            kill_group(child)
            raise
        finally:
            self.children.remove(child)
        return child.returncode, out, err

    def context_bytes(self, timeout=60):
        """What a context takes of the device's memory, as a warm worker has one."""
        end = time.monotonic() + timeout
        while not (workers := self.status()["workers"])["warm"]:
            if time.monotonic() > end:
                raise LabError(f"no worker is ready after {timeout} seconds:\n{self.log()}")
            time.sleep(0.1)
        return workers["warm_bytes"] // workers["warm"]

    def status(self):
        code, out, err = self.run([self.gdev, "status", "--json"], timeout=60)
        if code:
            raise LabError(f"gdev status failed: {err}")
        return json.loads(out)
