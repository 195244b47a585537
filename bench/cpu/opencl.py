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


def whole(path, folders):
    """The text, with what it includes."""
    def included(match):
        name = match[1]
        return "" if name == WORDS else whole(next(folder / name for folder in folders if (folder / name).exists()), folders)

    return INCLUDE.sub(included, path.read_text())


def translated(text):
    text = INDEX.sub(lambda match: f"{FUNCTIONS[match[1]]}({'xyz'.index(match[2])})", text)
    text = POINTER.sub(lambda match: f"__global {match[0]}", text)
    return KERNEL.sub("__kernel void", text)


def main():
    code, words, out, *folders = map(Path, sys.argv[1:])
    out.write_text(words.read_text() + translated(whole(code, folders)))


main()
