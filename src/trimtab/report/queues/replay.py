"""Dispatch policies side by side over recorded arrivals: tables, JSON and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape

from trimtab.report.charts import (
    BASELINE,
    FAINT,
    INK,
    LINE,
    LOW,
    panel_rows,
    save_figure,
    style_axes,
)
from trimtab.report.formats import duration_text, figure_text, known_value
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from trimtab.history.queues.compare import DispatchPolicyResult, Waits
    from trimtab.model.queues.snapshot import Arrivals


MAX_LISTED: Final = 5
"""Classes with columns of their own, those with most messages; JSON has them all."""


def replay_text(
    arrivals: Arrivals, outcomes: Mapping[str, DispatchPolicyResult], how: str
) -> Iterator[RenderableType]:
    """A row for each scheme: what all of them waited, then what each class did.

    Parameters
    ----------
    how
        The world that all schemes share, in a few words.
    """
    lasted = float(arrivals.at[-1] - arrivals.at[0])
    yield f"{len(arrivals):,} messages over {duration_text(lasted)}; {how}"
    table = figures_table(
        ["policy"],
        ["wait: mean", "p50", "p99", "makespan s", "σ of work", "busiest", "moved", "stolen", "lost"],
    )
    table.columns[0].no_wrap = True
    for name, one in outcomes.items():
        table.add_row(
            escape(name),
            *_cells(one.overall),
            figure_text(one.makespan_seconds, ",.1f"),
            figure_text(one.sigma, ".3f"),
            figure_text(one.busiest, ".2f"),
            *(f"{number:,}" for number in (one.moved, one.stolen, one.lost)),
        )
    yield table
    shown = listed_classes(outcomes)
    yield ""
    texts = [f"{name}: mean, p50, p99" for name in shown]
    table = figures_table(["wait by class, s"], texts)
    table.columns[0].no_wrap = True
    for name, one in outcomes.items():
        table.add_row(escape(name), *(", ".join(_cells(one.waits[shown_one])) for shown_one in shown))
    yield table
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
    """The classes with most messages, in the order of the alphabet."""
    waits = next(iter(outcomes.values())).waits
    return sorted(sorted(waits, key=lambda name: -waits[name].messages)[:MAX_LISTED])


def _cells(waits: Waits) -> list[str]:
    return [figure_text(one, ".3g" if one < 1000 else ",.0f") for one in (waits.mean, waits.p50, waits.p99)]


def replay_document(arrivals: Arrivals, outcomes: Mapping[str, DispatchPolicyResult]) -> dict[str, Any]:
    """The same as plain JSON values, with the work in each queue over time."""
    return {
        "messages": len(arrivals),
        "seconds": float(arrivals.at[-1] - arrivals.at[0]),
        "classes": list(arrivals.classes),
        "policies": [{"name": name, **_document(one)} for name, one in outcomes.items()],
    }


def _document(one: DispatchPolicyResult) -> dict[str, Any]:
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
    """Draw the work in the queues over time, and the waits of each class, a row a scheme.

    Parameters
    ----------
    outcomes
        By the scheme's name; the fullest queue of the first is the grey line behind the others.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written, each whole or not at all.
    title
        Told in one line.
    """
    first, shown = next(iter(outcomes.values())), listed_classes(outcomes)
    told = f"grey: the fullest queue under {next(iter(outcomes))}; cut where a policy is far from the others"
    figure, panels = panel_rows(len(outcomes), HEADINGS, title, told, LOW)
    makespan, most = (_common(values) for values in zip(*map(_extent, outcomes.values()), strict=True))
    unit, seconds = next((one for one in UNITS if makespan >= 3 * one[1]), UNITS[-1])
    for row, (label, one) in zip(panels, outcomes.items(), strict=True):
        at = one.at / seconds
        row[0].fill_between(
            at, one.work.min(axis=1), one.work.max(axis=1), color=LINE, alpha=0.35, linewidth=0
        )
        if one is not first:
            row[0].plot(first.at / seconds, first.work.max(axis=1), color=BASELINE, linewidth=0.9)
        row[0].plot(at, one.work.max(axis=1), color=LINE, linewidth=0.9)
        row[0].set_title(label, loc="left", fontsize=10, fontweight="bold", color=INK, pad=4)
        told = f"makespan {one.makespan_seconds:,.0f} s · σ {one.sigma:.3f} · {one.moved:,} moved"
        row[1].set_title(told, loc="right", fontsize=9, color=INK, pad=4)
        for place, of_class in enumerate(shown):
            waits = one.waits[of_class]
            if waits.messages:
                row[1].plot([waits.p50, waits.p99], [place, place], color=LINE, linewidth=3)
                row[1].plot([waits.mean], [place], "o", color=INK, markersize=4)
        row[1].set_yticks(range(len(shown)), shown)
        row[1].set_ylim(len(shown) - 0.5, -0.5)
        for axes in row:
            style_axes(axes)
    panels[-1][0].set_xlabel(f"{unit} since the recording begins", fontsize=8.5, color=FAINT)
    panels[-1][1].set_xlabel("seconds", fontsize=8.5, color=FAINT)
    # Waits of policies differ by factors; those below a millisecond are none.
    panels[0][1].set_xscale("symlog", linthresh=0.01)
    panels[0][1].set_xlim(left=0)
    panels[0][0].set_ylim(0, 1.05 * most)
    panels[0][0].set_xlim(0, 1.02 * makespan / seconds)
    return save_figure(figure, folder, name)


def _extent(one: DispatchPolicyResult) -> tuple[float, float]:
    """The makespan, and the most work that any queue held; above 0, so that they can be an axis."""
    return max(one.makespan_seconds, 1e-3), max(float(one.work.max(initial=0.0)), 1e-3)


def _common(values: tuple[float, ...]) -> float:
    """The end of an axis: the largest, but at most twice the middle one."""
    return min(max(values), 2 * sorted(values)[len(values) // 2])


UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
