# SPDX-License-Identifier: MIT
"""What the NVIDIA backend does with drivers that are missing, broken, or fail, from gdevd to the client.
The driver is the one of tests/device/fake_cuda.c: this needs no GPU, and uses none."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import integ
import starting
from integ import BUILD, PROGRAMS, SANITIZED, Gdevd

FAKE = BUILD / "tests" / "device" / "libcuda-fake.so"
STEPS = ("unpacking a module", "loading a module", "finding a function", "the first launch of a function", "making a chunk")
OLD = ".version 1.4\n.target sm_13\n.entry set(.param .u64 at, .param .u32 value) { ret; }"
LIBM = "/usr/lib/x86_64-linux-gnu/libm.so.6"  # a library, and no driver


@unittest.skipIf(SANITIZED, "workers would have to load the sanitizer first")
class Driver(unittest.TestCase):
    def start(self, driver=FAKE, config=None, vgpus=None, **environment):
        return self.enterContext(Gdevd(BUILD, {"device": "cuda:0", **(config or {})}, vgpus, {
            "GDEV_CUDA_DRIVER": str(driver), **environment}))

    def client(self, gdevd, *arguments, program="driver"):
        code, out, err = gdevd.run([gdevd.gdev, "run", PROGRAMS / program, *arguments], 90,
                                   {"GDEV_LOG": "error"})
        return {**dict(line.split(" ", 1) for line in out.splitlines() if " " in line),
                "exit": code, "err": err}

    def test_works(self):
        """A driver that works is used, and what a kernel stores comes back"""
        gdevd = self.start()
        for _ in range(3):
            steps = self.client(gdevd)
            self.assertEqual(steps["value"], "4711", steps)
            self.assertEqual(steps["more"], "CUDA_SUCCESS")
        self.assertIn("a driver made for tests", gdevd.run([gdevd.gdev, "device", "list"])[1])

    def test_times(self):
        """What first uses take is said: by the program's calls (GDEV_LOG=times), and by the steps of the worker (gdevd's, debug)"""
        gdevd = self.start(GDEV_LOG="debug")
        code, _, err = gdevd.run([gdevd.gdev, "run", PROGRAMS / "driver"], 90, {"GDEV_LOG": "times"})
        self.assertEqual(code, 0, err)
        called = {name: int(count) for name, count, _, _ in starting.CALLED.findall(err)}
        self.assertEqual(called["cuInit"], 1, err)
        self.assertGreaterEqual(called["cuModuleLoadDataEx"], 1)
        self.assertGreaterEqual(called["(of these, loading a module)"], called["cuModuleLoadDataEx"])
        self.assertGreaterEqual(called["(of these, finding a function)"], called["cuModuleGetFunction"])
        said = gdevd.log_path.read_text()
        steps = [name for name, _ in starting.STEP.findall(said)]
        self.assertEqual({name: steps.count(name) > 0 for name in STEPS}, dict.fromkeys(STEPS, True), said)
        self.assertEqual(steps.count("the first launch of a function"), len({"set"}), said)

    def test_software_gives_way(self):
        """Beside hardware, workers of the software GPU leave processors to those of hardware, as the kernel weighs both"""
        gdevd = self.start(config={"device": "cuda:0, cpu"})

        def ready():
            status = gdevd.status()
            return all(device["ready"] for device in status["devices"]) and not status["workers"]["starting"]

        integ.Case.wait_until(self, ready, "warm workers")
        ours = self.weights(gdevd.process.pid)
        found = {}
        for pid in integ.children(gdevd.process.pid):
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if "--device" in command:
                found[command[command.index("--device") + 1]] = self.weights(pid)
        least = (19, ours[1] if ours[1] is None else 19)  # a kernel that has no groups
        self.assertEqual(found, {"cpu": least, "cuda:0": ours})

    @staticmethod
    def weights(pid):
        """A process's nice value, and that of its group."""
        process = pathlib.Path(f"/proc/{pid}")
        group = process.joinpath("autogroup")
        return (int(process.joinpath("stat").read_text().rpartition(")")[2].split()[16]),
                int(group.read_text().split()[-1]) if group.exists() else None)

    def test_streams(self):
        """Streams that wait for each other, on the device where it can, see what they wait for"""
        gdevd = self.start()
        for seed in range(3):
            code, _, err = gdevd.run([gdevd.gdev, "run", PROGRAMS / "ordered", str(seed), "1000"], 90)
            self.assertEqual(code, 0, err)

    def test_compute_capability(self):
        """Hardware has its own compute capability: another one is refused"""
        gdevd = self.start()
        for command in ("create", "old"), ("set", "gdev0"):
            code, _, err = gdevd.run([gdevd.gdev, "vgpu", *command, "--compute-capability", "7.5"])
            self.assertNotEqual(code, 0)
            self.assertIn("a setting of the software GPU", err)

    def test_log_of_calls(self):
        """GDEV_LOG=calls writes every call with its arguments and result; GDEV_LOG=failed those that failed"""
        gdevd = self.start()
        command = [gdevd.gdev, "run", PROGRAMS / "driver"]
        calls = gdevd.run(command, 90, {"GDEV_LOG": "calls"})[2]
        self.assertRegex(calls, r"libcuda\[\d+\]: cuMemAlloc_v2\(dptr=0x\w+\[0x\w+\], bytesize=\d+\) = CUDA_SUCCESS")
        failed = gdevd.run(command, 90, {"GDEV_LOG": "failed"})[2]
        self.assertNotIn("= CUDA_SUCCESS", failed)

    @integ.measured
    def test_preempt(self):
        """Kernels of a program that asks for it leave between blocks, and other virtual GPUs get turns in the middle of them;
        each block is done once"""
        gdevd = self.start(vgpus={"long": {}, "short": {"priority": 10}, "off": {"preempt": "off"}})
        run = [gdevd.gdev, "run", "--preempt"]
        overdue = {}
        for vgpu in ("long", "off"):
            overdue[vgpu] = self.overdue(gdevd, run, vgpu, "400")
        # A launch takes 0.3 s: who is not to leave it is passed over after 0.1 s.
        self.assertLess(2 * overdue["long"], overdue["off"], overdue)

    @integ.measured
    def test_preempt_loops(self):
        """Kernels of a program that asks for it leave in the middle of a block, and go on there: each round is done once"""
        gdevd = self.start(vgpus={"long": {}, "short": {"priority": 10}, "blocks": {"preempt": "blocks"}})
        run = [gdevd.gdev, "run", "--preempt=loops"]
        overdue = {}
        for vgpu in ("long", "blocks"):
            overdue[vgpu] = self.overdue(gdevd, run, vgpu, "5000", "40")
        # A launch takes 0.4 s, a block half of it, and a round 5 ms.
        self.assertLess(2 * overdue["long"], overdue["blocks"], overdue)

    def overdue(self, gdevd, run, vgpu, *kernel):
        """Of the turns that a program of long launches has beside one of short launches, the part that did not end in time: on a
        busy machine some are late that end where they should."""
        long = gdevd.popen([*run, "--vgpu", vgpu, PROGRAMS / "blocks", "0", *kernel], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True)
        self.assertEqual(long.stdout.readline(), "busy\n")
        code, out, err = gdevd.run([*run, "--vgpu", "short", PROGRAMS / "blocks", "2", "1"], 90)
        self.assertEqual(code, 0, out + err)
        self.assertGreater(int(out.split()[-1]), 0)
        out = long.communicate(timeout=90)[0]
        self.assertEqual(long.returncode, 0, out)
        listed = json.loads(gdevd.run([gdevd.gdev, "vgpu", "list", "--json"])[1])["vgpus"]
        compute = next(v["resources"]["compute"] for v in listed if v["vgpu"] == vgpu)
        return compute["overdue"] / compute["grants"]

    def test_no_room_to_leave_in_the_middle(self):
        """Where there is no room for what blocks would keep, a program runs as without: its kernels leave between blocks"""
        gdevd = self.start(vgpus={"gdev0": {"memory": "528M"}})  # a context takes 512
        for preempt in ("blocks", "loops"):
            code, out, err = gdevd.run([gdevd.gdev, "run", "--preempt=" + preempt, PROGRAMS / "blocks", "2", "1"], 90)
            self.assertEqual(code, 0, preempt + out + err)

    def test_doctor_says_what_leaves(self):
        """gdev doctor says which kernels of a program leave hardware between blocks, and why another does not"""
        gdevd = self.start()
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as ptx:
            ptx.write(".version 7.0\n.target sm_70\n.address_size 64\n.entry fit() { ret; }\n"
                      ".entry polls(.param .u64 at) { .reg .b64 %d; .reg .b32 %r; .reg .pred %p; ld.param.u64 %d, [at];\n"
                      "L: ld.volatile.u32 %r, [%d]; setp.eq.u32 %p, %r, 0; @%p bra L; ret; }\n"
                      ".entry stays() { .reg .b32 %r; .reg .pred %p; mov.u32 %r, 0;\n"
                      "L: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 9; @%p bra L; ret; }\n"
                      ".entry goes() { .reg .b32 %r; .reg .pred %p; mov.u32 %r, 0;\n"
                      "L: bar.sync 0; add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 9; @%p bra L; ret; }\n")
            ptx.flush()
            out = gdevd.run([gdevd.gdev, "doctor", ptx.name])[1]
        self.assertIn("3 of 4 kernels", out)
        self.assertIn("1 in the middle of one with '=loops'", out)
        self.assertIn("kernel stays does not leave in the middle of a block: it has no loop with a barrier", out)
        self.assertNotIn("kernel fit", out)
        self.assertIn("kernel polls does not leave between blocks: its blocks may wait for each other", out)

    def refused(self, driver, reason):
        gdevd = self.start(driver)
        steps = self.client(gdevd)
        self.assertEqual(steps["init"], "CUDA_ERROR_DEVICE_UNAVAILABLE", steps)
        self.assertIn("the log of gdevd says why", steps["err"])
        self.assertIn(reason, gdevd.log(100))
        out = gdevd.run([gdevd.gdev, "status"])[1]
        self.assertIn("could not open it", out)

    def test_missing(self):
        """A driver library that is not there is named in the log, and clients are told where to look"""
        self.refused("/nonexistent/libcuda.so.1", "/nonexistent/libcuda.so.1")

    def test_garbage(self):
        """So is one that is no library"""
        self.refused(__file__, "GDEV_CUDA_DRIVER names no driver library")

    def test_too_old(self):
        """And one that lacks what is needed"""
        self.refused(LIBM, "the NVIDIA driver is too old: it lacks cuInit")

    def test_no_device(self):
        """A driver that finds no device says so"""
        gdevd = self.start(FAKE_CUDA_FAIL="cuInit:100@1")
        self.assertEqual(self.client(gdevd)["init"], "CUDA_ERROR_DEVICE_UNAVAILABLE")
        self.assertIn("the NVIDIA driver finds no device", gdevd.log(100))

    def test_errors(self):
        """What the driver says of a kernel comes to the client as the error that CUDA has for it"""
        for code, name in ((700, "CUDA_ERROR_ILLEGAL_ADDRESS"), (716, "CUDA_ERROR_ILLEGAL_ADDRESS"),
                           (715, "CUDA_ERROR_LAUNCH_FAILED"), (719, "CUDA_ERROR_LAUNCH_FAILED"),
                           (710, "CUDA_ERROR_ASSERT"), (702, "CUDA_ERROR_LAUNCH_TIMEOUT")):
            gdevd = self.start(FAKE_CUDA_FAIL=f"work:{code}@2")
            steps = self.client(gdevd)
            self.assertEqual(steps["wait"], name, f"{code}: {steps}")
            self.assertEqual(steps["again"], name, "it is sticky")
            self.assertEqual(steps["more"], name)
            self.assertEqual(gdevd.status()["devices"][0]["losses"], 0)
            gdevd.__exit__()

    def test_lost(self):
        """A device that fails ends the session, and the warm workers with it; the next client is served"""
        for code in (46, 214, 999):
            gdevd = self.start(FAKE_CUDA_FAIL=f"work:{code}@2")
            warm = self.wait_warm(gdevd)
            steps = self.client(gdevd)
            self.assertEqual(steps["wait"], "CUDA_ERROR_DEVICE_UNAVAILABLE", f"{code}: {steps}")
            self.assertEqual(steps["again"], "CUDA_ERROR_DEVICE_UNAVAILABLE")
            integ.Case.wait_until(self, lambda: gdevd.status()["ended"], "the session's end")
            status = gdevd.status()
            self.assertEqual(status["devices"][0]["losses"], 1)
            self.assertIn("failed", status["ended"][0]["reason"])
            self.assertIn("it has failed under 1 sessions", gdevd.run([gdevd.gdev, "status"])[1])
            self.assertIn("warm workers are replaced", gdevd.log(100))
            self.wait_warm(gdevd)
            integ.Case.wait_until(self, lambda: not warm & set(integ.children(gdevd.process.pid)), "others than before")
            self.assertEqual(self.client(gdevd)["memset"], "CUDA_SUCCESS")
            gdevd.__exit__()

    def test_one_of_two_devices(self):
        """A device that fails at its start is none of a program's, keeps nobody from the other, and comes back by itself"""
        with tempfile.TemporaryDirectory() as directory:
            trouble = pathlib.Path(directory) / "trouble"
            trouble.touch()
            gdevd = self.start(config={"device": "cuda:0,cuda:1"}, FAKE_CUDA_DEVICES="2",
                               FAKE_CUDA_OUT_OF_ORDER=f"0:{trouble}")
            self.assertEqual(self.cards(gdevd), ["08" * 16])
            devices = gdevd.status()["devices"]
            self.assertEqual([device["health"] for device in devices], ["failed", "ok"])
            self.assertIn("failed or went away", devices[0]["reason"])
            self.assertEqual(self.client(gdevd)["value"], "4711")
            named = gdevd.run([gdevd.gdev, "run", "--vgpu", "gdev0", PROGRAMS / "driver"], 90, {"GDEV_LOG": "error"})
            self.assertIn("init CUDA_ERROR_DEVICE_UNAVAILABLE", named[1])
            self.assertIn("failed or went away", named[2])
            trouble.unlink()
            integ.Case.wait_until(self, lambda: gdevd.status()["devices"][0]["health"] == "ok", "the next try", 90)
            self.assertEqual(self.cards(gdevd), ["07" * 16, "08" * 16])

    def cards(self, gdevd):
        """The UUIDs of the devices that a program sees."""
        script = """if True:
            import ctypes
            cuda, count, uuid = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), (ctypes.c_ubyte * 16)()
            assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
            for device in range(count.value):
                assert cuda.cuDeviceGetUuid(uuid, device) == 0
                print(bytes(uuid).hex())"""
        code, out, err = gdevd.run([gdevd.gdev, "run", "python3", "-c", script])
        self.assertEqual(code, 0, err)
        return out.split()

    def wait_warm(self, gdevd):
        integ.Case.wait_until(self, lambda: gdevd.status()["workers"]["warm"] >= 2, "two warm workers")
        return set(integ.children(gdevd.process.pid))

    def test_code(self):
        """Code that the device cannot run is refused with CUDA's error and the compiler's words"""
        gdevd = self.start()
        steps = self.client(gdevd, ".version 6.0\n.target sm_70\n.visible .entry set() { wrong; }")
        self.assertEqual(steps["load"], "CUDA_ERROR_INVALID_PTX")
        self.assertIn("Not a name of any known instruction", steps["log"])
        steps = self.client(gdevd, ".version 99.0\n.visible .entry set() { ret; }")
        self.assertEqual(steps["load"], "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")

    def test_old_code(self):
        """Code that the driver's linker refuses, and its loader takes, runs"""
        gdevd = self.start()
        for _ in range(2):
            steps = self.client(gdevd, OLD)
            self.assertEqual((steps["load"], steps["value"]), ("CUDA_SUCCESS", "4711"), steps)

    def test_managed(self):
        """Managed memory is not for both sides at once, whatever the driver could do with its own; prefetches and advice are
        taken"""
        steps = self.client(self.start(), "managed")
        self.assertEqual(steps["says"], "1 0 0 0 0 0", steps)
        self.assertEqual({steps[step] for step in ("prefetch", "back", "prefer", "mostly", "attach")}, {"CUDA_SUCCESS"})
        self.assertEqual(steps["kept"], "7")
        software = self.client(self.enterContext(Gdevd(BUILD, {"device_memory": "256M"}, {"gdev0": {}})), "managed")
        self.assertEqual(software["says"], "1 1 0 1 0 1", software)
        self.assertEqual({software[step] for step in ("prefetch", "back", "prefer", "mostly")}, {"CUDA_SUCCESS"})

    def test_units(self):
        """Code that is not linked is refused as that, though the driver has no words for it, and waits say so, too"""
        steps = self.client(self.start(), "units")
        self.assertEqual([steps[step] for step in ("load", "library", "kernel", "wait")],
                         ["CUDA_ERROR_NOT_SUPPORTED", "CUDA_SUCCESS"] + 2 * ["CUDA_ERROR_NOT_SUPPORTED"], steps)

    def test_textures(self):
        """Arrays, mipmapped arrays and memory are read and written by textures and surfaces that the driver makes"""
        gdevd = self.start()
        steps = self.client(gdevd, "textures")
        wrong = [f"{what}_wrong" for what in ("array", "put", "level", "linear", "rows", "texref", "surfref", "texref_rows",
                                              "texref_linear")]
        self.assertEqual(steps.get("same"), "1", steps)
        self.assertEqual({what: steps.get(what) for what in wrong}, {what: "0" for what in wrong}, steps)
        refused = {"not_image": "CUDA_ERROR_INVALID_VALUE", "gone": "CUDA_ERROR_INVALID_VALUE",
                   "no_such": "CUDA_ERROR_NOT_FOUND"}
        self.assertEqual({step: value for step, value in steps.items() if str(value).startswith("CUDA_ERROR")}, refused)
        for fail, step in (("cuArray3DCreate:2@1", "array"), ("cuTexObjectCreate:2@1", "image"),
                           ("cuSurfObjectCreate:2@1", "area"), ("cuMipmappedArrayCreate:2@1", "levels"),
                           ("cuMipmappedArrayGetLevel:2@2", "levels")):
            gdevd = self.start(FAKE_CUDA_FAIL=fail)
            steps = self.client(gdevd, "textures")
            self.assertEqual((steps[step], steps["wait"]), ("CUDA_ERROR_OUT_OF_MEMORY", "CUDA_SUCCESS"), f"{fail}: {steps}")
            gdevd.__exit__()

    def test_arrays_are_paid_for(self):
        """Arrays are in the account of the virtual GPU, within its quota, and keep the context, until they are destroyed"""
        gdevd = self.start(config={"warm_workers": "0", "retire_after": "100ms", "host_swap": "1G"},
                           vgpus={"gdev0": {"memory": "640M"}})
        program = gdevd.popen([gdevd.gdev, "run", PROGRAMS / "driver", "arrays", "1024"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
        lines = [program.stdout.readline().split() for _ in range(4)]
        self.assertEqual(lines[2:], [["held", "128"], ["more", "CUDA_ERROR_OUT_OF_MEMORY"]], lines)
        session = gdevd.status()["sessions"][0]
        self.assertEqual(session["memory_bytes"], (512 + 128) << 20, session)
        integ.Case.wait_until(self, lambda: gdevd.status()["sessions"][0].get("kept_because"), "a try to give it back")
        self.assertEqual(gdevd.status()["sessions"][0]["kept_because"], "it has arrays, textures or surfaces")
        program.communicate("\n", timeout=60)
        integ.Case.wait_until(self, lambda: gdevd.status()["devices"][0]["memory_used_bytes"] == 0, "all of it back")

    def test_memory(self):
        """A driver that refuses memory which gdevd has charged is asked again; one that does so each time is an error of the call"""
        for fail, result in ("cuMemCreate:2@1", "CUDA_SUCCESS"), ("cuMemCreate:2@1+", "CUDA_ERROR_OUT_OF_MEMORY"):
            gdevd = self.start(FAKE_CUDA_FAIL=fail)
            steps = self.client(gdevd)
            self.assertEqual(steps["alloc"], result, steps)
            gdevd.__exit__()

    def test_burst(self):
        """Launches that wait together are all done, in order, whatever the driver says of making one of several"""
        for fail in ("", "cuGraphCreate:2@3+", "cuGraphAddKernelNode:1@40+", "cuModuleLoadDataEx:200@1",
                     "cuGraphInstantiateWithFlags:801@1+", "cuGraphExecKernelNodeSetParams:1@100+", "cuGraphLaunch:801@2+"):
            gdevd = self.start(FAKE_CUDA_FAIL=fail)
            steps = self.client(gdevd, "burst", "20000")
            self.assertEqual(steps["wait"], "CUDA_SUCCESS", f"{fail}: {steps}")
            self.assertEqual(steps["wrong"], "0", fail)
            gdevd.__exit__()

    def test_graph(self):
        """A program's graph does the same each time, whatever the driver says of keeping it as one"""
        for fail in ("", "cuGraphCreate:2@58+", "cuGraphInstantiateWithFlags:801@57+",
                     "cuGraphExecKernelNodeSetParams:1@3+", "cuGraphLaunch:801@2+"):
            gdevd = self.start(FAKE_CUDA_FAIL=fail)
            steps = self.client(gdevd, "graph", "100")
            self.assertEqual(steps.get("wrong"), "0", f"{fail}: {steps}")
            gdevd.__exit__()

    def test_warm_memory(self):
        """Warm workers leave when a session needs the memory that they hold, and come back later"""
        gdevd = self.start(config={"warm_memory": "2G", "host_swap": "0", "worker_idle": "500ms"},
                           FAKE_CUDA_MEMORY="4096")  # a context has 512 MiB of it
        self.wait_warm(gdevd)
        self.assertEqual(gdevd.status()["workers"]["warm_bytes"], 1 << 30)
        steps = self.client(gdevd, "hold", "3000")
        self.assertEqual(steps.get("held"), "3008", steps)
        steps = self.client(gdevd, "hold", "3520")
        self.assertEqual(steps.get("held"), "3520", steps)
        steps = self.client(gdevd, "hold", "4000")
        self.assertEqual(steps.get("held"), "3520", steps)  # all but its own context, and 1 %
        integ.Case.wait_until(self, lambda: gdevd.status()["devices"][0]["memory_used_bytes"] == 1 << 30,
                              "the pool as it was, when nobody has needed more for a while")

    def test_strangers(self):
        """A session has what the warm workers held also where others than gdev use the card; status says how much they use"""
        with tempfile.NamedTemporaryFile() as card:
            def stranger(size):
                card.seek(0)
                card.write(size.to_bytes(8, "little"))
                card.flush()

            card.truncate(4096)
            stranger(1 << 30)
            gdevd = self.start(config={"warm_memory": "2G", "host_swap": "0", "worker_idle": "500ms"},
                               FAKE_CUDA_MEMORY="4096", FAKE_CUDA_CARD=card.name)  # a context has 512 MiB of it
            self.wait_warm(gdevd)
            process = gdevd.popen([gdevd.gdev, "run", PROGRAMS / "driver", "hold", "4000"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
            self.assertIn("held 2560\n", [process.stdout.readline() for _ in range(3)])  # the rest is the stranger's
            device = gdevd.status()["devices"][0]
            self.assertGreaterEqual(device["memory_others_bytes"], (1 << 30) - (64 << 20))
            self.assertIn("by others than gdev", gdevd.run([gdevd.gdev, "status"])[1])
            stranger(0)
            process.communicate("")
            self.assertEqual(process.returncode, 0)
            self.wait_warm(gdevd)
            integ.Case.wait_until(self, lambda: not gdevd.status()["devices"][0]["memory_others_bytes"],
                                  "a warm worker says that the stranger is gone")
            self.assertEqual(self.client(gdevd, "hold", "3520").get("held"), "3520")

    def test_swap_files(self):
        """Where the driver takes no pages of swap files, the log says what to do when device and memory are used up"""
        gdevd = self.start(config={"device_memory": (512 + 16) << 20, "host_swap": "16M", "file_swap": "256M",
                                   "warm_workers": "0", "swap_reserve": "0", "swap_directory": tempfile.gettempdir()})
        def swap(*arguments):
            return gdevd.run([gdevd.gdev, "run", PROGRAMS / "swap", *arguments], 60)

        code, out, err = swap(3, 8, 2)
        self.assertEqual(code, 0, out + err)
        code, out, err = swap(6, 8, 2)
        self.assertEqual(code, 2, out + err)
        self.assertIn("let swap_directory be on a tmpfs, or raise host_swap", gdevd.log(100))
        code, out, err = swap(3, 8, 2)
        self.assertEqual(code, 0, out + err)

    def test_warm_bound(self):
        """The pool of warm workers keeps within its bound of device memory, and has one at least"""
        gdevd = self.start(config={"warm_workers": "5", "warm_memory": "1100M"})
        self.wait_warm(gdevd)
        self.assertEqual(gdevd.status()["workers"]["total"], 2)
        gdevd.__exit__()
        gdevd = self.start(config={"warm_workers": "5", "warm_memory": "1M"})
        integ.Case.wait_until(self, lambda: gdevd.status()["workers"]["warm"] >= 1, "one warm worker")
        self.assertEqual(self.client(gdevd)["value"], "4711")

    def test_endless(self):
        """A kernel without end ends its own session, at the time limit of its virtual GPU"""
        gdevd = self.start(vgpus={"gdev0": {"time_limit_ms": "300"}})
        self.assertEqual(self.client(gdevd, program="endless")["exit"], 0)
        self.assertEqual(self.client(gdevd)["value"], "4711")


if __name__ == "__main__":
    integ.main()
