# SPDX-License-Identifier: MIT
"""Attacks on memory that is found by a token: who has not made it, and whom it was not handed out to."""

import errno
import os
import signal
import socket
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402
from harness import EACCES, EIDRM, EINVAL, wait_for  # noqa: E402
from users import user  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
CHUNK = 2 << 20
ALICE, MALLORY = 1000, 1001
BY_TOKEN = wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT, wire.SHM_SET, wire.SHM_REMOVE, wire.SHM_PUBLISH


class Owner:
    """A process of Alice's with a session on gdev0 and memory there."""

    def __init__(self, test):
        ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            try:
                ours.close()
                self.serve(test, theirs)
            finally:
                os._exit(1)
        theirs.close()
        self.sock = ours
        test.addCleanup(self.end)
        ident, token = self.hear().split()
        self.named = {"ident": int(ident), "token": bytes.fromhex(token)}

    @staticmethod
    def serve(test, sock):
        with user(ALICE):
            client = test.client()
        status, segment, _ = client.shm(wire.SHM_GET, size=CHUNK, flags=wire.SHM_TRANSIENT | 0o600)
        assert (status, client.memory(CHUNK)) == (1, 0)
        chunk = wire.sealed_memfd(CHUNK)
        assert client.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=CHUNK, chunks=1)[0] == 0
        named = {"ident": segment["id"], "token": segment["token"]}
        sock.send(f"{named['ident']} {named['token'].hex()}".encode())
        while said := sock.recv(64):
            if said == b"publish":
                sock.send(str(client.shm(wire.SHM_PUBLISH, **named)[0]).encode())
            elif said == b"free":
                client.tell(wire.shm(wire.SHM_DETACH, ident=named["ident"], serial=0))
                sock.send(b"0")

    def hear(self):
        self.sock.settimeout(wire.PATIENCE)
        return self.sock.recv(4096).decode()

    def ask(self, what):
        self.sock.send(what.encode())
        return int(self.hear())

    def end(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.sock.close()
        self.pid = 0


@unittest.skipUnless(os.geteuid() == 0, "the attacker is another user, whom only root can play")
class Tokens(harness.GdevdTest):
    vgpus = "[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n[vgpu gdev1]\nmode = 0666\n"

    def begin(self, config=None, devices="null:2"):
        self.start("--device", devices, config=config or self.vgpus)

    def session(self, uid, vgpu, *groups):
        with user(uid, *groups):
            return self.client(vgpu, base=wire.ARENA_BASE + (1 + len(self.clients)) * wire.ARENA_BYTES)

    def sessions(self, uid):
        """On the memory's own virtual GPU, on another one of its device, on another device."""
        return [self.session(uid, vgpu) for vgpu in ("gdev0", "second", "gdev1")]

    def refuse(self, client, named, expected=-EINVAL, commands=BY_TOKEN):
        for command in commands:
            status, _, fds = client.shm(command, mode=0o666, **named)
            self.assertEqual((command, status, fds), (command, expected, []))
        self.assertIn(client.shm(wire.SHM_RESTORE, ident=named["ident"])[0], (-EINVAL, -EIDRM))

    def reach(self, client, named):
        status, segment, fds = client.shm(wire.SHM_ATTACH, **named)
        self.assertEqual((status, len(fds), segment["bytes"]), (0, 1, CHUNK))
        os.close(fds[0])

    def test_what_was_not_handed_out(self):
        """A token that leaked is of no use to another process, of whatever user and virtual GPU"""
        self.begin()
        owner = Owner(self)
        for client in self.sessions(ALICE) + self.sessions(MALLORY):
            self.refuse(client, owner.named)
        self.assertEqual(owner.ask("publish"), 0)

    def test_what_was_handed_out(self):
        """The same user opens it on each virtual GPU; another user on none, and cannot hand it out"""
        self.begin()
        owner = Owner(self)
        self.assertEqual(owner.ask("publish"), 0)
        alice = self.sessions(ALICE)
        for client in alice:
            self.reach(client, owner.named)
        for client in self.sessions(MALLORY):
            self.refuse(client, owner.named, -EACCES, (wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT))
            self.refuse(client, owner.named, -EINVAL, (wire.SHM_PUBLISH,))
            self.refuse(client, owner.named, -errno.EPERM, (wire.SHM_SET, wire.SHM_REMOVE))

    def test_guesses(self):
        """Neither other numbers nor other tokens find it"""
        self.begin()
        owner = Owner(self)
        self.assertEqual(owner.ask("publish"), 0)
        ident, token = owner.named["ident"], owner.named["token"]
        for client in self.sessions(ALICE):
            for byte in range(len(token)):
                other = bytearray(token)
                other[byte] ^= 1
                self.refuse(client, {"ident": ident, "token": bytes(other)})
            self.refuse(client, {"ident": ident, "token": bytes(16)})
            for other in ident - 1, ident + 1, 0, 0xffffffff:
                self.refuse(client, {"ident": other, "token": token})
            self.reach(client, owner.named)

    def test_what_is_freed(self):
        """What its only process has freed is gone, and what another one has stays that one's"""
        self.begin()
        owner, kept = Owner(self), Owner(self)
        for one in owner, kept:
            self.assertEqual(one.ask("publish"), 0)
        first, second, third = self.sessions(ALICE)
        self.reach(third, kept.named)
        for one in owner, kept:
            self.assertEqual(one.ask("free"), 0)
        wait_for(lambda: first.shm(wire.SHM_STAT, **owner.named)[0] == -EINVAL, what="its end")
        for client in first, second, third:
            self.refuse(client, owner.named)
        self.reach(second, kept.named)

    def test_whose_owner_died(self):
        """It goes with the process that made it, unless another one has it"""
        self.begin()
        owner, kept = Owner(self), Owner(self)
        for one in owner, kept:
            self.assertEqual(one.ask("publish"), 0)
        first, second, third = self.sessions(ALICE)
        self.reach(second, kept.named)
        owner.end()
        kept.end()
        wait_for(lambda: len(self.status()["sessions"]) == 3, what="the end of both")
        for client in first, second, third:
            self.refuse(client, owner.named)
        self.reach(third, kept.named)
        # It stays charged to the virtual GPU that it is of.
        used = {vgpu["vgpu"]: vgpu["memory_used_bytes"] for vgpu in self.status()["vgpus"]}
        self.assertGreaterEqual(used["gdev0"] - used["gdev1"], CHUNK)

    def test_a_virtual_gpu_that_one_may_not_open(self):
        """Who may not open its virtual GPU opens what was handed out over another one, and nothing else"""
        self.begin(self.vgpus.replace("gdev0]\nmode = 0666", "gdev0]\ngroup = 1000\nmode = 0660"))
        owner, secret = Owner(self), Owner(self)  # Alice's primary group
        self.assertEqual(owner.ask("publish"), 0)
        with user(MALLORY), self.assertRaises(PermissionError):
            self.client()
        mallory = self.session(MALLORY, "second")
        self.refuse(mallory, owner.named, -EACCES, (wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT))
        alice = self.session(ALICE, "second")
        self.reach(alice, owner.named)
        self.refuse(alice, secret.named)
        self.assertEqual(alice.shm(wire.SHM_GET, key=1)[0], -errno.ENOENT)

    def test_a_device_that_does_not_reach_it(self):
        """A device that cannot import the memory does not find it"""
        self.order("apart", "broken")
        self.begin(devices="null,broken")
        owner = Owner(self)
        self.assertEqual(owner.ask("publish"), 0)
        first, second, third = self.sessions(ALICE)
        self.refuse(third, owner.named)
        for client in first, second:
            self.reach(client, owner.named)

    def test_after_a_restart(self):
        """The next gdevd knows what was handed out, and what was not"""
        self.begin()
        owner, secret = Owner(self), Owner(self)
        self.assertEqual(owner.ask("publish"), 0)
        clients = self.sessions(ALICE)
        self.reach(clients[1], owner.named)  # the fake workers of the owners say nothing of what they have
        self.processes[-1].kill()
        self.processes[-1].wait()
        self.begin()
        wait_for(lambda: len(self.status()["sessions"]) == 5, what="the sessions' return")
        for client in clients:
            self.refuse(client, secret.named)
        self.assertEqual(clients[0].shm(wire.SHM_STAT, **owner.named)[0], 0)
        self.assertEqual(clients[2].shm(wire.SHM_STAT, **owner.named)[0], 0)
        self.refuse(clients[1], secret.named)


if __name__ == "__main__":
    integ.main()
