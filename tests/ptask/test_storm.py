# SPDX-License-Identifier: MIT
"""Processes that own many graphs, others that have them open, and others again that spoil the memory between, are killed at random. Nobody hangs, what goes through a graph
stays right, also while gdevd is started again, and in the end nothing of it is left at gdevd: no name, no session, no descriptor.

usage: test_storm.py PROGRAM
With GDEV_TEST_FULL it is 1,000 graphs of 36 ptasks in 20 processes and sessions, and then 100 with one each."""
import json
import os
import random
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "lib"))

import lab  # noqa: E402

FULL = bool(os.environ.get("GDEV_TEST_FULL"))
Size = namedtuple("Size", "owners graphs named users spoilers kills")
SIZES = [Size(20, 50, 11, 40, 6, 200), Size(100, 1, 1, 40, 0, 100)] if FULL else [Size(3, 4, 2, 6, 2, 12)]
END_S = 60


def fail(text):
    raise SystemExit(text)


class Storm:
    def __init__(self, gdevd, program, size):
        self.gdevd, self.program, self.size = gdevd, program, size
        self.owners, self.users, self.spoilers = {}, [], []

    def start_owner(self):
        owner = self.gdevd.popen([self.program, "own", self.size.graphs, self.size.named], stdout=subprocess.PIPE, text=True)
        self.owners[owner] = []
        return owner

    def await_owner(self, owner):
        for line in owner.stdout:
            if line == ".\n":
                return
            self.owners[owner].append(line.strip())  # the last one may be a spoiler's
        fail(f"an owner ended with {owner.wait()}")

    def start_user(self):
        owner = random.choice(list(self.owners))
        self.users.append(self.gdevd.popen([self.program, "use", random.choice(self.owners[owner][:self.size.named])]))

    def start_spoiler(self):
        name = random.choice(list(self.owners.values()))[-1]
        self.spoilers.append(self.gdevd.popen([self.program, "spoil", f"{os.getuid()}/{name[1:]}", random.randrange(1 << 30)],
                                              stderr=subprocess.DEVNULL))

    def kill_one(self):
        if random.random() < 0.25:
            owner = random.choice(list(self.owners))
            del self.owners[owner]
            owner.kill()
            owner.wait()
            self.await_owner(self.start_owner())
        else:
            user = self.users.pop(random.randrange(len(self.users)))
            user.kill()
            if user.wait() not in (0, -9):
                fail(f"a user ended with {user.returncode}")
        dead = [owner.returncode for owner in self.owners if owner.poll() is not None]
        if dead:
            fail(f"owners ended with {dead}")
        # A spoiler is left by its owner, or spoils itself.
        for spoiler in [spoiler for spoiler in self.spoilers if spoiler.poll() is not None or random.random() < 0.2]:
            self.spoilers.remove(spoiler)
            spoiler.kill()
            spoiler.wait()
        while len(self.spoilers) < self.size.spoilers:
            self.start_spoiler()
        # Whose owner was killed end by themselves.
        for user in [user for user in self.users if user.poll() is not None]:
            if user.returncode:
                fail(f"a user ended with {user.returncode}")
            self.users.remove(user)
        while len(self.users) < self.size.users:
            self.start_user()

    def end(self):
        for spoiler in self.spoilers:
            spoiler.kill()
            spoiler.wait()
        for owner in self.owners:
            owner.kill()
            owner.wait()
        for user in self.users:
            if user.wait(END_S):
                fail(f"a user ended with {user.returncode}")


def descriptors(gdevd):
    return len(os.listdir(f"/proc/{gdevd.process.pid}/fd"))


def graphs(gdevd):
    code, out, err = gdevd.run([gdevd.gdev, "graph", "list", "--json"])
    return json.loads(out)["graphs"] if not code else fail(err)


def await_names(gdevd, count):
    """Also with a gdevd that was started again."""
    end = time.monotonic() + END_S
    while len(found := graphs(gdevd)) != count:
        if time.monotonic() > end:
            fail(f"{len(found)} graphs have a name, and not {count}")
        time.sleep(0.1)


def await_nothing(gdevd, before):
    end = time.monotonic() + END_S
    while time.monotonic() < end:
        status = gdevd.status()
        left = graphs(gdevd), status["sessions"], max(descriptors(gdevd) - before, 0)
        if not any(left):
            return
        time.sleep(0.2)
    fail(f"left behind: {left}")


def rage(gdevd, program, size):
    gdevd.context_bytes()  # a warm worker is there
    before = descriptors(gdevd) + 16  # of warm workers, whose number changes
    names = size.owners * min(size.named + 1, size.graphs)
    storm = Storm(gdevd, program, size)
    for owner in [storm.start_owner() for _ in range(size.owners)]:
        storm.await_owner(owner)
    await_names(gdevd, names)
    for _ in range(size.users):
        storm.start_user()
    gdevd.process.kill()
    gdevd.process.wait()
    gdevd.start()
    await_names(gdevd, names)
    for _ in range(size.kills):
        time.sleep(random.random() * 0.1)
        storm.kill_one()
    storm.end()
    await_nothing(gdevd, before)


def main():
    lab.end_on_signals()
    build = Path(os.environ.get("GDEV_BUILD") or lab.ROOT / "build")
    seed = random.randrange(1 << 32)
    random.seed(seed)
    print("seed", seed)
    config = {"device_memory": "2G", "sessions_per_user": 200}
    for size in SIZES:
        with lab.Gdevd(build, config, {"gdev0": {}}) as gdevd:
            rage(gdevd, sys.argv[1], size)


main()
