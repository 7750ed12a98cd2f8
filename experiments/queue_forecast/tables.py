"""The tables of README.md, made of the results beside it.

    python experiments/queue_forecast/tables.py            # print them
    python experiments/queue_forecast/tables.py --write    # put them in README.md, between its marks

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


def makespans(rows: Sequence[dict[str, Any]]) -> str:
    """Makespan of every scheme at every size; at random the median of the draws, least and most behind it."""
    parts = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        of_kind = [row for row in rows if row["kind"] == kind]
        names = list(of_kind[0]["makespan_seconds"])
        lines = [
            (
                f"{row['size']:,}",
                *(_spread(row["makespan_seconds"][name]) for name in names),
                _spread(row["bound_seconds"]),
            )
            for row in of_kind
        ]
        parts.append(
            f"**Classes {kind}**, makespan in seconds\n\n{_table(('messages', *names, 'bound'), lines)}"
        )
    return "\n\n".join(parts)


def runs(rows: Sequence[dict[str, Any]], what: str) -> str:
    """One line for each scheme, kind and size."""
    head = ("messages", "classes", what, "makespan, × bound", "busy: least, most", "sojourn: mean, p99",
            "p99 until accepted", "moved", "stolen", "pauses")  # fmt: skip
    lines = [
        (
            f"{row['size']:,}",
            row["kind"],
            row["scheme"],
            f"{row['makespan_seconds']:.1f} s, {row['makespan_seconds'] / row['bound_seconds']:.3f}",
            f"{min(row['busy_seconds']):.0f}, {max(row['busy_seconds']):.0f} s",
            f"{row['sojourn_mean_seconds']:.0f}, {row['sojourn_p99_seconds']:.0f} s",
            f"{row['acceptance_p99_seconds']:.0f} s",
            f"{row['moved']:,}",
            f"{row['stolen']:,}",
            f"{row['pauses']}",
        )
        for row in rows
    ]
    return _table(head, lines)


def switches(rows: Sequence[dict[str, Any]]) -> str:
    """Makespan over the bound of every combination of switches."""
    cells = list(dict.fromkeys((row["kind"], row["size"]) for row in rows))
    lines = [
        (name, *(_ratio(rows, name, kind, size) for kind, size in cells))
        for name in dict.fromkeys(row["scheme"] for row in rows)
    ]
    return _table(("balance, weight, sign", *(f"{size:,} {kind}" for kind, size in cells)), lines)


def dropping(rows: Sequence[dict[str, Any]]) -> str:
    """Losses of a source that does not wait."""
    lines = [
        (row["kind"], row["scheme"], f"{row['lost']:,}", f"{row['accepted']:,}",
         f"{row['makespan_seconds']:.0f} s", str(row["pauses"]))
        for row in rows
    ]  # fmt: skip
    return _table(("classes", "scheme", "lost", "accepted", "makespan", "pauses"), lines)


def overtaking(rows: Sequence[dict[str, Any]]) -> str:
    """Order kept per user, and its price."""
    lines = [
        (row["scheme"], str(row["overtaken_without_keys"]), str(row["overtaken_with_keys"]),
         f"{row['makespan_without_keys']:.1f}, {row['makespan_with_keys']:.1f} s")
        for row in rows
    ]  # fmt: skip
    return _table(
        ("scheme", "overtaken, no keys", "overtaken, users as keys", "makespan: no keys, keys"), lines
    )


def traces(rows: Sequence[dict[str, Any]]) -> str:
    """Sojourn over each recording: a column for what weights are known and how fast workers are."""
    parts = []
    for recording in dict.fromkeys(row["recording"] for row in rows):
        of_it = [row for row in rows if row["recording"] == recording]
        columns = list(dict.fromkeys((row["weights"], row["workers"]) for row in of_it))
        lines = [
            (policy, *(_sojourn(of_it, policy, *column) for column in columns))
            for policy in dict.fromkeys(row["policy"] for row in of_it)
        ]
        head = ("policy", *(f"weights by {weights}, {workers} workers" for weights, workers in columns))
        parts.append(f"**{recording}**, sojourn in seconds: mean, p99\n\n{_table(head, lines)}")
    return "\n\n".join(parts)


def intervals(rows: Sequence[dict[str, Any]]) -> str:
    """Sojourn and moves by the interval between two moves of a message."""
    columns = list(dict.fromkeys((row["weights"], row["policy"]) for row in rows))
    lines = []
    for rest in dict.fromkeys(row["rest_seconds"] for row in rows):
        of_it = [row for row in rows if row["rest_seconds"] == rest]
        cells = [
            f"{row['sojourn_mean_seconds']:,.0f}, {row['sojourn_p99_seconds']:,.0f} ({row['moved']:,} moved)"
            for weights, policy in columns
            for row in of_it
            if (row["weights"], row["policy"]) == (weights, policy)
        ]
        lines.append(("never again" if rest is None else f"{rest:,.0f} s", *cells))
    return _table(("interval", *(f"{policy}, weights by {weights}" for weights, policy in columns)), lines)


def on_server(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each load and scheme with real processes."""
    head = ("load", "scheme", "makespan, × bound", "busy: least, most", "sojourn: mean, p99 (of rounds)",
            "p99 of the shortest fifth")  # fmt: skip
    lines = [
        (
            row["load"],
            row["scheme"],
            f"{row['makespan_seconds']:.1f} s, {row['makespan_seconds'] / row['bound_seconds']:.2f}",
            f"{min(row['busy_seconds']):.1f}, {max(row['busy_seconds']):.1f} s",
            f"{row['sojourn_mean_seconds']:.2f}, {row['sojourn_p99_seconds']:.2f} s "
            f"({min(row['p99_seconds_of_rounds']):.2f} to {max(row['p99_seconds_of_rounds']):.2f})",
            f"{row['quick_p99_seconds']:.1f} s",
        )
        for row in rows
        if row["load"] != "overload"
    ]
    return _table(head, lines)


def overloaded(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each scheme where queues overflow: when all was accepted and done, pauses and moves."""
    head = ("scheme", "accepted after", "makespan, × bound", "busy: least, most", "pauses, still paused",
            "time with a queue paused", "messages moved")  # fmt: skip
    lines = [
        (
            row["scheme"],
            f"{row['sent_seconds']:.1f} s",
            f"{row['makespan_seconds']:.1f} s, {row['makespan_seconds'] / row['bound_seconds']:.2f}",
            f"{min(row['busy_seconds']):.1f}, {max(row['busy_seconds']):.1f} s",
            f"{row['pauses']:.0f}, {row['still_paused']:.0f}",
            f"{100 * row['looks_with_pause_share']:.0f} %",
            f"{row['moved']:,.0f}",
        )
        for row in rows
        if row["load"] == "overload"
    ]
    return _table(head, lines)


def _sojourn(rows: Sequence[dict[str, Any]], policy: str, weights: str, workers: str) -> str:
    wanted = policy, weights, workers
    row = next(one for one in rows if (one["policy"], one["weights"], one["workers"]) == wanted)
    moved = f" ({row['moved']:,} moved)" if row["moved"] else ""
    if row["sojourn_mean_seconds"] < 100:
        return f"{row['sojourn_mean_seconds']:.2f}, {row['sojourn_p99_seconds']:.1f}{moved}"
    return f"{row['sojourn_mean_seconds']:,.0f}, {row['sojourn_p99_seconds']:,.0f}{moved}"


def _ratio(rows: Sequence[dict[str, Any]], name: str, kind: str, size: int) -> str:
    row = next(one for one in rows if (one["scheme"], one["kind"], one["size"]) == (name, kind, size))
    return f"{row['makespan_seconds'] / row['bound_seconds']:.3f}"


def _spread(values: Sequence[float]) -> str:
    middle = f"{statistics.median(values):.1f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):.0f} to {max(values):.0f})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def parts_of(
    document: dict[str, Any], recorded: dict[str, Any], rested: dict[str, Any], served: dict[str, Any]
) -> dict[str, str]:
    """What stands in README.md, by mark."""
    return {
        "makespans": makespans(document["makespans"]),
        "schemes": runs(document["schemes"], "scheme"),
        "rivals": runs(document["rivals"], "policy"),
        "switches": switches(document["switches"]),
        "options": runs(document["options"], "option"),
        "dropping": dropping(document["dropping"]),
        "overtaking": overtaking(document["overtaking"]),
        "traces": traces(recorded["rows"]),
        "intervals": intervals(rested["rows"]),
        "server": on_server(served["rows"]),
        "overloaded": overloaded(served["rows"]),
    }


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables in README.md")
    page = HERE / "README.md" if parser.parse_args().write else None
    files = ("result.json", "traces.json", "rest.json", "server.json")
    tell(parts_of(*(json.loads((HERE / name).read_text()) for name in files)), page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
