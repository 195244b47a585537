# SPDX-License-Identifier: MIT
"""Programs compiled with NVIDIA's cuda.h of 13.0 run on our libcuda: tests of this folder, compiled so.

usage: vendor_header.py COMPILER LIBCUDA KERNELS.o SOURCE...   (77: NVIDIA's header is not on this machine)
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import abi  # noqa: E402


def main():
    compiler, library, kernels, *sources = sys.argv[1:]
    compiler = compiler.split()
    include = abi.vendor_include()
    if not include or abi.version_of(include) != "13000":
        print("skipped: no cuda.h of NVIDIA's 13.0 on this machine")
        return 77
    if "ASAN_OPTIONS" in os.environ:
        print("skipped: what the library loads here needs the sanitizer's own")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        for source in sources:
            for options in ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]):
                program = os.path.join(directory, Path(source).stem + ("_per_thread" if options else ""))
                subprocess.run([*compiler, "-I", include, "-I", HERE, *options, "-D_GNU_SOURCE",
                                "-Wno-deprecated-declarations", source,
                                HERE / "fixture.c", kernels, library, "-lcmocka", "-pthread", "-o", program],
                               check=True)
                failed += subprocess.run([sys.executable, "-B", HERE / "run.py", program]).returncode != 0
    return 1 if failed else 0


sys.exit(main())
