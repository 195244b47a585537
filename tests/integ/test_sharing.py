# SPDX-License-Identifier: MIT
"""Shared device memory that does not fit: it leaves the device and comes back, with what is in it."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import integ
from integ import PROGRAMS, SOFTWARE

# Objects are so many times as large on hardware, where the contexts count too.
SCALE = 1 if SOFTWARE else 48
SEGMENT = SCALE * 48 << 20
# Each time writes some GiB to a disk there, and reads them.
TIMES_MOVING = 8 if SOFTWARE else 2
STEP_S = 0.02 if SOFTWARE else 0.4


class Process:
    """A process that does what it is told (sharing.c)."""

    def __init__(self, gdevd, uid=None, vgpu="gdev0"):
        self.gdevd = gdevd
        user = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        self.process = gdevd.popen([gdevd.gdev, "run", "--vgpu", vgpu, PROGRAMS / "sharing", SCALE],
                                   {"GDEV_LOG": "failed"}, text=True, bufsize=1,  # says why
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, **user)

    def begin(self, line):
        self.process.stdin.write(line + "\n")

    def finish(self):
        answer = self.process.stdout.readline().rstrip()
        if answer != "ok":
            raise AssertionError(answer or "it is gone")

    def __call__(self, *lines):
        for line in lines:
            self.begin(line)
            self.finish()
        return self

    def session(self):
        return next(s for s in self.gdevd.status()["sessions"] if s["pid"] == self.process.pid)

    def end(self):
        self.process.stdin.close()
        self.process.wait(integ.PATIENCE)

    def kill(self):
        self.process.kill()
        self.process.wait()


class Processes(integ.Case):
    # The virtual GPU has room for one segment beside one object of a process, not for two of those.
    vgpus = {"gdev0": {"memory": "96M" if SOFTWARE else "7G"}}

    def start(self, uid=None):
        return Process(self.gdevd, uid)

    def vgpu(self):
        return self.gdevd.status()["vgpus"][0]

    def shared_swapped(self):
        """Bytes in host swap that belong to no session."""
        status = self.gdevd.status()
        return status["vgpus"][0]["swapped_bytes"] - sum(s["swapped_bytes"] for s in status["sessions"])

    def expect_swapped(self, bytes_):
        """What is freed is charged until it is gone."""
        self.wait_until(lambda: self.shared_swapped() == bytes_, f"{bytes_} bytes of segments are in host swap")

    def listed(self):
        """What `gdev shm list` says: (where, how often attached) of each."""
        code, out, err = self.gdevd.run([self.gdevd.gdev, "shm", "list", "--json"])
        self.assertEqual(code, 0, err)
        return [(segment["where"], segment["attached"]) for segment in json.loads(out)["segments"]]

    def push_out(self, process, mib=88):
        """Makes what others have leave."""
        process(f"own {mib} 5", "work", "read 5 1")

    def nothing_left(self, *processes):
        for process in processes:
            process.end()
        self.wait_quiet()
        vgpu = self.vgpu()
        self.assertEqual((vgpu["memory_used_bytes"], vgpu["swapped_bytes"], vgpu["shared_segments"]), (0, 0, 0))


class Sharing(Processes):
    def check_moves(self, begin, attach):
        owner, other, third = self.start(), self.start(), self.start()
        owner(begin, "fill 3", "step")
        other(attach, "check 3 1")
        self.push_out(third)
        self.expect_swapped(SEGMENT)
        other("check 3 1", "step")
        self.expect_swapped(0)
        owner("check 3 2", "step")
        third("work")
        self.expect_swapped(SEGMENT)
        owner("step")
        other("check 3 4")
        third("read 5 2")
        return owner, other, third

    def test_key(self):
        """a segment that two processes have attached leaves the device and comes back, and is the same to both"""
        owner, other, third = self.check_moves("key 7 48", "key 7 48")
        owner("remove", "detach")
        other("check 3 4")
        self.nothing_left(owner, other, third)

    def test_ipc(self):
        """so does memory that is shared by an IPC handle"""
        with tempfile.NamedTemporaryFile() as handle:
            owner, other, third = self.check_moves(f"export {handle.name} 48", f"import {handle.name}")
            owner("detach")
            other("check 3 4")
            self.nothing_left(owner, other, third)

    def test_attach_away(self):
        """a segment that is in host swap can be attached, and is brought in when it is used"""
        owner, third, late = self.start(), self.start(), self.start()
        owner("key 7 48", "fill 3")
        self.assertEqual(self.listed(), [("device", 1)])
        self.push_out(third)
        late("key 7 48")
        self.assertEqual(self.listed(), [("host", 2)])
        self.expect_swapped(SEGMENT)
        late("check 3 0", "step")
        self.assertEqual(self.listed(), [("device", 2)])
        owner("check 3 1")
        code, _, err = self.gdevd.run([self.gdevd.gdev, "shm", "rm", "7"])
        self.assertEqual(code, 0, err)
        self.nothing_left(owner, third, late)

    def test_owner_killed_away(self):
        """what is in it outlives its creator, and whoever has brought it in, while it is attached"""
        owner, other, third = self.start(), self.start(), self.start()
        owner("key 7 48", "fill 3", "step")
        other("key 7 48")
        self.push_out(third)
        owner.kill()
        another = self.start()("key 7 48", "step")
        another.kill()
        other("check 3 2", "remove")
        self.nothing_left(other, third)

    def test_nobody_attached(self):
        """a segment that no program has attached any more leaves for one that needs the room, and is not lost"""
        owner, third = self.start(), self.start()
        owner("key 7 48", "fill 3", "step")
        owner.kill()
        self.push_out(third, 94)  # beside which there is one context less
        self.expect_swapped(SEGMENT)
        late = self.start()("key 7 48", "check 3 1", "step", "detach")
        self.expect_swapped(0)
        third("work", "read 5 2")
        self.expect_swapped(SEGMENT)
        late("key 7 48", "check 3 2", "remove")
        self.nothing_left(late, third)

    def test_nobody_attached_and_carrier_killed(self):
        """who carries it out is killed: it stays, and leaves by the next"""
        owner, third = self.start(), self.start()
        for i in range(6):
            owner("key %d 8" % (10 + i), "fill %d" % i, "detach")
        third.begin("own 94 5")
        for _ in range(20):
            serving = {s["worker_pid"] for s in self.gdevd.status()["sessions"]}
            for pid in set(integ.children(self.gdevd.process.pid)) - serving:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:  # it had been killed before
                    pass
            time.sleep(0.005)
        third.finish()
        third("work", "read 5 1")
        for i in range(6):
            owner("key %d 8" % (10 + i), "check %d 0" % i, "remove", "detach")
        self.nothing_left(owner, third)

    def test_killed_moving(self):
        """whoever is killed while it moves, the others find what was there"""
        steps = 0
        keeper, third = self.start(), self.start()
        keeper("key 7 48", "fill 3")
        third("own 88 5")
        for i in range(8):
            victim = self.start()("key 7 48")
            if i % 2:
                third("work")
                victim.begin("check 3 %d" % steps)
            else:
                third.begin("work")
            time.sleep(0.01 * i)
            if i % 4 < 2:
                victim.kill()
            else:
                session = victim.session()
                os.kill(session["worker_pid"], signal.SIGKILL)
                victim.kill()
            if not i % 2:
                third.finish()
            keeper("check 3 %d" % steps, "step")
            steps += 1
        keeper("remove")
        self.nothing_left(keeper, third)

    def test_suspended(self):
        """one that is suspended keeps nothing of it on the device, and finds what others did meanwhile"""
        owner, other = self.start(), self.start()
        owner("key 7 48", "fill 3")
        other("key 7 48", "step")
        def suspend(verb, p):  # which is refused while it is just giving memory
            self.wait_until(lambda: self.gdevd.run([self.gdevd.gdev, verb, p.process.pid])[0] == 0, f"{verb} is done")

        suspend("suspend", owner)
        other("step", "check 3 2")
        suspend("suspend", other)
        self.wait_until(lambda: self.shared_swapped() == SEGMENT, "nobody uses it: it leaves")
        suspend("resume", owner)
        owner("check 3 2", "step")
        suspend("resume", other)
        other("check 3 3", "remove")
        self.nothing_left(owner, other)

    @unittest.skipUnless(SOFTWARE and os.geteuid() == 0, "needs another user, and a device that keeps readers from writing")
    def test_reader(self):
        """who may only read a segment finds it wherever it is, and has others move it"""
        owner, reader, third = self.start(), self.start(1000), self.start()
        owner("open 7 48", "fill 3", "step")
        reader("peek 7 48", "check 3 1")
        self.push_out(third)
        self.expect_swapped(SEGMENT)
        reader("check 3 1")
        self.expect_swapped(0)
        owner("check 3 1", "step", "detach")
        reader("check 3 2")
        third("work")
        self.expect_swapped(SEGMENT)
        reader("check 3 2")
        self.expect_swapped(0)
        self.gdevd.process.kill()
        self.gdevd.process.wait()
        self.gdevd.start()
        self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == 3, "the sessions are back")
        owner("open 7 48", "check 3 2", "step", "remove", "detach")
        reader("check 3 3", "detach")
        self.nothing_left(owner, reader, third)

    def test_too_large(self):
        """a segment that has no room beside what its process has is used from the host, by all"""
        owner, other = self.start(), self.start()
        owner("key 7 48", "fill 3")
        other("own 88 5", "key 7 48", "work", "step", "check 3 1", "read 5 1")
        owner("step", "check 3 2", "remove")
        other("check 3 2")
        self.nothing_left(owner, other)

    def test_restart(self):
        """a gdevd that is restarted learns where it is"""
        owner, other, third = self.start(), self.start(), self.start()
        owner("key 7 48", "fill 3")
        other("key 7 48", "step")
        self.push_out(third)
        os.kill(self.gdevd.process.pid, signal.SIGKILL)
        self.gdevd.process.wait()
        self.gdevd.start()
        self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == 3, "they are back")
        owner("check 3 1", "step")
        other("check 3 2", "remove")
        self.nothing_left(owner, other, third)


class OnADisk(Processes):
    """Where the device cannot use files of a disk."""
    config = {"host_swap": SCALE * 56 << 20, "file_swap": "1G" if SOFTWARE else "16G",
              "swap_directory": tempfile.gettempdir()}
    environment = integ.NO_FILES

    def away(self):
        """Processes: what is an idle one's fills the memory, a segment that another has attached is in a file, and a third
        one's own objects leave it no room."""
        idle, owner = self.start()("own 60 9"), self.start()("key 7 48", "fill 3")
        return idle, owner, self.push_to_file()

    def push_to_file(self):
        other = self.start()("own 88 5", "key 7 48")
        self.expect_swapped(SEGMENT)
        return other

    def again(self, idle, owner):
        """After the third is gone."""
        owner("check 3 0", "remove", "detach")
        self.expect_swapped(0)
        self.assertEqual(self.vgpu()["shared_segments"], 0)
        idle("work")
        owner("key 7 48", "fill 3")
        return self.push_to_file()

    def wait_sessions(self, count):
        self.wait_until(lambda: len(self.gdevd.status()["sessions"]) == count, f"there are {count} sessions")

    def test_too_large(self):
        """a segment that is in a file which the device cannot use moves to memory, and is used from there by all"""
        idle, owner, other = self.away()
        other("step", "check 3 1", "work")
        owner("step", "check 3 2")
        late = self.start()("key 7 48", "step", "check 3 3")
        other("check 3 3", "read 5 1")
        idle("read 9 0")
        self.expect_swapped(SEGMENT)
        owner("remove")
        self.nothing_left(idle, owner, other, late)

    def test_killed_moving(self):
        """whoever is killed while it moves there, the others find what was there"""
        idle, owner, other = self.away()
        for i in range(TIMES_MOVING):
            other.begin("check 3 0")
            time.sleep(STEP_S * i)
            if i % 2:
                os.kill(other.session()["worker_pid"], signal.SIGKILL)
            other.kill()
            self.wait_sessions(2)
            other = self.again(idle, owner)
        other("step")
        owner("check 3 1", "remove")
        idle(f"read 9 {TIMES_MOVING}")
        self.nothing_left(idle, owner, other)

    def test_restart_moving(self):
        """a gdevd that is killed while it moves there, or afterwards, takes nothing along"""
        idle, owner, other = self.away()
        for i in range(TIMES_MOVING):
            other.begin("check 3 0")
            time.sleep(STEP_S * i)
            os.kill(self.gdevd.process.pid, signal.SIGKILL)
            self.gdevd.process.wait()
            self.gdevd.start()
            self.wait_sessions(3)
            other.finish()
            other.end()
            self.wait_sessions(2)
            other = self.again(idle, owner)
        owner("check 3 0", "remove")
        idle(f"read 9 {TIMES_MOVING}")
        self.nothing_left(idle, owner, other)


class OnADiskWithoutMemory(Processes):
    """And where memory has no room for them either."""
    config = {**OnADisk.config, "host_swap": SCALE * 16 << 20}
    environment = integ.NO_FILES

    def test_too_large(self):
        """a segment that is in a file, and that memory has no room for, is not lost, and the log says what to do"""
        owner, other = self.start(), self.start()
        owner("key 7 48", "fill 3")
        other("own 88 5", "key 7 48")
        other.begin("step")
        with self.assertRaisesRegex(AssertionError, "CUDA_ERROR_OUT_OF_MEMORY"):
            other.finish()
        self.assertIn("let swap_directory be on a tmpfs, or raise host_swap", self.gdevd.log(100))
        other.end()
        owner("check 3 0", "remove")
        self.nothing_left(owner)


@unittest.skipUnless(SOFTWARE, "two software GPUs")
class OfTwoDevices(integ.Case):
    config = {"device": "cpu:2", "device_memory": "512M", "threads": "1", "host_swap": "1G"}
    vgpus = {}

    def swapped(self, vgpu):
        return next(v["swapped_bytes"] for v in self.gdevd.status()["vgpus"] if v["vgpu"] == vgpu)

    def test_import_of_what_is_away(self):
        """memory that has left its device comes back for a process of another device that opens its handle"""
        owner, other = (Process(self.gdevd, vgpu=vgpu) for vgpu in ("gdev0", "gdev1"))
        file = self.gdevd.directory / "handle"
        owner(f"export {file} 48", "fill 3", "step")
        for verb in "suspend", "resume":
            self.wait_until(lambda: self.gdevd.run([self.gdevd.gdev, verb, owner.process.pid])[0] == 0, f"{verb} is done")
            self.wait_until(lambda: self.swapped("gdev0") == SEGMENT, "it is in host swap")
        other(f"import {file}", "check 3 1", "step")
        self.wait_until(lambda: not self.swapped("gdev0"), "its copy in host swap is gone")
        owner("check 3 2")
        other("detach").end()
        owner("detach").end()
        self.wait_quiet()


if __name__ == "__main__":
    integ.main()
