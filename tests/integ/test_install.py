# SPDX-License-Identifier: MIT
"""What `meson install` makes, in another place than it was configured for."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import integ
from integ import BUILD, SANITIZED, SOFTWARE, children

SOURCES = Path(__file__).resolve().parent


def output(*command, **arguments):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, **arguments)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@unittest.skipIf(SANITIZED, "programs built here would lack the sanitizer's library")
class Installed(unittest.TestCase):
    def setUp(self):
        if not SOFTWARE or not (BUILD / "build.ninja").exists():
            self.skipTest("installs a build tree, and runs on the software GPU")
        for tool in ("meson", "pkg-config", "cc"):
            if not shutil.which(tool):
                self.skipTest(f"there is no {tool}")
        self.directory = Path(tempfile.mkdtemp(prefix="gdev-lab-"))
        self.addCleanup(shutil.rmtree, self.directory, True)
        os.chmod(self.directory, 0o711)
        self.root = self.install()
        self.environment = {
            **os.environ,
            "GDEV_RUNTIME_DIR": str(self.directory / "run"),
            "GDEV_STATE_DIR": str(self.directory / "state"),
            "HOME": str(self.directory),  # no configuration of the user's
            "PKG_CONFIG_LIBDIR": ":".join({str(path.parent) for path in self.root.rglob("*.pc")}),
        }
        for name in ("GDEV_VGPU", "GDEV_PLUGIN_DIR", "LD_LIBRARY_PATH", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)

    def install(self):
        """Under a prefix of its own, which no file can know."""
        output("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
               self.directory / "staged")
        options = {option["name"]: option["value"] for option in
                   json.loads(output("meson", "introspect", "--buildoptions", BUILD))}
        moved = self.directory / "moved"
        (self.directory / "staged" / options["prefix"].lstrip("/")).rename(moved)
        # A build directory may have been configured otherwise than is the default.
        self.prefix = [] if options["pkgconfig.relocatable"] else [f"--define-variable=prefix={moved}"]
        return moved

    def build(self, name, package, **environment):
        flags = output("pkg-config", *self.prefix, "--cflags", "--libs", package,
                       env={**self.environment, **environment}).split()
        program = self.directory / name
        output("cc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", program, SOURCES / f"{name}.c", *flags)
        return program

    def start(self, *command, **environment):
        gdev = self.root / "bin" / "gdev"
        process = subprocess.Popen([gdev, "run", *command], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**self.environment, **environment})
        self.addCleanup(process.kill)
        return process

    def status(self):
        return json.loads(output(self.root / "bin" / "gdev", "status", "--json",
                                 env=self.environment))

    def executable(self, pid):
        return Path(os.readlink(f"/proc/{pid}/exe")).resolve()

    def test_cuda(self):
        """A program built against an installed tree that was moved runs on that tree alone"""
        process = self.start(self.build("installed", "gdev-cuda"))
        line = process.stdout.readline()
        if not line:
            self.fail(process.communicate()[1])
        value, library = line.split(maxsplit=1)
        self.assertEqual(value, "42")
        self.assertIn(self.root.resolve(), Path(library.strip()).resolve().parents)
        gdevd = self.status()["pid"]
        self.assertIn(self.root.resolve(), self.executable(gdevd).parents)
        if os.geteuid() == 0:  # others may not look at workers
            for worker in children(gdevd):
                self.assertIn(self.root.resolve(), self.executable(worker).parents)
                maps = Path(f"/proc/{worker}/maps").read_text()
                self.assertIn(f"{self.root.resolve()}/", maps.split("libgdev-cpu.so")[0])
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)

    def test_uninstalled(self):
        """Before anything is installed, a program is built against the build tree"""
        program = self.build("installed", "gdev-cuda", PKG_CONFIG_PATH=BUILD / "meson-uninstalled")
        process = self.start(program)
        out, err = process.communicate(timeout=60)
        self.assertEqual(out.split()[:1], ["42"], err)

    def test_gdev(self):
        """So does one that uses libgdev itself"""
        program = self.build("waits", "gdev")
        libraries = {str(path.parent) for path in self.root.rglob("libgdev.so.0")}
        process = self.start(program, "host-function", LD_LIBRARY_PATH=":".join(libraries))
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, out + err)


if __name__ == "__main__":
    integ.main()
