#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Events of one session for which another waits: gdevd carries what is asked, and what is answered.

Usage: test_watching.py GDEVD GDEV [unittest arguments]
"""

import errno
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402


class Events(harness.GdevdTest):
    @staticmethod
    def event(kind, session, value, timeline, serial, status=0):
        return wire.message(kind, wire.EVENT_BODY.pack(session, value, timeline, 0), serial, status)

    @staticmethod
    def until_memory(client):
        """The statuses of what comes before the answer to MEMORY."""
        client.tell(wire.message(wire.MEMORY, serial=5))
        statuses = set()
        while True:
            kind, _, status, _, _ = wire.receive(client.peer)
            if kind in (wire.MEMORY_REPLY, None):
                return statuses
            statuses.add(status)

    def test_watch_and_done_are_carried(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        kind, serial, _, body, _ = wire.receive(second.peer)
        self.assertEqual((kind, wire.EVENT_BODY.unpack(body)), (wire.EVENT_WATCH, (second.session, 17, 3, 0)))
        second.tell(self.event(wire.EVENT_DONE, second.session, 17, 3, serial))
        kind, serial, status, _, _ = wire.receive(first.peer)
        self.assertEqual((kind, serial, status), (wire.EVENT_DONE, 55, 0))

    def test_of_what_a_worker_says_only_reached_or_not_is_carried(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        _, serial, _, _, _ = wire.receive(second.peer)
        second.tell(self.event(wire.EVENT_DONE, second.session, 17, 3, serial, -5))
        kind, serial, status, _, _ = wire.receive(first.peer)
        self.assertEqual((kind, serial, status), (wire.EVENT_DONE, 55, -errno.EAGAIN))

    def test_lost_session_answers_those_who_wait(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        wire.receive(second.peer)
        second.tell(b"die")
        kind, serial, status, _, _ = wire.receive(first.peer)
        self.assertEqual((kind, serial, status), (wire.EVENT_DONE, 55, -harness.SESSION_LOST))

    def end(self, client, how):
        """Its worker writes into its page how the session ended (proto/control.h, worker_end)."""
        client.tell(b"page" + (156).to_bytes(4, "little") + how.to_bytes(4, "little"))
        self.assertEqual(client.peer.recv(16), b"written")
        session = client.session
        client.close()
        return session

    def status_of(self, client, session):
        kind, _, status, _, _ = client.ask(self.event(wire.EVENT_WATCH, session, 17, 3, 56))
        self.assertEqual(kind, wire.EVENT_DONE)
        return status

    def test_what_was_reached_before_a_session_ended_is_done(self):
        self.start()
        first, well, badly = self.client(), self.client(), self.client()
        for other, how, expected in ((well, 1, 0), (badly, 2, -harness.SESSION_LOST)):
            first.tell(self.event(wire.EVENT_WATCH, other.session, 17, 3, 55))
            wire.receive(other.peer)
            session = self.end(other, how)
            kind, serial, status, _, _ = wire.receive(first.peer)
            self.assertEqual((kind, serial, status), (wire.EVENT_DONE, 55, expected))
            self.assertEqual(self.status_of(first, session), expected, "who asks later")
        self.assertEqual([end["reason"] for end in self.status()["ended"]], ["done", "killed, or by _exit"])

    def test_what_was_reached_is_done_after_a_restart(self):
        self.start()
        first, well = self.client(), self.client()
        session = self.end(well, 0)
        wait_for(lambda: self.status()["ended"], what="its end")
        self.wait_warm(2)
        self.processes[-1].kill()
        self.processes[-1].wait(wire.PATIENCE)
        self.start()
        wait_for(lambda: self.status()["vgpus"][0]["sessions"] == 1, what="the session that is back")
        self.assertEqual(self.status_of(first, session), 0)

    def test_who_asks_too_much_is_refused_and_not_who_is_asked_dropped(self):
        self.start(config="[gdevd]\nwarm_workers = 0\n")
        askers = [self.client(base=wire.ARENA_BASE + i * wire.ARENA_BYTES) for i in range(2)]
        asked = self.client(base=wire.ARENA_BASE + 2 * wire.ARENA_BYTES)
        asked.tell(b"deaf" + wire.message(wire.MEMORY, serial=5))
        self.assertEqual(asked.peer.recv(16), b"said")
        for asker in askers:
            said = set()
            for _ in range(42):  # 4096 may wait
                for _ in range(100):
                    asker.tell(self.event(wire.EVENT_WATCH, asked.session, 17, 3, 55))
                said |= self.until_memory(asker)
            self.assertEqual(said, {-harness.EAGAIN})
        self.assertEqual(self.status()["vgpus"][0]["sessions"], 3)
        asked.close()
        wait_for(lambda: self.status()["vgpus"][0]["sessions"] == 2, what="the session's end")

    def test_asker_may_die(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(self.event(wire.EVENT_WATCH, second.session, 17, 3, 55))
        _, serial, _, _, _ = wire.receive(second.peer)
        first.tell(b"die")
        wire.receive(first.sock)
        second.tell(self.event(wire.EVENT_DONE, second.session, 17, 3, serial))
        second.free()


if __name__ == "__main__":
    harness.main()
