"""Comparison of dispatch policies on recorded arrivals: tables, JSON and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from trimtab.report.charts import BASELINE, FAINT, INK, LINE, LOW, save_figure, small_multiples, style_axes
from trimtab.report.formats import duration_text, figure_text, known_value
from trimtab.report.tables import Column, comparison_table

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from rich.console import RenderableType

    from trimtab.history.queues.compare import DispatchPolicyResult, Waits
    from trimtab.model.queues.snapshot import Arrivals


MAX_LISTED: Final = 5
"""Classes with columns of their own: those with most messages. JSON has all classes."""
COLUMNS: Final[tuple[Column[DispatchPolicyResult], ...]] = (
    ("wait: mean", lambda one: _wait(one.overall.mean)),
    ("p50", lambda one: _wait(one.overall.p50)),
    ("p99", lambda one: _wait(one.overall.p99)),
    ("makespan s", lambda one: figure_text(one.makespan_seconds, ",.1f")),
    ("σ of work", lambda one: figure_text(one.sigma, ".3f")),
    ("busiest", lambda one: figure_text(one.busiest, ".2f")),
    ("moved", lambda one: f"{one.moved:,}"),
    ("stolen", lambda one: f"{one.stolen:,}"),
    ("lost", lambda one: f"{one.lost:,}"),
)


def replay_text(
    arrivals: Arrivals, outcomes: Mapping[str, DispatchPolicyResult], how: str
) -> Iterator[RenderableType]:
    """Two tables with a row for each policy: figures of all messages, and the waits of each class.

    Parameters
    ----------
    how
        The workers and weights that all policies share, in a few words.
    """
    lasted = float(arrivals.at[-1] - arrivals.at[0])
    yield f"{len(arrivals):,} messages over {duration_text(lasted)}; {how}"
    yield comparison_table("policy", outcomes, COLUMNS)
    yield ""
    shown = listed_classes(outcomes)
    yield comparison_table("wait by class, s", outcomes, [_class_column(name) for name in shown])
    if len(arrivals.classes) > len(shown):
        yield f"[dim]{len(arrivals.classes) - len(shown)} classes with fewer messages: --json has them[/]"
    overtaken = {name: one.overtaken for name, one in outcomes.items() if one.overtaken}
    if overtaken:
        told = ", ".join(f"{escape(name)} {number:,}" for name, number in overtaken.items())
        yield f"[yellow]![/] begun after a later message of the same key: {told}"
    yield (
        "[dim]wait: from when a message came until its processing began, s; σ: of the queues' shares of the "
        "work that lies there, by the weights of dispatch, mean over time; busiest: worker's time over the "
        "mean of all; moved: by the scheduler; stolen: taken by another's worker[/]"
    )


def listed_classes(outcomes: Mapping[str, DispatchPolicyResult]) -> list[str]:
    """The classes with most messages, in alphabetical order."""
    waits = next(iter(outcomes.values())).waits
    return sorted(sorted(waits, key=lambda name: -waits[name].messages)[:MAX_LISTED])


def _class_column(name: str) -> Column[DispatchPolicyResult]:
    def cell(one: DispatchPolicyResult) -> str:
        waits = one.waits[name]
        return ", ".join(map(_wait, (waits.mean, waits.p50, waits.p99)))

    return f"{name}: mean, p50, p99", cell


def _wait(seconds: float) -> str:
    return figure_text(seconds, ".3g" if seconds < 1000 else ",.0f")


def replay_document(arrivals: Arrivals, outcomes: Mapping[str, DispatchPolicyResult]) -> dict[str, object]:
    """The same figures as plain JSON values, with the work in each queue over time."""
    return {
        "messages": len(arrivals),
        "seconds": float(arrivals.at[-1] - arrivals.at[0]),
        "classes": list(arrivals.classes),
        "policies": [{"name": name, **_document(one)} for name, one in outcomes.items()],
    }


def _document(one: DispatchPolicyResult) -> dict[str, object]:
    return {
        "wait_seconds": {name: _figures(waits) for name, waits in (("", one.overall), *one.waits.items())},
        "makespan_seconds": one.makespan_seconds,
        "sigma": one.sigma,
        "busiest": one.busiest,
        "moved": one.moved,
        "stolen": one.stolen,
        "lost": one.lost,
        "overtaken": one.overtaken,
        "over_time": {"at": one.at.tolist(), "work_seconds": one.work.tolist()},
    }


def _figures(waits: Waits) -> dict[str, float | None]:
    return {name: known_value(value) for name, value in asdict(waits).items()}


HEADINGS = (
    "seconds of work, the fullest to the emptiest queue",
    "wait by class: median to p99, dot: mean",
)


def draw_replay(
    outcomes: Mapping[str, DispatchPolicyResult], folder: Path, name: str, title: str
) -> tuple[Path, Path]:
    """Draw the work in the queues over time, and the waits of each class, in a row for each policy.

    Parameters
    ----------
    outcomes
        By the policy's name; the fullest queue of the first is the grey line behind the others.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written atomically.
    title
        A line above the picture.
    """
    first, shown = next(iter(outcomes.values())), listed_classes(outcomes)
    makespan, most = (_common(values) for values in zip(*map(_extent, outcomes.values()), strict=True))
    unit, seconds = next((one for one in UNITS if makespan >= 3 * one[1]), UNITS[-1])

    def draw(row: np.ndarray, one: DispatchPolicyResult) -> str:
        work, waiting = row
        at, fullest = one.at / seconds, one.work.max(axis=1)
        work.fill_between(at, one.work.min(axis=1), fullest, color=LINE, alpha=0.35, linewidth=0)
        if one is not first:
            work.plot(first.at / seconds, first.work.max(axis=1), color=BASELINE, linewidth=0.9)
        work.plot(at, fullest, color=LINE, linewidth=0.9)
        for place, of_class in enumerate(shown):
            waits = one.waits[of_class]
            if waits.messages:
                waiting.plot([waits.p50, waits.p99], [place, place], color=LINE, linewidth=3)
                waiting.plot([waits.mean], [place], "o", color=INK, markersize=4)
        waiting.set_yticks(range(len(shown)), shown)
        waiting.set_ylim(len(shown) - 0.5, -0.5)
        for axes in row:
            style_axes(axes)
        return f"makespan {one.makespan_seconds:,.0f} s · σ {one.sigma:.3f} · {one.moved:,} moved"

    note = f"grey: the fullest queue under {next(iter(outcomes))}; cut where a policy is far from the others"
    figure, panels = small_multiples(outcomes, HEADINGS, title, note, LOW, draw)
    panels[-1][0].set_xlabel(f"{unit} since the recording begins", fontsize=8.5, color=FAINT)
    panels[-1][1].set_xlabel("seconds", fontsize=8.5, color=FAINT)
    # Waits of policies differ by factors; those below a millisecond are none.
    panels[0][1].set_xscale("symlog", linthresh=0.01)
    panels[0][1].set_xlim(left=0)
    panels[0][0].set_ylim(0, 1.05 * most)
    panels[0][0].set_xlim(0, 1.02 * makespan / seconds)
    return save_figure(figure, folder, name)


def _extent(one: DispatchPolicyResult) -> tuple[float, float]:
    """The makespan, and the maximum work of any queue; above 0, so that they can end an axis."""
    return max(one.makespan_seconds, 1e-3), max(float(one.work.max(initial=0.0)), 1e-3)


def _common(values: tuple[float, ...]) -> float:
    """The end of an axis: the largest value, but at most twice the median."""
    return min(max(values), 2 * sorted(values)[len(values) // 2])


UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
