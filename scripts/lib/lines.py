# SPDX-License-Identifier: MIT
"""Lines of worker/ and gdevd/ since a commit, by folder and by what they are for, as the tables of docs/results/lines.md.
docs/results/lines.json says of each commit, and of one that did several things of each file, what for; what it does not name is
what was there before.

usage: lines.py [COMMIT]     until COMMIT; HEAD if none is given
"""
import collections
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = [f"{folder}/*.[ch]" for folder in ("worker", "gdevd")]
COLUMNS = ["security", "mends", "later", "before"]


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True, text=True).stdout


def folder_of(path):
    return path.rpartition("/")[0]


def count(commit):
    lines = collections.Counter()
    for line in git("grep", "-c", "", commit, "--", *FILES).splitlines():
        _, path, number = line.split(":")
        lines[folder_of(path)] += int(number)
    return lines


def shares(said, commit, path, lines):
    """(what for, how many) of the lines that a commit has added to a file, less those that it took away."""
    for name, part in said["several"].get(commit, {}).get(path, {}).items():
        part = lines if part == "all" else part
        lines -= part
        yield name, part
    yield next((name for name, commits in said["commits"].items() if commit in commits.split()), "before"), lines


def main():
    until = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    said = json.loads((ROOT / "docs/results/lines.json").read_text())
    named = [*said["several"], *(commit for commits in said["commits"].values() for commit in commits.split())]
    purposes, table = collections.Counter(), collections.defaultdict(collections.Counter)
    for line in git("log", "--no-renames", "--numstat", "--format=@%H", f"{said['since']}..{until}", "--",
                    *FILES).splitlines():
        if line.startswith("@"):
            commit = next((short for short in named if line[1:].startswith(short)), line[1:])
        elif line:
            more, less, path = line.split("\t")
            for name, lines in shares(said, commit, path, int(more) - int(less)):
                purposes[name] += lines
                table[folder_of(path)][name if name in COLUMNS else "later"] += lines
    old, new = count(said["since"]), count(until)
    for name, lines in purposes.most_common():
        print(f"| {name} | {lines:+} |")
    for folder in sorted(new):
        cells = [table[folder][column] for column in COLUMNS]
        assert old[folder] + sum(cells) == new[folder]
        print(f"| {folder} | {old[folder]} |", " | ".join(f"{cell:+}" for cell in cells), f"| {new[folder]} |")
    totals = [sum(row[column] for row in table.values()) for column in COLUMNS]
    print(f"| both | {old.total()} |", " | ".join(f"{cell:+}" for cell in totals), f"| {new.total()} |")


main()
