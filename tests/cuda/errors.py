#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails when a function that functions.def says is implemented has no row in the tables of errors (errors.h), or
none that says what it answers before cuInit.

usage: errors.py functions.def errors_early.c errors_state.c SOURCE...
"""
import re
import sys

# What a program may call before cuInit.
BEFORE_CUINIT = {
    "cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGetExportTable",
    "cuModuleGetLoadingMode", "cuProfilerInitialize", "cuLogsRegisterCallback", "cuLogsUnregisterCallback",
    "cuLogsCurrent", "cuLogsDumpToFile", "cuLogsDumpToMemory",
}
ROW = re.compile(r"\b(?:(?:REFUSED|CRASHES)\(\s*\w+,|DIFFERS\(\s*\w+,\s*\w+,[^,]*,|INVALID_\w+\(|NOT_FOUND\()"
                 r"\s*(cu\w+?)(?:_v\d)?\(")


def implemented(path):
    lines = (line.split("#")[0].split() for line in open(path))
    return {words[0] for words in lines if any("+" in word for word in words[1:])}


def rows(paths):
    return [name for path in paths for name in ROW.findall(open(path).read())]


def main():
    wanted, early, tables = implemented(sys.argv[1]), rows(sys.argv[2:4]), rows(sys.argv[3:])
    no_row = sorted(wanted - set(tables))
    no_early_row = sorted(wanted - set(early) - BEFORE_CUINIT)
    for name in no_row:
        print(f"{name} is implemented, and has no row of errors")
    for name in no_early_row:
        print(f"{name} is implemented, and has no row for a call before cuInit")
    print(f"{len(tables)} rows for {len(wanted & set(tables))} of {len(wanted)} functions, and "
          f"{len(wanted & set(early))} functions called before cuInit")
    return 1 if no_row or no_early_row or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
