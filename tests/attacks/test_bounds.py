# SPDX-License-Identifier: MIT
"""Attacks on the machine's memory: small images that would have a worker take much of it."""

import os
import re
import struct
import threading
import time
import unittest
from pathlib import Path

import integ

MIB = 1 << 20
PTX = ".version 6.0\n.target sm_70\n.address_size 64\n"
# A thread writes to all of its local memory.
LOCAL = """.visible .entry attack() {
.reg .u64 %%a, %%e;
.reg .pred %%p;
.local .align 16 .b8 big[%d];
mov.u64 %%a, big;
add.u64 %%e, %%a, %d;
again:
st.local.u64 [%%a], %%e;
add.u64 %%a, %%a, 4096;
setp.lt.u64 %%p, %%a, %%e;
@%%p bra again;
ret;
}
"""
PROGRAM = integ.BUILD / "tests" / "attacks" / "bounds"


def worker_bytes(pid):
    """What a process has of the machine's memory: pages of its own, and of the files in memory that it has open."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = 1024 * int(re.search(r"VmRSS:\s+(\d+)", status)[1])
        for fd in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(fd.path).startswith("/memfd:"):
                total += os.stat(fd.path).st_blocks * 512
        return total
    except (FileNotFoundError, ProcessLookupError, TypeError):
        return 0


class Watch:
    """The most that a child of a process has had, while this is entered."""

    def __init__(self, parent):
        self.parent, self.most, self.stopping = parent, 0, False
        self.thread = threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join()

    def look(self):
        while not self.stopping:
            for pid in integ.children(self.parent):
                self.most = max(self.most, worker_bytes(pid))
            time.sleep(0.02)


@unittest.skipUnless(integ.SOFTWARE, "what a worker of the software GPU takes is this machine's")
class Bounds(integ.Case):
    # Of a context, and of what code takes that these images are compiled to.
    LIMIT = 700 * MIB
    # A sanitizer takes memory of its own, and ends a process that cannot have some.
    config = {"device_memory": "256M", "worker_memory": "2G" if integ.SANITIZED else "200M", "host_swap": "64M"}

    def attack(self, image, *arguments):
        """The words of the program, by what it did; and a victim's session is well meanwhile."""
        path = self.gdevd.directory / "image"
        path.write_bytes(image if isinstance(image, bytes) else image.encode())
        with Watch(self.gdevd.process.pid) as watch:
            _, out, self.said = self.gdev_run(
                PROGRAM, path, *arguments, timeout=120, environment={"GDEV_LOG": "failed"})
        self.run_verified("madd")
        self.assertLess(watch.most, self.LIMIT)
        words = dict(line.split() for line in out.splitlines())
        self.assertEqual(words.get("open"), "CUDA_SUCCESS", out + self.said)
        return words

    def test_variables(self):
        """Variables of a module are paid for before they are taken"""
        many = "".join(f".global .b8 x{i}[1073741824];\n" for i in range(12))
        self.assertEqual(self.attack(PTX + many)["load"], "CUDA_ERROR_OUT_OF_MEMORY")

    def test_initial_values(self):
        """Nor are variables with first values taken"""
        many = "".join(f".global .b8 x{i}[1073741824] = {{1}};\n" for i in range(12))
        self.assertEqual(self.attack(PTX + many)["load"], "CUDA_ERROR_OUT_OF_MEMORY")

    def test_local_memory_of_a_thread(self):
        """A kernel whose threads want more local memory than CUDA gives them is refused when it is loaded"""
        words = self.attack(PTX + LOCAL % (8 << 20, 8 << 20), 2, 1024)
        self.assertEqual(words["load"], "CUDA_ERROR_INVALID_PTX")

    @unittest.skipIf(integ.SANITIZED, "the sanitizer ends a process that cannot have memory")
    def test_local_memory(self):
        """Local memory of many threads is a worker's own, which is bounded: the launch fails"""
        words = self.attack(PTX + LOCAL % (512 << 10, 512 << 10), 8, 1024)
        self.assertEqual((words["launch"], words["run"]), ("CUDA_SUCCESS", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"))
        self.assertIn("worker_memory", self.said)

    @unittest.skipIf(integ.SANITIZED, "the sanitizer ends a process that cannot have memory")
    def test_code(self):
        """What a compiler takes is bounded: a module that takes more cannot be loaded"""
        code = ".visible .entry attack() {\n.reg .u32 %a;\n" + "add.u32 %a,%a,1;\n" * 3_000_000 + "ret;\n}\n"
        self.assertEqual(self.attack(PTX + code)["load"], "CUDA_ERROR_OUT_OF_MEMORY")
        self.assertIn("worker_memory", self.said)

    def all_are_warm(self):
        workers = self.gdevd.status()["workers"]
        return workers["warm"] and workers["warm"] == workers["total"]

    def test_workers_go_first(self):
        """A worker's own memory has a limit before a client can be there, and when there is none workers go first"""
        self.wait_until(self.all_are_warm, "each worker is ready")
        workers = [pid for pid in integ.children(self.gdevd.process.pid)
                   if integ.read_if_there(f"/proc/{pid}/comm").startswith("gdev-worker")]
        self.assertTrue(workers)
        for pid in workers:
            limits = Path(f"/proc/{pid}/limits").read_text()
            self.assertRegex(limits, r"Max data size +\d+ +\d+ +bytes")
            self.assertGreaterEqual(int(Path(f"/proc/{pid}/oom_score_adj").read_text()), 500)


if __name__ == "__main__":
    integ.main()
