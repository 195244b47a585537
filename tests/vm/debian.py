# SPDX-License-Identifier: MIT
"""Debian 12 as it is installed, with its service manager, and gdev as `meson install` puts it there: what a guest.Guest boots.
As root, since the files are root's."""

import os
import subprocess
import tempfile
from pathlib import Path

import lab
import parts

SUITE = "bookworm"
PACKAGES = ("systemd-sysv", "dbus", "python3", "libuv1", "libjansson4", "libinih1", "libseccomp2", "libxxhash0", "libllvm19",
            "liburing2")
UNWANTED = ("doc", "locale", "man")
TOOLS = ("mmdebstrap", "cpio")
# What would wait for devices that the machine does not have.
MASKED = ("serial-getty@ttyS0.service", "getty@tty1.service", "e2scrub_reap.service")
UNIT = """[Unit]
After=multi-user.target
[Service]
Type=idle
ExecStart=/bin/sh -c 'exec >/dev/console 2>&1; echo GUEST-BEGINS; sh /script; echo GUEST-ENDS $?; systemctl poweroff --force'
"""


def packages(cache):
    """The files of Debian's packages; made once, in about two minutes."""
    tar = cache / f"{SUITE}.tar"
    wanted = " ".join(PACKAGES)
    made = tar.with_suffix(".packages")
    if made.exists() and made.read_text() == wanted:
        return tar
    if os.geteuid():
        raise parts.Missing("only root can make a Debian whose files are root's")
    done = subprocess.run(
        [parts.tool("mmdebstrap"), "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}",
         *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNWANTED), SUITE, tar], capture_output=True, text=True)
    if done.returncode:
        raise parts.Missing(f"mmdebstrap cannot make a Debian: {done.stderr.strip()[-500:]}")
    made.write_text(wanted)
    return tar


def system(build):
    """The archive of a machine that executes /script when it has booted."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        subprocess.run(["tar", "-C", root, "-xf", packages(build / "vm-cache"), "--exclude=./dev/*"], check=True)
        done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root],
                              capture_output=True, text=True)
        if done.returncode:
            raise lab.LabError(f"gdev cannot be installed: {done.stdout}{done.stderr}")
        subprocess.run(["ldconfig", "-r", root], check=True)
        units = root / "etc" / "systemd" / "system"
        for name in MASKED:
            (units / name).symlink_to("/dev/null")
        (units / "script.service").write_text(UNIT)
        (units / "multi-user.target.wants").mkdir(exist_ok=True)
        (units / "multi-user.target.wants" / "script.service").symlink_to("../script.service")
        (root / "init").symlink_to("/lib/systemd/systemd")
        names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
        return subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, capture_output=True,
                              check=True).stdout


class Host:
    """What guest.Guest asks of a server: a machine without a GPU of its host's."""

    @staticmethod
    def arguments():
        return ["-m", "3G"]
