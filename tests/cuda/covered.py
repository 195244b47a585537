#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails when a symbol that functions.def says is implemented is not called by any of the test programs.

usage: covered.py functions.def PROGRAM...
"""
import re
import subprocess
import sys


def implemented(path):
    symbols = set()
    for line in open(path):
        words, versions = line.split("#")[0].split(), {}
        for word in words[1:]:
            match = re.fullmatch(r"\(?(\d+)(ptds|ptsz)?(\+)?\)?", word)
            if not match:
                continue
            version, mode = int(match[1]), match[2]
            if mode:
                newest = max((v for v in versions if v <= version), default=None)
                symbol = f"{versions.get(newest, words[0])}_{mode}"
            else:
                symbol = versions[version] = words[0] if not versions else f"{words[0]}_v{len(versions) + 1}"
            if match[3]:
                symbols.add(symbol)
    return symbols


def called(programs):
    out = subprocess.run(["nm", "-u", *programs], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\bU (cu\w+)", out))


def main():
    wanted, have = implemented(sys.argv[1]), called(sys.argv[2:])
    missing = sorted(wanted - have)
    for symbol in missing:
        print(f"{symbol} is implemented, and no test calls it")
    print(f"{len(wanted)} symbols, {len(wanted) - len(missing)} of them called by a test")
    return 1 if missing or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
