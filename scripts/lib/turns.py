# SPDX-License-Identifier: MIT
"""Programs that are compared and take turns, so that whatever else the machine does meets all of them."""

import subprocess

from lab import LabError


class Turns:
    """A program that computes when it is told to, so that two which are compared can take turns."""

    def __init__(self, gdevd, command, environment=None):
        self.command = command
        self.child = gdevd.popen(command, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ms = []

    def turn(self, rounds):
        """Computes so many rounds and notes how long each took."""
        try:
            self.child.stdin.write(f"{rounds}\n".encode())
            self.child.stdin.flush()
            answer = self.child.stdout.readline()
        except BrokenPipeError:
            answer = None
        if not answer:
            raise LabError(f"{' '.join(map(str, self.command))} ended with {self.child.wait()}")
        self.ms.append(self.time_of(answer) / rounds)

    def time_of(self, answer):
        """Of the milliseconds that the program says, those that count: all."""
        return float(answer.split()[0])

    def end(self):
        self.child.stdin.close()
        self.child.wait()
