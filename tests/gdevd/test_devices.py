# SPDX-License-Identifier: MIT
"""Several devices: each has its workers, memory and turns, and takes none of another's with it."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

MIB = 1 << 20
OTHER_ARENA = wire.ARENA_BASE + wire.ARENA_BYTES


class Devices(harness.GdevdTest):
    def begin(self, devices="null:2", config="", **options):
        self.start("--device", devices, "--device-memory", "64M", "--set", "swap_reserve=0", config=config, **options)

    def devices(self):
        return {device["device"]: device for device in self.status()["devices"]}

    def test_each_has_a_virtual_gpu_of_its_own(self):
        self.begin(config="[vgpu train]\ndevice = null:1\n")
        vgpus = {vgpu["vgpu"]: vgpu["device"] for vgpu in self.status()["vgpus"]}
        self.assertEqual(vgpus, {"train": "null:1", "gdev0": "null:0"})
        self.assertEqual(self.gdev("vgpu", "create", "any", "--device", "null:1").returncode, 0)
        self.assertEqual(self.gdev("vgpu", "create", "gdev1").returncode, 0)
        vgpus = {vgpu["vgpu"]: vgpu["device"] for vgpu in self.status()["vgpus"]}
        self.assertEqual((vgpus["any"], vgpus["gdev1"]), ("null:1", "null:1"))

    def test_shares_are_parts_of_one_device(self):
        self.begin()
        for device in "null:0", "null:1":
            done = self.gdev("vgpu", "create", "most" + device[-1], "--device", device, "--compute", "80")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.gdev("vgpu", "create", "more", "--device", "null:1", "--compute", "40")
        self.assertIn("add up to 120", done.stderr)

    def test_what_is_wrong_is_explained(self):
        self.begin()
        for words, text in ((("create", "a", "--device", "null:2"), "does not serve"),
                            (("create", "gdev1", "--device", "null:0"), "there is a virtual GPU"),
                            (("set", "gdev1", "--device", "null:0"), "stays on its device")):
            done = self.gdev("vgpu", *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)
        self.assertEqual(self.gdev("vgpu", "delete", "gdev1").returncode, 0)
        for device in "null:0", "any":
            done = self.gdev("vgpu", "create", "gdev1", "--device", device)
            self.assertIn("default virtual GPU of null:1", done.stderr)
        for name in "gdev2", "gdev01", "gdev4294967297":
            done = self.gdev("vgpu", "create", name)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("there is none of that number", done.stderr)
        for name in "gdev", "gdev1a", "gdev-1":
            self.assertEqual(self.gdev("vgpu", "create", name).returncode, 0, name)

    def test_wrong_lists_are_refused(self):
        for devices in "null,null", "null:0", "null:x", "null,", "null:65":
            process = self.start("--device", devices, wait=False)
            self.assertNotEqual(process.wait(wire.PATIENCE), 0, devices)
            self.processes.remove(process)
        self.assertIn("must be devices with commas", self.log())
        process = self.start("--device", "null", config="[vgpu a]\ndevice = cuda:7\n", wait=False)
        self.assertNotEqual(process.wait(wire.PATIENCE), 0)
        self.processes.remove(process)
        self.assertIn('does not serve a device "cuda:7"', self.log())
        process = self.start("--device", "null", config="[vgpu gdev1]\n", wait=False)
        self.assertNotEqual(process.wait(wire.PATIENCE), 0)
        self.processes.remove(process)
        self.assertIn("give this one another name", self.log())

    def test_memory_is_the_devices_own(self):
        self.begin()
        first, second = self.client("gdev0"), self.client("gdev1", base=OTHER_ARENA)
        self.assertEqual(first.memory(40 * MIB), 0)
        self.assertEqual(second.memory(48 * MIB), 0)
        self.assertEqual(first.memory(40 * MIB), -harness.ENOMEM)
        self.assertEqual(second.memory(40 * MIB), -harness.ENOMEM)
        devices = self.devices()
        self.assertEqual([devices[name]["sessions"] for name in ("null:0", "null:1")], [1, 1])
        self.assertNotEqual(devices["null:0"]["uuid"], devices["null:1"]["uuid"])

    def test_nobody_waits_for_another_devices_turn(self):
        self.begin()
        clients = self.client("gdev0"), self.client("gdev1", base=OTHER_ARENA)
        for client in clients:
            client.tell(wire.message(wire.ACQUIRE, wire.GRANT_BODY.pack(0, 0, 0, 0)))
            self.assertEqual(wire.receive(client.peer)[0], wire.GRANT)

    def test_host_swap_is_of_all(self):
        self.begin(config="[gdevd]\nhost_swap = 256M\n")
        first, second = self.client("gdev0"), self.client("gdev1", base=OTHER_ARENA)
        self.assertEqual(first.ask(wire.swap(192 * MIB, 5))[2], 0)
        first.tell(b"page" + wire.PAGE_SWAP_KEPT.to_bytes(4, "little") + (128 * MIB).to_bytes(8, "little"))
        self.assertEqual(first.peer.recv(100), b"written")
        second.tell(wire.swap(128 * MIB, 6))  # what the other keeps and does not use comes back
        kind, serial, _, body, _ = wire.receive(first.peer)
        self.assertEqual((kind, wire.EVICT_BODY.unpack(body)[2]), (wire.EVICT, wire.EVICT_SLOTS))
        first.tell(wire.give_back(0, wire.EVICT_BODY.unpack(body)[0]))
        first.tell(wire.evicted(serial))
        kind, serial, status, _, _ = wire.receive(second.peer)
        self.assertEqual((kind, serial, status), (wire.CHARGED, 6, 0))

    def test_one_whose_workers_die_takes_none_with_it(self):
        self.order("die", "broken")
        self.begin("null,broken")
        client = self.client("gdev0")
        self.assertEqual(client.memory(MIB), 0)
        wait_for(lambda: self.devices()["broken"]["health"] == "failed", what="the failure")
        self.assertEqual(self.devices()["null"]["health"], "ok")
        refused = self.client("gdev1", welcome=False, base=OTHER_ARENA)
        self.assertEqual(refused.kind, wire.REFUSED)
        self.assertIn('"broken"', refused.text())
        self.client("gdev0", base=OTHER_ARENA)

    def test_one_that_hangs_takes_none_with_it(self):
        self.order("mute", "broken")
        self.begin("null,broken", config="[vgpu free]\ndevice = any\n[vgpu one]\ndevice = null\n")
        self.assertEqual(self.client("one").memory(MIB), 0)
        wait_for(lambda: self.devices()["broken"]["reason"], what="the suspicion")
        self.assertEqual(self.devices()["broken"]["health"], "starting")
        self.assertEqual(self.device_of(self.client("free", base=OTHER_ARENA)), "null")

    def test_one_that_failed_comes_back(self):
        """Clients are refused at once, with the reason, until a worker was ready, and gdevd goes on trying by itself"""
        self.order("lost", "broken")
        self.begin("null,broken", config="[gdevd]\nwarm_workers = 0\n")
        self.assertEqual(self.describe("gdev1"), (wire.REFUSED, -harness.DEVICE_LOST))
        device = self.devices()["broken"]
        self.assertEqual((device["health"], device["reason"]), ("failed", "the device failed or went away"))
        self.assertIn("failed: the device failed", self.gdev("device", "list").stdout)
        self.assertEqual(self.describe("gdev1"), (wire.REFUSED, -harness.DEVICE_LOST))
        self.order("ok", "broken")
        wait_for(lambda: self.devices()["broken"]["health"] == "ok", 120, "the next try")
        self.assertIsNone(self.devices()["broken"]["reason"])
        self.assertIn("device broken works again", self.log())
        self.client("gdev1")

    def test_one_that_failed_is_said_to_have_failed_while_it_is_tried_again(self):
        """It is tried although nobody wants a worker"""
        self.order("die", "broken")
        self.begin("null,broken", config="[gdevd]\nwarm_workers = 0\n[vgpu bad]\ndevice = broken\n"
                   "[vgpu free]\ndevice = any\n")
        waits = wire.connect(f"{self.run_dir}/bad.sock")
        wire.send(waits, wire.message(wire.DESCRIBE))
        wait_for(lambda: self.devices()["broken"]["health"] == "failed", what="the failure")
        waits.close()
        self.order("mute", "broken")
        wait_for(lambda: self.status()["workers"]["starting"] and self.devices()["broken"]["failed_starts"],
                 what="the next try")
        self.assertEqual(self.devices()["broken"]["health"], "failed")
        self.assertEqual(self.device_of(self.client("free")), "null")

    def test_one_that_failed_and_is_drained_comes_back_when_it_is_undrained(self):
        self.order("lost", "broken")
        self.begin("null,broken")
        self.drain("broken")
        wait_for(lambda: self.devices()["broken"]["failed_starts"], what="the failure")
        self.order("ok", "broken")
        self.assertEqual(self.gdev("device", "undrain", "broken").returncode, 0)
        self.client("gdev1")

    def test_warm_workers_are_replaced_once_however_often_it_is_said_to_be_lost(self):
        self.begin("null", config="[gdevd]\nwarm_workers = 2\n")
        begun = time.monotonic()
        for _ in range(3):
            client = self.client(base=OTHER_ARENA)
            self.wait_warm(2)
            client.tell(wire.message(wire.BYE, b"", 0, -1037))
            wait_for(lambda: not self.status()["sessions"], what="the session's end")
        most = 1 + (time.monotonic() - begun) // 10  # once in ten seconds
        self.assertTrue(1 <= self.log().count("warm workers are replaced") <= most, self.log())
        self.assertEqual(self.devices()["null"]["losses"], 3)

    def test_sessions_come_back_to_their_devices(self):
        self.begin()
        first, second = self.client("gdev0"), self.client("gdev1", base=OTHER_ARENA)
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes.pop().wait()
        self.begin()
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="the sessions' return")
        sessions = {name: device["sessions"] for name, device in self.devices().items()}
        self.assertEqual(sessions, {"null:0": 1, "null:1": 1})
        self.assertEqual((first.memory(40 * MIB), second.memory(40 * MIB)), (0, 0))

    def device_of(self, client):
        """Where the session of the client is."""
        return next(s["device"] for s in self.status()["sessions"] if s["session"] == client.session)

    def test_sessions_of_any_device_are_placed(self):
        """Each process where there is least load, and all of one process on one device"""
        self.begin(config="[vgpu one]\ndevice = null:0\n[vgpu free]\ndevice = any\n")
        vgpus = sorted((vgpu["vgpu"], vgpu["device"]) for vgpu in self.status()["vgpus"])
        self.assertEqual(vgpus, [("free", "null:0"), ("free", "null:1"), ("one", "null:0")])
        self.client("one")
        first, second = self.client("free"), self.client("free", base=OTHER_ARENA)
        self.assertEqual((self.device_of(first), self.device_of(second)), ("null:1", "null:1"))
        done = self.gdev("vgpu", "list")
        self.assertEqual(done.stdout.count("free"), 2, done.stdout)

    def test_processes_of_any_device_are_spread(self):
        self.begin(config="[vgpu free]\ndevice = any\n")
        others = [self.elsewhere("free") for _ in range(4)]
        sessions = {name: device["sessions"] for name, device in self.devices().items()}
        self.assertEqual(sessions, {"null:0": 2, "null:1": 2})
        self.assertEqual(len(others), 4)

    def elsewhere(self, vgpu):
        """A session of another process; its device."""
        process = subprocess.Popen(
            [sys.executable, "-B", "-c", "import sys, harness; client = harness.Client(sys.argv[1]); "
             "print(client.kind, flush=True); sys.stdin.read()", f"{self.run_dir}/{vgpu}.sock"],
            cwd=os.path.dirname(os.path.abspath(__file__)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.stdin.close(), process.stdout.close(), process.wait()))
        self.assertEqual(process.stdout.readline(), f"{wire.WELCOME}\n")
        return process

    def test_a_session_begins_on_the_device_that_was_described(self):
        self.begin(config="[vgpu free]\ndevice = any\n")
        sock = wire.connect(f"{self.run_dir}/free.sock")
        wire.send(sock, wire.message(wire.DESCRIBE))
        kind, _, _, body, _ = wire.receive(sock)
        self.assertEqual(kind, wire.DESCRIPTION)
        sock.close()
        other = self.elsewhere("free")
        uuids = {name: device["uuid"].replace("-", "") for name, device in self.devices().items()}
        described = wire.DESCRIPTION_BODY.unpack(body)[2].hex()
        self.elsewhere("free")
        self.assertEqual(uuids[self.device_of(self.client("free"))], described)
        self.assertIsNone(other.poll())

    def test_who_has_the_pid_of_a_process_that_has_ended_is_placed_anew(self):
        self.begin(config="[vgpu free]\ndevice = any\n[vgpu one]\ndevice = null:0\n")
        first = os.fork()
        if not first:
            try:
                self.client("free").close()
            finally:
                os._exit(0)
        self.assertEqual(os.waitpid(first, 0)[1], 0)
        wait_for(lambda: not self.status()["sessions"], what="the session's end")
        self.client("one")  # from now on there is more room on the other device
        read, write = os.pipe()
        second = harness.fork_as(first)
        if not second:
            try:
                os.write(write, str(self.client("free").session).encode())
                signal.pause()
            finally:
                os._exit(1)
        try:
            self.assertTrue(select.select([read], [], [], wire.PATIENCE)[0])
            session = int(os.read(read, 64))
            device = next(s["device"] for s in self.status()["sessions"] if s["session"] == session)
            self.assertEqual(device, "null:1")
        finally:
            os.kill(second, signal.SIGKILL)
            os.waitpid(second, 0)
            os.close(read)
            os.close(write)

    def test_one_of_any_device_passes_over_a_device_that_fails(self):
        self.order("die", "broken")
        self.begin("broken,null", config="[vgpu free]\ndevice = any\n")
        self.assertEqual(self.device_of(self.client("free")), "null")  # waits until the other is known to fail

    def test_one_of_any_device_changes_and_goes_everywhere(self):
        self.begin()
        done = self.gdev("vgpu", "create", "free", "--device", "any", "--compute", "60", "--memory", "40M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = self.gdev("vgpu", "set", "free", "--memory", "32M", "--compute", "110")
        self.assertEqual(done.returncode, 1, done.stderr)
        done = self.gdev("vgpu", "set", "free", "--memory", "32M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        limits = [vgpu["memory_bytes"] for vgpu in self.status()["vgpus"] if vgpu["vgpu"] == "free"]
        self.assertEqual(limits, [32 * MIB] * 2)
        done = self.gdev("vgpu", "set", "free", "--device", "null:1")
        self.assertIn("stays on its device", done.stderr)
        client = self.client("free")
        self.assertEqual(client.memory(33 * MIB), -harness.ENOMEM)
        self.assertIn('has 1 session;', self.gdev("vgpu", "delete", "free").stderr)
        self.assertEqual(self.gdev("vgpu", "delete", "free", "--force").returncode, 0)
        self.assertEqual([vgpu["vgpu"] for vgpu in self.status()["vgpus"]], ["gdev0", "gdev1"])
        self.assertFalse(os.path.exists(f"{self.run_dir}/free.sock"))

    def test_placed_sessions_come_back_to_their_devices(self):
        config = "[vgpu free]\ndevice = any\n[vgpu one]\ndevice = null:0\n"
        self.begin(config=config)
        self.client("one")
        client = self.client("free", base=OTHER_ARENA)
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes.pop().wait()
        self.begin(config=config)
        wait_for(lambda: len(self.status()["sessions"]) == 2, what="the sessions' return")
        self.assertEqual(self.device_of(client), "null:1")

    def drain(self, device, *options):
        done = self.gdev("device", "drain", device, *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def describe(self, vgpu):
        """The kind and status of what DESCRIBE is answered with."""
        with wire.connect(f"{self.run_dir}/{vgpu}.sock") as sock:
            wire.send(sock, wire.message(wire.DESCRIBE))
            return wire.receive(sock)[0:3:2]

    def test_a_drained_device_takes_no_new_sessions(self):
        """What is there goes on, and whoever comes is told what to do"""
        self.begin()
        client = self.client("gdev0")
        sessions = json.loads(self.drain("null:0", "--json"))["sessions"]
        self.assertEqual([(s["session"], s["device"]) for s in sessions], [(client.session, "null:0")])
        refused = self.client("gdev0", welcome=False, base=OTHER_ARENA)
        self.assertEqual((refused.kind, refused.status), (wire.REFUSED, -harness.DRAINED))
        self.assertIn("gdev device undrain null:0", refused.text())
        self.assertEqual(self.describe("gdev0"), (wire.REFUSED, -harness.DRAINED))
        self.assertEqual(client.memory(MIB), 0)
        self.client("gdev1", base=OTHER_ARENA)
        self.assertEqual([self.devices()[name]["health"] for name in ("null:0", "null:1")], ["drained", "ok"])
        self.assertIn("drained", self.gdev("device", "list").stdout)
        self.assertIn("takes no new sessions", self.gdev("status").stdout)
        self.assertEqual(self.gdev("device", "undrain", "null:0").returncode, 0)
        self.assertEqual(self.describe("gdev0")[0], wire.DESCRIPTION)
        self.client("gdev0", base=OTHER_ARENA)

    def test_a_drained_device_has_no_warm_workers(self):
        self.begin("null", config="[gdevd]\nworker_idle = 60min\n")
        self.wait_warm(2)
        self.assertIn("no sessions", self.drain("null"))
        self.wait_warm(0)
        wait_for(lambda: not self.devices()["null"]["memory_used_bytes"], what="the contexts' end")
        self.assertEqual(self.gdev("device", "undrain", "null").returncode, 0)
        self.wait_warm(2)

    def test_a_drained_device_stays_so_when_gdevd_is_started_again(self):
        self.begin()
        self.client("gdev1")
        self.assertEqual(self.gdev("vgpu", "create", "made").returncode, 0)
        self.drain("null:1")
        self.processes[-1].send_signal(signal.SIGKILL)
        self.processes.pop().wait()
        self.begin()
        wait_for(lambda: self.status()["sessions"], what="the session's return")
        self.assertEqual({name: device["drained"] for name, device in self.devices().items()},
                         {"null:0": False, "null:1": True})
        self.assertEqual(self.describe("gdev1")[0], wire.REFUSED)
        self.assertIn("made", [vgpu["vgpu"] for vgpu in self.status()["vgpus"]])
        self.assertEqual(self.gdev("device", "undrain", "null:1").returncode, 0)
        self.processes[-1].terminate()
        self.assertEqual(self.processes.pop().wait(wire.PATIENCE), 0)
        self.begin()
        self.assertFalse(self.devices()["null:1"]["drained"])

    def test_who_waits_for_a_device_that_is_drained_is_told_or_placed(self):
        self.start("--device", "null:2", "--set", "max_workers=1", config="[vgpu free]\ndevice = any\n"
                   "[vgpu one]\ndevice = null:0\n[gdevd]\nwarm_workers = 1\n")
        wait_for(lambda: self.status()["workers"]["total"] == 1, what="the worker")
        holds = self.client("one", apart=True)
        sockets = {name: wire.connect_apart(f"{self.run_dir}/{name}.sock") for name in ("one", "free")}
        for sock in sockets.values():
            wire.send(sock, wire.hello(base=OTHER_ARENA))
        self.gdev("status")  # later than they
        self.drain("null:0")
        kind, _, status, _, _ = wire.receive(sockets["one"])
        self.assertEqual((kind, status), (wire.REFUSED, -harness.DRAINED))
        holds.close()
        self.clients.remove(holds)
        kind, _, _, _, fds = wire.receive(sockets["free"])
        self.assertEqual(kind, wire.WELCOME)
        self.assertEqual([s["device"] for s in self.status()["sessions"]], ["null:1"])
        for fd in fds:
            os.close(fd)
        for sock in sockets.values():
            sock.close()

    def test_one_of_any_device_is_placed_where_none_is_drained(self):
        self.begin(config="[vgpu free]\ndevice = any\n[vgpu one]\ndevice = null:1\n")
        self.drain("null:0")
        self.client("one", apart=True)  # there would be more room on the other
        self.assertEqual(self.device_of(self.client("free", base=OTHER_ARENA)), "null:1")
        self.drain("null:1")  # and all sessions of a process are on one device
        self.gdev("device", "undrain", "null:0")
        refused = self.client("free", welcome=False, base=OTHER_ARENA)
        self.assertEqual((refused.kind, refused.status), (wire.REFUSED, -harness.DRAINED))
        self.assertEqual(self.elsewhere("free").poll(), None)
        self.assertEqual(self.devices()["null:0"]["sessions"], 1)

    def test_who_asks_what_a_device_is_and_is_placed_elsewhere_has_no_session(self):
        self.order("mute", "broken")
        self.begin("null,broken", config="[vgpu free]\ndevice = any\n[vgpu one]\ndevice = null\n[gdevd]\nwarm_workers=1\n")
        wait_for(lambda: self.status()["workers"]["warm"], what="a worker of the other device")
        self.client("one", apart=True)  # so that the one that says nothing is chosen
        asker = wire.connect_apart(f"{self.run_dir}/free.sock")
        wire.send(asker, wire.message(wire.DESCRIBE))
        self.drain("broken")
        asker.settimeout(wire.PATIENCE)
        self.assertEqual(wire.receive(asker)[0], wire.DESCRIPTION)
        self.assertEqual(len(self.status()["sessions"]), 1)

    def test_contexts_of_a_drained_device_are_given_back(self):
        self.begin()
        client = self.client("gdev0")
        self.drain("null:0")
        client.peer.settimeout(wire.PATIENCE)
        kind, serial, _, body, _ = wire.receive(client.peer)
        self.assertEqual((kind, wire.EVICT_BODY.unpack(body)[2]), (wire.EVICT, wire.EVICT_RETIRE))
        client.tell(b"page" + wire.PAGE_KEPT_BY.to_bytes(4, "little") + (1).to_bytes(4, "little"))
        self.assertEqual(client.peer.recv(100), b"written")
        client.tell(wire.evicted(serial))
        self.assertIn("shares memory", json.loads(self.drain("null:0", "--json"))["sessions"][0]["kept_because"])

    def test_what_cannot_be_drained_is_explained(self):
        self.begin()
        for words, text in ((("drain", "null:7"), "does not serve"), (("undrain", "null:7"), "does not serve"),
                            (("drain",), "name of one device"),
                            (("undrain", "--all"), "name of one device")):
            done = self.gdev("device", *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)
        self.assertFalse(any(device["drained"] for device in self.devices().values()))

    def test_metrics_and_top_have_all(self):
        self.begin()
        done = self.gdev("top", "--json")
        self.assertEqual(len([device for device in json.loads(done.stdout)["devices"] if "resources" in device]), 2)
        wait_for(lambda: all(d["health"] == "ok" for d in self.devices().values()), what="the workers")
        self.drain("null:1")
        for words in ("device", "list"), ("top", "--once"):
            done = self.gdev(*words).stdout
            self.assertIn("null:0", done)
            self.assertRegex(done, r"null:1.*drained")
        metrics = self.metrics()
        for name, state in (("null:0", (1, 0, 0, 0)), ("null:1", (1, 1, 0, 0))):
            for key, value in zip(("up", "drained", "sessions", "losses_total"), state):
                self.assertIn(f'gdev_device_{key}{{device="{name}"}} {value}\n', metrics)

    def metrics(self):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(wire.PATIENCE)
            sock.connect(self.run_dir + "/metrics.sock")
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    def test_doctor_speaks_of_all(self):
        self.order("lost", "broken")
        self.begin("null,broken")
        wait_for(lambda: self.devices()["broken"]["health"] == "failed", what="the failure")
        wait_for(lambda: self.devices()["null"]["health"] == "ok", what="the other")
        findings = json.loads(self.gdev("doctor", "--json", "--device", "null").stdout)["findings"]
        levels = {f["device"]: f["level"] for f in findings if f["topic"] == "daemon" and "device" in f}
        self.assertEqual(levels, {"null": "ok", "broken": "note"})
        self.assertIn("do not see the device broken: failed", str(findings))


if __name__ == "__main__":
    harness.main()
