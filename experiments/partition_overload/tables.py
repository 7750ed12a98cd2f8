"""The tables of README.md, made of the results beside it.

    python experiments/partition_overload/tables.py            # print them
    python experiments/partition_overload/tables.py --write    # put them in README.md, between its marks

A test holds README.md against the files.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from page import tell  # noqa: E402 - beside this folder


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(row: dict[str, Any]) -> str:
    """Max/mean, p99, share overtaken: medians of the draws."""
    most, late, over = (statistics.median(row[one]) for one in ("max_over_mean", "p99_seconds", "overtaken"))
    return f"{most:.2f}, {late:.2f} s, {over:.1%}"


def compared(rows: Sequence[dict[str, Any]], what: str, expected: dict[str, Any] | None = None) -> str:
    """One line for each row, one column for each load; beside it what is expected, where something is."""
    loads = list(dict.fromkeys(row["load"] for row in rows))
    names = list(dict.fromkeys(row["row"] for row in rows))
    head = [what]
    for load in loads:
        head.append(f"s = {load}" if load[0].isdigit() else load)
        head += ["to reproduce"] if expected is not None else []
    lines = []
    for name in names:
        line = [name]
        for load in loads:
            line.append(_cell(next(one for one in rows if (one["row"], one["load"]) == (name, load))))
            if expected is not None:
                found = expected["rows"].get(name, {}).get(load)
                line.append("" if found is None else f"{found[0]:.2f}, {found[1]:g} s, {found[2]:.0%}")
        lines.append(line)
    return _table(head, lines)


def spread(rows: Sequence[dict[str, Any]], again: Sequence[dict[str, Any]]) -> str:
    """D-Choices over its draws and over as many others: what differs is chance."""
    lines = []
    for one in again:
        first = next(row for row in rows if (row["row"], row["load"]) == (one["row"], one["load"]))
        for measure, digits in (("max_over_mean", 3), ("p99_seconds", 3), ("overtaken", 4)):
            values = [", ".join(f"{value:.{digits}f}" for value in of[measure]) for of in (first, one)]
            lines.append([f"s = {one['load']}", measure, *values])
    return _table(["load", "measure", "draws 1 to 3", "draws 11 to 13"], lines)


def _table_of(row: dict[str, Any]) -> str:
    """Seconds of the quarter that its table is made of, and the rates that it goes by."""
    if "learnt_seconds" not in row:
        return ""
    told = [
        f"{row['learnt_seconds']:g} s",
        row.get("rates", ""),
        "worked off" if row.get("worked_off") else "",
        *(row.get(what, "") for what in ("fences", "runs", "bound")),
    ]
    return ", ".join(filter(None, told))


def _added(row: dict[str, Any]) -> str:
    """Partitions that IPOOA had added; of earlier runs, which could add none, that it was not tried."""
    if "IPOOA" not in row["row"]:
        return ""
    return f"{row['added']}" if row.get("step_6") else "not tried"


def _converged(row: dict[str, Any]) -> list[str]:
    """KSCDR, settled, and overloaded partitions; runs of before have the first alone."""
    found = []
    for measure in ("converged_seconds", "settled_seconds"):
        seconds = row.get(measure, "")
        found.append(
            "never" if seconds is None else f"{seconds / row['seconds']:.0%}" if seconds != "" else ""
        )
    return [*found, f"{row['overloaded']:.1f}" if "overloaded" in row else ""]


CONVERGENCE = ("KSCDR", "settled", "overloaded")


def measured(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each run on brokers."""
    head = ["C", "s", "policy", "draw", "table of", "max/mean", "of brokers", "partitions added", "p50",
            "p99", "KSDR", *CONVERGENCE, "KCR", "overtaken", "lost", "load average"]  # fmt: skip
    lines = []
    for row in sorted(rows, key=lambda one: (-one["producers"], one["load"])):
        lines.append([
            f"{row['producers']:,}", row["load"], row["row"], str(row["seed"]), _table_of(row),
            f"{row['max_over_mean']:.2f}", f"{row['brokers_max_over_mean']:.2f}", _added(row),
            f"{row['p50_seconds']:.3f} s", f"{row['p99_seconds']:.2f} s", f"{row['late']:.1%}",
            *_converged(row), f"{statistics.mean(row['broker_processors']):.0%}",
            f"{row['overtaken']:.2%}", f"{row['lost']}", f"{max(row['load_average']):g}",
        ])  # fmt: skip
    return _table(head, lines)


def papers(rows: Sequence[dict[str, Any]]) -> str:
    """The paper's comparison: its three measures in percent, and what they leave out."""
    head = ["s", "C", "policy", "draw", "KCR", "KSDR", *CONVERGENCE, "busiest broker, processor",
            "records, of brokers", "of partitions", "partitions added", "p50", "p99", "overtaken",
            "load average"]  # fmt: skip
    lines = []
    for row in sorted(rows, key=lambda one: (one["load"], one["producers"], one["row"], one["seed"])):
        brokers = row["broker_processors"]
        lines.append([
            row["load"], f"{row['producers']:,}", row["row"].removeprefix("paper: "), str(row["seed"]),
            f"{statistics.mean(brokers):.1%}",
            f"{row['late']:.1%}", *_converged(row),
            f"{max(brokers):.1%}", f"{row['brokers_max_over_mean']:.2f}", f"{row['max_over_mean']:.2f}",
            _added(row), f"{row['p50_seconds']:.3f} s", f"{row['p99_seconds']:.2f} s",
            f"{row['overtaken']:.2%}", f"{max(row['load_average']):g}",
        ])  # fmt: skip
    return _table(head, lines)


def parts(document: dict[str, Any], expected: dict[str, Any], brokers: dict[str, Any]) -> dict[str, str]:
    """All of them."""
    paper = [row for row in brokers["rows"] if row["row"].startswith("paper: ")]
    return {
        "brokers": measured([row for row in brokers["rows"] if row not in paper]),
        "paper": papers(paper),
        "rows": compared(document["rows"], "policy", expected),
        "again": spread(document["rows"], document["again"]),
        "sweep": compared(document["sweep"], "IPOOA, candidate by content"),
        "news": compared(document["news"], "news of marks after"),
        "quartiles": compared(document["quartiles"], "policy"),
        "recorded": compared(document["recorded"], "policy"),
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write README.md")
    given = parser.parse_args()
    document = json.loads((HERE / "simulated.json").read_text())
    expected = json.loads((HERE / "expected.json").read_text())
    brokers = json.loads((HERE / "brokers.json").read_text())
    tell(parts(document, expected, brokers), HERE / "README.md" if given.write else None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
