# SPDX-License-Identifier: MIT
"""gdev shm, and what gdev status says of shared memory. Who may remove what: tests/attacks/test_segments.py."""

import errno
import itertools
import json
import os
import resource
import select
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

CHUNK = 2 << 20


class Segments(harness.GdevdTest):
    def make(self, client, key=42, size=CHUNK):
        """A segment's id."""
        status, segment, _ = client.shm(wire.SHM_GET, key=key, size=size, flags=0o1640)
        self.assertEqual((status, client.memory(size)), (1, 0))
        chunk = wire.sealed_memfd(size)
        self.assertEqual(client.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=size, chunks=1)[0], 0)
        os.close(chunk)
        return segment["id"]

    def attach(self, client, ident):
        for fd in client.shm(wire.SHM_ATTACH, ident=ident)[2]:
            os.close(fd)

    def list(self, *options):
        done = self.gdev("shm", "list", "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["segments"]

    def remove(self, *which):
        done = self.gdev("shm", "rm", *which)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def refuse(self, why, *which, code=1):
        done = self.gdev("shm", "rm", *which)
        self.assertEqual(done.returncode, code)
        self.assertIn(why, done.stderr)

    def test_list(self):
        self.start()
        self.assertIn("no shared memory", self.gdev("shm", "list").stdout)
        self.assertNotIn("shared memory", self.gdev("status").stdout)
        client = self.client()
        ident = self.make(client, key=0x1234)
        for _ in range(2):
            self.attach(client, ident)
        self.assertEqual(self.list(), [{
            "segment": ident, "key": 0x1234, "vgpu": "gdev0", "device": "null", "owner": os.getuid(), "group": os.getgid(),
            "mode": "0640", "size_bytes": CHUNK, "bytes": CHUNK, "where": "device", "moving": False,
            "transient": False, "removed": False, "attached": 2, "pids": [os.getpid()]}])
        text = self.gdev("shm", "list").stdout
        for word in str(ident), "0x00001234", "gdev0", "0640", "2.0 MiB", "device", str(os.getpid()):
            self.assertIn(word, text)
        self.assertIn("shared memory", self.gdev("status").stdout)

    def test_long_list_comes_in_pages(self):
        self.start(config="[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n")
        clients = self.client(), self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES)
        made = [clients[i % 2].shm(wire.SHM_GET, size=4096, flags=0o1600)[1]["id"] for i in range(600)]
        self.assertEqual([segment["segment"] for segment in self.list()], made)
        self.assertEqual([segment["segment"] for segment in self.list("--vgpu", "second")], made[1::2])

    def test_remove(self):
        self.start(config="[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n")
        client, other = self.client(), self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES)
        negative = self.make(client, key=-2)
        first, second, third = self.make(client, key=1), self.make(other, key=1), self.make(client, key=2)
        self.refuse("there are 2 segments of that key", "1")
        self.refuse("no such segment", "7")
        self.refuse("no such segment", "#999999")
        for name in "0", "#", "#0", "", "1x", "x", "0x100000000", "#1.5":
            self.refuse("is no key", name, code=2)
        self.refuse("which one?", code=2)
        self.remove("--vgpu", "second", "0x1")
        self.assertEqual([segment["segment"] for segment in self.list()], [negative, first, third])
        self.remove(f"#{first}", "2")
        self.remove("0xfffffffe")
        self.assertEqual(self.list(), [])
        self.assertEqual(other.shm(wire.SHM_STAT, ident=second)[0], -harness.EINVAL)

    def test_removed_segment_goes_with_its_last_attachment(self):
        self.start()
        client = self.client()
        used = self.status()["vgpus"][0]["memory_used_bytes"]
        ident = self.make(client)
        self.attach(client, ident)
        self.remove("42")
        self.assertEqual([(s["key"], s["removed"]) for s in self.list()], [(None, True)])
        self.assertEqual(client.shm(wire.SHM_GET, key=42)[0], -harness.ENOENT)
        client.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        wait_for(lambda: not self.list(), what="its end")
        self.wait_freed()
        self.assertEqual(self.status()["vgpus"][0]["memory_used_bytes"], used)

    def make_transient(self, client, size=CHUNK):
        status, segment, _ = client.shm(wire.SHM_GET, size=size, flags=wire.SHM_TRANSIENT | 0o600)
        self.assertEqual((status, client.memory(size)), (1, 0))
        chunk = wire.sealed_memfd(size)
        self.assertEqual(client.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=size, chunks=1)[0], 0)
        os.close(chunk)
        return segment["id"], segment["token"]

    def reach(self, devices, vgpu):
        self.start("--device", devices, config=f"[vgpu gdev0]\nmode = 0666\n[vgpu {vgpu}]\nmode = 0666\n")
        owner, peer = self.client(), self.client(vgpu, base=wire.ARENA_BASE + wire.ARENA_BYTES)
        ident, token = self.make_transient(owner)
        self.assertEqual(peer.shm(wire.SHM_ATTACH, ident=ident)[0], -errno.EINVAL)
        status, segment, fds = peer.shm(wire.SHM_ATTACH, ident=ident, token=token)
        self.assertEqual((status, segment["bytes"], len(fds)), (0, CHUNK, 1))
        os.close(fds[0])
        used = {vgpu["vgpu"]: vgpu["memory_used_bytes"] for vgpu in self.status()["vgpus"]}
        self.assertGreaterEqual(used["gdev0"] - used[vgpu], CHUNK)
        keyed = self.make(owner, key=5)
        self.assertEqual(peer.shm(wire.SHM_ATTACH, ident=keyed)[0], -errno.EINVAL)
        # It is there as long as one of them has it attached, also when the owner's session has ended.
        owner.close()
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="the owner's end")
        self.assertIn(ident, [segment["segment"] for segment in self.list()])
        self.assertIn("other virtual GPUs use memory", self.gdev("vgpu", "delete", "gdev0").stderr)
        peer.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        wait_for(lambda: ident not in [segment["segment"] for segment in self.list()], what="its end")

    def test_a_process_finds_its_memory_from_another_virtual_gpu(self):
        self.reach("null", "second")

    def test_a_process_finds_its_memory_from_another_device(self):
        self.reach("null:2", "gdev1")

    def test_a_process_finds_its_memory_before_the_next_gdevd_has_opened_the_device(self):
        vgpus = "[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n"
        self.start(config=vgpus)
        owner, peer = self.client(), self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES)
        self.processes[-1].kill()
        self.processes[-1].wait(wire.PATIENCE)
        self.start(config=vgpus, mode="die")
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="the sessions' return")
        ident, token = self.make_transient(owner)
        status, _, fds = peer.shm(wire.SHM_ATTACH, ident=ident, token=token)
        self.assertEqual((status, len(fds)), (0, 1))
        os.close(fds[0])
        self.assertFalse(self.status()["devices"][0]["ready"])

    def ask_for_room(self, client, *others):
        """What comes of it: the client's answer, or an order about a segment. The others have nothing to give."""
        client.tell(wire.room(4 << 20, wire.TO_STAY))
        while True:
            for some in select.select([some.peer for some in (client, *others)], [], [], wire.PATIENCE)[0]:
                kind, serial, status, body, _ = wire.receive(some)
                if kind != wire.EVICT:
                    return kind, wire.SHM_BODY.unpack(body)[0] if kind == wire.SHM else status
                next(other for other in others if other.peer is some).tell(wire.evicted(serial))

    def share_with_peer(self, *options, devices="null", vgpu="second", limit=""):
        """An owner of 8 of 16 MiB that a session of another virtual GPU has attached, that session, and a third one."""
        self.start("--device", devices, "--device-memory", "16M", "--set", "swap_reserve=0", "--set", "host_swap=64M", "--set",
                   "warm_workers=0", "--set", "retire_after=never", *options,
                   config=f"[vgpu gdev0]\nmode = 0666\n[vgpu {vgpu}]\nmode = 0666\n{limit}")
        owner, peer = self.client(), self.client(vgpu, base=wire.ARENA_BASE + wire.ARENA_BYTES)
        other = self.client()
        self.ident, self.token = self.make_transient(owner, 8 << 20)
        for fd in peer.shm(wire.SHM_ATTACH, ident=self.ident, token=self.token)[2]:
            os.close(fd)
        return owner, peer, other

    def test_what_another_device_has_stays_on_the_device(self):
        owner, peer, other = self.share_with_peer(devices="null:2", vgpu="gdev1")
        self.assertEqual(other.memory(6 << 20), 0)
        self.assertEqual(self.ask_for_room(other, owner), (wire.CHARGED, -errno.ENOMEM))
        peer.tell(wire.shm(wire.SHM_DETACH, ident=self.ident, serial=0))
        wait_for(lambda: self.list()[0]["attached"] == 1, what="that it is the owner's alone")
        self.assertEqual(self.ask_for_room(other, owner), (wire.SHM, wire.SHM_LEAVE))
        # Until it is there again, it cannot be attached from there, nor held: who has it could become the one to bring it in.
        for command in wire.SHM_ATTACH, wire.SHM_HOLD:
            self.assertEqual(peer.shm(command, ident=self.ident, token=self.token)[0], -errno.EAGAIN)

    def test_what_is_away_is_brought_in_for_another_device(self):
        """By a session of its own device, which is told to; the other one asks again"""
        owner, peer, other = self.share_with_peer(devices="null:2", vgpu="gdev1")
        peer.tell(wire.shm(wire.SHM_DETACH, ident=self.ident, serial=0))
        wait_for(lambda: self.list()[0]["attached"] == 1, what="that it is the owner's alone")
        self.assertEqual(other.memory(6 << 20), 0)
        self.assertEqual(self.ask_for_room(other, owner), (wire.SHM, wire.SHM_LEAVE))
        self.answer(owner, wire.SHM_LEAVE, 1)
        self.expect_order(owner, wire.SHM_WRITE)
        self.answer(owner, wire.SHM_WRITE)
        self.expect_order(owner, wire.SHM_DROP)
        self.answer(owner, wire.SHM_DROP)
        wait_for(lambda: self.list()[0]["where"] == "host", what="that it is on the host")
        for command in wire.SHM_ATTACH, wire.SHM_HOLD:
            self.assertEqual(peer.shm(command, ident=self.ident, token=self.token)[0], -errno.EAGAIN)
            self.expect_order(owner, wire.SHM_FETCH)

    def expect_order(self, client, command):
        kind, _, _, body, fds = wire.receive(client.peer)
        self.assertEqual((kind, wire.SHM_BODY.unpack(body)[0]), (wire.SHM, command))
        for fd in fds:
            os.close(fd)

    def answer(self, client, command, status=0):
        client.tell(wire.shm(command, ident=self.ident, serial=0, status=status))

    def used_by(self, vgpu):
        return next(v["memory_used_bytes"] for v in self.status()["vgpus"] if v["vgpu"] == vgpu)

    def leave_both(self, owner, peer, other):
        """It leaves both, as the third session needs room; which it has then."""
        self.assertEqual(other.memory(5 << 20), 0)
        other.tell(wire.room(4 << 20, wire.TO_STAY))
        for client in owner, peer:
            kind, serial, _, body, _ = wire.receive(client.peer)
            if kind == wire.EVICT:  # what is its own comes first
                client.tell(wire.evicted(serial))
                self.expect_order(client, wire.SHM_LEAVE)
        for client in owner, peer:
            self.answer(client, wire.SHM_LEAVE, 1)
        writer = select.select([owner.peer, peer.peer], [], [], wire.PATIENCE)[0][0]
        writer = owner if writer is owner.peer else peer
        self.expect_order(writer, wire.SHM_WRITE)
        self.answer(writer, wire.SHM_WRITE)
        for client in owner, peer:
            self.expect_order(client, wire.SHM_DROP)
            self.answer(client, wire.SHM_DROP)
        kind, _, status, _, _ = wire.receive(other.peer)
        self.assertEqual((kind, status), (wire.CHARGED, 0))

    def want(self, client):
        client.tell(wire.shm(wire.SHM_RESTORE, ident=self.ident))

    def restored(self, client):
        kind, _, status, body, fds = wire.receive(client.peer)
        self.assertEqual(kind, wire.SHM_REPLY)
        for fd in fds:
            os.close(fd)
        return status, wire.SHM_BODY.unpack(body)[3]

    def test_what_another_virtual_gpu_of_the_device_has_leaves_it_and_comes_back(self):
        owner, peer, other = self.share_with_peer(limit="memory = 4M\n")
        self.leave_both(owner, peer, other)
        before = self.used_by("gdev0"), self.used_by("second")
        self.want(peer)  # there is no room: it waits
        self.assertEqual(peer.shm(wire.SHM_STAT, ident=self.ident, token=self.token)[0], 0)
        other.tell(wire.give_back(9 << 20))
        # It is more than its own virtual GPU has: the segment's pays.
        self.assertEqual(self.restored(peer), (1, wire.SHM_HOST | wire.SHM_PAID))
        self.assertEqual((self.used_by("gdev0"), self.used_by("second")), (before[0] - (1 << 20), before[1]))
        chunk = wire.sealed_memfd(8 << 20)
        peer.tell(wire.shm(wire.SHM_BACK, ident=self.ident, size=8 << 20, chunk=8 << 20, chunks=1), [chunk])
        os.close(chunk)
        for client in owner, peer:
            self.expect_order(client, wire.SHM_STAY)
        self.assertEqual(self.restored(peer)[0], 0)
        self.want(owner)
        self.assertEqual(self.restored(owner), (0, 0))
        self.assertEqual((self.used_by("gdev0"), self.used_by("second")), (before[0] - (1 << 20), before[1]))

    def test_a_virtual_gpu_takes_along_those_that_use_its_memory(self):
        self.start(config="[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n")
        owner, peer = self.client(), self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES)
        self.client("second")
        ident, token = self.make_transient(owner)
        for fd in peer.shm(wire.SHM_ATTACH, ident=ident, token=token)[2]:
            os.close(fd)
        done = self.gdev("vgpu", "delete", "gdev0", "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for(lambda: len(self.status()["sessions"]) == 1, what="the end of those two")
        self.assertEqual(self.list(), [])

    def test_what_no_session_of_the_process_has_is_not_found(self):
        self.start(config="[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n")
        child = os.fork()
        if not child:  # the owner is another process
            owner = self.client()
            ident, token = self.make_transient(owner)
            with open(self.directory + "/made.new", "w", encoding="ascii") as made:
                made.write(f"{ident} {token.hex()}")
            os.rename(self.directory + "/made.new", self.directory + "/made")
            signal.pause()
        try:
            wait_for(lambda: os.path.exists(self.directory + "/made"), what="the owner")
            with open(self.directory + "/made", encoding="ascii") as made:
                ident, token = made.read().split()
            named = {"ident": int(ident), "token": bytes.fromhex(token)}
            peer = self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES)
            same = self.client("gdev0")
            for command in wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT, wire.SHM_REMOVE:
                self.assertEqual(peer.shm(command, **named)[0], -errno.EINVAL)
            self.assertEqual(peer.shm(wire.SHM_RESTORE, ident=int(ident))[0], -errno.EIDRM)
            for command in wire.SHM_ATTACH, wire.SHM_HOLD, wire.SHM_STAT, wire.SHM_REMOVE, wire.SHM_PUBLISH:
                self.assertEqual(same.shm(command, **named)[0], -errno.EINVAL)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def test_who_has_the_pid_of_a_process_that_has_ended_does_not_find_its_memory(self):
        self.start(config="[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n")
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(sock.close)
        opener = os.fork()
        if not opener:
            try:
                sock.connect(f"{self.run_dir}/second.sock")
                wire.send(sock, wire.message(wire.DESCRIBE))
                os._exit(wire.receive(sock)[0] != wire.DESCRIPTION)  # gdevd has heard of it
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(opener, 0)[1], 0)
        read, write = os.pipe()
        owner = harness.fork_as(opener)
        if not owner:
            try:
                ident, token = self.make_transient(self.client())
                os.write(write, f"{ident} {token.hex()}".encode())
                signal.pause()
            finally:
                os._exit(1)
        try:
            self.assertTrue(select.select([read], [], [], wire.PATIENCE)[0])
            ident, token = os.read(read, 4096).decode().split()
            peer = harness.Client(sock, base=wire.ARENA_BASE + wire.ARENA_BYTES)
            self.assertEqual(peer.kind, wire.WELCOME)
            status = peer.shm(wire.SHM_HOLD, ident=int(ident), token=bytes.fromhex(token))[0]
            self.assertEqual(status, -errno.EINVAL)
            peer.close()
        finally:
            os.kill(owner, signal.SIGKILL)
            os.waitpid(owner, 0)
            os.close(read)
            os.close(write)

    def describe(self, sock):
        """Whether gdevd answers: it has accepted the connection, and keeps it."""
        try:
            wire.send(sock, wire.message(wire.DESCRIBE))
            return wire.receive(sock)[0] == wire.DESCRIPTION
        except (BrokenPipeError, ConnectionResetError):
            return False

    def test_a_process_finds_its_memory_that_came_when_gdevd_had_no_descriptor_to_look_with(self):
        pid = self.start(config="[vgpu gdev0]\nmode = 0666\n[vgpu second]\nmode = 0666\n").pid
        ident, token = self.make_transient(self.client())
        self.wait_warm(2)
        used = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
        unused = (number for number in itertools.count() if number not in used)
        next(unused)  # for the connection
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (next(unused), limits[1]))
        sock = wire.connect(f"{self.run_dir}/second.sock")
        accepted = self.describe(sock)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        if not accepted:  # as libgdev does
            sock.close()
            sock = f"{self.run_dir}/second.sock"
        peer = harness.Client(sock, base=wire.ARENA_BASE + wire.ARENA_BYTES)
        self.clients.append(peer)
        self.assertEqual(peer.shm(wire.SHM_STAT, ident=ident, token=token)[0], 0)

    def test_transient_segments_are_listed_without_their_tokens(self):
        self.start()
        client = self.client()
        _, segment, _ = client.shm(wire.SHM_GET, size=CHUNK, flags=wire.SHM_TRANSIENT | 0o600)
        done = self.gdev("shm", "list", "--json").stdout
        self.assertEqual([(s["transient"], s["key"], s["where"]) for s in self.list()], [(True, None, None)])
        self.assertNotIn(segment["token"].hex(), done)
        self.assertNotIn("token", done)


if __name__ == "__main__":
    harness.main()
