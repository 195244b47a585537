# SPDX-License-Identifier: MIT
"""gdev doctor: what it says of a program, and that it is so."""

import json
import os
import shutil
import struct
import subprocess
import unittest

import integ
from integ import PROGRAMS

BAD = """.version 7.8
.target sm_80
.address_size 64
.visible .entry good(.param .u64 p)
{
	ret;
}
.visible .entry bad(.param .u64 p)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	vmad.u32.u32.u32 %r1, %r1, %r1, %r1;
	st.global.u32 [%rd1], %r2;
	vset.u32.u32.lt %r1, %r1, %r1;
	ret;
}
.visible .entry worse(.param .u64 p)
{
	.reg .b32 %r<9>;
L1:	vshl.u32.u32.u32.clamp %r1, %r1, %r1; ret;
}
"""

WAITING = """.version 7.8
.target sm_90
.address_size 64
.visible .entry plain(.param .u64 p)
{
	ret;
}
.visible .entry waits(.param .u64 p)
{
	.reg .pred %p1;
	.reg .b32 %r1;
	.reg .b64 %rd1;
	ld.param.u64 %rd1, [p];
L1:	ld.volatile.global.u32 %r1, [%rd1];
	setp.eq.u32 %p1, %r1, 0;
	@%p1 bra L1;
	ret;
}
.visible .entry clustered(.param .u64 p) .reqnctapercluster 2
{
	ret;
}
"""

# Asks for what the name meant in CUDA 2.0; carries PTX in a library; prints PTX as it runs.
OLD = 'int cuCtxCreate(void **, unsigned, int); int main(void) { return cuCtxCreate(0, 0, 0); }'
LIBRARY = 'const char ptx[] = "%s"; int use(void) { return *ptx; }' % BAD.replace("\n", "\\n")
USER = 'int use(void); int main(void) { return use(); }'
USER_OF_CUDA = 'int cuInit(unsigned); int use(void); int main(void) { return cuInit(0) + use(); }'
PRINTER = '''#include <stdio.h>
int main(int argc, char **argv)
{
	printf(".version %d.%d\\n.target sm_%d\\n.address_size 64\\n", argc, argc, argc);
	printf(".version 7.0\\n.target sm_70\\n.address_size 64\\n%s", argv[0]);
	return 0;
}'''


def fat_binary(*entries):
    """entries: (kind, compute capability, payload)"""
    body = b""
    for kind, sm, payload in entries:
        payload = payload.ljust((len(payload) + 7) // 8 * 8, b"\0")
        body += struct.pack("<HHIQIIHHIII", kind, 0x101, 64, len(payload), 0, 0, 0, 0, sm, 0, 0).ljust(64, b"\0") + payload
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


class Doctor(integ.Case):
    def doctor(self, *arguments, expect=None):
        code, out, err = self.gdevd.run([self.gdevd.gdev, "doctor", "--json", *arguments], timeout=300)
        if expect is not None:
            self.assertEqual(code, expect, out + err)
        answer = json.loads(out)
        self.assertEqual(answer["ok"], code == 0)
        return answer

    def missing(self, answer):
        return [f for f in answer["findings"] if f["level"] == "missing"]

    def file(self, name, contents):
        path = self.gdevd.directory / name
        path.write_bytes(contents)
        return path

    def test_well(self):
        """Programs that run are said to run, also without symbols, and the system is in order"""
        stripped = self.gdevd.directory / "stripped"
        subprocess.run(["strip", "-s", "-o", stripped, self.gdevd.example("mmul")], check=True)
        for program in (self.gdevd.example("mmul"), self.gdevd.example("lud"), stripped):
            answer = self.doctor(program, expect=0)
            self.assertEqual(answer["device"], "cpu")
            topics = {f["topic"] for f in answer["findings"] if f["level"] == "ok"}
            self.assertEqual(topics, {"daemon", "vgpu", "library", "device", "memory", "image", "function"})

    def test_program(self):
        """A missing function, one that is asked for by name, and a missing instruction are named"""
        for program in (PROGRAMS / "doctored", self.strip(PROGRAMS / "doctored")):
            found = self.missing(self.doctor(program, expect=1))
            functions = [f["function"] for f in found if f["topic"] == "function"]
            self.assertEqual(sorted(functions), ["cuDeviceGetLuid", "cuMulticastCreate"])
            kernel, = [f for f in found if f["topic"] == "kernel"]
            self.assertEqual((kernel["kernel"], kernel["line"]), ("bad", 8))
            self.assertIn("vmad", kernel["text"])

    def test_preempt(self):
        """Of kernels for a GPU it is said which leave between blocks under --preempt, and why others do not"""
        path = self.file("kernels.ptx", WAITING.encode())
        found = [f for f in self.doctor("--device", "cuda:0", path)["findings"] if f["topic"] == "preempt"]
        self.assertEqual([(f["kernel"], f["leaves_not"], f["why"]) for f in found if "kernel" in f],
                         [("waits", "blocks", "its blocks may wait for each other"),
                          ("clustered", "blocks", "it is made for clusters")])
        self.assertEqual([(f["kernels"], f["fit"], f["loops"]) for f in found if "kernels" in f], [(3, 1, 0)])
        path = self.file("kernels.fatbin", fat_binary((2, 80, b"machine code")))
        found, = [f for f in self.doctor("--device", "cuda:0", path)["findings"] if f["topic"] == "preempt"]
        self.assertIn("no PTX", found["text"])

    def strip(self, program):
        stripped = self.gdevd.directory / "stripped"
        subprocess.run(["strip", "-s", "-o", stripped, program], check=True)
        return stripped

    def test_ptx(self):
        """Every missing instruction of a PTX text is named, with its kernel and line, as when it is loaded"""
        path = self.file("bad.ptx", BAD.encode())
        found = self.missing(self.doctor(path, expect=1))
        self.assertEqual([(f["kernel"], f["line"]) for f in found], [("bad", 13), ("bad", 15), ("worse", 21)])
        self.assertIn("vmad.u32", found[0]["text"])
        self.file("good.ptx", BAD[: BAD.index(".visible .entry bad")].encode())
        self.doctor(self.gdevd.directory / "good.ptx", expect=0)

    def test_never_called(self):
        """What a function does that no kernel calls is nothing that is missing"""
        function = ".func never()\n{\n.reg .b32 %r<9>;\nvmad.u32.u32.u32 %r1, %r1, %r1, %r1;\nret;\n}\n"
        head, good = BAD[: BAD.index(".visible")], BAD[BAD.index(".visible"): BAD.index(".visible .entry bad")]
        self.doctor(self.file("never.ptx", (head + function + good).encode()), expect=0)
        called = good.replace("ret;", "call never;\n\tret;")
        found = self.missing(self.doctor(self.file("called.ptx", (head + function + called).encode()), expect=1))
        self.assertEqual([(f["kernel"], f["line"]) for f in found], [("good", 7)])

    def test_machine_code(self):
        """A fat binary without PTX is said to have none, and what to do"""
        fat = fat_binary((2, 90, bytes(64)))
        finding, = self.missing(self.doctor(self.file("sass.fatbin", fat), expect=1))
        self.assertEqual(finding["topic"], "image")
        self.assertIn("nvcc", finding["advice"])

    def test_empty_fat_binary(self):
        """An empty fat binary before the program's own, as nvcc puts it there for PTX alone, is nothing"""
        good = BAD[: BAD.index(".visible .entry bad")].encode() + b"\0"
        answer = self.doctor(self.file("two.fatbin", fat_binary() + fat_binary((1, 80, good))), expect=0)
        self.assertFalse([f for f in answer["findings"] if f["topic"] == "image" and f["level"] != "ok"])

    def build(self, name, source, *arguments):
        path = self.gdevd.directory / name
        subprocess.run(["cc", "-x", "c", "-", "-o", path, *arguments], input=source.encode(), check=True)
        return path

    @unittest.skipIf(integ.SANITIZED, "what is built here lacks the sanitizer's library")
    def test_versions(self):
        """A symbol is of one version: the oldest by the plain name is not supported, though a newer one is"""
        program = self.build("old", OLD, f"-L{integ.BUILD}/lib/cuda", "-lcuda")
        finding, = self.missing(self.doctor(program, expect=1))
        self.assertEqual(finding["function"], "cuCtxCreate")
        self.assertIn("oldest version", finding["text"])
        code, _, err = self.gdevd.run([self.gdevd.gdev, "run", program], environment={"GDEV_LOG": "failed"})
        self.assertEqual(code, 801 % 256, "it is so")
        self.assertIn("cuCtxCreate(...) = CUDA_ERROR_NOT_SUPPORTED: gdev does not have cuCtxCreate", err)
        page = (integ.lab.ROOT / "docs" / "cuda-coverage.md").read_text()
        self.assertRegex(page, r"- `cuCtxCreate`: .*`cuCtxCreate_v2` \(3\.2\).*; not `cuCtxCreate` \(2\.0\)")

    @unittest.skipIf(integ.SANITIZED, "what is built here lacks the sanitizer's library")
    def test_library_in_part(self):
        """Of a library that has much of its code as machine code alone it is not said that the program will run"""
        good = BAD[: BAD.index(".visible .entry bad")].encode() + b"\0"
        bare = fat_binary((2, 90, bytes(64)))
        for images, verdict in ((bare + bare, "It may run"), (bare, "It will run")):
            code = ",".join(str(byte) for byte in images + fat_binary((1, 80, good)))
            library = 'const unsigned char code[] __attribute__((section(".nv_fatbin"), aligned(8))) = {%s};' % code
            self.build("libpart.so", library + "int use(void) { return *code; }", "-shared", "-fPIC")
            program = self.build("user", USER_OF_CUDA, f"-L{self.gdevd.directory}", "-lpart", f"-Wl,-rpath,{self.gdevd.directory}",
                                 f"-L{integ.BUILD}/lib/cuda", "-lcuda")
            status, out, _ = self.gdevd.run([self.gdevd.gdev, "doctor", program])
            self.assertEqual(status, 0, out)
            self.assertIn(verdict, out)

    def test_libraries(self):
        """A missing library ends a program before it begins; what a library cannot do is a note"""
        directory = self.gdevd.directory
        library = self.build("libpart.so", LIBRARY, "-shared", "-fPIC")
        program = self.build("user", USER, f"-L{directory}", "-lpart", f"-Wl,-rpath,{directory}")
        answer = self.doctor(program, expect=0)
        kernels = [f for f in answer["findings"] if f["topic"] == "kernel"]
        self.assertEqual([f["kernel"] for f in kernels], ["bad", "bad", "worse"])
        self.assertEqual({f["level"] for f in kernels}, {"note"})
        code, out, _ = self.gdevd.run([self.gdevd.gdev, "doctor", program])
        self.assertEqual(code, 0)
        self.assertIn("It may run", out)
        self.assertEqual(out.count("vmad.u32"), 1)
        self.doctor(library, expect=1)
        library.unlink()
        finding, = self.missing(self.doctor(program, expect=1))
        self.assertIn("libpart.so is not found", finding["text"])

    def test_code_made_at_run_time(self):
        """Pieces of PTX in a program's data are no PTX that is wrong"""
        answer = self.doctor(self.build("printer", PRINTER), expect=0)
        note, = [f for f in answer["findings"] if "pieces of PTX" in f["text"]]
        self.assertEqual(note["level"], "note")

    def test_garbage(self):
        """What is no program is called that, and nothing else happens"""
        whole = self.gdevd.example("mmul").read_bytes()
        for name, contents in (("empty", b""), ("noise", os.urandom(5000)), ("cut", whole[:700]),
                               ("head", whole[:64]), ("ptx", b".version 7.0\n.target sm_70\n.visible .entry x(")):
            code, out, err = self.gdevd.run([self.gdevd.gdev, "doctor", self.file(name, contents)])
            self.assertIn(code, (0, 1), f"{name}: {out}{err}")
            self.assertNotIn("Sanitizer", err)
        self.assertEqual(self.gdevd.run([self.gdevd.gdev, "doctor", "/no/such/file"])[0], 1)
        self.assertEqual(self.gdevd.run([self.gdevd.gdev, "doctor", "--what"])[0], 2)

    def test_nothing_of_cuda(self):
        """A program without CUDA is said to be one: what it loads later cannot be seen"""
        answer = self.doctor("/bin/true", expect=0)
        note, = [f for f in answer["findings"] if f["level"] == "note" and f["topic"] != "daemon"]
        self.assertIn("nothing of CUDA", note["text"])
        self.assertIn("loads libraries", note["advice"])

    def test_system(self):
        """Without a gdevd, with a wrong virtual GPU or device, it says what to do"""
        code, out, _ = self.gdevd.run([self.gdevd.gdev, "doctor"], environment={"GDEV_VGPU": "nobody"})
        self.assertEqual(code, 1)
        self.assertIn("no virtual GPU nobody", out)
        self.assertIn("gdev vgpu list", out)
        finding, = self.missing(self.doctor("--device", "abacus", expect=1))
        self.assertIn("abacus", finding["text"])
        self.gdevd.stop()
        code, out, _ = self.gdevd.run([self.gdevd.gdev, "doctor"])
        self.assertEqual(code, 0)
        self.assertIn("no gdevd is running", out)

    @unittest.skipUnless(shutil.which("nvcc"), "no nvcc on this machine")
    def test_nvcc(self):
        """Of what nvcc built: its PTX is found, and where there is only SASS, that is said"""
        source = self.file("x.cu", b"__global__ void k(int *p) { *p = 1; }\n"
                                   b"int main() { k<<<1, 1>>>(0); return cudaDeviceSynchronize(); }\n")
        program = self.gdevd.directory / "x"
        subprocess.run(["nvcc", "-o", program, source], check=True, capture_output=True)
        answer = self.doctor(program, expect=0)
        self.assertTrue(any("by name" in f["text"] for f in answer["findings"]))
        subprocess.run(["nvcc", "-gencode", "arch=compute_75,code=compute_75", "-o", program, source], check=True,
                       capture_output=True)
        self.assertTrue(any("all 1 kernels" in f["text"] for f in self.doctor(program, expect=0)["findings"]))
        subprocess.run(["nvcc", "-rdc=true", "-gencode", "arch=compute_75,code=compute_75", "-o", program, source],
                       check=True, capture_output=True)
        self.assertTrue(any("-rdc" in f["text"] for f in self.doctor(program, expect=0)["findings"]))
        subprocess.run(["nvcc", "-gencode", "arch=compute_90,code=sm_90", "-o", program, source], check=True,
                       capture_output=True)
        finding, = self.missing(self.doctor(program, expect=1))
        self.assertIn("SASS", finding["text"])


if __name__ == "__main__":
    integ.main()
