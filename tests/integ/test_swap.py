# SPDX-License-Identifier: MIT
"""Programs that need more device memory than there is, together and alone."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

import integ
from integ import PROGRAMS, SOFTWARE

SWAP = PROGRAMS / "swap"
AT_ONCE = {"test_together": 4, "test_killed": 4, "test_fill": 3, "test_pieces": 3, "test_cause": 2,
           "test_together_in_files": 4, "test_pieces_in_files": 3, "test_fill_in_files": 3,
           "test_restart_with_files": 3, "test_two_pools": 4, "test_idle_moves_to_files": 4,
           "test_idle_killed_while_it_moves": 4}  # programs; else one
FILES = ("test_together_in_files", "test_one_in_a_file", "test_pieces_in_files", "test_fill_in_files",
         "test_restart_with_files", "test_one_in_a_file_on_a_disk", "test_two_pools")
TO_MOVE = ("test_idle_moves_to_files", "test_idle_killed_while_it_moves")


class Small(integ.Case):
    vgpus = {"gdev0": {}, "second": {}}
    context = 0  # bytes that one takes of the device, on hardware

    @classmethod
    def setUpClass(cls):
        cls.context = integ.context_bytes()

    def setUp(self):
        contexts = AT_ONCE.get(self._testMethodName, 1)
        self.config = {"device_memory": (96 << 20) + contexts * self.context, "host_swap": "2G",
                       # What a warm worker takes would be there for objects when that has gone; and a tenth of all
                       # that, contexts included, would be more than there is for objects.
                       **({} if SOFTWARE else {"warm_workers": "0", "swap_reserve": "1"})}
        # What is in swap is in memory first, and then in files.
        if self._testMethodName in FILES:
            to_map = self._testMethodName == "test_one_in_a_file"
            self.config |= {"host_swap": "64M", "file_swap": "2G",
                            "swap_directory": integ.FILES_TO_MAP if to_map else tempfile.gettempdir()}
        if self._testMethodName in TO_MOVE:
            self.config |= {"host_swap": "128M", "file_swap": "2G", "swap_directory": tempfile.gettempdir()}
            self.environment = integ.NO_FILES
        super().setUp()

    def held(self):
        """Bytes of device memory and of swap that programs have."""
        status = self.gdevd.status()
        device = status["devices"][0]
        return device["memory_used_bytes"] - status["workers"]["warm_bytes"], device["swap_used_bytes"]

    def start(self, *arguments, vgpu="gdev0", **more):
        return self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", vgpu, SWAP, *arguments], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def finish(self, *processes, code=0):
        for process in processes:
            out, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, code, f"{out}{err}")

    def test_alone(self):
        """one program's objects and kernels exceed the device's memory and all is right"""
        self.finish(self.start(3, 48, 3))

    def test_dataflow_graph(self):
        """the datablocks of a graph exceed the device's memory three times and all is right"""
        code, out, err = self.gdevd.run([self.gdevd.gdev, "run", self.gdevd.example("ptask-matrices"), "--repeat=2",
                                         "tree", "madd", "1536", "16", "0"])
        self.assertEqual(code, 0, out + err)

    def test_one_object(self):
        """a kernel works on an object one and a half times as large as the device"""
        self.finish(self.start(1, 144, 2))

    def test_together(self):
        """four programs of 64 MiB on 96 MiB are all right"""
        processes = [self.ready(2, 32, 4) for _ in range(4)]
        for process in processes:
            self.go(process)
        self.finish(*processes)
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))
        self.assertGreater(sum(e["swap_in_bytes"] for e in self.gdevd.status()["ended"]), 0)

    def test_together_in_files(self):
        """the same when most of what is in swap is in files, of which nothing is left"""
        processes = [self.ready(2, 32, 4) for _ in range(4)]
        blocks = self.blocks_in_files()
        device = self.gdevd.status()["devices"][0]  # later: the reserve may make more leave
        self.assertGreater(device["file_swap_used_bytes"], 32 << 20)
        self.assertLessEqual(device["swap_used_bytes"], 64 << 20)
        self.assertGreater(blocks, 0)
        self.assertLessEqual(blocks, device["file_swap_used_bytes"] + (1 << 20))
        for process in processes:
            self.go(process)
        self.finish(*processes)
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))
        self.assertEqual(self.gdevd.status()["devices"][0]["file_swap_used_bytes"], 0)

    def blocks_in_files(self):
        """Bytes of the disk that workers have. Their descriptors are the only names that the files have."""
        total = 0
        for session in self.gdevd.status()["sessions"]:
            for fd in pathlib.Path(f"/proc/{session['worker_pid']}/fd").iterdir():
                try:
                    if os.readlink(fd).startswith(tempfile.gettempdir() + "/#"):
                        total += os.stat(fd).st_blocks * 512
                except FileNotFoundError:  # it has been closed
                    pass
        return total

    def test_restart_with_files(self):
        """what is in files survives a restart of gdevd, which learns of it"""
        processes = [self.ready(2, 32, 2) for _ in range(3)]
        before = self.gdevd.status()["devices"][0]
        self.assertGreater(before["file_swap_used_bytes"], 0)
        self.gdevd.stop()
        self.gdevd.start()
        self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == 3, "they are back")
        after = self.gdevd.status()["devices"][0]
        for key in ("swap_used_bytes", "file_swap_used_bytes"):  # the reserve may make more leave
            self.assertGreaterEqual(after[key], before[key], key)
        for process in processes:
            self.go(process)
        self.finish(*processes)
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))
        self.assertEqual(self.gdevd.status()["devices"][0]["file_swap_used_bytes"], 0)

    def test_one_in_a_file(self):
        """one program with more than the device and host swap have together"""
        self.finish(self.start(3, 96, 2))

    def test_one_in_a_file_on_a_disk(self):
        """the same on a disk: where the device cannot use its files, the log says at once what to do"""
        if SOFTWARE:
            self.finish(self.start(3, 96, 2))
            return
        self.finish(self.start(3, 96, 2), code=2)
        self.assertIn("let swap_directory be on a tmpfs, or raise host_swap", self.gdevd.log(100))
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))

    def test_two_pools(self):
        """objects of sizes that fit neither memory nor the file alone are all in both together"""
        self.finish(*[self.start(*sizes, 2) for sizes in ((5, 13), (3, 23), (2, 31), (9, 7))])
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))

    def idle(self):
        """Three programs that idle, with 64 MiB each: in host swap's memory is no room when they have left the device."""
        return [self.ready(2, 32, 2) for _ in range(3)]

    def test_idle_moves_to_files(self):
        """who must map its memory has it from host swap, and what idles there moves to files"""
        idle = self.idle()
        self.finish(self.start(3, 48, 2))
        filed = self.gdevd.status()["devices"][0]["file_swap_used_bytes"]
        # On hardware there is room again for some of it, when contexts that idle have been given back before.
        self.assertGreater(filed, (3 * 64 - 128) << 20 if SOFTWARE else 0)
        for process in idle:
            self.go(process)
        self.finish(*idle)
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))
        self.assertEqual(self.gdevd.status()["devices"][0]["file_swap_used_bytes"], 0)

    def test_idle_killed_while_it_moves(self):
        """whoever is killed while what idles moves to files, the others are right, and nothing is left"""
        for round in range(6):
            idle = self.idle()
            worker = self.session(idle[0])["worker_pid"]
            busy = self.start(3, 48, 2)
            time.sleep(0.1 * round)
            if round % 2:
                idle[0].kill()
            else:
                os.kill(worker, signal.SIGKILL)
            for process in idle[1:]:
                self.go(process)
            self.finish(busy, *idle[1:])
            idle[0].kill()
            idle[0].communicate()
            self.wait_quiet()
            self.assertEqual(self.held(), (0, 0))
            self.assertEqual(self.gdevd.status()["devices"][0]["file_swap_used_bytes"], 0)

    def test_pieces_in_files(self):
        """copies that begin and end anywhere read what is in files"""
        self.finish(*[self.start(2, 32, 2, "late") for _ in range(3)])

    def test_fill_in_files(self):
        """memset works on what is in files"""
        self.finish(*[self.start(2, 32, 2, "fill") for _ in range(3)])

    def ready(self, *arguments, **more):
        """A program that has filled its objects and waits for a line."""
        process = self.start(*arguments, "wait", stdin=subprocess.PIPE, **more)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def go(self, process):
        process.stdin.write("go\n")
        process.stdin.flush()

    def session(self, process):
        return next(s for s in self.gdevd.status()["sessions"] if s["pid"] == process.pid)

    def test_killed(self):
        """a program that is killed while others swap harms nobody and leaves nothing behind"""
        processes = [self.ready(2, 32, 6) for _ in range(3)]
        victim = self.ready(2, 32, 1 << 30)
        for process in (*processes, victim):
            self.go(process)
        # What it has is in host swap when the others go on, or was.
        self.wait_until(lambda: self.session(victim)["swap_in_bytes"], "what it had comes back")
        victim.kill()
        victim.communicate()
        self.finish(*processes)
        self.wait_quiet()
        self.assertEqual(self.held(), (0, 0))

    def test_fill(self):
        """memset works on what is in swap"""
        self.finish(*[self.start(2, 32, 2, "fill") for _ in range(3)])

    def test_pieces(self):
        """copies that begin and end anywhere read what is in swap, and on the device"""
        self.finish(*[self.start(2, 32, 2, "late") for _ in range(3)])

    def objects(self, process):
        """Bytes that it has on the device beside its context."""
        return self.session(process)["memory_bytes"] - self.context

    def test_suspend(self):
        """a suspended program has nothing on the device, and goes on where it was when it is resumed"""
        process = self.ready(2, 32, 2)
        self.assertGreater(self.objects(process), 60 << 20)
        suspend = [self.gdevd.gdev, "suspend", process.pid]  # unless it is just giving memory to a worker
        self.wait_until(lambda: self.gdevd.run(suspend)[0] == 0, "it is suspended")
        self.assertEqual(self.objects(process), 0)
        self.assertTrue(self.session(process)["suspended"])
        code, _, err = self.gdevd.run(suspend)
        self.assertEqual(code, 1)
        self.assertIn("suspended already", err)
        self.go(process)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        self.assertEqual(self.gdevd.run([self.gdevd.gdev, "resume", process.pid])[0], 0)
        self.finish(process)

    def test_quota(self):
        """a quota that is lowered makes what is too much leave, and one that is raised lets it back"""
        process = self.ready(2, 32, 2)
        set_memory = [self.gdevd.gdev, "vgpu", "set", "gdev0", "--memory"]
        self.assertEqual(self.gdevd.run([*set_memory, self.context + (32 << 20)])[0], 0)
        self.wait_until(lambda: self.objects(process) <= 32 << 20, "what is too much leaves")
        self.assertGreaterEqual(self.session(process)["swapped_bytes"], 32 << 20)
        self.assertEqual(self.gdevd.run([*set_memory, self.context + (96 << 20)])[0], 0)
        self.go(process)
        self.finish(process)

    def used(self):
        """{virtual GPU: (ns of copying to the device, from it)}, when nothing moves any more."""
        now, before = None, 0
        while now != before:
            before = now
            time.sleep(0.6)
            now = {vgpu["vgpu"]: tuple(vgpu["resources"][name]["used_ns"] for name in ("to_device", "from_device"))
                   for vgpu in self.top()["vgpus"]}
        return now

    def assert_charged_nothing(self, before, after, who, payer):
        """But the end of its own copies, which is counted when it is asked to leave, and on a busy machine takes long: what others
        move is as much again as it had copied, and as the payer is charged."""
        paid = sum(after[payer]) - sum(before[payer])
        for earlier, later in zip(before[who], after[who]):
            self.assertLessEqual(later - earlier, max(earlier, paid) // 2)

    @integ.measured
    def test_cause(self):
        """what is moved to make room is charged to whom it is for, what comes back to whose it is, nothing to others"""
        first = self.ready(2, 32, 1)
        own = self.used()
        self.assertEqual((own["gdev0"][1], own["second"]), (0, (0, 0)))
        second = self.ready(2, 32, 1, vgpu="second")
        then, moved = self.used(), self.session(first)["swap_out_bytes"]
        self.assert_charged_nothing(own, then, "gdev0", "second")
        # Not a thousand times wrong: no machine copies so fast, none so slowly.
        self.assertGreater(then["second"][1], moved / 1000)
        self.assertLess(then["second"][1], moved * 100)
        self.go(first)
        self.finish(first)
        now = self.used()
        self.assert_charged_nothing(then, now, "second", "gdev0")
        self.assertGreater(now["gdev0"][0], then["gdev0"][0])
        self.assertGreater(now["gdev0"][1], then["gdev0"][1])
        self.go(second)
        self.finish(second)

    def test_no_swap_left(self):
        """an allocation that neither the device nor host swap has room for fails"""
        self.finish(self.start(40, 1024, 1), code=2)


if __name__ == "__main__":
    integ.main()
