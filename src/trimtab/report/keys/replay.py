"""Comparison of key policies on recorded records: tables, JSON and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.report.charts import (
    BASELINE,
    FAINT,
    LINE,
    LOW,
    OVERLOADED,
    save_figure,
    small_multiples,
    style_axes,
)
from trimtab.report.formats import duration_text, figure_text
from trimtab.report.tables import Column, comparison_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from trimtab.history.keys.compare import KeyPolicyResult
    from trimtab.history.keys.stream import KeyStream


COLUMNS: Final[tuple[Column[KeyPolicyResult], ...]] = (
    ("max/mean", lambda one: figure_text(one.max_over_mean, ".2f")),
    ("delay: p50", lambda one: _seconds(one.p50_seconds)),
    ("p99", lambda one: _seconds(one.p99_seconds)),
    ("overtaken", lambda one: f"{one.overtaken:.1%}" if one.overtaken else "none"),
    ("partitions a key", lambda one: figure_text(one.partitions_per_key, ".2f")),
    ("added", lambda one: f"{one.added:,}"),
    ("most waited", lambda one: f"{one.waiting.max():,.0f}"),
)


def replay_text(
    stream: KeyStream, outcomes: Mapping[str, KeyPolicyResult], how: str
) -> Iterator[RenderableType]:
    """A table with a row for each policy; `how` describes the consumers that all policies share."""
    records, lasted = len(stream.at), stream.at[-1] - stream.at[0]
    counts = np.bincount(np.asarray(stream.which))
    yield (
        f"{records:,} records of {np.count_nonzero(counts):,} keys over {duration_text(lasted)}, "
        f"the most frequent with {counts.max() / records:.1%}; {how}"
    )
    yield comparison_table("policy", outcomes, COLUMNS)
    yield (
        "[dim]max/mean: records of the fullest partition over the mean; delay: from sent to effect; "
        "overtaken: records that took effect before an earlier one of their key; "
        "partitions a key: mean over records; most waited: records in one partition at a time[/]"
    )


def _seconds(seconds: float) -> str:
    return (
        f"{1000 * seconds:.3g} ms"
        if seconds < 1
        else f"{seconds:,.3g} s"
        if seconds < 1000
        else duration_text(seconds)
    )


def replay_document(stream: KeyStream, outcomes: Mapping[str, KeyPolicyResult]) -> dict[str, object]:
    """The same figures as plain JSON values, with the records that wait in each partition over time."""
    return {
        "records": len(stream.at),
        "seconds": stream.at[-1] - stream.at[0],
        "keys": len(set(stream.which)),
        "policies": [
            {
                "name": name,
                "max_over_mean": one.max_over_mean,
                "p50_seconds": one.p50_seconds,
                "p99_seconds": one.p99_seconds,
                "overtaken": one.overtaken,
                "partitions_per_key": one.partitions_per_key,
                "added": one.added,
                "records": list(one.records),
                "over_time": {"at": one.at.tolist(), "waiting": one.waiting.tolist()},
            }
            for name, one in outcomes.items()
        ],
    }


SHAPE: Final = replace(LOW, width=12.0, left=0.05, wspace=0.12)
HEADINGS: Final = ("records of each partition over the mean", "records that wait in the fullest partition")


def draw_replay(
    outcomes: Mapping[str, KeyPolicyResult], folder: Path, name: str, title: str
) -> tuple[Path, Path]:
    """Draw the loads of partitions, and the records that wait over time, in a row for each policy.

    Parameters
    ----------
    outcomes
        By the policy's name; the first is the grey line behind the others.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written atomically.
    title
        A line above the picture.
    """
    first = next(iter(outcomes.values()))

    def draw(row: np.ndarray, one: KeyPolicyResult) -> str:
        load, lag = row
        loads, before = _over_mean(one), _over_mean(first)
        load.step(np.arange(len(before)), before, where="mid", color=BASELINE, linewidth=1)
        colours = [OVERLOADED if value > 1.1 else LINE for value in loads]
        load.bar(np.arange(len(loads)), loads, 0.7, color=colours)
        load.axhline(1, color=FAINT, linewidth=0.6)
        lag.plot(first.at, first.waiting.max(axis=1), color=BASELINE, linewidth=1)
        lag.plot(one.at, one.waiting.max(axis=1), color=LINE, linewidth=1.3)
        for axes in row:
            style_axes(axes)
        order = f"{one.overtaken:.1%} overtaken" if one.overtaken else "each key in order"
        return f"max/mean {one.max_over_mean:.2f} · p99 {one.p99_seconds:,.3g} s · {order}"

    note = f"partitions from the fullest to the emptiest; grey: under {next(iter(outcomes))}"
    figure, panels = small_multiples(outcomes, HEADINGS, title, note, SHAPE, draw)
    panels[-1][0].set_xlabel("partitions", fontsize=8.5, color=FAINT)
    panels[-1][1].set_xlabel("seconds since the recording begins", fontsize=8.5, color=FAINT)
    panels[0][0].set_ylim(0, 1.05 * max(float(_over_mean(one)[0]) for one in outcomes.values()))
    panels[0][1].set_yscale("symlog", linthresh=10)
    panels[0][1].set_ylim(bottom=0)
    panels[0][1].set_xlim(0, max(float(one.at[-1]) for one in outcomes.values()))
    return save_figure(figure, folder, name)


def _over_mean(one: KeyPolicyResult) -> np.ndarray:
    loads = np.sort(np.array(one.records, dtype=np.float64))[::-1]
    return np.asarray(loads / loads.mean())
