"""`trimtab pipeline truth`: what the tables say, held against what a load generator really did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.cli.options import CLUSTER, LAKE, lake_path
from trimtab.model.errors import InputError

if TYPE_CHECKING:
    from trimtab.sandbox.truth import TruthTick


def truth(
    folder: Path = typer.Argument(
        ..., help="Folder of *.truth.jsonl that `trimtab sandbox kafka load` wrote."
    ),
    cluster: str | None = CLUSTER,
    lake: Path | None = LAKE,
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
    figure: Path | None = typer.Option(None, "--figure", help="Draw found against true, SVG or PNG."),
) -> None:
    """Hold what the tables say of every partition and broker against what a load generator really did."""
    import json

    from trimtab.observe.accuracy import compare, ticks_between
    from trimtab.observe.lake import Lake
    from trimtab.sandbox.truth import read_truth

    where = Lake(lake_path(lake))
    ticks = list(read_truth(folder))
    if not ticks:
        raise InputError(f"{folder} holds no *.truth.jsonl with a tick in it: name the folder of a load")
    # All clients must be at work at both ends, or the truth would lack what one did before or after.
    by_client = {name: [tick for tick in ticks if tick.client == name] for name in {t.client for t in ticks}}
    begin = max(min(tick.at for tick in own) for own in by_client.values())
    end = min(max(tick.at + tick.seconds for tick in own) for own in by_client.values())
    known = ticks_between(where, cluster, begin, end)
    if len(known) < 2:
        raise InputError(
            f"the tables hold {len(known)} ticks of the load's time, 2 are needed: collect while it runs"
        )
    produced, consumed = bytes_by_partition(ticks, known[0], known[-1])
    compared = compare(where, cluster, produced, consumed, known[0], known[-1])
    say(f"{known[-1] - known[0]:.0f} s of load, {len(known)} ticks")
    summaries = [one.summary() for one in compared]
    if as_json:
        print(json.dumps({"seconds": known[-1] - known[0], "compared": summaries}, indent=1))
    else:
        _print_accuracy(summaries)
    if figure is not None:
        from trimtab.report.accuracy import draw

        draw(compared, figure)
        say(f"drew {figure}")


def bytes_by_partition(
    ticks: list[TruthTick], begin: float, end: float
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """Bytes produced to and read from each partition between two times, seconds since the epoch."""
    from trimtab.sandbox.truth import traffic_between

    produced: dict[tuple[str, int], float] = {}
    consumed: dict[tuple[str, int], float] = {}
    for client, parts in traffic_between(ticks, begin, end).items():
        total = produced if client == "producer" else consumed
        for name, part in parts.items():
            topic, _, partition = name.rpartition(":")
            key = (topic, int(partition))
            total[key] = total.get(key, 0.0) + part.bytes
    return produced, consumed


def _print_accuracy(summaries: list[dict[str, Any]]) -> None:
    names = ("bias", "weighted_error", "median_error", "p95_error", "share_error")
    print(f"{'measure':<10} {'per':<10} {'number':>6}  " + "  ".join(f"{name:>14}" for name in names))
    for row in summaries:
        figures = "  ".join(
            f"{'-':>14}" if row[name] is None else f"{100 * row[name]:>13.2f}%" for name in names
        )
        print(f"{row['measure']:<10} {row['level']:<10} {row['entities']:>6}  {figures}")


def say(line: str) -> None:
    """One line of progress."""
    print(f"trimtab: {line}", file=sys.stderr, flush=True)
