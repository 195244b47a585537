#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who gets the trace segments of which sessions, and when they are switched on.

Usage: test_trace.py GDEVD GDEV [unittest arguments]
"""

import mmap
import os
import socket
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

EALREADY = 114
FEATURES = wire.FEATURE_DEVICE_MAP | wire.FEATURE_TUNING | wire.FEATURE_TRACE


class Tracer:
    def __init__(self, run_dir, token=0):
        self.sock = wire.connect(run_dir + "/control.sock")
        self.request(token)

    def request(self, token):
        wire.send(self.sock, wire.message(wire.TRACE, wire.TRACE_BODY.pack(token, 0), 9))
        kind, serial, self.status, _, _ = wire.receive(self.sock)
        assert (kind, serial) == (wire.TRACE_REPLY, 9)

    def next(self):
        """(type, session, pid, uid, vgpu, descriptors)"""
        kind, _serial, _status, body, fds = wire.receive(self.sock)
        session, pid, uid, vgpu, _program, device = wire.TRACED_BODY.unpack(body)
        assert device.rstrip(b"\0") == b"null"
        return kind, session, pid, uid, vgpu.rstrip(b"\0").decode(), fds

    def nothing_more(self):
        self.sock.settimeout(0.3)
        try:
            wire.receive(self.sock)
            return False
        except TimeoutError:
            return True
        finally:
            self.sock.settimeout(wire.PATIENCE)


class Trace(harness.GdevdTest):
    def tracer(self, token=0):
        tracer = Tracer(self.run_dir, token)
        self.addCleanup(tracer.sock.close)
        return tracer

    def traced_client(self, **hello):
        client = self.client(features=FEATURES, **hello)
        self.assertEqual(len(client.fds), 5)
        return client

    def enabled(self, fd):
        return struct.unpack("=I", os.pread(fd, 4, wire.TRACE_ENABLED))[0]

    def test_a_session_is_traced_as_long_as_somebody_wants_it(self):
        self.start()
        client = self.traced_client()
        fd = client.fds[4]
        self.assertEqual(self.enabled(fd), 0)
        first, second = self.tracer(), self.tracer()
        for tracer in (first, second):
            kind, session, pid, uid, vgpu, fds = tracer.next()
            self.assertEqual((kind, session, pid, uid, vgpu),
                             (wire.TRACE_BEGIN, client.session, os.getpid(), os.getuid(), "gdev0"))
            self.assertEqual(self.enabled(fds[0]), 1)
            os.close(fds[0])
        first.sock.close()
        self.assertTrue(self.status()["sessions"])  # gdevd has seen the end of the first
        self.assertEqual(self.enabled(fd), 1)
        second.sock.close()
        wait_for(lambda: self.enabled(fd) == 0, what="the end of tracing")

    def test_what_is_handed_out_can_be_read_and_not_written(self):
        self.start()
        client = self.traced_client()
        _, _, _, _, _, fds = self.tracer().next()
        self.assertEqual(os.fstat(fds[0]).st_ino, os.fstat(client.fds[4]).st_ino)
        mmap.mmap(fds[0], wire.TRACE_BYTES, prot=mmap.PROT_READ).close()
        with self.assertRaises(PermissionError):
            mmap.mmap(fds[0], wire.TRACE_BYTES, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        with self.assertRaises(OSError):
            os.write(fds[0], b"x")
        os.close(fds[0])

    def test_a_token_chooses_sessions(self):
        self.start()
        self.traced_client(trace=7)
        everything, mine = self.tracer(), self.tracer(5)
        _, session, _, _, _, fds = everything.next()
        os.close(fds[0])
        client = self.traced_client(trace=5)
        for tracer in (everything, mine):
            kind, session, _, _, _, fds = tracer.next()
            self.assertEqual((kind, session), (wire.TRACE_BEGIN, client.session))
            os.close(fds[0])
        client.close()
        for tracer in (everything, mine):
            self.assertEqual(tracer.next()[:2], (wire.TRACE_END, client.session))
        self.assertTrue(mine.nothing_more())

    @unittest.skipIf(os.getuid() != 0, "needs root, to be another user")
    def test_other_users_get_nothing(self):
        self.start(config="[vgpu gdev0]\nmode = 0666\n")
        self.traced_client()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            os.write(write, b"1" if Tracer(self.run_dir).nothing_more() else b"0")
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(read, 1), b"1")
        os.close(read)
        os.close(write)

    def test_old_clients_and_old_workers_go_without(self):
        self.start(config="[gdevd]\nwarm_workers = 0\n")  # none that started before is there for the second
        self.assertEqual(len(self.client().fds), 4)
        self.order("no-trace")
        self.assertEqual(len(self.client(features=FEATURES).fds), 4)

    def test_a_user_has_a_bounded_number_of_tracers(self):
        self.start()
        tracers = [self.tracer() for _ in range(16)]
        self.assertEqual([tracer.status for tracer in tracers], [0] * 16)
        tracer = self.tracer()
        self.assertEqual(tracer.status, -harness.EUSERS)
        tracers[3].sock.close()

        def is_taken():
            tracer.request(0)
            return tracer.status == 0

        wait_for(is_taken, what="its turn")

    def test_nonsense_ends_the_connection_only(self):
        self.start()
        tracer = self.tracer(5)
        tracer.request(6)
        self.assertEqual(tracer.status, -EALREADY)
        bad = wire.connect(self.run_dir + "/control.sock")
        wire.send(bad, wire.message(wire.TRACE, wire.TRACE_BODY.pack(1, 1)))
        self.assertIsNone(wire.receive(bad)[0])
        bad.close()
        on_vgpu = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        on_vgpu.connect(self.run_dir + "/gdev0.sock")
        wire.send(on_vgpu, wire.message(wire.TRACE, wire.TRACE_BODY.pack(0, 0)))
        self.assertIsNone(wire.receive(on_vgpu)[0])
        on_vgpu.close()
        self.assertTrue(self.reachable())

    def test_sessions_of_a_gdevd_that_died_can_be_traced_by_the_next(self):
        first = self.start()
        client = self.traced_client()
        self.tracer().next()
        self.assertEqual(self.enabled(client.fds[4]), 1)
        first.kill()
        first.wait()
        self.start()
        wait_for(lambda: self.status()["sessions"], what="the session's return")
        self.assertEqual(self.enabled(client.fds[4]), 0)
        kind, session, _, _, _, fds = self.tracer().next()
        self.assertEqual((kind, session, self.enabled(fds[0])), (wire.TRACE_BEGIN, client.session, 1))


if __name__ == "__main__":
    harness.main()
