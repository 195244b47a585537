# SPDX-License-Identifier: MIT
"""A virtual machine of one's own: Debian's cloud kernel and an initramfs with the module, the library and programs of a
build tree, under QEMU without acceleration (KVM is not needed). What a guest does is a shell script; what it prints comes
back."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import lab
import parts

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/gdev/cli LD_LIBRARY_PATH=/gdev/lib/cuda:/gdev/lib/libgdev:/gdev/libs HOME=/root
echo 3 >/proc/sys/kernel/printk
echo GUEST-BEGINS
sh /script
echo GUEST-ENDS $?
poweroff -f
"""


# Executes what is written to the console, line by line.
SHELL = """stty -echo; echo LISTENS
while read -r line; do eval "$line"; echo "DONE $?"; done
"""


# For scripts: what a command prints, and its exit status, are said of its name.
RUN = """run() { # NAME COMMAND...
    name=$1; shift; echo "<<$name"; "$@" 2>&1; echo ">>$?"
}
"""


def said(test, name):
    """(exit status, output) of what the script that has printed test.output ran as `run NAME …`."""
    match = re.search(rf"^<<{re.escape(name)}\n(.*?)^>>(\d+)$", test.output, re.M | re.S)
    test.assertIsNotNone(match, f"{name} is not in what the guest said:\n{test.output[-3000:]}")
    return int(match[2]), match[1]


def archive(files):
    """An initramfs of {path: (mode, bytes, or a path here)}, in the format `newc` of cpio."""
    folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    entries = [(name, 0o40755, b"") for name in sorted(folders)]
    entries += [(name, 0o100000 | mode, content if isinstance(content, bytes) else Path(content).read_bytes())
                for name, (mode, content) in files.items()]
    out = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
        words = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % word for word in words) + name.encode() + b"\0"
        out += bytes(-len(out) % 4) + content
        out += bytes(-len(out) % 4)
    return out


def image(build, made_of, programs):
    """The files of a machine made of such parts. programs: {path in the guest: path here}."""
    files = {"init": (0o755, INIT.encode()), "bin/busybox": (0o755, made_of.busybox), "gdev.ko": (0o644, made_of.module)}
    own = ("lib/cuda/libcuda.so.1", "lib/libgdev/libgdev.so.0", "cli/gdev")
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(str(build / Path(name).parent) for name in own)}
    for path, here in {**programs, **{f"gdev/{name}": build / name for name in own}}.items():
        files[path] = (0o755, here)
        for library in parts.libraries(here, environment):
            name = Path(library).name  # the linker's is in each program
            files[library.lstrip("/") if name.startswith("ld-linux") else f"gdev/libs/{name}"] = (0o755, library)
    return files


class Server:
    """`gdev vm serve`, as a context."""

    def __init__(self, gdevd, *options, name="vm"):
        self.gdevd, self.options = gdevd, options
        self.socket = gdevd.directory / name

    def __enter__(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", self.gdevd.gdev, "vm", "serve", "--socket", self.socket,
                 *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.gdevd.environment, start_new_session=True)
        end = time.monotonic() + 60
        while not self.socket.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                raise lab.LabError(f"gdev vm serve does not begin:\n{self.log()}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_reason):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        lab.kill_group(self.process)

    @property
    def log_path(self):
        return self.socket.with_suffix(".log")

    def log(self):
        return self.log_path.read_text(errors="replace")

    def arguments(self):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "vm", "args", "--socket", self.socket])
        if code:
            raise lab.LabError(err)
        return out.split()


class Guest:
    """A machine that executes a script. start() it, and finish() it, or kill() it. system: an archive of what there is besides
    `files`. reboots: it may, else it ends then."""

    def __init__(self, server, made_of, files, script, folder, system=b"", reboots=False):
        self.log_path = Path(folder) / "console.log"
        self.monitor_path = Path(folder) / "monitor"
        initramfs = Path(folder) / "initramfs"
        initramfs.write_bytes(system + archive({**files, "script": (0o644, script.encode())}))
        # After cmpxchg16b QEMU 7.2 has wrong flags sometimes: Linux 6.12 ends in a double fault.
        self.command = [*parts.NICE, *made_of.qemu, "-accel", "tcg,thread=multi", "-cpu", "max,-cx16", "-smp", "2",
                        "-nographic", *([] if reboots else ["-no-reboot"]), "-nodefaults", "-chardev", "stdio,id=console,signal=off",
                        "-serial", "chardev:console", "-monitor", f"unix:{self.monitor_path},server=on,wait=off",
                        "-kernel", str(made_of.kernel), "-initrd", str(initramfs),
                        "-append", "console=ttyS0 panic=-1 quiet random.trust_cpu=on", *server.arguments()]
        self.process = None

    def start(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.command], stdin=subprocess.PIPE,
                                            stdout=log, stderr=log, start_new_session=True)

    def console(self):
        return self.log_path.read_text(errors="replace").replace("\r", "")

    def wait_for(self, text, seconds, times=1):
        """Until the guest has printed it, so often."""
        end = time.monotonic() + seconds
        while self.console().count(text) < times:
            if self.process.poll() is not None or time.monotonic() > end:
                raise lab.LabError(f"the guest has not said {text!r}:\n{self.console()[-4000:]}")
            time.sleep(0.05)

    def obey(self):
        """Waits until a guest whose script is SHELL listens."""
        self.wait_for("LISTENS", 300)

    def ask(self, command, seconds=300):
        """What a command prints in a guest whose script is SHELL."""
        begin, end = len(self.console()), time.monotonic() + seconds
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        while True:
            said = self.console()[begin:]
            done = re.search(r"^DONE (\d+)$", said, re.M)
            if done:
                break
            if self.process.poll() is not None or time.monotonic() > end:
                raise lab.LabError(f"the guest has not done {command!r}:\n{said[-4000:]}")
            time.sleep(0.01)
        if done[1] != "0":
            raise lab.LabError(f"{command!r} has failed in the guest:\n{said[-4000:]}")
        return said[:done.start()]

    def wake(self, text, seconds):
        """Wakes a guest that suspends itself, until it has printed the text. One that is awake does not notice."""
        end = time.monotonic() + seconds
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.monitor_path))
            while text not in self.console():
                if self.process.poll() is not None or time.monotonic() > end:
                    raise lab.LabError(f"the guest has not said {text!r}:\n{self.console()[-4000:]}")
                monitor.send(b"system_wakeup\n")
                monitor.recv(4096)
                time.sleep(0.5)

    def finish(self, seconds):
        """What the script printed, when it has ended by itself. A guest that was suspended once does not always power off."""
        self.wait_for("GUEST-ENDS", seconds)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.kill()
        console = self.console()
        return console.split("GUEST-BEGINS", 1)[1].rsplit("GUEST-ENDS", 1)[0]

    def kill(self):
        if self.process:
            lab.kill_group(self.process)
