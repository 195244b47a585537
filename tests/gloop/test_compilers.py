# SPDX-License-Identifier: MIT
"""That clang, and nvcc where there is one, compile kernels with event loops for each architecture that they are for: the
tests' own and one of the examples; all examples if GDEV_TEST_FULL is set, which takes a minute."""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
import lab  # noqa: E402

KERNELS, EXAMPLES = lab.ROOT / "tests" / "gloop" / "kernels.cu", lab.ROOT / "examples" / "gloop"
FILES = [KERNELS, *(sorted(EXAMPLES.glob("*.cu")) if integ.FULL else [EXAMPLES / "grep.cu"])]
INCLUDES = [f"-I{lab.ROOT / 'examples'}", f"-I{lab.ROOT / 'include'}"]
CLANG = ["-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "-fdeclspec", "-Wall",
         "-Wextra", "-Werror", "-S"]
ARCHITECTURES = ("75", "80", "86", "89", "90")
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
PTXAS = NVCC and shutil.which(str(Path(NVCC).with_name("ptxas")))


class Compilers(unittest.TestCase):
    def setUp(self):
        self.output = Path(self.enterContext(tempfile.TemporaryDirectory())) / "kernels.ptx"

    def from_guide(self):
        """The kernel at the beginning of docs/gloop.md."""
        path = self.output.with_name("sum.cu")
        path.write_text((lab.ROOT / "docs" / "gloop.md").read_text().partition("```c++\n")[2].partition("```")[0])
        return path

    def compile(self, *command):
        done = subprocess.run([*map(str, command), "-o", self.output], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")

    def test_clang(self):
        """clang compiles each for sm_75 to sm_90, and the guide's"""
        clang = shutil.which("clang-19") or shutil.which("clang")
        for path in FILES:
            for architecture in ARCHITECTURES if path == KERNELS else ("90",):
                self.compile(clang, *CLANG, f"--cuda-gpu-arch=sm_{architecture}", "--cuda-feature=+ptx78", "-O3", *INCLUDES, path)
        self.compile(clang, *CLANG, "--cuda-gpu-arch=sm_75", "--cuda-feature=+ptx63", "-include", "common/device.h", *INCLUDES,
                     self.from_guide())

    @unittest.skipUnless(NVCC, "there is no nvcc")
    def test_nvcc(self):
        """nvcc compiles each, and the guide's"""
        for path in FILES:
            self.compile(NVCC, "-ptx", "-O3", "-arch=compute_75", *INCLUDES, path)
        self.compile(NVCC, "-ptx", "-arch=compute_75", *INCLUDES, self.from_guide())

    @unittest.skipUnless(PTXAS, "there is no ptxas")
    def test_machine_code(self):
        """NVIDIA's assembler takes what clang makes, for sm_75 to sm_90"""
        clang = shutil.which("clang-19") or shutil.which("clang")
        self.compile(clang, *CLANG, "--cuda-gpu-arch=sm_75", "--cuda-feature=+ptx63", "-O3", *INCLUDES, KERNELS)
        for architecture in ARCHITECTURES if integ.FULL else ("75", "90"):
            done = subprocess.run([PTXAS, f"-arch=sm_{architecture}", self.output, "-o", self.output.with_suffix(".cubin")],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"sm_{architecture}: {done.stderr}")


if __name__ == "__main__":
    integ.main()
