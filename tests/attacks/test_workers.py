# SPDX-License-Identifier: MIT
"""Attacks by workers that their clients have taken over, and on workers by processes of their user."""

import contextlib
import os
import pwd
import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gdevd"))

import harness  # noqa: E402
import integ  # noqa: E402
import wire  # noqa: E402
from harness import wait_for  # noqa: E402

harness.GDEVD, harness.GDEV = str(integ.BUILD / "gdevd" / "gdevd"), str(integ.BUILD / "cli" / "gdev")
NOBODY, SOMEBODY, WORKERS = 65534, 61000, 61001
STATUS = wire.message(wire.ADMIN, b'{"command": "status"}')
HELLO = wire.hello(base=wire.ARENA_BASE + wire.ARENA_BYTES)
needs_root = unittest.skipUnless(os.geteuid() == 0, "only root's workers have a user of their own")


def kind_of(packet):
    """The type of a message; None: there was none, but the end."""
    return wire.HEADER.unpack_from(packet)[1] if packet else None


def call_as(uid, path, said):
    """What a process of that user is answered; the number of an error where it cannot connect."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        answer = b"EOF"
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                sock = wire.connect(path)
                sock.send(said)
                answer = str(kind_of(sock.recv(65536))).encode()
        except OSError as error:
            answer = os.strerror(error.errno).encode()
        finally:
            os.write(write, answer)
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read, encoding="utf-8") as pipe:
        return pipe.read().replace("None", "EOF")


class Workers(harness.GdevdTest):
    def call_as_worker(self, client, name, said):
        """What a session's worker is answered at a socket of gdevd's."""
        client.peer.send(b"call" + f"{self.run_dir}/{name}.sock".encode() + b"\0" + said)
        answer = client.peer.recv(65536)
        self.assertTrue(answer.startswith(b"told"))
        return kind_of(answer[4:])

    def refuse(self, client):
        for name, said in ("gdev0", HELLO), ("gdev0", wire.message(wire.DESCRIBE, version=1)), ("control", STATUS):
            self.assertIsNone(self.call_as_worker(client, name, said), name)
        self.assertIn("is a worker", self.log())
        self.assertEqual(len(self.status()["sessions"]), 1)
        self.assertEqual(client.memory(1 << 20), 0)  # and it goes on

    def test_a_worker_is_no_client(self):
        """A worker cannot open a session nor ask for anything as a client, also after a restart of gdevd"""
        self.start()
        client = self.client()
        self.refuse(client)
        self.processes[-1].kill()
        self.processes[-1].wait()
        self.start()
        wait_for(lambda: self.status()["sessions"], what="the session's return")
        self.refuse(client)

    @needs_root
    def test_the_workers_user_is_no_client(self):
        """No process of the workers' user can open a session nor ask for anything; others can"""
        self.start(config=f"[gdevd]\nworker_user = {WORKERS}\n")
        self.assertEqual(self.status()["warnings"], [])
        for name, said, answer in ("gdev0", HELLO, wire.WELCOME), ("control", STATUS, wire.ADMIN_REPLY):
            path = f"{self.run_dir}/{name}.sock"
            self.assertEqual(call_as(WORKERS, path, said), "EOF")
            self.assertEqual(call_as(SOMEBODY, path, said), str(answer))

    @needs_root
    def test_without_a_user_for_workers(self):
        """Without a user for workers, they have one that no other program has, and gdevd says what to do"""
        self.start(config="[gdevd]\nworker_user = no-such-user\n")
        self.wait_warm(2)
        users = {int(uid) for uid in re.findall(r"--user\0(\d+)", self.workers_commands())}
        self.assertEqual(len(users), 1)
        self.assertFalse(users & {0, NOBODY} or users & {entry.pw_uid for entry in pwd.getpwall()})
        for uid in NOBODY, SOMEBODY:
            self.assertEqual(call_as(uid, f"{self.run_dir}/workers.sock", b""), os.strerror(13))
            self.assertEqual(call_as(uid, f"{self.run_dir}/gdev0.sock", HELLO), str(wire.WELCOME))
        self.assertEqual(call_as(users.pop(), f"{self.run_dir}/gdev0.sock", HELLO), "EOF")
        for said in self.log(), self.status()["warnings"][0], self.gdev("status").stdout, self.gdev("doctor").stdout:
            self.assertIn("useradd --system", said)

    def workers_commands(self):
        return "".join(integ.read_if_there(f"/proc/{pid}/cmdline") for pid in integ.children(self.processes[-1].pid))

    @needs_root
    def test_workers_are_not_root(self):
        """A gdevd whose workers would be root's does not start"""
        for name in "root", "0":
            process = self.start(config=f"[gdevd]\nworker_user = {name}\n", wait=False)
            self.assertEqual(process.wait(60), 1)
            self.processes.remove(process)
        self.assertIn("cannot be root", self.log())


if __name__ == "__main__":
    integ.main()
