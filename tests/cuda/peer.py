# SPDX-License-Identifier: MIT
"""Runs a program of several devices: on three devices, where they can be had, and on two virtual GPUs of one. On two
devices that do not reach each other's memory, one of which computes nothing, its test of planes alone; on two of the
driver that is made for tests, which knows few kernels, all that copies, waits and graphs need; on that and the software GPU, which take
different code, what graphs of PTask do then. On hardware with two cards
(GDEV_TEST_CARDS) on these instead. One of several processes (test_ipc, test_event_ipc) on two devices, of which its second process sees others than the first.

usage: peer.py PROGRAM [ARGUMENT...]
"""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

CARDS = {"device": os.environ["GDEV_TEST_CARDS"]} if "GDEV_TEST_CARDS" in os.environ else None
SANITIZED = "ASAN_OPTIONS" in os.environ  # that driver's workers would have to load the sanitizer first
FAKED = "test_peer", "test_peer_graph", "test_peer_access"  # whose kernels that driver knows

def run(build, what, config, vgpus, command, environment=None, of_gdevd=None):
    with lab.Gdevd(build, config, vgpus, of_gdevd) as gdevd:
        code, out, err = gdevd.run([gdevd.gdev, "run", *command], timeout=550, environment=environment)
        print(f"-- {what}: exit status {code}\n{out}", flush=True)
        sys.stderr.write(err)
        if code:
            print("gdevd's log:\n" + gdevd.log(40), file=sys.stderr)
    return code != 0


def run_processes(build, memory):
    """The second process sees another device than the first, alone or before that one."""
    failed = False
    for devices in "1", "1,0":
        seen = {"TEST_OTHER_DEVICES": devices}
        if CARDS:
            failed |= run(build, f"two cards, {devices} in the other process", CARDS, {}, sys.argv[1:], seen)
            continue
        failed |= run(build, f"two virtual GPUs of one device, {devices} in the other process", memory, {"a": {}, "b": {}},
                      ["--vgpu", "a,b", *sys.argv[1:]], seen)
        if lab.SOFTWARE:
            failed |= run(build, f"two devices, {devices} in the other process", {**memory, "devices": "cpu:2"}, {},
                          sys.argv[1:], seen)
    return failed


def main():
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build").resolve()
    memory = {"device_memory": "1G"} if lab.SOFTWARE else {}
    if "ipc" in Path(sys.argv[1]).name:
        return run_processes(build, memory)
    if CARDS:
        return run(build, "two cards", CARDS, {}, sys.argv[1:])
    failed = run(build, "two virtual GPUs of one device", memory, {"a": {}, "b": {}},
                 ["--vgpu", "a,b", *sys.argv[1:]], {"TEST_ONE_CARD": "1"})
    if lab.SOFTWARE:
        failed |= run(build, "three devices", {**memory, "devices": "cpu:3"}, {}, sys.argv[1:])
    if lab.SOFTWARE and Path(sys.argv[1]).name == "test_peer":
        failed |= run(build, "devices that do not reach each other", {**memory, "devices": "cpu, null"}, {},
                      [*sys.argv[1:], "test_planes_apart"])
    driver = {"GDEV_CUDA_DRIVER": str(build / "tests" / "device" / "libcuda-fake.so"), "FAKE_CUDA_DEVICES": "2"}
    if lab.SOFTWARE and not SANITIZED and Path(sys.argv[1]).name == "test_ptask_devices":
        failed |= run(build, "devices that take different code", {**memory, "devices": "cpu, cuda:0"}, {},
                      [*sys.argv[1:], "test_unlike"], of_gdevd=driver)
    if lab.SOFTWARE and not SANITIZED and Path(sys.argv[1]).name in FAKED:
        for how, more in (("", {}), (" that reach each other", {"FAKE_CUDA_PEERS": "1"})):
            failed |= run(build, f"two cards of the driver that is made for tests{how}", {"device": "cuda:0,cuda:1"}, {},
                          sys.argv[1:], of_gdevd={**driver, **more})
    return failed


sys.exit(main())
