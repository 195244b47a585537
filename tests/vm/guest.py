# SPDX-License-Identifier: MIT
"""A virtual machine of one's own: Debian's cloud kernel and an initramfs with the module, the library and programs of a
build tree, under QEMU without acceleration (KVM is not needed).

The kernel is the package that belongs to the installed linux-headers; it is unpacked into build/vm, not installed. What a
guest does is a shell script; what it prints comes back."""

import io
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import lab

PACKAGES = ("qemu-system-x86", "linux-headers-cloud-amd64", "busybox-static", "cpio", "kmod")
NICE = ("nice", "-n", "10")

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/gdev/cli LD_LIBRARY_PATH=/gdev/lib/cuda:/gdev/lib/libgdev HOME=/root
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


class Missing(Exception):
    """Something is not installed; the text says what."""


def headers():
    """The version of the kernel whose headers are installed."""
    found = sorted(Path("/lib/modules").glob("*-cloud-amd64/build"))
    if not found:
        raise Missing("the package linux-headers-cloud-amd64 is not installed")
    return found[-1].parent.name


def tool(name):
    path = shutil.which(name)
    if not path:
        raise Missing(f"{name} is not installed: scripts/test vm needs the packages {' '.join(PACKAGES)}")
    return path


def kernel(cache, version):
    """The bootable image, out of its package."""
    image = cache / f"vmlinuz-{version}"
    if image.exists():
        return image
    cache.mkdir(parents=True, exist_ok=True)
    package = f"linux-image-{version}"
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        done = subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, text=True)
        files = list(Path(folder).glob("*.deb"))
        if done.returncode or not files:
            raise Missing(f"the package {package} cannot be downloaded: {done.stderr.strip()}")
        subprocess.run(["dpkg-deb", "-x", files[0], folder], check=True)
        shutil.move(next(Path(folder).glob("boot/vmlinuz-*")), image)
    return image


SOURCE = "linux-source-6.1"
DEBUG_CONFIG = Path(__file__).parent / "debug.config"


def debug_tree(cache):
    """A kernel's tree that has been built with debug.config, out of Debian's package of the source: once, for half an hour of a
    processor or less."""
    tree = cache / SOURCE
    built = tree / "built.config"
    if built.exists() and built.read_text() == DEBUG_CONFIG.read_text():
        return tree
    for name in ("flex", "bison", "bc"):
        if not shutil.which(name):
            raise Missing(f"{name} is not installed: a kernel is built with flex, bison, bc and libelf-dev")
    if not tree.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            done = subprocess.run(["apt-get", "download", SOURCE], cwd=folder, capture_output=True, text=True)
            files = list(Path(folder).glob("*.deb"))
            if done.returncode or not files:
                raise Missing(f"the package {SOURCE} cannot be downloaded: {done.stderr.strip()}")
            subprocess.run(["dpkg-deb", "-x", files[0], folder], check=True)
            subprocess.run(["tar", "xf", Path(folder) / "usr" / "src" / f"{SOURCE}.tar.xz"], cwd=folder, check=True)
            shutil.move(Path(folder) / SOURCE, tree)
    for command in (["make", "-s", "tinyconfig"],
                    ["scripts/kconfig/merge_config.sh", "-m", ".config", DEBUG_CONFIG],
                    ["make", "-s", "olddefconfig"], ["make", "-s", f"-j{os.cpu_count()}", "bzImage", "modules"]):
        done = subprocess.run([*NICE, *command], cwd=tree, capture_output=True, text=True)
        if done.returncode:
            raise lab.LabError(f"the kernel does not build:\n{done.stderr[-3000:]}")
    have = (tree / ".config").read_text()
    for wanted in re.findall(r"^CONFIG_\w+=.*$", DEBUG_CONFIG.read_text(), re.M):
        if f"{wanted}\n" not in have:
            raise lab.LabError(f"the kernel is not built with {wanted}")
    built.write_text(DEBUG_CONFIG.read_text())
    return tree


def module(cache, version, tree=None):
    """Builds the module beside the tree, for an installed kernel's headers or a kernel's tree; a warning is an error."""
    folder = cache / ("kmod-debug" if tree else "kmod")
    shutil.copytree(lab.ROOT / "kmod", folder / "kmod", dirs_exist_ok=True)
    shutil.copytree(lab.ROOT / "proto", folder / "proto", dirs_exist_ok=True)
    done = subprocess.run([*NICE, "make", "-C", folder / "kmod", f"BUILD={tree}" if tree else f"KERNEL={version}"], capture_output=True, text=True)
    text = done.stdout + done.stderr
    if done.returncode or re.search(r"warning:", text):
        raise lab.LabError(f"the module does not build:\n{text[-3000:]}")
    return folder / "kmod" / "gdev.ko"


def libraries(program, environment):
    """What the dynamic linker opens for a program, the linker included: {path in the guest: path here}."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, env=environment).stdout
    found = {}
    for line in out.splitlines():
        match = re.match(r"\s*(?:\S+ => )?(/\S+) \(0x", line)
        if match:
            found[match[1]] = match[1]
    return found


class Image:
    """Files of an initramfs."""

    def __init__(self):
        self.files = {}  # path in the guest, without the first slash: (mode, bytes, or a path here)

    def add(self, path, content, mode=0o755):
        self.files[path.lstrip("/")] = (mode, content)

    def write(self, path):
        with tempfile.TemporaryDirectory() as folder:
            for name, (mode, content) in self.files.items():
                file = Path(folder) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(content, bytes):
                    file.write_bytes(content)
                else:
                    shutil.copy(content, file)
                file.chmod(mode)
            names = subprocess.run(["find", "."], cwd=folder, capture_output=True, check=True).stdout
            with open(path, "wb") as out:
                subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=folder, input=names, stdout=out, check=True)


def base_image(build, version, cache, programs, tree=None):
    """programs: {path in the guest: path here}. tree: as of module()."""
    image = Image()
    library_folders = (build / "lib" / "cuda", build / "lib" / "libgdev")
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, library_folders))}
    image.add("init", INIT.encode())
    image.add("bin/busybox", tool("busybox"))
    image.add("gdev.ko", module(cache, version, tree), 0o644)
    image.add("gdev/lib/cuda/libcuda.so.1", build / "lib" / "cuda" / "libcuda.so.1")
    image.add("gdev/lib/libgdev/libgdev.so.0", (build / "lib" / "libgdev" / "libgdev.so.0").resolve())
    image.add("gdev/cli/gdev", build / "cli" / "gdev")
    for path, here in {**programs, "gdev/cli/gdev": build / "cli" / "gdev"}.items():
        image.add(path, here)
        for there, file in libraries(here, environment).items():
            if not there.startswith(str(build)):
                image.add(there, os.path.realpath(file))
    return image


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
    """A machine that executes a script. start() it, and finish() it, or kill() it."""

    def __init__(self, server, kernel_image, image, script, folder):
        self.log_path = Path(folder) / "console.log"
        initramfs = Path(folder) / "initramfs"
        image.add("script", script.encode(), 0o644)
        image.write(initramfs)
        self.command = [*NICE, tool("qemu-system-x86_64"), "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2",
                        "-nographic", "-no-reboot", "-nodefaults", "-chardev", "stdio,id=console,signal=off",
                        "-serial", "chardev:console",
                        "-kernel", str(kernel_image), "-initrd", str(initramfs),
                        "-append", "console=ttyS0 panic=-1 quiet random.trust_cpu=on", *server.arguments()]
        self.process = None

    def start(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.command], stdin=subprocess.PIPE,
                                            stdout=log, stderr=log, start_new_session=True)

    def console(self):
        return self.log_path.read_text(errors="replace").replace("\r", "")

    def wait_for(self, text, seconds):
        """Until the guest has printed it."""
        end = time.monotonic() + seconds
        while text not in self.console():
            if self.process.poll() is not None or time.monotonic() > end:
                raise lab.LabError(f"the guest has not said {text!r}:\n{self.console()[-4000:]}")
            time.sleep(0.05)

    def obey(self):
        """Waits until a guest whose script is SHELL listens."""
        self.wait_for("LISTENS", 120)

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
