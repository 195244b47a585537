# SPDX-License-Identifier: MIT
"""gdev shm, and what gdev status says of shared memory. Who may remove what: tests/attacks/test_segments.py."""

import json
import os
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
        self.assertEqual(self.status()["vgpus"][0]["memory_used_bytes"], used)

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
