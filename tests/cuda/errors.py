#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails when a function that functions.def says is implemented has no row in the tables of errors (errors.h).

usage: errors.py functions.def SOURCE...
"""
import re
import sys

ROW = re.compile(r"\b(?:REFUSED\(\s*\w+,|INVALID_\w+\(|NOT_FOUND\()\s*(cu\w+?)(?:_v\d)?\(")


def implemented(path):
    lines = (line.split("#")[0].split() for line in open(path))
    return {words[0] for words in lines if any("+" in word for word in words[1:])}


def main():
    wanted, rows = implemented(sys.argv[1]), []
    for path in sys.argv[2:]:
        rows += ROW.findall(open(path).read())
    missing = sorted(wanted - set(rows))
    for name in missing:
        print(f"{name} is implemented, and has no row of errors")
    print(f"{len(rows)} rows for {len(wanted & set(rows))} of {len(wanted)} functions")
    return 1 if missing or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
