# SPDX-License-Identifier: MIT
"""Attacks on the machine's memory by workers that their clients have taken over: files in memory, which no limit of a
process counts."""

import os
import socket
import struct
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
from harness import wait_for  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
MIB = 1 << 20
# What a worker may take beyond what it has when it gets its client: 64 MiB in all.
SMALL = "[gdevd]\nworker_memory = 32M\nhost_swap = 16M\nhost_memory = 16M\n"


class Cgroups(harness.GdevdTest):
    def start_bounded(self, config=SMALL):
        process = self.start(config=config)
        workers = self.status()["workers"]
        if not workers["cgroups"]:
            raise unittest.SkipTest(workers["no_cgroups"])
        return process, Path(workers["cgroups"])


    def fill(self, client):
        """How many MiB its worker took before it was ended; the client keeps half of them."""
        client.peer.send(b"fill")
        taken = 0
        while True:
            try:
                data, control, _, _ = client.peer.recvmsg(16, socket.CMSG_SPACE(4))
            except ConnectionResetError:
                return taken
            if not data:
                return taken
            taken += 1
            client.fds += [fd for _, _, piece in control for fd in struct.unpack("i", piece)]

    def test_files_in_memory(self):
        """A worker that fills files in memory is ended at its limit, wherever it hides them; gdevd and others go on"""
        process, _ = self.start_bounded()
        attacker, victim = self.client(), self.client()
        self.assertEqual(victim.memory(MIB), 0)
        taken = self.fill(attacker)
        self.assertTrue(48 <= taken <= 80, f"{taken} MiB")
        ended = wait_for(lambda: self.status()["ended"], what="the end of the session")
        self.assertEqual((ended[0]["session"], ended[0]["reason"]), (attacker.session, "took more memory than it may"))
        wait_for(lambda: "worker_memory" in self.log(), what="what the log says of it")
        self.assertEqual(victim.memory(MIB), 0)
        self.assertIsNone(process.poll())
        self.assertEqual([session["session"] for session in self.status()["sessions"]], [victim.session])

    def test_after_a_restart(self):
        """The limit holds also after a restart of gdevd"""
        process, path = self.start_bounded()
        attacker = self.client()
        group = path / f"gdev-worker-{self.status()['sessions'][0]['worker_pid']}"
        limit = next(group.glob("memory.max"), group / "memory.limit_in_bytes")
        before = limit.read_text()
        process.kill()
        process.wait()
        self.start_bounded(SMALL.replace("host_swap = 16M", "host_swap = 24M"))
        wait_for(lambda: self.status()["sessions"], what="the session's return")
        self.assertEqual(limit.read_text(), before)  # what it has by now is not granted on top
        self.assertTrue(48 <= self.fill(attacker) <= 80)

    def test_groups_of_workers(self):
        """A worker is in its group before it has a client, and the group goes with the worker, also if gdevd was killed"""
        process, path = self.start_bounded()
        self.wait_warm(2)
        workers = [pid for pid in integ.children(process.pid)]
        for pid in workers:
            self.assertIn(f"/gdev-worker-{pid}\n", Path(f"/proc/{pid}/cgroup").read_text())
        client = self.client()
        client.close()
        wait_for(lambda: sum((path / f"gdev-worker-{pid}").exists() for pid in workers) == 1, what="the group's end")
        process.kill()
        process.wait()
        wait_for(lambda: not any(integ.alive(pid) for pid in workers), what="the workers' end")
        self.start_bounded()
        wait_for(lambda: not any((path / f"gdev-worker-{pid}").exists() for pid in workers), what="the groups' end")

    def test_it_can_be_switched_off(self):
        """Where there are no groups, gdevd says so"""
        self.start(config=SMALL + "worker_cgroups = no\n")
        self.assertEqual(self.status()["workers"]["no_cgroups"], "worker_cgroups = no")
        self.assertIn("worker_cgroups = no", self.gdev("doctor").stdout)


if __name__ == "__main__":
    integ.main()
