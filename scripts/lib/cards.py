# SPDX-License-Identifier: MIT
"""Two cards of one machine: what two virtual GPUs of one card cannot stand in for. Copies between the cards against the
vendor's, the tests of several devices, the examples that use all devices, NCCL with a rank a card, and sessions that go from
card to card. For scripts/hardware --only cards. It ends within four minutes, whatever a program does."""

import subprocess
import sys
import time

import hardware
from devices import Devices
from lab import ROOT, Gdevd

SECONDS = 215  # for all programs together; gdevds start and end besides
CARDS = "cuda:0,cuda:1"
PROGRAMS = ["test_peer", "test_peer_graph", "test_ipc", "test_event_ipc", "test_peer_access", "test_peer_races"]
MOVES = ["test_there_and_back", "test_at_work", "test_what_is_kept_is_listed"]


def count_cards():
    try:
        return subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ")
    except FileNotFoundError:
        return 0


class Cards(Devices):
    longest = 70  # two processes load PyTorch, and their libraries ask each other

    def peer(self):
        """Copies between the cards, by the same program on both sides."""
        found = {}
        for side in "gdev", "vendor":
            found[side], why = self.measure(side, "device", None)
            if why:
                return hardware.say(False, why)
        for name in "copy_256M", "both_256M":
            ours, theirs = found["gdev"][name], found["vendor"][name]
            self.take(f"cards.{name}", (ours["value"], theirs["value"], ours["unit"]))
        for side in found:
            print(f"         {side}: " + ("kernels reach the other card" if "access" in found[side]
                                          else "kernels do not reach the other card"), flush=True)
        return hardware.say(True, "copies between two cards")

    def listed(self):
        end = time.monotonic() + 20
        devices = self.sides.gdevd.status()["devices"]
        while not all(device["ready"] for device in devices) and time.monotonic() < end:
            time.sleep(0.1)
            devices = self.sides.gdevd.status()["devices"]
        for device in devices:
            print(f"         {device['device']}: {device['name']} {device['uuid']}: {device['health']}, node "
                  f"{device['node']}, processors {device['processors']}", flush=True)
        return hardware.say(len({d["uuid"] for d in devices}) == 2 and all(d["health"] == "ok" for d in devices),
                            "both cards are served")

    def test(self, words, what):
        """A test that has a gdevd of its own on both cards."""
        left = min(60, self.end - time.monotonic())
        if left < 5:
            return hardware.say(False, f"{what}: the time is over")
        start = time.monotonic()
        code, text = hardware.run_test(self.sides, [sys.executable, "-B", *words], left, {"GDEV_TEST_CARDS": CARDS})
        good = hardware.say(not code, f"{what} in {time.monotonic() - start:.0f} s")
        if code:
            print(f"         it ended with {code}", flush=True)
            for line in text.splitlines()[-60:]:
                print(f"         {line}", flush=True)
        return good

    def programs(self):
        folder = self.sides.gdevd.build / "tests" / "cuda"
        return hardware.add(self.test([ROOT / "tests" / "cuda" / "peer.py", folder / name], f"{name} on two cards")
                            for name in PROGRAMS)

    def moves(self):
        return hardware.add(self.test([ROOT / "tests" / "integ" / "test_drain.py", f"Cards.{name}"],
                                      f"from card to card: {name}") for name in MOVES)

    def ranks(self):
        """NCCL with a process a card: as it likes, and by sockets, which need nothing of the other's memory."""
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
                   "--master-port", "29511", ROOT / "examples" / "pytorch" / "collectives.py"]
        yield self.nccl(command, None, "two ranks")
        yield self.nccl(command, None, "two ranks by sockets", {"NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"})


def check(build, vendor, take):
    """(passed, failed); take(metric, (value, baseline, unit)) is told what was measured."""
    if count_cards() < 2:
        print("  skip cards: this machine has not two", flush=True)
        return 0, 0
    with Gdevd(build, {"device": CARDS}) as gdevd:
        cards = Cards(hardware.Sides(gdevd, vendor), take, SECONDS)
        counts = [cards.listed(), cards.peer()]
        counts += [cards.example(name, size) for name, size in (("mmuls", 1024), ("halo", 2048), ("ring", 1 << 24))]
        counts += [cards.moves(), cards.programs(), *cards.ranks()]  # the last may be waited for in vain
        if gdevd.log():
            print(gdevd.log(20), file=sys.stderr)
    return hardware.add(counts)
