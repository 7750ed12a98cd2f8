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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OVERLOAD = 6500
"""C at which more comes in than the partitions' consumers can do."""
sys.path.append(str(HERE.parent))

from page import tell  # noqa: E402 - beside this folder


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Without the columns in which nothing stands."""
    told = [place for place in range(len(head)) if any(row[place] for row in rows)]
    head, rows = [head[one] for one in told], [[row[one] for one in told] for row in rows]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(row: dict[str, Any]) -> str:
    """Max/mean, p99, share overtaken: medians of the draws."""
    most, late, over = (statistics.median(row[one]) for one in ("max_over_mean", "p99_seconds", "overtaken"))
    added = f", {', '.join(map(str, row['added']))} added" if any(row["added"]) else ""
    return f"{most:.2f}, {late:.2f} s, {over:.1%}{added}"


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


def pivoted(rows: Sequence[dict[str, Any]], what: str) -> str:
    """A line for each name up to its last comma, a column for what stands behind it."""
    split = {tuple(row["row"].rsplit(", ", 1)): _cell(row) for row in rows}
    names, others = (list(dict.fromkeys(one[place] for one in split)) for place in (0, 1))
    lines = [[name, *(split[name, other] for other in others)] for name in names]
    return _table([what, *others], lines)


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
    """Partitions that IPOOA had added; of runs before step 6 was wired, that it was not tried."""
    if "IPOOA" not in row["row"]:
        return ""
    return f"{row['added']}" if row.get("step_6") else "not tried"


def _asked(row: dict[str, Any]) -> str:
    """Share of records for which IPOOA found no candidate below its threshold, and asked for a partition."""
    return f"{row['asked_for'] / row['records']:.1%}" if "IPOOA" in row["row"] and "asked_for" in row else ""


def _seconds(row: dict[str, Any], measure: str, digits: int) -> str:
    """A delay; where a run was cut short it may be longer."""
    censored, value = row.get("censored_seconds"), row[measure]
    least = "at least " if censored is not None and value >= censored else ""
    return f"{least}{value:.{digits}f} s"


def _converged(row: dict[str, Any]) -> str:
    """KSCDR: in percent of the time for which records were sent."""
    seconds = row["converged_seconds"]
    return "never" if seconds is None else f"{seconds / row['seconds']:.0%}"


def _recovered(row: dict[str, Any]) -> str:
    if "recovered_seconds" not in row:
        return ""
    seconds = row["recovered_seconds"]
    return f"over {row['played_seconds']:.0f} s" if seconds is None else f"{seconds:.0f} s"


def _overloaded(row: dict[str, Any]) -> str:
    return f"{row['overloaded']:.1f}" if "overloaded" in row else ""


def _lost(row: dict[str, Any]) -> str:
    """Of a run that was cut short nobody knows; then how many had not taken effect."""
    return f"{row['lost']}" if row["lost"] is not None else f"{row['unfinished']:,} left"


def measured(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each run on brokers, a worker for each partition."""
    head = ["s", "policy", "draw", "table of", "recovered", "overloaded", "KSCDR", "KSDR", "p50", "p99",
            "max/mean", "asked", "added", "KCR", "overtaken", "lost", "load average"]  # fmt: skip
    lines = []
    for row in sorted(rows, key=lambda one: (one["load"], one["seed"])):
        lines.append([
            row["load"], row["row"], str(row["seed"]), _table_of(row), _recovered(row), _overloaded(row),
            _converged(row), f"{row['late']:.1%}", _seconds(row, "p50_seconds", 2),
            _seconds(row, "p99_seconds", 2), f"{row['max_over_mean']:.2f}", _asked(row), _added(row),
            f"{statistics.mean(row['broker_processors']):.0%}",
            f"{row['overtaken']:.1%}", _lost(row), f"{max(row['load_average']):g}",
        ])  # fmt: skip
    return _table(head, lines)


def newest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the runs of the same policy, load and draw the last."""
    return list({(row["load"], row["producers"], row["row"], row["seed"]): row for row in rows}.values())


def papers(rows: Sequence[dict[str, Any]]) -> str:
    """The paper's comparison, its three measures and what they leave out; draws beside one another."""
    draws: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda one: (one["load"], one["producers"], one["row"], one["seed"])):
        draws.setdefault((row["load"], row["producers"], row["row"]), []).append(row)
    head = ["s", "C", "policy", "draws", "KCR", "KSDR", "KSCDR", "recovered", "p99", "of partitions",
            "of brokers", "added", "overtaken", "load average"]  # fmt: skip
    cells: list[Callable[[dict[str, Any]], str]] = [
        lambda row: str(row["seed"]),
        lambda row: f"{statistics.mean(row['broker_processors']):.1%}",
        lambda row: f"{row['late']:.1%}",
        _converged,
        _recovered,
        lambda row: _seconds(row, "p99_seconds", 2),
        lambda row: f"{row['max_over_mean']:.2f}",
        lambda row: f"{row['brokers_max_over_mean']:.2f}",
        _added,
        lambda row: f"{row['overtaken']:.1%}",
        lambda row: f"{max(row['load_average']):g}",
    ]
    lines = [
        [load, f"{rate:,}", name.removeprefix("paper: "),
         *(" / ".join(filter(None, map(cell, each))) for cell in cells)]
        for (load, rate, name), each in draws.items()
    ]  # fmt: skip
    return _table(head, lines)


def parts(document: dict[str, Any], expected: dict[str, Any], brokers: dict[str, Any]) -> dict[str, str]:
    """All of them."""
    last = newest(brokers["rows"])
    own = [row for row in last if not row["row"].startswith("paper: ")]
    return {
        "overload": measured([row for row in own if row["producers"] == OVERLOAD]),
        "brokers": measured([row for row in own if row["producers"] < OVERLOAD]),
        "paper": papers([row for row in last if row not in own]),
        "earlier": measured([row for row in brokers["rows"] if row not in last]),
        "rows": compared(document["rows"], "policy", expected),
        "above": compared(document["above"], "policy"),
        "again": spread(document["rows"], document["again"]),
        "sweep": pivoted(document["sweep"], "IPOOA, candidate by content"),
        "news": pivoted(document["news"], "news of marks after"),
        "skews": compared([*document["quartiles"], *document["recorded"]], "policy"),
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
