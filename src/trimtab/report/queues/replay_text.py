"""Dispatch policies side by side over recorded arrivals, as tables and as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.markup import escape

from trimtab.report.formats import duration_text, figure_text, known_value
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.history.queues.compare import DispatchPolicyResult, Waits
    from trimtab.model.queues.arrivals import Arrivals

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
