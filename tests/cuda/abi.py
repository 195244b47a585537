#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that a program compiled with NVIDIA's cuda.h runs on ours: every enumerator and every struct
layout of our header has the value that NVIDIA's gives it.

usage: abi.py COMPILER DIRECTORY_OF_OUR_HEADERS     (77: NVIDIA's header is not on this machine)
"""
import glob
import os
import re
import subprocess
import sys
import tempfile


def vendor_include():
    places = [os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include", *glob.glob("/usr/local/cuda-1[3-9]*/include")]
    return next((p for p in places if os.path.exists(p + "/cuda.h")), None)


def program(text):
    """A program that prints what `text`, our header, says about values and layouts."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    lines = []
    for body in re.findall(r"enum\s+\w+\s*\{(.*?)\}", text, flags=re.S):
        for item in filter(None, (x.split("=")[0].strip() for x in body.split(","))):
            lines.append(f'printf("{item} %d\\n", (int){item});')
    for body, name in re.findall(r"typedef (?:struct|union) \w+ \{(.*?)\n\} (\w+);", text, flags=re.S):
        if name == "CUshmInfo":  # gdev's own
            continue
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        for field in re.findall(r"(\w+)\s*(?:\[[^\]]*\])?\s*[,;]", re.sub(r"\{.*?\}", "", body, flags=re.S)):
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
    return "#include <stdio.h>\n#include <stddef.h>\n#include <cuda.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"


def values(compiler, include, source, directory):
    binary = os.path.join(directory, "abi")
    subprocess.run([compiler, "-I", include, source, "-o", binary], check=True)
    return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    compiler, ours = sys.argv[1:3]
    theirs = vendor_include()
    if not theirs:
        print("skipped: no cuda.h of NVIDIA's on this machine")
        return 77
    version = re.search(r"#define CUDA_VERSION (\d+)", open(theirs + "/cuda.h").read()).group(1)
    if version != "13000":
        print(f"skipped: NVIDIA's cuda.h is of version {version}, ours of 13000")
        return 77
    text = "".join(open(f"{ours}/{name}").read() for name in ("cuda_values.h", "cuda.h"))
    with tempfile.TemporaryDirectory() as directory:
        source = os.path.join(directory, "abi.c")
        with open(source, "w") as file:
            file.write(program(text))
        mine = values(compiler, ours + "/cuda", source, directory)
        vendor = values(compiler, theirs, source, directory)
    for a, b in zip(mine, vendor):
        if a != b:
            print(f"ours: {a}\nNVIDIA's: {b}")
    print(f"{len(mine)} values and layouts compared")
    return 0 if mine == vendor and len(mine) > 500 else 1


if __name__ == "__main__":
    sys.exit(main())
