#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a worker takes of the machine is in an account after a restart of gdevd, too: its swap file, which it brings again, and
the rest, for which it has to register.

Usage: test_swapfile.py GDEVD GDEV [unittest arguments]
"""

import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

MIB = 1 << 20
MISSING = "does not bring the swap file that it was given"


class SwapFile(harness.GdevdTest):
    def launch(self):
        self.start("--device-memory", "1G", "--set", "host_swap=64M", "--set", "file_swap=192M", "--set",
                   "swap_reserve=0", "--set", "swap_directory=" + self.directory)

    def begin(self):
        """A session with 64 MiB of host swap, and 96 in its file; the file's descriptor."""
        self.launch()
        client = self.client()
        self.assertEqual(client.ask(wire.swap(64 * MIB, 5))[2], 0)
        return client, self.take_file(client, 96 * MIB)

    def take_file(self, client, amount):
        _, _, status, _, fds = client.ask(wire.swap(amount, 6))
        self.assertEqual((status, len(fds)), (0, 1))
        self.addCleanup(os.close, fds[0])
        return fds[0]

    def restart(self, client, brings="well", held_file=96 * MIB):
        with open(self.orders + "/held", "w", encoding="ascii") as file:
            file.write(f"{client.session} 0 {64 * MIB} {held_file}")
        with open(self.orders + "/swap-file", "w", encoding="ascii") as file:
            file.write(brings)
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes[-1].wait(wire.PATIENCE)
        self.launch()

    def is_refused(self, client, reason):
        """The worker is killed, and nothing stays charged."""
        client.peer.settimeout(60)
        self.assertEqual(wire.receive(client.peer)[0], None)
        wait_for(lambda: reason in self.log(), what="the reason")
        wait_for(lambda: not self.status()["sessions"] and not self.used(), what="its end")

    def used(self):
        return self.status()["devices"][0]["file_swap_used_bytes"]

    def test_it_is_the_session_s_again(self):
        client, fd = self.begin()
        for _ in range(2):
            self.restart(client)
            wait_for(lambda: len(self.status()["sessions"]) == 1, what="the session's return")
            self.assertEqual(self.used(), 96 * MIB)
        wait_for(lambda: self.status()["workers"]["warm"], what="a worker that says what the device has")
        again = self.take_file(client, 16 * MIB)
        self.assertEqual(os.fstat(again).st_ino, os.fstat(fd).st_ino)
        self.assertEqual(client.ask(wire.slot(16 * MIB, wire.IN_FILE))[2], 0)
        os.posix_fallocate(fd, 0, 120 * MIB)  # of 128 that it was charged
        client.tell(wire.give_back(file=32 * MIB))
        wait_for(lambda: "took more of the disk than it was charged" in self.log(), what="its end")
        wait_for(lambda: not self.status()["sessions"] and not self.used(), what="its end")

    def test_what_a_worker_took_before_is_found(self):
        client, fd = self.begin()
        os.posix_fallocate(fd, 0, 96 * MIB)
        self.restart(client, held_file=32 * MIB)  # it says that it holds less
        wait_for(lambda: "took more of the disk than it was charged" in self.log(), what="its end")
        wait_for(lambda: not self.status()["sessions"] and not self.used(), what="its end")

    def test_a_file_that_is_missing_ends_the_session(self):
        client, _ = self.begin()
        self.restart(client, "none", held_file=0)
        self.is_refused(client, MISSING)

    def test_another_file_ends_the_session(self):
        client, _ = self.begin()
        self.restart(client, "other")
        self.is_refused(client, "sent descriptors that gdevd does not take")

    def test_memory_is_no_file(self):
        client, _ = self.begin()
        self.restart(client, "memory")
        self.is_refused(client, MISSING)

    def test_a_device_is_no_file(self):
        client, _ = self.begin()
        self.restart(client, "device")
        self.is_refused(client, MISSING)

    def test_one_more_descriptor_ends_the_session(self):
        client, _ = self.begin()
        self.restart(client, "surplus")
        self.is_refused(client, "sent descriptors that gdevd does not take")

    def test_a_session_without_one_brings_none(self):
        self.launch()
        client, other = self.client(), self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        self.restart(client, held_file=0)
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="their return")
        self.restart(client, "memory", held_file=0)
        for one in client, other:
            self.is_refused(one, MISSING)

    def is_killed(self, client):
        client.peer.settimeout(120)
        self.assertEqual(wire.receive(client.peer)[0], None)

    def test_a_worker_that_does_not_register_is_killed(self):
        self.launch()
        silent = self.client()
        with open(self.orders + "/register", "w", encoding="ascii") as file:
            file.write("never")
        self.restart(silent)
        other = self.client(base=wire.ARENA_BASE + wire.ARENA_BYTES)
        self.is_killed(silent)
        wait_for(lambda: f"session {silent.session} ends" in self.log(), what="the reason")
        self.assertEqual([one["session"] for one in self.status()["sessions"]], [other.session])

    def test_a_worker_that_leaves_a_gdevd_which_is_not_its_parent_is_killed(self):
        self.launch()
        client = self.client()
        self.restart(client, held_file=0)
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="the session's return")
        client.tell(b"close")
        self.is_killed(client)
        wait_for(lambda: not self.status()["sessions"], what="its end")

    def test_a_worker_whose_message_is_none_is_killed_also_when_it_has_hung_up(self):
        self.launch()
        client = self.client()
        self.restart(client, held_file=0)
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="the session's return")
        client.tell(b"garble")
        self.is_killed(client)
        wait_for(lambda: not self.status()["sessions"], what="its end")


if __name__ == "__main__":
    harness.main()
