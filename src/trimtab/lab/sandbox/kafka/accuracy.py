"""The pipeline's tables, held against what a load generator really did."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from trimtab.files.store import Location
from trimtab.lab.sandbox.kafka.comparison import compare, ticks_between
from trimtab.lab.sandbox.truth import TruthTick, read_truth, traffic_between
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE
from trimtab_common.errors import InputError


def print_accuracy(
    folder: Path, cluster: str | None, lake: Location, as_json: bool, figure: Path | None
) -> None:
    """Compare, and print the measures: a table, or one JSON document.

    Parameters
    ----------
    folder
        Of `*.truth.jsonl`, as a load on Kafka writes them.
    cluster
        Whose tables; None for the only one of the lake.
    lake
        Where the tables lie.
    as_json
        Whether one JSON document is wanted.
    figure
        Where found is drawn against true, SVG or PNG; None for no picture.

    Raises
    ------
    InputError
        If the folder has no tick, or the tables hold fewer than two of the load's time.
    """
    where = Lake(lake, PIPELINE)
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
    _print_progress(f"{known[-1] - known[0]:.0f} s of load, {len(known)} ticks")
    summaries = [one.summary() for one in compared]
    if as_json:
        print(json.dumps({"seconds": known[-1] - known[0], "compared": summaries}, indent=1))
    else:
        _print_accuracy(summaries)
    if figure is not None:
        from trimtab.lab.sandbox.kafka.comparison_picture import draw

        draw(compared, figure)
        _print_progress(f"drew {figure}")


def bytes_by_partition(
    ticks: list[TruthTick], begin: float, end: float
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], float]]:
    """Bytes produced to and read from each partition between two times, seconds since the epoch."""
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
        print(f"{row['measure']:<10} {row['scope']:<10} {row['entities']:>6}  {figures}")


def _print_progress(line: str) -> None:
    """One line of progress."""
    print(f"trimtab: {line}", file=sys.stderr, flush=True)
