# SPDX-License-Identifier: MIT
"""A session goes from a drained device to another: what gdevd says to its worker, and makes of what that answers."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

MIB = 1 << 20
COMPUTE = 0


class Draining(harness.GdevdTest):
    def begin(self, devices="null:2", **options):
        self.start("--device", devices, "--device-memory", "64M", "--set", "swap_reserve=0", **options)

    def one(self, devices="null:2"):
        """A session on the first of these devices."""
        self.begin(devices)
        wait_for(lambda: all(d["ready"] for d in self.status()["devices"]), what="the first workers")
        return self.client("gdev0")

    def move(self, device="null:0"):
        """`gdev device drain null:0 --move`, which waits."""
        process = subprocess.Popen([harness.GDEV, "device", "drain", device, "--move", "--json"], env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def answer(self, process):
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, ""))
        return json.loads(out)

    def session(self):
        return self.status()["sessions"][0]

    def page(self, client, offset, value):
        client.tell(b"page" + offset.to_bytes(4, "little") + value.to_bytes(4, "little"))
        self.assertEqual(client.peer.recv(100), b"written")

    def leave(self, client, context=1):
        """The worker is ordered to leave, and does; context 0: it keeps its context."""
        kind, serial, _, body, _ = wire.receive(client.peer)
        self.assertEqual((kind, wire.EVICT_BODY.unpack(body)[2]), (wire.EVICT, wire.EVICT_SUSPEND | wire.EVICT_RETIRE))
        self.page(client, wire.PAGE_CONTEXT, context)
        if context:
            client.tell(wire.give_back(self.session()["memory_bytes"]))
        client.tell(wire.evicted(serial, retired=bool(context)))

    def move_away(self, client):
        process = self.move()
        self.leave(client)
        self.told(client)
        return process

    def told(self, client):
        """The body of MOVE."""
        kind, _, _, body, fds = wire.receive(client.peer)
        self.assertEqual((kind, fds), (wire.MOVE, []))
        device, vgpu, limit, _, _ = wire.MOVE_BODY.unpack(body)
        return device.rstrip(b"\0").decode(), vgpu.rstrip(b"\0").decode(), limit

    def resumed(self, client):
        kind, _, _, body, _ = wire.receive(client.peer)
        self.assertEqual((kind, wire.EVICT_BODY.unpack(body)[2]), (wire.EVICT, wire.EVICT_RESUME))

    def test_a_session_goes(self):
        """It is charged, granted and written down where it goes; what it had is free for others"""
        client = self.one()
        other = self.client("gdev0", base=wire.ARENA_BASE + wire.ARENA_BYTES)
        grant = wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(COMPUTE, 0, 0, 0))
        self.assertEqual(client.ask(grant)[0], wire.GRANT)
        self.assertEqual(client.memory(8 * MIB), 0)
        process = self.move()
        kind, serial, _, _, _ = wire.receive(other.peer)  # that one says nothing until the first has gone
        self.leave(client)
        self.assertEqual(self.told(client), ("null", "gdev1", 64 * MIB))
        other.tell(grant)
        while (message := wire.receive(other.peer))[0] != wire.GRANT:  # the first one has given it up
            self.assertNotEqual(message[0], None)
        client.tell(grant)  # of the device before
        client.tell(wire.message(wire.MOVED))
        self.resumed(client)
        self.assertEqual(client.ask(grant)[0], wire.GRANT)  # of the new one
        session = next(s for s in self.status()["sessions"] if s["session"] == client.session)
        self.assertEqual((session["device"], session["vgpu"], session["memory_bytes"]), ("null:1", "gdev1", 0))
        self.assertEqual(client.memory(8 * MIB), 0)
        self.assertGreaterEqual(self.status()["devices"][1]["memory_used_bytes"], 8 * MIB)
        self.page(other, wire.PAGE_KEPT_BY, 1)
        other.tell(wire.evicted(serial))
        answer = self.answer(process)
        self.assertEqual((answer["moved"], [s["stays_because"] for s in answer["sessions"]]),
                         (1, ["it shares memory with other sessions"]))

    def test_a_worker_refuses(self):
        """Its session is where it was, and goes on there"""
        client = self.one()
        process = self.move_away(client)
        client.tell(wire.message(wire.MOVED, status=-95))
        self.resumed(client)
        answer = self.answer(process)
        self.assertEqual(answer["moved"], 0)
        self.assertIn("refuses", answer["sessions"][0]["stays_because"])
        self.assertEqual((self.session()["device"], self.session()["vgpu"]), ("null:0", "gdev0"))
        self.assertEqual(client.memory(MIB), 0)

    def test_a_worker_moves_by_itself(self):
        """MOVED that nobody has asked for ends its session"""
        client = self.one()
        client.tell(wire.message(wire.MOVED))
        wait_for(lambda: not self.status()["sessions"], what="its end")

    def test_a_worker_that_says_to_have_left_and_has_not(self):
        """What counts is what it holds: as long as that is something, it does not go"""
        client = self.one()
        process = self.move()
        kind, serial, _, _, _ = wire.receive(client.peer)
        self.page(client, wire.PAGE_CONTEXT, 1)
        client.tell(wire.evicted(serial, retired=True))
        self.resumed(client)
        process.kill()
        self.assertEqual(self.session()["device"], "null:0")

    def test_the_virtual_gpu_is_deleted_meanwhile(self):
        """The session ends with the one that it goes to"""
        client = self.one()
        process = self.move_away(client)
        self.assertEqual(self.gdev("vgpu", "delete", "gdev1", "--force").returncode, 0)
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.answer(process)["moved"], 0)

    def test_one_that_goes_home_finds_it_deleted(self):
        """So does one that its worker keeps, when what it came from is no more"""
        client = self.one()
        process = self.move_away(client)
        self.assertEqual(self.gdev("vgpu", "delete", "gdev0", "--force").returncode, 0)
        client.tell(wire.message(wire.MOVED, status=-95))
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.answer(process)["moved"], 0)

    def test_gdevd_dies_meanwhile(self):
        """A worker that has not heard of it is where it was before"""
        client = self.one()
        self.move_away(client)
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes.pop().wait()
        self.begin()
        wait_for(lambda: self.status()["sessions"], what="the session's return")
        self.assertEqual((self.session()["device"], self.session()["vgpu"]), ("null:0", "gdev0"))
        self.assertEqual(client.memory(MIB), 0)

    def test_a_worker_takes_memory_and_refuses(self):
        """What it took between MOVE and MOVED is the other device's, and cannot be charged where it was: its session ends"""
        client = self.one()
        process = self.move_away(client)
        self.assertEqual(client.memory(8 * MIB), 0)
        client.tell(wire.message(wire.MOVED, status=-95))
        wait_for(lambda: not self.status()["sessions"], what="its end")
        self.assertEqual(self.answer(process)["moved"], 0)
        self.assertEqual(self.gdev("vgpu", "delete", "gdev1").returncode, 0)
        wait_for(lambda: self.status()["devices"][0]["memory_used_bytes"] == 0, what="that nothing is charged")

    def test_a_worker_that_has_a_segment_says_to_have_left(self):
        """A segment is of its device, also one that nobody has begun to fill: who has one stays"""
        client = self.one()
        client.shm(wire.SHM_GET, key=42, size=2 * MIB, flags=0o1600)
        process = self.move()
        self.leave(client)
        self.resumed(client)
        self.assertEqual(self.answer(process)["sessions"][0]["stays_because"], "it shares memory with other sessions")
        self.assertEqual(self.session()["device"], "null:0")

    def go(self, client, meanwhile=lambda: None):
        process = self.move_away(client)
        meanwhile()
        client.tell(wire.message(wire.MOVED))
        return process

    def test_what_it_came_from_is_deleted_afterwards(self):
        """Its session goes on, and so does its client's connection"""
        client = self.one()
        process = self.go(client)
        self.resumed(client)
        self.answer(process)
        self.assertEqual(self.gdev("vgpu", "delete", "gdev0").returncode, 0)
        client.sock.setblocking(False)
        with self.assertRaises(BlockingIOError):
            client.sock.recv(1)
        self.assertEqual(client.memory(MIB), 0)

    def test_a_worker_says_that_it_is_where_it_was(self):
        """The next gdevd does not believe one that has said MOVED"""
        client = self.one()
        process = self.go(client)
        self.resumed(client)
        self.answer(process)
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes.pop().wait()
        self.begin()  # the fake worker says that it was never moved
        wait_for(lambda: not client.peer.recv(1000), what="its worker's end")
        wait_for(lambda: not self.status()["sessions"], what="its end")

    def admin(self, word):
        done = self.gdev(word, str(os.getpid()))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_is_suspended_meanwhile(self):
        """It stays suspended, until its administrator says otherwise"""
        client = self.one()
        self.answer(self.go(client, lambda: self.admin("suspend")))
        self.assertTrue(self.session()["suspended"])
        self.admin("resume")
        self.resumed(client)

    def test_it_is_resumed_meanwhile(self):
        """It goes on when it is there"""
        client = self.one()
        suspended = threading.Thread(target=self.admin, args=("suspend",))
        suspended.start()
        kind, serial, _, _, _ = wire.receive(client.peer)
        self.assertEqual(kind, wire.EVICT)
        client.tell(wire.evicted(serial))
        suspended.join()
        process = self.go(client, lambda: self.admin("resume"))
        self.resumed(client)
        self.answer(process)

    def test_it_is_resumed_while_it_waits_for_room(self):
        """It has the room, though nothing else happens: a session that is to leave, and was not idle, could not leave without"""
        self.start("--device", "null", "--device-memory", "64M", "--set", "warm_workers=0")
        client = self.client()
        suspended = threading.Thread(target=self.admin, args=("suspend",))
        suspended.start()
        _, serial, _, _, _ = wire.receive(client.peer)
        client.tell(wire.room(MIB, wire.FOR_CONTEXT))
        client.tell(wire.evicted(serial))
        suspended.join()
        begin = time.monotonic()
        self.admin("resume")
        self.resumed(client)
        self.assertEqual(wire.receive(client.peer)[0], wire.CHARGED)
        self.assertLess(time.monotonic() - begin, 9, "an answer that is overdue has it looked at again after ten seconds")

    def test_the_device_is_undrained_meanwhile(self):
        """Who has not left it stays"""
        client = self.one()
        process = self.move()
        kind, serial, _, _, _ = wire.receive(client.peer)
        self.assertEqual(self.gdev("device", "undrain", "null:0").returncode, 0)
        wait_for(lambda: not self.session()["changes_device"], what="that it stays")
        self.page(client, wire.PAGE_CONTEXT, 1)
        client.tell(wire.give_back(self.session()["memory_bytes"]))
        client.tell(wire.evicted(serial, retired=True))
        self.resumed(client)
        self.assertEqual(self.session()["device"], "null:0")
        self.assertIn("again", self.answer(process)["sessions"][0]["stays_because"])

    def test_a_session_is_beginning(self):
        """It leaves when it has begun"""
        self.begin(mode="attach-late")
        wait_for(lambda: all(d["ready"] for d in self.status()["devices"]), what="the first workers")
        beginner = threading.Thread(target=self.client, args=("gdev0",))
        beginner.start()
        wait_for(lambda: self.status()["devices"][0]["sessions"], what="its beginning")
        self.answer(self.move())
        open(self.orders + "/go", "wb").close()
        beginner.join()
        client = self.clients[0]
        self.leave(client)
        self.told(client)
        client.tell(wire.message(wire.MOVED))
        self.resumed(client)
        self.assertEqual(self.session()["vgpu"], "gdev1")

    def test_the_device_that_it_goes_to_is_drained_meanwhile(self):
        """It goes on to a third one"""
        client = self.one("null:3")
        processes = [self.move()]
        self.leave(client)
        vgpu = self.told(client)[1]
        processes.append(self.move("null:" + vgpu[-1]))
        wait_for(lambda: sum(d["drained"] for d in self.status()["devices"]) == 2, what="that it is drained")
        client.tell(wire.message(wire.MOVED))
        self.resumed(client)
        self.leave(client)
        self.assertEqual({"gdev0", vgpu, self.told(client)[1]}, {"gdev0", "gdev1", "gdev2"})
        client.tell(wire.message(wire.MOVED))
        self.resumed(client)
        for process in processes:
            self.answer(process)
        self.assertEqual(self.session()["device_changes"], 2)

    def test_no_other_device(self):
        """Where there is no other device, nothing is drained"""
        self.one("null")
        done = self.gdev("device", "drain", "null", "--move")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing has been drained", done.stderr)
        self.assertFalse(any(d["drained"] for d in self.status()["devices"]))


if __name__ == "__main__":
    harness.main()
