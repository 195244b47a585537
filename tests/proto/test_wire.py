#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The messages that the tests in Python write by hand are as long as proto/control.h says.

Usage: test_wire.py [unittest arguments]
"""

import os
import re
import sys
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "gdevd"))
import wire  # noqa: E402

SIZES = re.compile(r"_Static_assert\(sizeof\(struct control_(\w+)\) == (\d+), ")


class Wire(unittest.TestCase):
    def test_lengths_are_those_of_the_header(self):
        with open(os.path.join(TESTS, "..", "proto", "control.h")) as header:
            sizes = {name.upper(): int(size) for name, size in SIZES.findall(header.read())}
        self.assertEqual(wire.HEADER.size, sizes["HEADER"])
        bodies = [name for name in vars(wire) if name.endswith("_BODY")]
        self.assertGreater(len(bodies), 5)
        for name in bodies:
            with self.subTest(name):
                length = wire.HEADER.size + getattr(wire, name).size
                self.assertEqual(length, sizes[name.removesuffix("_BODY")])


if __name__ == "__main__":
    unittest.main()
