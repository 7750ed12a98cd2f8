"""Key policies side by side over recorded records: tables, JSON and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rich.markup import escape

from trimtab.report.charts import (
    BASELINE,
    FAINT,
    INK,
    LINE,
    LOW,
    OVERLOADED,
    panel_rows,
    save_figure,
    style_axes,
)
from trimtab.report.formats import duration_text, figure_text
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from trimtab.history.keys.compare import KeyPolicyResult
    from trimtab.history.keys.stream import KeyStream


def replay_text(
    stream: KeyStream, outcomes: Mapping[str, KeyPolicyResult], how: str
) -> Iterator[RenderableType]:
    """A row for each scheme.

    Parameters
    ----------
    how
        The world that all schemes share, in a few words.
    """
    records = len(stream.at)
    keys = len(set(stream.which))
    yield (
        f"{records:,} records of {keys:,} keys over {duration_text(stream.at[-1] - stream.at[0])}, the most "
        f"frequent with {_share(stream):.1%}; {how}"
    )
    table = figures_table(
        ["policy"], ["max/mean", "delay: p50", "p99", "overtaken", "partitions a key", "added", "most waited"]
    )
    table.columns[0].no_wrap = True
    for name, one in outcomes.items():
        table.add_row(
            escape(name),
            figure_text(one.max_over_mean, ".2f"),
            _seconds(one.p50_seconds),
            _seconds(one.p99_seconds),
            f"{one.overtaken:.1%}" if one.overtaken else "none",
            figure_text(one.partitions_per_key, ".2f"),
            f"{one.added:,}",
            f"{one.waiting.max():,.0f}",
        )
    yield table
    yield (
        "[dim]max/mean: records of the fullest partition over the mean; delay: from sent to effect; "
        "overtaken: records that took effect before an earlier one of their key; "
        "partitions a key: mean over records; most waited: records in one partition at a time[/]"
    )


def _share(stream: KeyStream) -> float:
    counts = [0] * len(stream.keys)
    for one in stream.which:
        counts[one] += 1
    return max(counts) / len(stream.which)


def _seconds(seconds: float) -> str:
    return (
        f"{1000 * seconds:.3g} ms"
        if seconds < 1
        else f"{seconds:,.3g} s"
        if seconds < 1000
        else duration_text(seconds)
    )


def replay_document(stream: KeyStream, outcomes: Mapping[str, KeyPolicyResult]) -> dict[str, Any]:
    """The same as plain JSON values, with what waits in each partition over time."""
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
    """Draw loads of partitions, and what waits over time, a row a scheme.

    Parameters
    ----------
    outcomes
        By the scheme's name; the first is the grey line behind the others.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written, each whole or not at all.
    title
        Told in one line.
    """
    first = next(iter(outcomes.values()))
    told = f"partitions from the fullest to the emptiest; grey: under {next(iter(outcomes))}"
    figure, panels = panel_rows(len(outcomes), HEADINGS, title, told, SHAPE)
    for row, (label, one) in zip(panels, outcomes.items(), strict=True):
        load, lag = row
        loads = _over_mean(one)
        places = np.arange(len(loads))
        before = _over_mean(first)
        load.step(np.arange(len(before)), before, where="mid", color=BASELINE, linewidth=1)
        load.bar(places, loads, 0.7, color=[OVERLOADED if value > 1.1 else LINE for value in loads])
        load.axhline(1, color=FAINT, linewidth=0.6)
        load.set_title(label, loc="left", fontsize=10, fontweight="bold", color=INK, pad=4)
        lag.plot(first.at, first.waiting.max(axis=1), color=BASELINE, linewidth=1)
        lag.plot(one.at, one.waiting.max(axis=1), color=LINE, linewidth=1.3)
        kept = f"{one.overtaken:.1%} overtaken" if one.overtaken else "each key in order"
        told = f"max/mean {one.max_over_mean:.2f} · p99 {one.p99_seconds:,.3g} s · {kept}"
        lag.set_title(told, loc="right", fontsize=9, color=INK, pad=4)
        for axes in row:
            style_axes(axes)
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
