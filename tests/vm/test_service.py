# SPDX-License-Identifier: MIT
"""gdevd as Debian's service manager runs it, in cgroups of version 2: `scripts/test vm --full` runs it.

A whole Debian boots in a machine of its own; what the tests look at, one script has done there."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integ"))

import integ  # noqa: E402
import debian  # noqa: E402
import guest  # noqa: E402
import lab  # noqa: E402
import parts  # noqa: E402

LIMIT_S = 900
SOURCES = ("tests/attacks/test_cgroups.py", "tests/gdevd/harness.py", "tests/gdevd/wire.py", "tests/gdevd/fake_worker.py",
           "tests/integ/integ.py", "scripts/lib/lab.py")
# A gdevd of the tests is alone in its cgroup, as the service's is.
ALONE = b"""#!/bin/sh
exec systemd-run --quiet --scope --collect -p Delegate=memory /usr/local/sbin/gdevd "$@"
"""
SCRIPT = guest.RUN + r"""
group=/sys/fs/cgroup/system.slice/gdevd.service
running() { # whether each session's worker is in a group of its own; the group of the groups
    gdev status --json | python3 -c '
import json, sys
status = json.load(sys.stdin)
for session in status["sessions"]:
    print(open("/proc/%d/cgroup" % session["worker_pid"]).read().strip() == "0::/system.slice/gdevd.service/gdev-worker-%d" % session["worker_pid"])
print(status["workers"]["cgroups"])'
}
gone() { for _ in $(seq 300); do [ -d "$1" ] || return 0; sleep 0.2; done; return 1; }
round() { echo >&3; read -r said <&4 && [ "$said" = ready ]; }
back() { for _ in $(seq 300); do [ "$(running | head -n 1)" = True ] && return; sleep 0.2; done; return 1; }

run start systemctl start gdevd
run doctor gdev doctor
run hello gdev run /t/hello
mkfifo /in /out
gdev run /t/idle 4 </in >/out & idle=$!
exec 3>/in 4</out
read -r said <&4
run first round
run before running
own=$group/gdev-worker-$(gdev status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["sessions"][0]["worker_pid"])')
run limit-before cat $own/memory.max
run restart systemctl restart gdevd
run back-after-restart back
run second round
run killed sh -c 'kill -9 $(systemctl show -p MainPID --value gdevd)'
run back-after-kill back
run third round
run limit-after cat $own/memory.max
run new gdev run /t/hello
run stop systemctl stop gdevd
run worker-stays [ -d $own ]
run start-again systemctl start gdevd
run back-after-stop back
echo >&3
run end wait $idle
run group-ends gone $own
run attacks env GDEV_BUILD=/build PYTHONPATH=/src/tests/integ python3 -B /src/tests/attacks/test_cgroups.py
run journal journalctl --no-pager -u gdevd
"""


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build = integ.BUILD
        made_of = parts.installed(build)
        here = {"t/hello": build / "examples" / "hello", "t/idle": build / "tests" / "integ" / "idle",
                "build/gdevd/gdevd": ALONE, "build/cli/gdev": build / "cli" / "gdev",
                **{f"src/{path}": lab.ROOT / path for path in SOURCES}}
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        machine = guest.Guest(debian.Host, made_of, {path: (0o755, file) for path, file in here.items()}, SCRIPT, folder,
                              debian.system(build))
        try:
            machine.start()
            cls.output = machine.finish(LIMIT_S)
        finally:
            machine.kill()

    said = guest.said

    def succeeded(self, *names):
        for name in names:
            code, text = self.said(name)
            self.assertEqual(code, 0, f"{name}: {text}\n{self.said('journal')[1]}")

    def test_it_starts(self):
        """The service starts, and programs run"""
        self.succeeded("start", "doctor", "hello")

    def test_each_worker_is_in_a_group(self):
        """Each worker is in a cgroup of its own, below the service's"""
        self.assertEqual(self.said("before"), (0, "True\n/sys/fs/cgroup/system.slice/gdevd.service\n"))

    def test_sessions_outlive_restarts(self):
        """A session goes on after the service was restarted, killed and stopped, and keeps its group and its limit"""
        self.succeeded("first", "restart", "back-after-restart", "second", "killed", "back-after-kill", "third", "new",
                       "stop", "worker-stays", "start-again", "back-after-stop", "end", "group-ends")
        for name in "limit-before", "limit-after":
            self.assertRegex(self.said(name)[1], r"^\d+$")

    def test_attacks(self):
        """What tests/attacks holds of cgroups is so in those of version 2"""
        code, text = self.said("attacks")
        print("".join(f"# {line}\n" for line in text.splitlines()), end="")
        self.assertEqual(code, 0, text)
        self.assertNotIn("# SKIP", text)


if __name__ == "__main__":
    try:
        for name in debian.TOOLS:
            parts.tool(name)
        parts.require(integ.BUILD)
    except parts.Missing as missing:
        print(f"1..0 # SKIP {missing}")
        sys.exit(0)
    integ.main()
