# SPDX-License-Identifier: MIT
"""Attacks on what gdevd keeps on disks: the cache of compiled code, and the runtime directory."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
MIB = 1 << 20


def on_disk(directory):
    """Blocks of all files, and one for the name and inode of each."""
    return sum(path.lstat().st_blocks * 512 + 4096 for path in Path(directory).rglob("*") if path.is_file())


class Worker(harness.GdevdTest):
    """A worker in its client's hands."""

    def put(self, client, key, size):
        _, _, status, _, fds = client.ask(wire.message(wire.CACHE_PUT, wire.CACHE_BODY.pack(key, size), 4))
        return status, fds

    def commit(self, client, key, size):
        return client.ask(wire.message(wire.CACHE_COMMIT, wire.CACHE_BODY.pack(key, size), 4))[2]

    def test_small_files_take_no_more_of_the_disk_than_the_limit(self):
        """Many small files take no more of the disk than the cache's limit"""
        self.start("--set", "cache_size=1M")
        client = self.client()
        for number in range(600):
            key = number.to_bytes(16, "little")
            status, fds = self.put(client, key, 1)
            self.assertEqual(status, 0)
            os.write(fds[0], b"x")
            os.close(fds[0])
            self.assertEqual(self.commit(client, key, 1), 0)
        self.assertLessEqual(on_disk(self.directory + "/state/cache"), MIB)

    def test_no_more_is_written_than_was_admitted(self):
        """Whoever may write to the cache writes no more than was admitted, and to no file"""
        self.start("--set", "cache_size=4M")
        client, key = self.client(), b"k" * 16
        self.assertEqual(self.put(client, key, 3 * MIB)[0], -122)  # EDQUOT
        status, fds = self.put(client, key, MIB)
        self.assertEqual(status, 0)
        for attempt in (lambda: os.ftruncate(fds[0], 8 * MIB), lambda: os.pwrite(fds[0], b"x", MIB),
                        lambda: os.posix_fallocate(fds[0], 0, 8 * MIB)):
            self.assertRaises(OSError, attempt)
        self.assertEqual(self.commit(client, key, MIB), 0)
        os.pwrite(fds[0], b"late", 0)
        os.close(fds[0])
        self.assertLessEqual(on_disk(self.directory + "/state/cache"), MIB + 4 * 4096)
        _, _, _, _, fds = client.ask(wire.message(wire.CACHE_GET, wire.CACHE_BODY.pack(key, 0), 4))
        self.assertEqual(os.pread(fds[0], 4, 0), bytes(4))
        os.close(fds[0])


@unittest.skipUnless(integ.SOFTWARE, "the code of the software GPU is damaged")
class Damage(integ.Case):
    def test_a_damaged_file_is_replaced(self):
        """A damaged file of the cache is noticed, and replaced by whoever compiles it again"""
        cache = self.gdevd.directory / "state" / "cache"
        self.run_verified("madd")
        self.wait_quiet()  # what its worker had compiled is in the cache
        files = [path for path in cache.rglob("*") if path.is_file()]
        self.assertTrue(files)
        whole = {path: path.read_bytes() for path in files}
        for path, text in whole.items():
            middle = len(text) // 2
            path.write_bytes(text[:middle] + bytes([text[middle] ^ 1]) + text[middle + 1:])
        self.run_verified("madd")
        self.wait_until(lambda: all(path.read_bytes() == text for path, text in whole.items()),
                        "the files are as they were")


@unittest.skipIf(os.geteuid() != 0, "another user is needed")
@unittest.skipIf(os.path.exists("/run/gdev"), "the system has a gdevd, which would be found first")
@unittest.skipUnless(integ.SOFTWARE, "a user's own gdevd is tried on the software GPU")
class Directory(unittest.TestCase):
    VICTIM = 20000 + os.getpid() % 20000  # the test may run twice at once
    ATTACKER = VICTIM + 20000

    def as_victim(self, *command):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("GDEV", "XDG"))}
        environment["HOME"] = "/nonexistent"
        return subprocess.run([str(word) for word in command], env=environment, user=self.VICTIM,
                              group=self.VICTIM, extra_groups=[], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, cwd="/")

    def tearDown(self):
        subprocess.run(f"rm -rf /tmp/gdev-{self.VICTIM} /tmp/gdev-{self.VICTIM}-*", shell=True, check=True)

    def test_a_directory_of_that_name_keeps_nobody_from_running(self):
        """A directory that another user has made under the name of one's own keeps nobody from running"""
        taken = f"/tmp/gdev-{self.VICTIM}"
        for mode in (0o700, 0o777):
            os.mkdir(taken)
            os.chown(taken, self.ATTACKER, self.ATTACKER)
            os.chmod(taken, mode)
            gdev = integ.BUILD / "cli" / "gdev"
            # What the program starts finds that gdevd by itself, too.
            done = self.as_victim(gdev, "run", "env", "-u", "GDEV_RUNTIME_DIR", gdev, "status")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            self.assertEqual(os.listdir(taken), [])
            os.rmdir(taken)


if __name__ == "__main__":
    integ.main()
