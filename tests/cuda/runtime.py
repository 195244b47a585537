# SPDX-License-Identifier: MIT
"""A program of the CUDA *runtime* API, compiled by nvcc as its users compile theirs, runs on our libcuda.

usage: runtime.py SOURCE.cu [ARGUMENT of nvcc...]     (77: there is no nvcc on this machine, or the build is sanitized)
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main():
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not nvcc:
        print("skipped: no nvcc on this machine")
        return 77
    if "ASAN_OPTIONS" in os.environ:
        print("skipped: a program that nvcc builds lacks the sanitizer's library")
        return 77
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "runtime")
        subprocess.run([nvcc, "-o", program, *sys.argv[1:]], check=True)
        return subprocess.run([sys.executable, "-B", HERE / "run.py", program]).returncode


sys.exit(main())
