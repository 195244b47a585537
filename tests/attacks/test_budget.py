# SPDX-License-Identifier: MIT
"""Attacks on gdevd's table of descriptors: connections, messages that nobody reads, and segments."""

import os
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402
from harness import SHARED_LIMIT  # noqa: E402
from users import user  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
MIB = 1 << 20
ALICE, MALLORY = 1000, 1001


@unittest.skipUnless(os.geteuid() == 0, "the attacker is another user, whom only root can play")
class Budget(harness.GdevdTest):
    """What one user can take of gdevd's descriptors, of which there are few here."""

    most_descriptors = 1280

    def setUp(self):
        super().setUp()
        self.start("--device-memory", "1G", "--set", "host_swap=1G")
        self.sockets = []

    def tearDown(self):
        for sock in self.sockets:
            sock.close()
        super().tearDown()

    def session(self, uid):
        with user(uid):
            return self.client(base=wire.ARENA_BASE + len(self.clients) * wire.ARENA_BYTES)

    def connect(self, name):
        """When gdevd has taken those before."""
        while True:
            try:
                return wire.connect(f"{self.run_dir}/{name}.sock")
            except BlockingIOError:
                time.sleep(0.01)

    def held(self):
        return len(os.listdir(f"/proc/{self.processes[-1].pid}/fd"))

    def check_others(self):
        """gdevd has descriptors left, and another user can do all that it could."""
        self.assertLess(self.held(), self.most_descriptors // 2)
        alice = self.session(ALICE)
        self.assertEqual(self.make(alice, 2 * MIB), 0)
        self.status()
        self.assertNotIn("no file descriptors left", self.log())

    def make(self, client, size, chunk=None, key=0):
        """The status of a segment, in chunks of that size."""
        chunk = chunk or size
        status, segment, _ = client.shm(wire.SHM_GET, key=key, size=size, flags=0o1600)
        if status < 0:
            return status
        self.assertEqual(client.memory(size), 0)
        fds = [wire.sealed_memfd(chunk) for _ in range(size // chunk)]
        status, _, _ = client.shm(wire.SHM_BACK, fds, ident=segment["id"], chunk=chunk, chunks=len(fds))
        for fd in fds:
            os.close(fd)
        return status

    def test_connections(self):
        """Connections of one user leave others descriptors"""
        with user(MALLORY):
            for name in ("control", "gdev0") * 512:
                self.sockets.append(self.connect(name))
        self.check_others()

    def test_segments(self):
        """Segments of one user leave others descriptors"""
        mallory = self.session(MALLORY)
        while (status := self.make(mallory, 4096)) == 0:
            pass
        self.assertEqual(status, -SHARED_LIMIT)
        self.check_others()

    def test_messages_that_nobody_reads(self):
        """Descriptors that are sent to one user's workers, which do not read them, leave others some"""
        mallory = self.session(MALLORY)
        self.assertEqual(self.make(mallory, 200 * MIB, 2 * MIB, key=7), 0)
        deaf = self.session(MALLORY)
        self.fill_queue(deaf, deaf.shm(wire.SHM_GET, key=7)[1]["id"])
        self.check_others()

    def fill_queue(self, session, ident):
        """Its worker asks for chunks and reads no answer, until gdevd keeps nearly as many as it does for one connection."""
        before = self.held()
        for _ in range(2000):
            try:
                session.tell(b"deaf" + wire.shm(wire.SHM_ATTACH, ident=ident))
                session.peer.recv(16)
            except OSError:
                return  # gdevd has had enough of it
            if self.held() > before + 700:
                return


if __name__ == "__main__":
    integ.main()
