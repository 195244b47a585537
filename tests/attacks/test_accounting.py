# SPDX-License-Identifier: MIT
"""Attacks on what is charged: workers in their clients' hands that say what they like about what they use."""

import json
import select
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
COMPUTE, NOW = 0, 1
TWO = "[gdevd]\nquantum = 2ms\n[vgpu liar]\nmode = 0600\n[vgpu honest]\nmode = 0600\n"


class Player:
    """A worker that always wants the device, and leaves when it is told to; `used` says what it reports of what it held."""

    def __init__(self, client, used):
        self.client, self.used = client, used
        self.held_s, self.since = 0.0, None
        self.say(wire.ACQUIRE)

    def say(self, kind, wants=0, used=0):
        self.client.tell(wire.message(kind, wire.GRANT_BODY.pack(COMPUTE, wants, 0, used)))

    def hear(self):
        kind, _, _, body, _ = wire.receive(self.client.peer)
        if kind == wire.GRANT:
            self.since = time.monotonic()
        # The word of a revocation is on the page; a second message is the one that says now.
        if kind == wire.REVOKE and self.since and self.told_to_leave():
            self.leave()

    def at_the_page(self, order, answer):
        """What the fake worker says; messages that come meanwhile are passed over."""
        self.client.tell(order)
        while not (data := self.client.peer.recv(65536)).startswith(answer):
            pass
        return data[len(answer):]

    def told_to_leave(self):
        word = self.at_the_page(b"look" + struct.pack("=I", wire.PAGE_REVOKE), b"seen")
        return int.from_bytes(word[:4], "little") == NOW

    def loads(self, since_ns):
        self.at_the_page(b"page" + struct.pack("=IQ", wire.PAGE_LOADING_SINCE, since_ns), b"written")

    def leave(self, wants=1):
        held_s = time.monotonic() - self.since
        self.held_s += held_s
        self.since = None
        self.say(wire.RELEASE, wants, self.used(held_s))


def nothing(held_s):
    return 0


def all_of_it(held_s):
    return int(held_s * 1e9)


class Charge(harness.GdevdTest):
    def play(self, players, seconds, until=None):
        """For so long, or until that player has the device."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ready, _, _ = select.select([player.client.peer for player in players], [], [], 0.2)
            for player in players:
                if player.client.peer in ready:
                    player.hear()
                if player is until and player.since:
                    return
        self.assertIsNone(until, "it was given the device")

    def used_ns(self, name):
        done = self.gdev("top", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return next(one["resources"]["compute"]["used_ns"] for one in json.loads(done.stdout)["vgpus"]
                    if one["vgpu"] == name)

    @integ.measured
    def test_who_reports_nothing_has_at_most_twice_its_share(self):
        """A worker that reports no use has at most twice its share, and what it pays is shown"""
        self.start(config=TWO)
        liar, honest = Player(self.client("liar", apart=True), nothing), Player(self.client("honest"), all_of_it)
        self.play([liar, honest], 3)
        total = liar.held_s + honest.held_s
        self.assertGreater(honest.held_s / total, 0.27)
        self.assertGreater(self.used_ns("liar"), 0.4 * liar.held_s * 1e9)

    @integ.measured
    def test_who_says_that_it_loads_pays_for_it(self):
        """A worker that says that it waits for memory pays for the time for which others wait for it"""
        self.start(config=TWO)
        liar, honest = Player(self.client("liar", apart=True), nothing), Player(self.client("honest"), all_of_it)
        self.play([liar, honest], 0.2)
        self.play([liar, honest], wire.PATIENCE, until=liar)
        liar.loads(time.clock_gettime_ns(time.CLOCK_MONOTONIC))
        self.play([liar, honest], 1)
        self.assertTrue(liar.since)  # it is kept, as it says so
        liar.loads(0)
        liar.leave()
        got_s = honest.held_s
        self.play([liar, honest], wire.PATIENCE, until=liar)
        self.assertGreater(honest.held_s - got_s, 0.4)

    @integ.measured
    def test_who_ends_its_session_has_its_virtual_gpu_pay(self):
        """A session that ends while it has the device is paid for by its virtual GPU"""
        self.start(config=TWO)
        honest, liars_s = Player(self.client("honest"), all_of_it), 0.0
        end = time.monotonic() + 3
        while time.monotonic() < end:
            client = self.client("liar", apart=True)
            liar = Player(client, nothing)
            self.play([liar, honest], wire.PATIENCE, until=liar)
            began = time.monotonic()
            self.play([honest], 0.05)  # it does not hear that it is to leave
            client.tell(b"die")
            liars_s += time.monotonic() - began
            client.close()
            self.clients.remove(client)
        self.assertGreater(honest.held_s / (honest.held_s + liars_s), 0.27)


if __name__ == "__main__":
    integ.main()
