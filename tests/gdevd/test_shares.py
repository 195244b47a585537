#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What virtual GPUs may have, and what they use: gdevd and gdev with workers that execute nothing.

Usage: test_shares.py GDEVD GDEV [unittest arguments]
"""

import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

COMPUTE, TO_DEVICE = 0, 1
NOW, WHEN_IDLE = 1, 2


def grant(kind, resource, wants=0, used=0):
    return wire.message(kind, wire.GRANT_BODY.pack(resource, wants, 0, used))


def acquire(resource=COMPUTE):
    return grant(wire.ACQUIRE, resource)


def release(resource=COMPUTE, used=0, wants=0):
    return grant(wire.RELEASE, resource, wants, used)


class SharesTest(harness.GdevdTest):
    def expect(self, client, kind, resource=COMPUTE):
        """The next message of that kind to the client's worker; others are passed over."""
        while True:
            got, _, _, body, _ = wire.receive(client.peer)
            self.assertIsNotNone(got)
            if got == kind and wire.GRANT_BODY.unpack(body)[0] == resource:
                return

    def next(self, client, kind):
        """Serial and body of the next message of that kind; others are passed over."""
        while True:
            got, serial, _, body, _ = wire.receive(client.peer)
            self.assertIsNotNone(got)
            if got == kind:
                return serial, body

    def quiet(self, client, kind, seconds=0.1):
        """No message of that kind comes."""
        client.peer.settimeout(seconds)
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                self.assertNotEqual(wire.receive(client.peer)[0], kind)
        except TimeoutError:
            pass
        client.peer.settimeout(wire.PATIENCE)

    def done(self, *arguments, note=""):
        done = self.gdev(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(note, done.stderr)
        return done.stdout

    def refused(self, text, *arguments, code=1):
        done = self.gdev(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(text, done.stderr)

    def vgpus(self):
        return {vgpu["vgpu"]: vgpu for vgpu in json.loads(self.done("vgpu", "list", "--json"))["vgpus"]}

    def parts(self, resource="compute"):
        return {name: vgpu["resources"][resource]["share_pct"] for name, vgpu in self.vgpus().items()}


class VirtualGpus(SharesTest):
    def test_made_changed_and_deleted_while_programs_run(self):
        self.start()
        other = self.client()
        self.done("vgpu", "create", "train", "--compute", "25", "--copy", "40%", "--memory", "1G",
                  "--policy", "fifo", "--priority", "-5", "--mode", "0640", "--strict")
        train = self.vgpus()["train"]
        self.assertEqual(
            [train[key] for key in ("compute_pct", "copy_pct", "memory_bytes", "policy", "priority", "mode",
                                    "strict", "lasts")],
            [25, 40, 1 << 30, "fifo", -5, "0640", True, True])
        self.assertEqual(os.stat(self.run_dir + "/train.sock").st_mode & 0o777, 0o640)
        client = self.client("train")
        self.done("vgpu", "set", "train", "--compute", "auto", "--strict=no", "--mode", "600", "--memory", "2M")
        train = self.vgpus()["train"]
        self.assertEqual([train[key] for key in ("compute_pct", "copy_pct", "strict", "memory_bytes")],
                         [None, 40, False, 2 << 20])
        self.assertEqual(os.stat(self.run_dir + "/train.sock").st_mode & 0o777, 0o600)
        self.assertEqual(client.memory(8 << 20), -harness.ENOMEM)
        client.close()
        wait_for(lambda: not self.vgpus()["train"]["sessions"], what="the session's end")
        self.done("vgpu", "delete", "train")
        self.assertEqual(list(self.vgpus()), ["gdev0"])
        self.assertFalse(os.path.exists(self.run_dir + "/train.sock"))
        other.free()

    def test_wrong_requests_say_what_is_wrong_and_change_nothing(self):
        self.start()
        before = self.vgpus()
        for text, arguments in (
                ("is no name for a virtual GPU", ["create", "Train"]),
                ("is no name for a virtual GPU", ["create", "control"]),
                ("is no name for a virtual GPU", ["create", "../x"]),
                ("is no name for a virtual GPU", ["create", "metrics"]),
                ("of that name", ["create", "gdev0"]),
                ("a share from 1 to 100 percent", ["create", "a", "--compute", "0"]),
                ("a share from 1 to 100 percent", ["create", "a", "--compute", "101"]),
                ("a share from 1 to 100 percent", ["set", "gdev0", "--copy", "-3"]),
                ("one of fifo, priority", ["create", "a", "--policy", "lottery"]),
                ("one of fifo, priority", ["set", "gdev0", "--policy", "band"]),
                ("a priority from -100 to 100", ["set", "gdev0", "--priority", "high"]),
                ("a size such as", ["create", "a", "--memory", "much"]),
                ("a user that exists", ["create", "a", "--owner", "nobody-has-this-name"]),
                ("an octal mode", ["set", "gdev0", "--compute", "20", "--mode", "9"]),
                ("yes or no", ["set", "gdev0", "--strict=perhaps"]),
                ("no virtual GPU \"b\"", ["set", "b", "--compute", "5"]),
                ("no virtual GPU \"b\"", ["delete", "b"])):
            self.refused(text, "vgpu", *arguments)
        for arguments in (["create"], ["set", "gdev0"], ["frob", "x"], ["list", "x"], ["create", "a", "b"],
                          ["delete", "gdev0", "--compute", "5"], ["create", "a", "--force"],
                          ["create", "a", "--what"], []):
            self.refused("gdev", "vgpu", *arguments, code=2)
        after = self.vgpus()
        for name in before:
            for key in ("compute_pct", "copy_pct", "policy", "mode", "strict", "priority"):
                self.assertEqual(before[name][key], after[name][key])
        self.assertEqual(before.keys(), after.keys())

    def test_only_root_and_the_daemons_user_may_change(self):
        if os.geteuid():
            self.skipTest("needs root, to become somebody else")
        self.start()
        refused = self.as_nobody({"command": "vgpu-create", "name": "mine"})
        self.assertIn("only root and the user that gdevd runs as", refused["error"])
        self.assertEqual([vgpu["vgpu"] for vgpu in self.as_nobody({"command": "vgpus"})["vgpus"]], ["gdev0"])

    def as_nobody(self, request):
        """What another user is answered; not by the command, whose folder that user may not see."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                sock = wire.connect(self.run_dir + "/control.sock")
                wire.send(sock, wire.message(wire.ADMIN, json.dumps(request).encode()))
                os.write(write, wire.receive(sock)[3])
            finally:
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with open(read, "rb") as answer:
            return json.load(answer)

    def test_in_use_is_deleted_by_force_only(self):
        self.start()
        self.done("vgpu", "create", "busy")
        client, other = self.client("busy"), self.client()
        client.memory(64 << 20)
        client.tell(acquire())
        self.expect(client, wire.GRANT)
        other.tell(acquire())
        self.refused("has 1 session;", "vgpu", "delete", "busy")
        self.assertEqual(self.vgpus()["busy"]["sessions"], 1)
        self.done("vgpu", "delete", "busy", "--force")
        while wire.receive(client.peer)[0] != wire.BYE:
            pass
        self.expect(other, wire.GRANT)
        self.assertEqual([end["reason"] for end in self.status()["ended"]], ["virtual GPU was deleted"])
        client.close()
        wait_for(lambda: not self.status()["workers"]["leaving"], what="the worker's end")
        self.done("vgpu", "create", "busy")
        self.assertEqual(self.vgpus()["busy"]["memory_used_bytes"], 0)
        self.client("busy")

    def test_who_waits_for_a_worker_of_a_deleted_one_is_told(self):
        self.start("--set", "max_workers=1")
        first = self.client()
        self.done("vgpu", "create", "brief")
        waiting = wire.connect(self.run_dir + "/brief.sock")
        wire.send(waiting, wire.hello())
        harness.wait_read(waiting)
        self.done("vgpu", "delete", "brief")
        kind, _, _, body, _ = wire.receive(waiting)
        self.assertEqual(kind, wire.REFUSED)
        self.assertIn(b"is deleted", body)
        waiting.close()
        first.free()

    def check_restart(self, how):
        process = self.start()
        self.done("vgpu", "create", "kept", "--compute", "30", "--policy", "priority", "--strict")
        self.done("vgpu", "create", "gone")
        self.done("vgpu", "set", "gdev0", "--copy", "20")
        self.done("vgpu", "delete", "gone")
        client = self.client("kept")
        self.wait_warm(2)
        process.send_signal(how)
        process.wait(wire.PATIENCE)
        self.start()
        vgpus = self.vgpus()
        self.assertEqual(sorted(vgpus), ["gdev0", "kept"])
        self.assertEqual([vgpus["kept"][key] for key in ("compute_pct", "policy", "strict")],
                         [30, "priority", True])
        self.assertEqual(vgpus["gdev0"]["copy_pct"], 20)
        wait_for(lambda: self.vgpus()["kept"]["sessions"] == 1, what="the session's return")
        client.free()

    def test_made_ones_survive_a_restart(self):
        self.check_restart(signal.SIGTERM)

    def test_made_ones_survive_a_kill(self):
        self.check_restart(signal.SIGKILL)

    def test_configuration_wins_after_a_restart_and_gdev_says_so(self):
        config = "[vgpu gdev0]\ncompute = 10\n"
        process = self.start(config=config)
        self.done("vgpu", "set", "gdev0", "--compute", "90", note="holds until gdevd is started again")
        self.assertEqual(self.vgpus()["gdev0"]["compute_pct"], 90)
        process.terminate()
        process.wait(wire.PATIENCE)
        self.start(config=config)
        self.assertEqual(self.vgpus()["gdev0"]["compute_pct"], 10)

    def test_state_that_cannot_be_read_is_no_reason_not_to_start(self):
        os.makedirs(self.directory + "/state")
        with open(self.directory + "/state/vgpus.conf", "w", encoding="ascii") as file:
            file.write("[vgpu good]\ncompute = 5\n[vgpu bad]\ncompute = 500\n")
        self.start()
        self.assertIn("good", self.vgpus())
        self.assertIn("vgpus.conf:4", self.log())

    def test_parts_are_shares_and_what_they_leave(self):
        self.start(config="[vgpu a]\ncompute = 20\n[vgpu b]\nmode = 0666\n[vgpu c]\nmode = 0666\n")
        self.assertEqual(self.parts(), {"a": 20, "b": 40, "c": 40})
        self.assertEqual(self.parts("to_device"), {"a": 33, "b": 33, "c": 33})
        self.done("vgpu", "set", "b", "--compute", "30")
        self.assertEqual(self.parts(), {"a": 20, "b": 30, "c": 50})
        self.done("vgpu", "set", "c", "--compute", "100",
                  note='the shares of computing add up to 150 %, and "c" has 100 of these')
        self.assertNotIn("add up", self.gdev("vgpu", "set", "c", "--priority", "1").stderr)
        self.assertEqual(self.parts(), {"a": 13.33, "b": 20, "c": 66.67})
        self.done("vgpu", "delete", "c")
        self.assertEqual(self.parts(), {"a": 20, "b": 30})


class Device(SharesTest):
    def test_policy_and_settings_change_while_programs_run(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(acquire())
        self.expect(first, wire.GRANT)
        second.tell(acquire())
        for policy in ("band", "null", "priority", "credit", "null", "fair"):
            self.done("device", "set", "--policy", policy, "--quantum", "3ms")
        # Under null both had it, and both were told to give it back.
        self.expect(second, wire.GRANT)
        self.expect(first, wire.REVOKE)
        first.tell(release(wants=1))
        second.tell(release(wants=1))
        self.expect(first, wire.GRANT)
        first.tell(release())
        self.expect(second, wire.GRANT)
        self.done("device", "set", "--set", "fair.wait_us=700")
        device = json.loads(self.done("device", "list", "--json"))["devices"][0]
        self.assertEqual((device["policy"], device["quantum_ns"], device["settings"]["wait_us"]),
                         ("fair", 3000000, 700))

    def test_wrong_settings_change_nothing(self):
        self.start()
        self.refused("one of null, fifo", "device", "set", "--policy", "lottery")
        self.refused("a time from 10us", "device", "set", "--quantum", "1h")
        self.refused("has no setting", "device", "set", "--policy", "fifo", "--set", "fair.wait=7")
        self.refused("there is no policy", "device", "set", "--set", "lottery.wait_us=7")
        self.refused("POLICY.SETTING=NUMBER", "device", "set", "--set", "wait_us=7", code=2)
        self.refused("set what?", "device", "set", code=2)
        device = json.loads(self.done("device", "list", "--json"))["devices"][0]
        self.assertEqual(device["policy"], "fair")

    def test_one_queue_gives_all_resources_together(self):
        self.start("--set", "queues=sdq", "--set", "quantum=10s")  # nobody is passed over meanwhile
        first, second = self.client(), self.client(apart=True)
        first.tell(acquire(COMPUTE))
        self.expect(first, wire.GRANT, COMPUTE)
        first.tell(acquire(TO_DEVICE))
        self.expect(first, wire.GRANT, TO_DEVICE)
        second.tell(acquire(TO_DEVICE))
        self.quiet(second, wire.GRANT, 0.03)
        first.tell(release(COMPUTE))
        self.quiet(second, wire.GRANT, 0.03)
        first.tell(release(TO_DEVICE, wants=1))
        self.expect(second, wire.GRANT, TO_DEVICE)
        second.tell(release(TO_DEVICE))
        self.expect(first, wire.GRANT, TO_DEVICE)

    def test_sessions_of_a_process_compute_together(self):
        """Whatever virtual GPU each is of; and leave together when another process waits"""
        self.start("--set", "policy=fifo")
        self.done("vgpu", "create", "other")
        first, second = self.client(), self.client("other")
        stranger = self.client(apart=True)
        for client in first, second:
            client.tell(acquire(COMPUTE))
            self.expect(client, wire.GRANT, COMPUTE)
        stranger.tell(acquire(COMPUTE))
        for client in first, second:
            self.expect(client, wire.REVOKE, COMPUTE)
        first.tell(release(COMPUTE, wants=1))
        second.tell(release(COMPUTE, wants=1))
        self.expect(stranger, wire.GRANT, COMPUTE)
        stranger.tell(release(COMPUTE))
        for client in first, second:
            self.expect(client, wire.GRANT, COMPUTE)

    def test_what_was_never_given_is_not_charged(self):
        self.start()
        self.done("vgpu", "create", "train", "--compute", "25", "--strict")
        liar, other = self.client("train"), self.client("train")
        for resource in (COMPUTE, TO_DEVICE):
            liar.tell(release(resource, used=1 << 62))
        liar.free()
        other.tell(acquire())
        self.expect(other, wire.GRANT)

    def test_each_resource_has_a_queue_of_its_own(self):
        self.start()
        first, second = self.client(), self.client()
        first.tell(acquire(COMPUTE))
        self.expect(first, wire.GRANT, COMPUTE)
        second.tell(acquire(TO_DEVICE))
        self.expect(second, wire.GRANT, TO_DEVICE)


OWN = os.getpriority(os.PRIO_PROCESS, 0)  # the tests may be niced themselves


def niced(by):
    return min(OWN + by, 19)


class Niced(SharesTest):
    """A client in a process of its own, whose nice value is not the test's."""

    def child(self, nice, vgpu="gdev0"):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                self.obey(theirs, nice, vgpu)
            finally:
                os._exit(0)
        theirs.close()
        ours.settimeout(wire.PATIENCE)
        session = struct.unpack("=Q", ours.recv(8))[0]
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(ours.close)
        return pid, session, ours

    def obey(self, orders, nice, vgpu):
        os.nice(nice)
        client = harness.Client(f"{self.run_dir}/{vgpu}.sock")
        orders.send(struct.pack("=Q", client.session))
        while order := orders.recv(4096):
            client.tell(order)
            if order.startswith(b"page"):
                orders.send(client.peer.recv(64))
        client.close()

    def nice(self, session):
        return next(one["nice"] for one in self.status()["sessions"] if one["session"] == session)

    def rank(self, session):
        return next(one["rank"] for one in self.status()["sessions"] if one["session"] == session)

    def wait_nice(self, session, nice):
        wait_for(lambda: self.nice(session) == nice, what=f"nice {nice}")

    def test_is_the_programs_and_followed(self):
        self.start()
        pid, session, child = self.child(5)
        child.send(acquire())
        self.wait_nice(session, niced(5))
        self.assertEqual(self.rank(session), {"nice": niced(5), "own": niced(5), "from": "process"})
        other = self.client()
        other.tell(acquire())  # it is followed while somebody contends
        os.setpriority(os.PRIO_PROCESS, pid, niced(9))
        self.wait_nice(session, niced(9))

    def test_of_another_process_cannot_be_claimed(self):
        self.start()
        _, session, child = self.child(7)
        child.send(b"page" + struct.pack("=II", wire.PAGE_THREAD, os.getpid()))
        self.assertEqual(child.recv(64), b"written")
        child.send(acquire())
        self.wait_nice(session, niced(7))

    def test_is_lent_to_who_is_waited_for(self):
        if niced(10) == OWN:
            self.skipTest("nobody can be nicer than this test")
        self.start()
        _, session, child = self.child(10)
        child.send(acquire())
        self.wait_nice(session, niced(10))
        waiter = self.client()
        waiter.tell(wire.message(wire.EVENT_WATCH, wire.EVENT_BODY.pack(session, 17, 3, 0), 55))
        self.wait_nice(session, OWN)
        self.assertEqual(self.rank(session), {"nice": OWN, "own": niced(10), "from": "lent"})
        waiter.tell(b"die")
        self.wait_nice(session, niced(10))


class Measured(SharesTest):
    def top(self, kind="vgpus"):
        return json.loads(self.done("top", "--json"))[kind]

    def page(self, client, offset, value):
        client.tell(b"page" + struct.pack("=IQ", offset, value))
        while client.peer.recv(4096) != b"written":
            pass

    def test_use_is_what_is_charged_and_what_the_holder_says(self):
        self.start()
        client = self.client()
        client.tell(acquire())
        self.expect(client, wire.GRANT)
        time.sleep(0.1)
        self.page(client, wire.PAGE_COMPUTE_NS, 30_000_000)
        self.page(client, wire.PAGE_LONGEST_NS, 9_000_000)
        compute = self.top()[0]["resources"]["compute"]
        self.assertEqual((compute["used_ns"], compute["longest_command_ns"]), (30_000_000, 9_000_000))
        self.page(client, wire.PAGE_COMPUTE_NS, 1 << 62)  # more than there was time for
        self.assertLess(self.top()[0]["resources"]["compute"]["used_ns"], 60_000_000_000)
        client.tell(release(used=50_000_000))
        wait_for(lambda: self.top()[0]["resources"]["compute"]["used_ns"] == 50_000_000, what="the charge")
        session = self.top("sessions")[0]
        self.assertEqual(session["resources"]["compute"]["used_ns"], 50_000_000)
        self.assertEqual(session["resources"]["compute"]["grants"], 1)
        client.close()
        wait_for(lambda: not self.top("sessions"), what="its end")
        compute = self.top()[0]["resources"]["compute"]
        self.assertEqual((compute["used_ns"], compute["longest_command_ns"]), (50_000_000, 9_000_000))

    def test_what_two_of_a_process_use_at_once_is_used_once(self):
        self.start()
        self.done("vgpu", "create", "second")
        begun = time.monotonic_ns()
        for client in self.client(), self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES):
            client.tell(acquire())
            self.expect(client, wire.GRANT)
            self.page(client, wire.PAGE_COMPUTE_NS, 1 << 62)  # all the time
        self.assertEqual([vgpu["resources"]["compute"]["overdue"] for vgpu in self.top()], [0, 0])
        time.sleep(0.3)
        top = json.loads(self.done("top", "--json"))
        each = [vgpu["resources"]["compute"]["used_ns"] for vgpu in top["vgpus"]]
        self.assertGreater(min(each), 300_000_000)
        used = top["devices"][0]["resources"]["compute"]["used_ns"]
        self.assertGreater(used, max(each) * 9 // 10)  # which was looked at a moment later
        self.assertLess(used, time.monotonic_ns() - begun)

    def test_two_of_a_process_hold_at_once_also_after_a_restart(self):
        self.start()
        self.done("vgpu", "create", "second")
        clients = [self.client(), self.client("second", base=wire.ARENA_BASE + wire.ARENA_BYTES)]
        self.processes[-1].kill()
        self.processes.pop().wait()
        self.start()
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="their return")
        for client in clients:
            client.tell(acquire())
            self.expect(client, wire.GRANT)
        self.assertEqual([vgpu["resources"]["compute"]["overdue"] for vgpu in self.top()], [0, 0])

    def test_making_room_is_charged_to_whom_it_is_for(self):
        self.start("--device-memory", "1G", "--set", "swap_reserve=0")
        self.done("vgpu", "create", "victim")
        victim, needs = self.client("victim"), self.client()
        self.assertEqual(victim.memory(900 << 20), 0)
        needs.tell(acquire())
        self.expect(needs, wire.GRANT)
        # What there is comes at once; for the rest somebody has to leave.
        needs.tell(wire.room(500 << 20, wire.FOR_TURN, 5))
        self.next(needs, wire.CHARGED)
        needs.tell(wire.room(300 << 20, wire.FOR_TURN, 6))
        serial, body = self.next(victim, wire.EVICT)
        size = wire.EVICT_BODY.unpack(body)[0]
        self.assertGreaterEqual(size, 300 << 20)
        time.sleep(0.05)
        victim.tell(wire.give_back(size))
        victim.tell(wire.evicted(serial, False, 40_000_000))

        def used(kind="vgpus"):
            return {one["vgpu"]: one.get("resources", {}).get("from_device", {}).get("used_ns", 0)
                    for one in self.top(kind)}

        wait_for(lambda: used() == {"gdev0": 40_000_000, "victim": 0}, what="the charge")
        self.assertEqual(used("sessions"), used())
        # Nobody's copying lasts longer than the time that has passed, or than slow copying of what was given.
        self.next(needs, wire.CHARGED)
        needs.tell(wire.room(300 << 20, wire.FOR_TURN))
        serial, body = self.next(victim, wire.EVICT)
        size = wire.EVICT_BODY.unpack(body)[0]
        time.sleep(0.05)
        victim.tell(wire.give_back(size))
        victim.tell(wire.evicted(serial, False, 1 << 63))
        wait_for(lambda: 40_000_000 < used()["gdev0"] <= 40_000_000 + size, what="the bounded charge")

    def test_waiting_and_staying_too_long_are_seen(self):
        self.start()
        self.done("vgpu", "create", "late")
        holder, waiter = self.client("late"), self.client(apart=True)
        holder.tell(acquire())
        self.expect(holder, wire.GRANT)
        waiter.tell(acquire())
        self.expect(waiter, wire.GRANT)  # the holder is overdue after 100 ms
        vgpus = {vgpu["vgpu"]: vgpu["resources"]["compute"] for vgpu in self.top()}
        self.assertGreater(vgpus["gdev0"]["waited_ns"], 90_000_000)
        self.assertGreater(vgpus["late"]["longest_over_ns"], 90_000_000)
        self.assertEqual(vgpus["late"]["overdue"], 0)
        holder.tell(release(used=1000))
        wait_for(lambda: [vgpu["resources"]["compute"]["overdue"] for vgpu in self.top()] == [0, 1],
                 what="the late release")
        device = self.top("devices")[0]["resources"]["compute"]
        self.assertEqual(device["handovers"], 2)
        self.assertGreater(device["lost_ns"], 90_000_000)

    def test_top_is_text_too(self):
        self.start()
        text = self.done("top", "--once")
        for word in ("policy fair", "gdev0", "SHOULD", "no sessions"):
            self.assertIn(word, text)
        self.client()
        self.assertIn("NICE", self.done("top", "--once"))
        self.refused("from 0.1 to 3600", "top", "--seconds", "0", code=2)
        self.refused("what is", "top", "me", code=2)
        watch = subprocess.Popen([harness.GDEV, "top", "--seconds", "0.1"], env=self.environment,
                                 stdout=subprocess.PIPE, text=True)
        seen = 0
        while seen < 3:
            seen += "policy fair" in watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        self.assertEqual(watch.wait(wire.PATIENCE), 0)
        watch.stdout.close()


    def test_top_shows_a_terminal_what_it_has_room_for(self):
        self.start(config="".join(f"[vgpu v{i}]\nmode = 0666\n" for i in range(30)))
        pid, terminal = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
            os.execve(harness.GDEV, [harness.GDEV, "top", "--seconds", "0.1"], self.environment)
        self.addCleanup(os.close, terminal)
        seen = b""
        while seen.count(b"\x1b[H\x1b[J") < 3:
            seen += os.read(terminal, 65536)
        os.kill(pid, signal.SIGINT)
        try:
            while more := os.read(terminal, 65536):
                seen += more
        except OSError:
            pass  # it is gone
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        begin, *screens = seen.split(b"\x1b[H\x1b[J")
        self.assertEqual(begin, b"\x1b[?1049h\x1b[?25l\x1b[?7l")
        self.assertTrue(seen.endswith(b"\x1b[?7h\x1b[?25h\x1b[?1049l"))
        for screen in screens:
            self.assertEqual(screen.count(b"\n"), 11)
            self.assertIn(b"policy fair", screen.splitlines()[0])


class Metrics(SharesTest):
    def get(self, request=b"GET /metrics HTTP/1.1\r\nHost: gdev\r\n\r\n", address=None, pieces=1):
        family = socket.AF_INET if address else socket.AF_UNIX
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(wire.PATIENCE)
            sock.connect(address or self.run_dir + "/metrics.sock")
            for i in range(pieces):
                sock.sendall(request[i * len(request) // pieces:(i + 1) * len(request) // pieces])
                time.sleep(0.01 * (pieces > 1))
            answer = b""
            while piece := sock.recv(65536):
                answer += piece
        head, _, body = answer.partition(b"\r\n\r\n")
        return head.decode().split("\r\n"), body.decode()

    @staticmethod
    def rename(name):
        with open("/proc/self/comm", "w", encoding="ascii") as file:
            file.write(name)

    def samples(self, body):
        """{name{labels}: value}; each line must be one that Prometheus takes."""
        line = re.compile(r'([a-z_]+)\{([a-z]+="(?:[^"\\]|\\.)*",?)*\} ([0-9.e+-]+)')
        found, helped = {}, set()
        for text in body.splitlines():
            if text.startswith("# "):
                helped.add(text.split()[2])
                continue
            match = line.fullmatch(text)
            self.assertTrue(match, text)
            self.assertIn(match[1], helped)
            key, _, value = text.rpartition(" ")
            self.assertNotIn(key, found)
            found[key] = float(value)
        return found

    def test_are_what_top_says(self):
        self.start()
        self.rename('a"b\\c')
        self.addCleanup(self.rename, "test_shares.py")
        self.done("vgpu", "create", "train", "--compute", "20", "--memory", "1G")
        client = self.client("train")
        client.memory(8 << 20)
        client.tell(acquire())
        self.expect(client, wire.GRANT)
        time.sleep(0.05)
        client.tell(release(used=20_000_000))
        client.free()
        head, body = self.get()
        self.assertEqual(head[0], "HTTP/1.1 200 OK")
        self.assertIn(f"Content-Length: {len(body.encode())}", head)
        samples = self.samples(body)
        self.assertEqual(samples['gdev_vgpu_used_seconds_total{device="null",vgpu="train",resource="compute"}'], 0.02)
        self.assertEqual(samples['gdev_vgpu_share_ratio{device="null",vgpu="train",resource="compute"}'], 0.2)
        self.assertEqual(samples['gdev_vgpu_sessions{device="null",vgpu="train"}'], 1)
        self.assertEqual(samples['gdev_vgpu_memory_limit_bytes{device="null",vgpu="train"}'], 1 << 30)
        session = [key for key in samples if key.startswith("gdev_session_memory_bytes")]
        self.assertIn('program="a\\"b\\\\c"', session[0])

    def test_come_over_tcp_where_configured(self):
        with socket.socket() as sock:  # nobody else is given the port meanwhile
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
            self.start("--set", f"metrics_address=127.0.0.1:{port}")
        for address in ("127.0.0.1", port), None:
            head, body = self.get(address=address, pieces=7)
            self.assertEqual(head[0], "HTTP/1.1 200 OK")
            self.assertIn("gdev_device_handovers_total", body)

    def test_address_of_another_machine_is_refused(self):
        for address in ("0.0.0.0:9000", "10.0.0.1:9000", "127.0.0.1:99999", "localhost", "[::]:80"):
            process = self.start("--set", f"metrics_address={address}", wait=False)
            self.assertEqual(process.wait(wire.PATIENCE), 1)
        self.assertIn("an address of this machine", self.log())

    def test_other_requests_harm_nothing(self):
        self.start()
        self.assertIn("405", self.get(b"POST /metrics HTTP/1.1\r\n\r\n")[0][0])
        self.assertIn("404", self.get(b"GET / HTTP/1.1\r\n\r\n")[0][0])
        self.assertIn("404", self.get(b"GET /metricsmore HTTP/1.1\r\n\r\n")[0][0])
        try:
            self.assertIn("431", self.get(b"GET /" + b"x" * 4090)[0][0])
        except ConnectionResetError:
            pass  # what it did not read
        socks = []
        for _ in range(40):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sock.connect(self.run_dir + "/metrics.sock")
            socks.append(sock)
        self.assertEqual(len(self.vgpus()), 1)
        for sock in socks:
            sock.close()
        wait_for(self.answers, what="an answer")

    def answers(self):
        try:
            return "200" in self.get()[0][0]
        except ConnectionResetError:  # too many of the user's are still there
            return False


if __name__ == "__main__":
    harness.main()
