# SPDX-License-Identifier: MIT
"""Attacks on shared segments: what is another user's, and memory that nobody uses any more."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import resource
import select
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402
from harness import EACCES, EAGAIN, EINVAL, EPERM, SHARED_LIMIT, wait_for  # noqa: E402
from users import user  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
MIB = 1 << 20
CHUNK = 2 * MIB
ALICE, MALLORY, WORKERS = 1000, 1001, 65534
GROUP = 2000
RDONLY, TRUST_READERS = 0o10000, 0x04000000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p


def protect(fd):
    at = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(CHUNK), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0)))
    if libc.mprotect(at, ctypes.c_size_t(CHUNK), mmap.PROT_READ | mmap.PROT_WRITE):
        raise OSError(ctypes.get_errno(), "mprotect")


def ways_to_write(fd):
    """Those by which this process can change what is in the file; a list of names."""
    path = f"/proc/self/fd/{fd}"
    ways = {
        "write": lambda: os.pwrite(fd, b"forged", 0),
        "map": lambda: mmap.mmap(fd, CHUNK, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE).close(),
        "protect": lambda: protect(fd),
        "reopen": lambda: os.close(os.open(path, os.O_RDWR)),
        "mode": lambda: os.fchmod(fd, 0o666),
        "owner": lambda: os.fchown(fd, os.getuid(), -1),
        "reopen then": lambda: os.close(os.open(path, os.O_WRONLY)),
        "truncate": lambda: os.ftruncate(fd, 0),
        "truncate by path": lambda: os.truncate(path, 0),
        "seal": lambda: fcntl.fcntl(fd, 1033, 8),  # F_ADD_SEALS, F_SEAL_WRITE
    }
    found = []
    for name, way in ways.items():
        with contextlib.suppress(OSError):
            way()
            found.append(name)
    return found


def ways_of(uid, fd):
    """The same of a process of that user."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os.write(write, " ".join(ways_to_write(fd)).encode() + b".")
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read, encoding="ascii") as pipe:
        return pipe.read()


@unittest.skipUnless(os.geteuid() == 0, "the attacker is another user, whom only root can play")
class Segments(harness.GdevdTest):
    """Sessions of several users, whose workers say what the test says."""

    workers = WORKERS  # their user

    options = ()

    def begin(self, *options):
        self.options = options or self.options
        self.start("--device-memory", "1G", *self.options)

    def session(self, uid, *groups):
        with user(uid, *groups):
            return self.client(base=wire.ARENA_BASE + len(self.clients) * wire.ARENA_BYTES)

    def make(self, client, key=42, mode=0o600, size=CHUNK, chunk=None):
        """A segment's id, and its chunk, which the client's worker has made."""
        status, segment, _ = client.shm(wire.SHM_GET, key=key, size=size, flags=0o1000 | mode)
        self.assertEqual((status, client.memory(size)), (1, 0))
        if chunk is None:
            with user(self.workers):
                chunk = wire.sealed_memfd(size)
            os.pwrite(chunk, b"secret", 0)
        self.assertEqual(client.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=size, chunks=1)[0], 0)
        return segment["id"], chunk

    def attach(self, client, ident, flags=0, again=False):
        """again: as a worker that registers with a new gdevd."""
        return client.shm(wire.SHM_ATTACH, ident=ident, flags=flags, size=CHUNK if again else 0)

    def restart(self):
        count = len(self.clients)
        self.processes[-1].kill()
        self.processes[-1].wait()
        self.begin()
        wait_for(lambda: len(self.status()["sessions"]) == count, what="the sessions' return")

    # -- rights ------------------------------------------------------------------------------------

    def refuse_mallory(self, mallory, ident):
        for again in False, True:
            for flags in 0, RDONLY:
                status, _, fds = self.attach(mallory, ident, flags, again)
                self.assertEqual((status, fds), (-EACCES, []))
        self.assertEqual(mallory.shm(wire.SHM_STAT, ident=ident)[0], -EACCES)
        self.assertEqual(mallory.shm(wire.SHM_RESTORE, ident=ident)[0], -EINVAL)
        self.assertEqual(mallory.shm(wire.SHM_SET, ident=ident, mode=0o666)[0], -EPERM)
        self.assertEqual(mallory.shm(wire.SHM_REMOVE, ident=ident)[0], -EPERM)
        chunk = wire.sealed_memfd(CHUNK)
        self.assertEqual(mallory.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=CHUNK, chunks=1)[0], -EINVAL)
        self.assertEqual(mallory.shm(wire.SHM_BACK, [chunk], ident=ident, flags=wire.SHM_HOST)[0], -EINVAL)
        os.close(chunk)

    def test_another_users_segment_after_a_restart(self):
        """A session that outlives gdevd has no right to another user's segment that it had not before"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice)
        self.attach(alice, ident)
        self.refuse_mallory(mallory, ident)
        self.restart()
        self.refuse_mallory(mallory, ident)  # before it is back, and afterwards
        self.assertEqual(self.attach(alice, ident, again=True)[0], 1)
        self.assertEqual(alice.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=CHUNK, chunks=1)[0], 0)
        self.refuse_mallory(mallory, ident)
        os.close(chunk)

    def test_segment_that_a_worker_invents_after_a_restart(self):
        """A worker cannot make a gdevd that is restarted believe in a segment, nor in its owner or key"""
        self.begin()
        mallory = self.session(MALLORY)
        ident, chunk = self.make(mallory)
        self.attach(mallory, ident)
        self.restart()
        said = {"key": 7, "size": CHUNK, "uid": 0, "gid": 0, "mode": 0o666}
        self.assertEqual(mallory.shm(wire.SHM_ATTACH, ident=ident + 1, **said)[0], -EINVAL)
        self.assertEqual(mallory.shm(wire.SHM_ATTACH, ident=ident, **said)[0], 1)
        self.assertEqual(mallory.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=CHUNK, chunks=1)[0], 0)
        known = mallory.shm(wire.SHM_STAT, ident=ident)[1]
        self.assertEqual((known["key"], known["uid"], known["mode"]), (42, MALLORY, 0o600))
        os.close(chunk)

    def test_contents_that_a_reader_invents_after_a_restart(self):
        """Who may only read a segment cannot give it other contents when gdevd is restarted"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice, mode=0o644)
        self.attach(alice, ident)
        self.attach(mallory, ident, RDONLY)
        self.restart()
        self.assertEqual(self.attach(mallory, ident, again=True)[0], -EACCES)  # for writing
        self.assertEqual(self.attach(mallory, ident, RDONLY, again=True)[0], 1)
        forged = wire.sealed_memfd(CHUNK)
        self.assertEqual(mallory.shm(wire.SHM_BACK, [forged], ident=ident, chunk=CHUNK, chunks=1)[0], -EINVAL)
        self.assertEqual(self.attach(alice, ident, again=True)[0], 1)
        self.assertEqual(alice.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=CHUNK, chunks=1)[0], 0)
        os.close(forged)
        os.close(chunk)

    def check_groups(self, friend, mallory, ident):
        self.assertEqual(self.attach(friend, ident, RDONLY)[0], 0)
        self.assertEqual(self.attach(friend, ident)[0], -EACCES)
        self.refuse_mallory(mallory, ident)

    def test_supplementary_groups_count(self):
        """A supplementary group gives the rights of the segment's group, also after a restart, and no others"""
        self.begin()
        alice, friend, mallory = self.session(ALICE), self.session(1002, GROUP, ALICE), self.session(MALLORY, GROUP)
        ident, chunk = self.make(alice, mode=0o640)
        self.attach(alice, ident)
        self.check_groups(friend, mallory, ident)
        self.restart()
        self.assertEqual(self.attach(alice, ident, again=True)[0], 1)
        self.assertEqual(alice.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=CHUNK, chunks=1)[0], 0)
        self.check_groups(friend, mallory, ident)
        os.close(chunk)

    # -- reading -----------------------------------------------------------------------------------

    def check_reader(self, fds):
        """There is one descriptor, with which nobody but root can write."""
        self.assertEqual(len(fds), 1)
        for uid in MALLORY, ALICE, WORKERS:
            self.assertEqual(ways_of(uid, fds[0]), ".", f"of uid {uid}")
        self.assertEqual(os.pread(fds[0], 6, 0), b"secret")
        os.close(fds[0])

    def leave(self, ident, *sessions):
        """Their segment leaves the device: {session: {order: descriptors}}."""
        suspend = subprocess.Popen([harness.GDEV, "suspend", str(os.getpid())], env=self.environment)
        heard = {session: {} for session in sessions}
        while any(wire.SHM_DROP not in orders for orders in heard.values()):
            for peer in select.select([session.peer for session in sessions], [], [], 10)[0]:
                session = next(session for session in sessions if session.peer == peer)
                kind, serial, _, body, fds = wire.receive(peer)
                if kind == wire.EVICT:
                    session.tell(wire.evicted(serial))
                    continue
                self.assertEqual(kind, wire.SHM)
                order = wire.SHM_BODY.unpack(body)[0]
                heard[session][order] = fds
                if order == wire.SHM_WRITE:
                    os.pwrite(fds[0], b"secret", 0)
                session.tell(wire.shm(order, ident=ident, serial=0, status=int(order == wire.SHM_LEAVE)))
        self.assertEqual(suspend.wait(60), 0)
        self.assertEqual(self.gdev("resume", str(os.getpid())).returncode, 0)
        for session in sessions:
            self.assertEqual(wire.receive(session.peer)[0], wire.EVICT)
        return heard

    def test_who_may_only_read_gets_no_descriptor_that_can_write(self):
        """Who may only read a segment gets no descriptor that can be written to, or be made so, by any user"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice, mode=0o644)
        self.assertIn("reopen", ways_of(MALLORY, chunk))  # of the chunk as the worker has it
        os.pwrite(chunk, b"secret", 0)
        status, _, fds = self.attach(mallory, ident, RDONLY)
        self.assertEqual(status, 0)
        self.check_reader(fds)
        status, _, fds = self.attach(alice, ident)
        self.assertEqual((status, os.pwrite(fds[0], b"secret", 0)), (0, 6))
        os.close(fds[0])
        os.close(chunk)

    def begin_segment(self, client, key):
        """Its id; what it is made of is to come."""
        status, segment, _ = client.shm(wire.SHM_GET, key=key, size=CHUNK, flags=0o1600)
        self.assertEqual((status, client.memory(CHUNK)), (1, 0))
        return segment["id"]

    def test_who_may_only_read_makes_no_segment_of_its_own_of_it(self):
        """Who may only read a segment does not get it to write by making another segment of its chunks"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice, mode=0o644)
        _, _, fds = self.attach(mallory, ident, RDONLY)
        other = self.begin_segment(mallory, 77)
        self.assertEqual(mallory.shm(wire.SHM_BACK, fds, ident=other, chunk=CHUNK, chunks=1)[0], -EINVAL)
        self.check_reader(fds)
        os.close(chunk)

    def test_who_may_only_read_gives_it_back_after_a_restart(self):
        """Who may only read a segment can give it back after a restart, and gains nothing by that"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice, mode=0o644)
        os.close(self.attach(alice, ident)[2][0])
        kept = self.attach(mallory, ident, RDONLY)[2]
        self.restart()
        self.assertEqual(self.attach(mallory, ident, RDONLY, again=True)[0], 1)
        self.assertEqual(mallory.shm(wire.SHM_BACK, kept, ident=ident, chunk=CHUNK, chunks=1)[0], 0)
        self.check_reader(self.attach(mallory, ident, RDONLY)[2])
        fds = self.attach(alice, ident)[2]
        self.assertEqual(os.pwrite(fds[0], b"secret", 0), 6)
        self.check_reader(kept)
        for fd in chunk, *fds:
            os.close(fd)

    def test_device_keeps_its_mode(self):
        """A device that comes as a chunk keeps its mode, also if its descriptor can only be read"""
        self.begin()
        mallory = self.session(MALLORY)
        ident = self.begin_segment(mallory, 78)
        node = self.directory + "/device"
        os.mknod(node, 0o020000, os.makedev(1, 3))
        os.chmod(node, 0o666)
        handle = os.open(node, os.O_RDONLY)
        mallory.shm(wire.SHM_BACK, [handle], ident=ident, chunk=CHUNK, chunks=1)
        self.assertEqual(os.stat(node).st_mode & 0o777, 0o666)
        os.close(handle)

    def test_who_may_only_read_writes_no_host_copy(self):
        """Who may only read a segment is not asked to write its host copy, nor given it to write or to bring in"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice, mode=0o644)
        for session, flags in (alice, 0), (mallory, RDONLY):
            os.close(self.attach(session, ident, flags)[2][0])
        heard = self.leave(ident, alice, mallory)
        self.assertNotIn(wire.SHM_WRITE, heard[mallory])
        self.check_reader(heard[mallory][wire.SHM_DROP])
        self.assertEqual(os.pwrite(heard[alice][wire.SHM_DROP][0], b"secret", 0), 6)
        self.check_reader(self.attach(mallory, ident, RDONLY)[2])
        status, segment, fds = mallory.shm(wire.SHM_RESTORE, ident=ident)
        self.assertEqual((status, segment["flags"] & wire.SHM_READER), (1, wire.SHM_READER))
        self.check_reader(fds)
        self.assertEqual(mallory.shm(wire.SHM_MOVE, ident=ident)[0], -EAGAIN)
        self.assertEqual(mallory.shm(wire.SHM_CARRY, ident=ident)[0], -EINVAL)  # it has no room for it yet
        self.assertEqual(mallory.memory(CHUNK), 0)
        forged = wire.sealed_memfd(CHUNK)
        self.assertEqual(mallory.shm(wire.SHM_BACK, [forged], ident=ident, chunk=CHUNK, chunks=1)[0], -EACCES)
        mallory.tell(wire.shm(wire.SHM_CARRY, ident=ident, serial=8))
        kind, _, _, body, _ = wire.receive(mallory.peer)
        self.assertEqual((kind, wire.SHM_BODY.unpack(body)[0]), (wire.SHM, wire.SHM_STAY))
        kind, _, status, _, fds = wire.receive(mallory.peer)
        self.assertEqual((kind, status), (wire.SHM_REPLY, 0))
        self.check_reader(fds)
        for fd in chunk, forged, *heard[alice][wire.SHM_DROP], *heard[alice][wire.SHM_WRITE]:
            os.close(fd)

    def test_what_was_carried_for_a_reader_for_nothing(self):
        """Who may only read a segment pays for the copying also if a worker carries it in for nothing"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        ident, chunk = self.make(alice, mode=0o644)
        for session, flags in (alice, 0), (mallory, RDONLY):
            os.close(self.attach(session, ident, flags)[2][0])
        for orders in self.leave(ident, alice, mallory).values():
            for fd in sum(orders.values(), []):
                os.close(fd)
        with open(self.orders + "/carry", "w", encoding="ascii") as file:
            file.write("fail")
        os.close(mallory.shm(wire.SHM_RESTORE, ident=ident)[2][0])
        self.assertEqual(mallory.memory(CHUNK), 0)
        self.assertEqual(mallory.shm(wire.SHM_CARRY, ident=ident)[0], -EAGAIN)
        self.assertGreater(self.status()["vgpus"][0]["resources"]["to_device"]["used_ns"], 0)
        os.close(chunk)

    def test_handles_that_cannot_be_narrowed(self):
        """Where handles cannot be narrowed, who may only read gets none, unless the owner trusts readers"""
        self.begin()
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        for trust, expected in (0, -EACCES), (TRUST_READERS, 0):
            handle = os.open("/dev/null", os.O_RDWR)  # as a driver's: of a device
            ident, _ = self.make(alice, key=50 + trust, mode=0o644 | trust, chunk=handle)
            status, _, fds = self.attach(mallory, ident, RDONLY)
            self.assertEqual((status, len(fds)), (expected, int(not expected)))
            self.assertEqual(self.attach(mallory, ident)[0], -EACCES)
            self.assertEqual(self.attach(alice, ident)[0], 0)
            os.close(handle)

    def test_what_is_no_chunk(self):
        """A worker that gives a stranger's file or a socket as a chunk of a segment is dropped"""
        self.begin()
        pipe = os.pipe()
        file = os.open(self.log_path, os.O_RDONLY)
        for key, fd in enumerate((file, *pipe, None), 1):
            mallory = self.session(MALLORY)
            status, segment, _ = mallory.shm(wire.SHM_GET, key=key, size=CHUNK, flags=0o1600)
            self.assertEqual((status, mallory.memory(CHUNK)), (1, 0))
            fd = mallory.peer.fileno() if fd is None else fd
            mallory.tell(wire.shm(wire.SHM_BACK, ident=segment["id"], chunk=CHUNK, chunks=1), [fd])
            self.assertEqual(wire.receive(mallory.peer)[0], None)
        for fd in file, *pipe:
            os.close(fd)

    # -- how much ----------------------------------------------------------------------------------

    def ask_for(self, client, size=CHUNK, flags=0o1600):
        """The status of making one more; 1: it is made, and has no contents yet."""
        return client.shm(wire.SHM_GET, size=size, flags=flags)[0]

    def end(self, client):
        self.clients.remove(client)
        client.close()

    def test_segments_of_a_user_who_leaves(self):
        """What a user's segments hold is bounded, also when its programs have gone, and others have the rest"""
        self.begin("--set", "shared_per_user=64M")
        mallory = self.session(MALLORY)
        for _ in range(32):
            os.close(self.make(mallory, key=0)[1])
        self.assertEqual(self.ask_for(mallory), -SHARED_LIMIT)
        self.end(mallory)
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.ask_for(self.session(MALLORY)), -SHARED_LIMIT)
        self.assertEqual(self.status()["shared"], [
            {"uid": MALLORY, "device": "null", "segments": 32, "bytes": 64 * MIB, "limit_bytes": 64 * MIB}])
        alice = self.session(ALICE)
        os.close(self.make(alice, size=64 * MIB)[1])
        self.assertEqual(alice.memory(512 * MIB), 0)

    def test_bytes_without_contents(self):
        """Bytes that were only asked for count, and sums do not wrap"""
        self.begin("--set", "shared_per_user=64M")
        mallory = self.session(MALLORY)
        self.assertEqual(self.ask_for(mallory, size=(1 << 64) - CHUNK), -EINVAL)
        self.assertEqual(self.ask_for(mallory, size=1 << 50), -SHARED_LIMIT)
        self.assertEqual(self.ask_for(mallory, size=40 * MIB), 1)
        self.assertEqual(self.ask_for(mallory, size=40 * MIB), -SHARED_LIMIT)
        self.end(mallory)
        wait_for(lambda: not self.status()["shared"], what="their end")

    @unittest.skipIf(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 16384, "descriptors are fewer than segments")
    def test_number_of_segments(self):
        """The number of a user's segments is bounded, transient ones included"""
        self.begin()
        mallory, alice = self.session(MALLORY), self.session(ALICE)
        for i in range(2048):
            flags = wire.SHM_TRANSIENT | 0o600 if i % 2 else 0o1600
            self.assertEqual(self.ask_for(mallory, size=4096, flags=flags), 1)
        for flags in wire.SHM_TRANSIENT | 0o600, 0o1600:
            self.assertEqual(self.ask_for(mallory, size=4096, flags=flags), -SHARED_LIMIT)
        self.assertEqual(self.ask_for(alice), 1)

    def test_segments_of_a_virtual_gpu(self):
        """What the segments of a virtual GPU hold together is bounded, by default by its memory"""
        config = "[vgpu gdev0]\nshared = 8M\n[vgpu second]\nmemory = 16M\n"
        self.start("--device-memory", "1G", config=config)
        alice, mallory = self.session(ALICE), self.session(MALLORY)
        self.assertEqual(self.ask_for(alice, size=6 * MIB), 1)
        self.assertEqual(self.ask_for(mallory, size=4 * MIB), -SHARED_LIMIT)
        self.assertEqual(self.ask_for(mallory, size=2 * MIB), 1)
        other = self.client("second", base=wire.ARENA_BASE + 8 * wire.ARENA_BYTES)
        self.assertEqual(self.ask_for(other, size=18 * MIB), -SHARED_LIMIT)
        self.assertEqual(self.ask_for(other, size=16 * MIB), 1)

    def test_limits_after_a_restart(self):
        """A restart of gdevd forgives nobody what its segments hold"""
        self.begin("--set", "shared_per_user=2M")
        mallory = self.session(MALLORY)
        ident, chunk = self.make(mallory)
        self.attach(mallory, ident)
        self.restart()
        self.assertEqual(self.ask_for(mallory, size=4096), -SHARED_LIMIT)
        self.assertEqual(self.attach(mallory, ident, again=True)[0], 1)
        self.assertEqual(mallory.shm(wire.SHM_BACK, [chunk], ident=ident, chunk=CHUNK, chunks=1)[0], 0)
        self.assertEqual(self.ask_for(mallory, size=4096), -SHARED_LIMIT)
        self.assertEqual(mallory.shm(wire.SHM_REMOVE, ident=ident)[0], 0)
        self.assertEqual(self.ask_for(mallory), -SHARED_LIMIT)  # it is attached yet
        mallory.tell(wire.shm(wire.SHM_DETACH, ident=ident, serial=0))
        self.assertEqual(self.ask_for(mallory), 1)
        os.close(chunk)

    def test_chunk_that_is_larger_than_was_said(self):
        """A chunk takes no more memory than was paid for it"""
        self.begin()
        mallory = self.session(MALLORY)
        status, segment, _ = mallory.shm(wire.SHM_GET, key=9, size=CHUNK, flags=0o1600)
        self.assertEqual((status, mallory.memory(CHUNK)), (1, 0))
        for size in 512 * MIB, CHUNK + 4096, 4096:
            chunk = wire.sealed_memfd(size)
            back = mallory.shm(wire.SHM_BACK, [chunk], ident=segment["id"], chunk=CHUNK, chunks=1)
            self.assertEqual(back[0], -EINVAL)
            os.close(chunk)

    # -- who may remove ----------------------------------------------------------------------------

    def remove(self, uid, **which):
        """The status of what `gdev shm rm` asks, whatever the peer says of itself."""
        with user(uid):
            connection = wire.connect(self.run_dir + "/control.sock")
        wire.send(connection, wire.admin({"command": "shm-remove", "peer_uid": 0, **which}))
        with connection:
            return wire.receive(connection)[2]

    def test_who_may_remove(self):
        """A segment is removed for its owner and for root, and for nobody else"""
        self.begin()
        alice = self.session(ALICE)
        idents = [self.make(alice, key=key, mode=0o666)[0] for key in (1, 2, 3)]
        for which in {"key": 1}, {"segment": idents[0]}:
            self.assertEqual(self.remove(MALLORY, **which), -EPERM)
        for which in {"key": 0}, {"key": 7}, {"segment": 1 << 40}, {"key": 1, "vgpu": "gdev7"}, {"key": 1 + (1 << 32)}:
            self.assertEqual(self.remove(0, **which), -harness.ENOENT)
        self.assertEqual(alice.shm(wire.SHM_STAT, ident=idents[0])[0], 0)
        self.assertEqual(self.remove(ALICE, key=1), 0)
        self.assertEqual(self.remove(0, segment=idents[1]), 0)
        for ident in idents[:2]:
            self.assertEqual(alice.shm(wire.SHM_STAT, ident=ident)[0], -EINVAL)
        self.assertEqual(alice.shm(wire.SHM_STAT, ident=idents[2])[0], 0)


if __name__ == "__main__":
    integ.main()
