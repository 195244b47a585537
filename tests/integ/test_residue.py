# SPDX-License-Identifier: MIT
"""No session sees what another has left in memory: of the device, of the host, or for staging."""

import signal

import integ
from integ import PROGRAMS, SOFTWARE

MIB = "300" if SOFTWARE else "0"  # 0: most of the device


class Residue(integ.Case):
    def look(self, how, status):
        code, out, err = self.gdev_run(PROGRAMS / "residue", "fill", how, MIB)
        self.assertEqual(code, status, out + err)
        self.assertIn("filled", out)
        self.wait_quiet()
        code, out, err = self.gdev_run(PROGRAMS / "residue", "scan", MIB)
        print(f"# after {how}: {out.strip()}", flush=True)
        self.assertEqual(code, 0, out + err)

    def test_leave(self):
        """After a session that left with its memory full, the next one's memory is zero"""
        self.look("leave", 0)

    def test_free(self):
        """After a session that freed its memory, the next one's memory is zero"""
        self.look("free", 0)

    def test_kill(self):
        """After a session that was killed, the next one's memory is zero"""
        self.look("kill", -signal.SIGKILL)


if __name__ == "__main__":
    integ.main()
