#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Segments of shared memory whose contents come back after a restart of gdevd, and sessions that keep others from them.

Usage: test_restoring.py GDEVD GDEV [unittest arguments]
"""

import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

MIB = 1 << 20
SIZE = 16 * MIB
WAITS = 10  # seconds that gdevd waits for workers after a restart, and for what it has ordered


class Restoring(harness.GdevdTest):
    size = SIZE

    def begin(self, count, chunk=None):
        """So many sessions that have attached a segment of one chunk, which takes half of the device."""
        self.launch()
        sessions = [self.client() for _ in range(count)]
        self.chunk = wire.sealed_memfd(self.size) if chunk is None else chunk
        self.addCleanup(os.close, self.chunk)
        self.ident = sessions[0].shm(wire.SHM_GET, key=42, size=self.size, flags=0o1600)[1]["id"]
        self.assertEqual(sessions[0].memory(self.size), 0)
        self.assertEqual(self.back(sessions[0], self.chunk), 0)
        for session in sessions:
            self.assertEqual(self.attach(session)[0], 0)
            session.peer.settimeout(12 * WAITS)
        return sessions

    def launch(self):
        self.start("--device-memory", str(2 * self.size), "--set", "swap_reserve=0", "--set", f"host_swap={4 * self.size}")

    def restart(self):
        count = len(self.status()["sessions"])
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes[-1].wait(wire.PATIENCE)
        self.launch()
        wait_for(lambda: len(self.status()["sessions"]) == count, what="the sessions' return")

    def attach(self, session, again=False, flags=0):
        """again: as a worker that registers says it, which has the chunk or, as the flags say, the host copy."""
        status, _, fds = session.shm(wire.SHM_ATTACH, ident=self.ident, flags=flags, size=self.size if again else 0)
        for fd in fds:
            os.close(fd)
        return status, len(fds)

    def back(self, session, fd, flags=0):
        session.tell(wire.shm(wire.SHM_BACK, ident=self.ident, chunk=self.size, chunks=1, flags=flags), [fd])
        return self.answer(session)[0]

    def say(self, session, command, **fields):
        """Without reading an answer."""
        session.tell(wire.shm(command, ident=self.ident, serial=8, **fields))

    def answer(self, session):
        """Of the next answer that is there: status, number of descriptors; orders are passed over."""
        kind = wire.SHM
        while kind in (wire.SHM, wire.EVICT):
            kind, serial, status, _, fds = wire.receive(session.peer)
            if kind == wire.EVICT:
                session.tell(wire.evicted(serial))
            for fd in fds:
                os.close(fd)
        self.assertEqual(kind, wire.SHM_REPLY)
        return status, len(fds)

    def hear(self, session, command):
        """Reads it; what came with it."""
        kind = wire.EVICT
        while kind == wire.EVICT:  # what is its own comes first
            kind, serial, _, body, fds = wire.receive(session.peer)
            if kind == wire.EVICT:
                session.tell(wire.evicted(serial))
        self.assertEqual((kind, wire.SHM_BODY.unpack(body)[0]), (wire.SHM, command))
        return fds

    def obey(self, session, command, status=0):
        session.tell(wire.shm(command, ident=self.ident, serial=0, status=status))

    def leave(self, *sessions):
        """The segment leaves for a third, until all are to drop the chunk; the host copy. None has dropped it."""
        third = self.client()
        third.tell(wire.room(20 * MIB, wire.FOR_CONTEXT))
        for session in sessions:
            self.hear(session, wire.SHM_LEAVE)
            self.obey(session, wire.SHM_LEAVE, 1)
        for fd in self.hear(sessions[0], wire.SHM_WRITE):
            os.close(fd)
        self.obey(sessions[0], wire.SHM_WRITE)
        copies = [fd for session in sessions for fd in self.hear(session, wire.SHM_DROP)]
        for fd in copies:
            self.addCleanup(os.close, fd)
        self.third = third
        return copies[0]

    def crash_while_dropping(self):
        """One session has dropped the chunk, and the other has not; after the restart there is the host copy."""
        has, dropped = self.begin(2)
        copy = self.leave(has, dropped)
        self.obey(dropped, wire.SHM_DROP)
        self.assertEqual(dropped.shm(wire.SHM_STAT, ident=self.ident)[0], 0)  # it was heard
        self.restart()
        self.assertEqual(self.attach(dropped, again=True, flags=wire.SHM_HOST)[0], 1)
        self.assertEqual(self.back(dropped, copy, flags=wire.SHM_HOST), 0)
        return has, dropped

    def test_chunks_that_may_have_been_changed_are_newer_than_the_host_copy(self):
        has, dropped = self.crash_while_dropping()
        self.say(dropped, wire.SHM_RESTORE)  # waits for what the other has
        self.assertEqual(self.attach(has, again=True)[0], 1)
        self.assertEqual(self.back(has, self.chunk), 0)
        self.assertEqual(self.answer(dropped), (0, 1))

    def test_what_was_brought_in_for_the_gdevd_before_is_asked_for_again(self):
        brings, _ = self.begin(2)
        self.restart()
        self.assertEqual(self.back(brings, self.chunk), -harness.EAGAIN)
        self.say(brings, wire.SHM_RESTORE, first=1)
        self.assertEqual(self.answer(brings)[0], -harness.EINVAL)
        self.assertEqual(self.attach(brings, again=True)[0], 1)
        self.assertEqual(self.back(brings, self.chunk), 0)
        self.assertEqual(brings.shm(wire.SHM_STAT, ident=self.ident)[1]["attached"], 1)

    def test_host_copy_is_used_when_nobody_has_the_chunks(self):
        has, dropped = self.crash_while_dropping()
        self.say(dropped, wire.SHM_RESTORE)
        has.tell(b"die")
        self.assertEqual(self.answer(dropped), (1, 1))

    def test_host_copy_is_used_when_the_others_say_nothing(self):
        _, dropped = self.crash_while_dropping()
        self.say(dropped, wire.SHM_RESTORE)
        self.assertEqual(self.answer(dropped), (1, 1))

    def test_wrong_chunks_do_not_keep_the_next_from_bringing_it_in(self):
        has, dropped = self.crash_while_dropping()
        wrong = wire.sealed_memfd(SIZE)
        self.assertEqual(self.attach(has, again=True)[0], 1)
        self.assertEqual(self.back(has, wrong), -harness.EINVAL)
        self.say(dropped, wire.SHM_RESTORE)
        self.assertEqual(self.answer(dropped), (1, 1))
        self.assertEqual(dropped.memory(SIZE), 0)
        self.assertEqual(self.back(dropped, wrong), 0)
        os.close(wrong)

    def test_one_that_detaches_while_it_waits_is_no_creator(self):
        """Its chunks cannot be known again, so that it must have attached the segment to give them back."""
        session, = self.begin(1, os.open("/dev/null", os.O_RDWR))
        self.restart()
        self.assertEqual(self.attach(session, again=True)[0], 1)
        self.say(session, wire.SHM_ATTACH, size=SIZE)
        for _ in range(2):
            session.tell(wire.shm(wire.SHM_DETACH, ident=self.ident, serial=0))
        self.assertEqual(self.back(session, self.chunk), 0)
        self.assertEqual(self.answer(session), (-harness.EINVAL, 0))
        self.assertEqual(session.shm(wire.SHM_STAT, ident=self.ident)[1]["attached"], 0)

    def test_one_that_had_nothing_to_say_keeps_its_segment(self):
        gives, silent = self.begin(2)
        self.restart()
        self.assertEqual(self.attach(gives, again=True)[0], 1)
        self.assertEqual(self.back(gives, self.chunk), 0)
        time.sleep(WAITS + 2)
        self.say(silent, wire.SHM_RESTORE)
        self.assertEqual(self.answer(silent), (0, 1))

    def test_one_that_has_nothing_does_not_keep_what_is_lost(self):
        nothing, _ = self.begin(2)
        self.restart()
        self.say(nothing, wire.SHM_RESTORE)
        self.assertEqual(self.answer(nothing), (-harness.EIDRM, 0))
        self.assertEqual(nothing.shm(wire.SHM_GET, key=42)[0], -harness.ENOENT)

    def wait_twice(self):
        """Of two that come back one is to give the contents back, and has asked a second time; the other waits."""
        first, second = self.begin(2)
        self.restart()
        self.assertEqual(self.attach(first, again=True)[0], 1)
        for session in first, second:
            self.say(session, wire.SHM_ATTACH, size=SIZE)
            self.assertEqual(session.ask(wire.message(wire.MEMORY, serial=5))[0], wire.MEMORY_REPLY)
        return first, second

    def give_back(self, session):
        self.assertEqual(self.answer(session), (1, 0))
        self.assertEqual(self.back(session, self.chunk), 0)

    def test_one_that_gives_wrong_contents_back_comes_last(self):
        first, second = self.wait_twice()
        wrong = wire.sealed_memfd(SIZE)
        self.assertEqual(self.back(first, wrong), -harness.EINVAL)
        os.close(wrong)
        self.give_back(second)
        self.assertEqual(self.answer(first), (0, 1))

    def test_one_that_gives_nothing_back_comes_last(self):
        first, second = self.wait_twice()
        self.give_back(second)
        self.assertEqual(self.answer(first), (0, 1))

    def test_one_that_gives_a_wrong_host_copy_back_lets_the_next(self):
        has, dropped = self.begin(2)
        copy = self.leave(has, dropped)
        for session in has, dropped:
            self.obey(session, wire.SHM_DROP)
        wait_for(lambda: self.status()["vgpus"][0]["shared_evictions"] == 1, what="its leaving")
        self.restart()
        wrong = os.memfd_create("wrong")
        self.assertEqual(self.attach(has, again=True, flags=wire.SHM_HOST)[0], 1)
        self.assertEqual(self.back(has, wrong, flags=wire.SHM_HOST), -harness.EINVAL)
        os.close(wrong)
        self.assertEqual(self.back(has, copy, flags=wire.SHM_HOST), -harness.EINVAL)  # it is nobody's turn
        self.assertEqual(self.attach(dropped, again=True, flags=wire.SHM_HOST)[0], 1)
        self.assertEqual(self.back(dropped, copy, flags=wire.SHM_HOST), 0)

    def test_one_that_does_not_write_it_keeps_nobody_from_it(self):
        silent, other = self.begin(2)
        third = self.client()
        third.tell(wire.room(20 * MIB, wire.FOR_CONTEXT))
        for session in silent, other:
            self.hear(session, wire.SHM_LEAVE)
            self.obey(session, wire.SHM_LEAVE, 1)
        os.close(self.hear(silent, wire.SHM_WRITE)[0])
        os.close(self.hear(other, wire.SHM_WRITE)[0])  # as the first has been killed
        while wire.receive(silent.peer)[0] is not None:
            pass
        self.obey(other, wire.SHM_WRITE)
        os.close(self.hear(other, wire.SHM_DROP)[0])
        self.obey(other, wire.SHM_DROP)
        self.say(other, wire.SHM_RESTORE)
        self.assertEqual(self.answer(other), (1, 1))

    def test_more_contents_have_more_time_to_come_back(self):
        self.size = 2048 * MIB  # 42 s
        session, = self.begin(1)
        self.restart()
        self.assertEqual(self.attach(session, again=True)[0], 1)
        time.sleep(WAITS + 1)  # small ones are another's to give back by now
        self.assertEqual(self.back(session, self.chunk), 0)

    def test_one_that_does_not_drop_it_keeps_nobody_from_it(self):
        keeps, drops = self.begin(2)
        self.leave(keeps, drops)
        self.obey(drops, wire.SHM_DROP)
        self.say(drops, wire.SHM_RESTORE)
        self.assertEqual(self.answer(drops), (1, 1))
        while wire.receive(keeps.peer)[0] is not None:  # it has been killed
            pass

    def test_one_that_does_not_bring_it_in_lets_the_next(self):
        slow, other = self.begin(2)
        self.leave(slow, other)
        for session in slow, other:
            self.obey(session, wire.SHM_DROP)
        self.say(slow, wire.SHM_RESTORE)
        self.assertEqual(self.answer(slow), (1, 1))
        self.third.tell(b"die")  # there is room again
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="its end")
        self.assertEqual(slow.memory(SIZE), 0)
        self.say(other, wire.SHM_RESTORE)
        self.assertEqual(self.answer(other), (1, 1))
        self.assertEqual(self.back(slow, self.chunk), -harness.EAGAIN)
        self.say(slow, wire.SHM_MAP)
        self.assertEqual(self.answer(slow)[0], -harness.EAGAIN)
        slow.tell(wire.give_back(SIZE))  # which is its own still
        slow.free()  # gdevd has heard that
        self.assertEqual(other.memory(SIZE), 0)
        self.assertEqual(self.back(other, self.chunk), 0)

    def test_attachments_are_bounded(self):
        session, = self.begin(1)
        session.tell(wire.shm(wire.SHM_REMOVE, ident=self.ident, serial=0))
        segment = session.shm(wire.SHM_GET, size=SIZE, flags=wire.SHM_TRANSIENT | 0o600)[1]
        for _ in range(4096):
            status = session.shm(wire.SHM_HOLD, ident=segment["id"], token=segment["token"])[0]
            self.assertEqual(status, 0)
        self.assertEqual(session.shm(wire.SHM_HOLD, ident=segment["id"], token=segment["token"])[0], -24)  # EMFILE


if __name__ == "__main__":
    harness.main()
