# SPDX-License-Identifier: MIT
"""Waits that could become deadlocks; the cases are in waits.c."""

import integ
from integ import PROGRAMS


class Waits(integ.Case):
    vgpus = {"gdev0": {}, "second": {}}

    def waits(self, case):
        code, out, err = self.gdev_run(PROGRAMS / "waits", case, timeout=60)
        self.assertEqual(code, 0, out + err)

    def test_across(self):
        """A session that waits for another's event goes on when that comes, and not before"""
        self.waits("across")

    def test_ping_pong(self):
        """Two sessions that wait for each other in turn do not lock up"""
        self.waits("ping-pong")

    def test_dead(self):
        """A wait for a session that dies ends with an error, and harms nothing else"""
        self.waits("dead")

    def test_host_function(self):
        """A host function that blocks holds up its own stream only, however much is queued"""
        self.waits("host-function")

    def test_streams(self):
        """Streams that wait for each other see what they wait for"""
        for seed in range(3):
            code, out, err = self.gdev_run(PROGRAMS / "ordered", str(seed), "1000", timeout=90)
            self.assertEqual(code, 0, out + err)


if __name__ == "__main__":
    integ.main()
