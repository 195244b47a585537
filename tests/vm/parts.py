# SPDX-License-Identifier: MIT
"""What virtual machines are made of: QEMU, a kernel, the module for it, busybox. Of this machine's packages; or of a bundle that
carries them to a machine which has none of these:

  python3 tests/vm/parts.py BUILD FOLDER    fills the folder `guest` of a bundle

The kernel is the package that belongs to the installed linux-headers; it is unpacked into BUILD/vm-cache, not installed."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

PACKAGES = ("qemu-system-x86", "linux-headers-cloud-amd64", "busybox-static", "kmod", "sparse", "mmdebstrap", "cpio")
NICE = ("nice", "-n", "10")
# What QEMU opens besides itself, from where its program finds it.
QEMU_FILES = ("share/seabios/bios-256k.bin", "share/qemu/linuxboot_dma.bin", "share/qemu/kvmvapic.bin",
              "lib/x86_64-linux-gnu/qemu/accel-tcg-x86_64.so")
# Every machine has these.
GLIBC = re.compile(r"(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*|libgcc_s)\.so")


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
    done = subprocess.run([*NICE, "make", "-C", folder / "kmod", "C=2", f"BUILD={tree}" if tree else f"KERNEL={version}"],
                          capture_output=True, text=True)
    text = done.stdout + done.stderr
    if done.returncode or re.search(r"warning:", text):
        raise lab.LabError(f"the module does not build:\n{text[-3000:]}")
    return folder / "kmod" / "gdev.ko"


class Parts(NamedTuple):
    """qemu: the command's beginning. module: gdev.ko for the kernel."""

    qemu: list
    kernel: Path
    module: Path
    busybox: Path


def installed(build, debug=False):
    """Of this machine's packages. debug: with a kernel of debug.config."""
    cache = build / "vm-cache"
    cache.mkdir(exist_ok=True)
    version = headers()
    tree = debug_tree(cache) if debug else None
    return Parts([tool("qemu-system-x86_64")], tree / "arch/x86/boot/bzImage" if tree else kernel(cache, version),
                 module(cache, version, tree), Path(tool("busybox")))


def carried(folder):
    """Of the folder that carry() has filled."""
    qemu = folder / "qemu"
    if not qemu.exists():
        with tarfile.open(folder / "qemu.tar.xz") as archive:
            archive.extractall(qemu)
    return Parts(["env", f"LD_LIBRARY_PATH={qemu / 'libs'}", str(qemu / "bin" / "qemu-system-x86_64")],
                 folder / "vmlinuz", folder / "gdev.ko", folder / "busybox")


def is_carried(build):
    return (build / "guest").exists()


def find(build, debug=False):
    return carried(build / "guest") if is_carried(build) and not debug else installed(build, debug)


def require(build):
    """Raises Missing if find() would."""
    if not is_carried(build):
        headers()
        for name in ("qemu-system-x86_64", "busybox", "make", "sparse"):
            tool(name)


def carry(build, folder):
    """Fills the folder. QEMU takes its BIOS and its modules from beside its program, wherever that is."""
    parts = installed(build)
    folder.mkdir(parents=True)
    shutil.copy(parts.kernel, folder / "vmlinuz")
    shutil.copy(parts.module, folder / "gdev.ko")
    shutil.copy(parts.busybox, folder / "busybox")
    subprocess.run(["strip", "--strip-debug", folder / "gdev.ko"], check=True)
    program = Path(parts.qemu[0])
    files = [program.parent.parent / name for name in QEMU_FILES]
    with tarfile.open(folder / "qemu.tar.xz", "w:xz", dereference=True) as archive:
        archive.add(program, "bin/qemu-system-x86_64")
        for name, path in zip(QEMU_FILES, files):
            archive.add(path, name)
        for library in sorted(set().union(*map(libraries, (program, files[-1])))):
            if not GLIBC.search(library):
                archive.add(library, f"libs/{Path(library).name}")


def libraries(program, environment=None):
    """The paths of what the dynamic linker opens for a program, the linker included."""
    out = subprocess.run(["ldd", program], capture_output=True, text=True, env=environment).stdout
    return re.findall(r"^\s*(?:\S+ => )?(/\S+) \(0x", out, re.M)


if __name__ == "__main__":
    try:
        carry(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
    except Missing as missing:
        sys.exit(f"parts: {missing}")
