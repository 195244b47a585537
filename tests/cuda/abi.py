#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that a program compiled with NVIDIA's cuda.h runs on ours: every enumerator and every struct
layout of our header has the value that NVIDIA's gives it, and the plain name of every call means the same
symbol.

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


def version_of(include):
    return re.search(r"#define CUDA_VERSION (\d+)", open(include + "/cuda.h").read()).group(1)


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
        body = re.sub(r"\bunion \{([^{}]*)\};", r"\1", body)  # without a name: its members are the structure's
        while "{" in body:
            body = re.sub(r"\{[^{}]*\}", "", body)
        for field in re.findall(r"(\w+)\s*(?:\[[^\]]*\])?\s*[,;]", body):
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
    return "#include <stdio.h>\n#include <stddef.h>\n#include <cuda.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"


def values(compiler, include, source, directory):
    binary = os.path.join(directory, "abi")
    subprocess.run([*compiler, "-I", include, source, "-o", binary], check=True)
    return subprocess.run([binary], check=True, capture_output=True, text=True).stdout.splitlines()


def meanings(compiler, include, names, *options):
    """What the preprocessor makes of each name: the symbol that a program then refers to."""
    text = "#include <cuda.h>\n" + "".join(f"GDEV_TEST {name}\n" for name in names)
    out = subprocess.run([*compiler, "-I", include, *options, "-E", "-x", "c", "-"], input=text,
                         check=True, capture_output=True, text=True).stdout
    return dict(zip(names, re.findall(r"^GDEV_TEST (\w+)", out, flags=re.M)))


def compare_names(compiler, ours, theirs, text):
    names = sorted({re.sub(r"_v\d$", "", name) for name in re.findall(r"CUDAAPI (cu\w+)\(", text)})
    names = [name for name in names if not name.startswith(("cuShm", "cuGdev"))]  # gdev's own
    wrong = 0
    for options in ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]):
        mine = meanings(compiler, ours + "/cuda", names, *options)
        vendor = meanings(compiler, theirs, names, *options)
        for name in names:
            if mine[name] != vendor[name]:
                print(f"{name} {options}: ours {mine[name]}, NVIDIA's {vendor[name]}")
                wrong += 1
    print(f"{len(names)} names compared")
    return wrong


def main():
    compiler, ours = sys.argv[1].split(), sys.argv[2]
    theirs = vendor_include()
    if not theirs:
        print("skipped: no cuda.h of NVIDIA's on this machine")
        return 77
    version = version_of(theirs)
    if version != "13000":
        print(f"skipped: NVIDIA's cuda.h is of version {version}, ours of 13000")
        return 77
    text = "".join(open(path).read() for path in sorted(glob.glob(f"{ours}/cuda*.h")) if "cuda_names" not in path)
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
    wrong = compare_names(compiler, ours, theirs, text)
    return 0 if mine == vendor and len(mine) > 500 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
