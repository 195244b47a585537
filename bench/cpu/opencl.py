# SPDX-License-Identifier: MIT
"""opencl.py DEVICE-CODE WORDS OUT FOLDER…: writes a program's CUDA C as OpenCL C, for the side opencl.c.

The programs keep to what both languages have, but for words, which are macros (opencl.h), for indices, which are
functions in OpenCL C, and for pointers, all of which are to global memory and say so there. Included files are put in
their place; FOLDERs are where they are looked for."""

import re
import sys
from pathlib import Path

KERNEL = re.compile(r'extern "C" __global__ void\b')
POINTER = re.compile(r"\b(?:const )?(?:float|float4|int|unsigned|unsigned char) \*(?=\w)")
INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
INDEX = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\.([xyz])\b")
FUNCTIONS = {"threadIdx": "get_local_id", "blockIdx": "get_group_id", "blockDim": "get_local_size",
             "gridDim": "get_num_groups"}
WORDS = "common/device.h"


def included(name, folders):
    if name == WORDS:
        return ""
    path = next(folder / name for folder in folders if (folder / name).exists())
    return translated(path, folders)


def translated(path, folders):
    text = INCLUDE.sub(lambda match: included(match[1], folders), path.read_text())
    text = INDEX.sub(lambda match: f"{FUNCTIONS[match[1]]}({'xyz'.index(match[2])})", text)
    text = POINTER.sub(lambda match: f"__global {match[0]}", text)
    return KERNEL.sub("__kernel void", text)


def main():
    code, words, out, *folders = map(Path, sys.argv[1:])
    out.write_text(words.read_text() + translated(code, folders))


main()
