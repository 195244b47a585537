# SPDX-License-Identifier: MIT
"""What NVIDIA's library answered in the tables of errors (tests/cuda/errors.h, TEST_ANSWERS): a report of the rows
in which it does not answer as the tables expect."""

from collections import Counter, namedtuple
from pathlib import Path

Row = namedtuple("Row", "place became ours theirs why call")

HEADINGS = {
    "differs": "Otherwise than expected",
    "crashes": "NVIDIA's library crashes, as is not known yet",
    "hangs": "It does not return",
    "on purpose": "Otherwise on purpose",
    "known to crash": "Not asked: NVIDIA's library crashes",
}

MANY = 10  # rows of one reason


def read(path):
    """The rows, each once: tables that are asked about several objects have the same place and call."""
    path = Path(path)
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return list(dict.fromkeys(Row(*line.split("\t", 5)) for line in lines if line.count("\t") >= 5))


def table(rows):
    short = [row._replace(ours=row.ours.removeprefix("CUDA_ERROR_"), theirs=row.theirs.removeprefix("CUDA_ERROR_"),
                          call=row.call.replace("((void *)0)", "NULL").replace("|", "\\|")) for row in rows]
    return ["| row | call | ours | NVIDIA's |", "|---|---|---|---|",
            *(f"| {row.place} | `{row.call}` | {row.ours} | {row.theirs}{row.why and ': ' + row.why} |" for row in short)]


def place_of(row):
    name, _, line = row.place.partition(":")
    return name, int(line)


def tables(rows):
    """A table of what has reasons of its own; a reason of many is said once, with the lines."""
    often = [why for why, count in Counter(row.why for row in rows).items() if why and count > MANY]
    few = [row for row in rows if row.why not in often]
    lines = table(few) if few else []
    for why in often:
        lines += ["", f"NVIDIA's library {why}, in {sum(row.why == why for row in rows)} rows:", ""]
        for name in dict.fromkeys(place_of(row)[0] for row in rows if row.why == why):
            numbers = dict.fromkeys(str(place_of(row)[1]) for row in rows if row.why == why and place_of(row)[0] == name)
            lines += [f"- {name}: {', '.join(numbers)}"]
    return lines


def report(rows, about):
    """The text of the report, as Markdown."""
    counts = Counter(row.became for row in rows)
    lines = ["# Errors: NVIDIA's library asked", "",
             f"Made by `scripts/hardware --only vendor-tests`: {about}. The rows are those of tests/cuda/errors_*.c; "
             "a row in which the two differ is to be settled by changing ours, or by DIFFERS() with the reason. Not asked "
             "about are handles that are gone or of another kind, which ours refuses and NVIDIA's follows.", "",
             ", ".join([f"{len(rows)} rows", *(f"{count} {became}" for became, count in counts.most_common())]) + "."]
    for became, heading in HEADINGS.items():
        found = sorted((row for row in rows if row.became == became), key=place_of)
        if found:
            lines += ["", f"## {heading}", "", *tables(found)]
    return "\n".join(lines) + "\n"
