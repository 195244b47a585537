# SPDX-License-Identifier: MIT
"""What dies, and what lies: each harms itself and nobody else."""

import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import integ
from idle import Idle
from integ import BUILD, FULL, PROGRAMS, SOFTWARE, children

STORM_SECONDS = 600 if FULL else 5
# Between kills. On hardware a worker takes a third of a second to start, and ends with its gdevd until then.
PAUSES = (0.05, 0.8) if SOFTWARE else (0.5, 2)
VERIFIED, WRONG, FAILED = 0, 1, 2


class Storm(integ.Case):
    """Clients come and go while somebody kills at random. A client that was not hurt must end with a
    right result; one that lost its worker may fail, but never with a wrong result, and never hang."""

    PROGRAMS = [("madd", "256", "--repeat=20"), ("mmul", "256", "--repeat=10"), ("lud", "256"),
                ("hs", "256"), ("bfs", "20000")]
    AT_ONCE = 6

    def start_client(self):
        """Without `gdev run`, which would start a private daemon where there is none for a moment."""
        name, *arguments = random.choice(self.PROGRAMS)
        client = self.gdevd.popen(
            [self.gdevd.example(name), *arguments, f"--seed={random.randint(1, 1000)}"],
            {"LD_LIBRARY_PATH": str(BUILD / "lib" / "cuda")}, stdout=-1, stderr=-2, text=True)
        client.hurt = False
        client.name = name
        return client

    def finish_client(self, client, timeout=120):
        out, _ = client.communicate(timeout=timeout)
        self.gdevd.children.remove(client)
        self.ended[client.returncode] = self.ended.get(client.returncode, 0) + 1
        if client.hurt:
            self.assertNotEqual(client.returncode, WRONG, f"{client.name} was wrong: {out}")
        else:
            self.assertEqual(client.returncode, VERIFIED, f"{client.name} was not hurt: {out}")

    def kill_client(self, clients):
        client = random.choice(clients)
        client.hurt = True
        os.kill(client.pid, signal.SIGKILL)

    def kill_worker(self, clients):
        """Of a session, or a warm one; gdevd says which client it served."""
        status = self.gdevd.status()
        sessions = status["sessions"]
        workers = {s["worker_pid"] for s in sessions}
        # When all die before they are ready, gdevd rightly gives up, and refuses clients. A busy machine starts them slowly.
        if status["devices"][0]["failed_starts"] < 2:
            workers |= set(children(self.gdevd.process.pid))
        if not workers:
            return
        victim = random.choice(sorted(workers))
        # A client without a session yet may be about to get this worker.
        known = {s["pid"] for s in sessions if s["worker_pid"] != victim}
        for client in clients:
            if client.pid not in known:
                client.hurt = True
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill_daemon(self, clients):
        """Sessions that were open survive; a client that was opening one may fail."""
        known = {session["pid"] for session in self.gdevd.status()["sessions"]}
        for client in clients:
            if client.pid not in known:
                client.hurt = True
        os.kill(self.gdevd.process.pid, signal.SIGKILL)
        self.gdevd.process.wait()
        for client in clients:
            if client.poll() is None and client.pid not in known:
                client.hurt = True
        self.gdevd.start()

    def storm(self, *killers):
        seed = int(os.environ.get("GDEV_TEST_SEED") or time.time())
        print(f"# GDEV_TEST_SEED={seed}", flush=True)
        random.seed(seed)
        self.ended = {}
        clients = []
        end = time.monotonic() + STORM_SECONDS
        next_kill = time.monotonic() + 1
        # On a machine that is busy no client may come through so soon.
        while time.monotonic() < end or not self.ended.get(VERIFIED):
            while len(clients) < self.AT_ONCE:
                clients.append(self.start_client())
            for client in [c for c in clients if c.poll() is not None]:
                clients.remove(client)
                self.finish_client(client)
            if time.monotonic() >= next_kill and clients:
                random.choice(killers)(clients)
                next_kill = time.monotonic() + random.uniform(*PAUSES)
            time.sleep(0.02)
        for client in clients:
            self.finish_client(client)
        print(f"# ended, by exit status: {self.ended}", flush=True)
        self.wait_quiet()
        self.run_verified("madd", "128")

    def test_clients(self):
        """kill -9 of random clients: all others end with right results"""
        self.storm(self.kill_client)

    def test_workers(self):
        """kill -9 of random workers: only the clients they served fail, and none is wrong"""
        self.storm(self.kill_worker)

    def test_daemon(self):
        """kill -9 of the daemon: open sessions go on and end with right results"""
        self.storm(self.kill_daemon)

    def test_all(self):
        """kill -9 of clients, workers and the daemon: every survivor is right"""
        self.storm(self.kill_client, self.kill_worker, self.kill_daemon)


class Restart(Idle, integ.Case):
    def test_registered_again(self):
        """A session that outlives its daemon is known to the next one, and ends properly"""
        client = self.start(0, "race", 1000)  # until finish()
        self.wait_until(lambda: self.sessions(client), "the session is there")
        os.kill(self.gdevd.process.pid, signal.SIGKILL)
        self.gdevd.process.wait()
        self.gdevd.start()
        self.wait_until(lambda: self.sessions(client), "the session is there again")
        self.finish(client)
        self.wait_quiet()


NO_RUNTIME = "the interpreter, which loads the library, lacks the sanitizer's runtime"


@unittest.skipIf(integ.SANITIZED, NO_RUNTIME)
class Opening(integ.Case):
    """Programs that are opening sessions while gdevd goes and another is started."""

    config = {"device": "null"}
    PROCESSES, KILLS = 16, 8
    LEAST = 4  # opens of a process, on a machine that is busy

    WAITS = 2  # seconds that an open waits for the next gdevd: RESTART_WAIT_NS

    def open_until(self, end):
        """Opens and closes sessions: how often, and with which errors, each when."""
        library = ctypes.CDLL(str(BUILD / "lib" / "libgdev" / "libgdev.so.0"))
        session, errors, count = ctypes.c_void_p(), [], 0
        while time.monotonic() < end or count < self.LEAST:
            count += 1
            error = library.gdev_session_open(b"gdev0", ctypes.byref(session))
            if error:
                errors.append((time.monotonic(), error))
            else:
                library.gdev_session_close(session)
        return count, errors

    def start_opening(self, end):
        """A process, and the pipe in which its answer comes."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, reader
        try:
            os.environ.update(self.gdevd.environment)
            os.write(writer, json.dumps(self.open_until(end)).encode())
        finally:
            os._exit(0)

    def test_killed(self):
        """No open fails when gdevd is killed and another starts"""
        end = time.monotonic() + (4 if SOFTWARE else 8)
        programs, too_long = [self.start_opening(end) for _ in range(self.PROCESSES)], []
        for _ in range(self.KILLS):
            time.sleep(random.uniform(0.1, 0.4))
            killed = time.monotonic()
            os.kill(self.gdevd.process.pid, signal.SIGKILL)
            self.gdevd.process.wait()
            self.gdevd.start()
            if time.monotonic() - killed > self.WAITS:
                too_long.append((killed, time.monotonic()))
        count, failed = 0, []
        for pid, reader in programs:
            with open(reader, encoding="ascii") as answer:
                its_count, errors = json.load(answer)
            os.waitpid(pid, 0)
            count += its_count
            failed += [error for at, error in errors
                       if not any(killed <= at - self.WAITS <= there for killed, there in too_long)]
        print(f"# {count} opens, {len(failed)} failed", flush=True)
        self.assertFalse(failed, f"of {count} opens")


@unittest.skipIf(integ.SANITIZED, NO_RUNTIME)
class OpeningFull(integ.Case):
    config = {"device": "null", "max_workers": 1, "warm_workers": 1}

    def start_session(self):
        """A program that opens a session, says so, and closes it when its standard input ends."""
        program = ("import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); session = ctypes.c_void_p(); "
                   "print(library.gdev_session_open(b'gdev0', ctypes.byref(session)), flush=True); "
                   "sys.stdin.read(); library.gdev_session_close(session)")
        return self.gdevd.popen(
            [sys.executable, "-c", program, BUILD / "lib" / "libgdev" / "libgdev.so.0"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def test_waiting(self):
        """An open that waits for a worker waits on when gdevd is restarted, and gets one of the next"""
        first = self.start_session()
        self.assertEqual(first.stdout.readline(), "0\n")
        second = self.start_session()
        time.sleep(0.5)
        self.gdevd.stop()
        self.gdevd.start()
        time.sleep(0.5)
        self.assertIsNone(second.poll(), "it waits")
        first.stdin.close()
        self.assertEqual(second.stdout.readline(), "0\n")
        second.stdin.close()
        self.assertEqual((first.wait(60), second.wait(60)), (0, 0))


class Hostile(integ.Case):
    def hostile(self, mode):
        liars = [self.gdevd.popen([self.gdevd.gdev, "run", PROGRAMS / "hostile", mode,
                                   "60" if FULL else "5" if SOFTWARE else "2", str(seed)], stdout=-1, stderr=-2,
                                  text=True) for seed in range(1, 4)]
        for liar in liars:
            self.assertIn("shared mappings", liar.stdout.readline())
        while any(liar.poll() is None for liar in liars):
            self.run_verified("madd", "256")
            self.run_verified("lud", "128")
        self.assertIsNone(self.gdevd.process.poll(), "gdevd lives")
        self.wait_quiet()
        self.run_verified("hello")

    def test_bytes(self):
        """A client that writes random bytes into every shared page harms only itself"""
        self.hostile("bytes")

    def test_words(self):
        """A client that writes plausible numbers into every shared page harms only itself"""
        self.hostile("words")

    def test_header(self):
        """A client that corrupts counters and states but not the ring harms only itself"""
        self.hostile("header")

    def test_copying(self):
        """A client that pretends to copy by itself and never ends keeps nobody else from copying"""
        self.hostile("copying")


class Endless(integ.Case):
    vgpus = {"gdev0": {}, "short": {"time_limit_ms": "300"}}

    def test_time_limit(self):
        """A kernel that never ends ends its own program's session, and nothing else"""
        endless = self.gdevd.popen([self.gdevd.gdev, "run", "--vgpu", "short", PROGRAMS / "endless"],
                                   stdout=-1, stderr=-2, text=True)
        self.run_verified("loop", "1")
        out, _ = endless.communicate(timeout=60)
        self.assertEqual(endless.returncode, 0, out)
        self.wait_quiet()
        status = self.gdevd.status()
        self.assertEqual([vgpu["memory_used_bytes"] for vgpu in status["vgpus"]], [0, 0])
        self.assertEqual([vgpu["time_limit_ms"] for vgpu in status["vgpus"]], [None, 300])
        self.assertIn("ran longer", " ".join(ended["reason"] for ended in status["ended"]))
        self.assertIn('runs longer than the 300 ms that virtual GPU "short" allows', self.gdevd.log())
        self.run_verified("madd", "128")


if __name__ == "__main__":
    integ.main()
