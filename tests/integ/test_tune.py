# SPDX-License-Identifier: MIT
"""gdev tune: what it writes is what clients of the next gdevd copy with."""

import configparser

import integ
from integ import DEVICE, PROGRAMS


class Tune(integ.Case):
    KEYS = ("inline_bytes", "chunk_bytes", "copy_threads")

    def in_use(self):
        code, out, err = self.gdevd.run([PROGRAMS / "tuned"], timeout=60)
        self.assertEqual(code, 0, out + err)
        return dict(zip(self.KEYS, out.split()))

    def section(self):
        config = configparser.ConfigParser()
        config.read(self.gdevd.directory / "gdev.conf")
        return dict(config[f"device {DEVICE}"])

    def restart(self):
        self.gdevd.stop()
        self.gdevd.start()

    def tune(self, *arguments):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "tune", *arguments], timeout=120)
        self.assertEqual(code, 0, out + err)
        return out

    def test_tune(self):
        """What gdev tune writes is used after a restart, and the rest of the file stays"""
        path = self.gdevd.directory / "gdev.conf"
        before = path.read_text() + "# the end\n"
        path.write_text(before)
        self.tune("--write", path)
        self.assertTrue(path.read_text().startswith(before))
        wanted = self.section()
        self.assertEqual(set(wanted), set(self.KEYS))
        self.restart()
        self.assertEqual(self.in_use(), wanted)

    def test_configured(self):
        """Clients copy as the section of their device says, and right"""
        path = self.gdevd.directory / "gdev.conf"
        wanted = {"inline_bytes": "12288", "chunk_bytes": str(192 << 10), "copy_threads": "3"}
        path.write_text(path.read_text() + f"[device {DEVICE}]\n" +
                        "".join(f"{key} = {value}\n" for key, value in wanted.items()) +
                        "[device cuda:7]\ncopy_threads = 1\n")
        self.assertNotEqual(self.in_use(), wanted)
        self.restart()
        self.assertEqual(self.in_use(), wanted)

    def test_errors(self):
        """Without a gdevd, or without the right to write, it says so before it measures"""
        code, _, err = self.gdevd.run([self.gdevd.gdev, "tune", "--write", "/dev/null/gdev.conf"])
        self.assertEqual(code, 1)
        self.assertIn("cannot write /dev/null/gdev.conf", err)
        code, _, err = self.gdevd.run([self.gdevd.gdev, "tune", "--dry-run", "--vgpu", "nobody"])
        self.assertEqual(code, 1)
        self.assertIn("no such virtual GPU", err)
        self.gdevd.stop()
        code, _, err = self.gdevd.run([self.gdevd.gdev, "tune"])
        self.assertEqual(code, 3)
        self.assertIn("no gdevd is running", err)


if __name__ == "__main__":
    integ.main()
