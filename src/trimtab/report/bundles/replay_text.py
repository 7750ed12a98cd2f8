"""Strategies side by side over one recording, as a table and as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from trimtab.files.head import time_text
from trimtab.report.formats import bytes_text, counted, duration_text, figure_text, known_value
from trimtab.report.tables import figures_table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from trimtab.history.bundles.compare import StrategyComparison
    from trimtab.history.bundles.effect import ReplayEffect
    from trimtab.model.bundles.returns import Oscillation

UNMOVED = "nothing moved"
MAX_LISTED = 5
"""Oscillations of a strategy that are named, the quickest of them; JSON has them all."""
DAY_SECONDS = 86400.0


def replay_text(comparison: StrategyComparison) -> Iterator[RenderableType]:
    """A row for each strategy below one for the recording as it is, then who came back where."""
    unmoved = comparison.unmoved
    if len(unmoved.at):
        overload = figure_text(comparison.measured_by.overload, ".0%")
        yield (
            f"{counted(len(unmoved.at), 'tick')} from {time_text(unmoved.at[0])} to "
            f"{time_text(unmoved.at[-1])}; overloaded: {overload} or more"
        )
    yield _table(comparison)
    returned = {
        name: effect.oscillations for name, effect in comparison.effects.items() if effect.oscillations
    }
    if returned:
        at = unmoved.at
        yield ""
        yield _returns(returned, whole_times=bool(at[-1] - at[0] >= DAY_SECONDS))
        yield ""
    for name, effect in comparison.effects.items():
        if effect.unloads_without_stats:
            yield (
                f"[yellow]![/] {escape(name)}: {counted(effect.unloads_without_stats, 'unload')} of bundles "
                "whose broker told nothing of them; their clients and traffic are not counted"
            )
    for found in {tuple(effect.splits): effect.splits for effect in comparison.effects.values()}.values():
        if found:
            them = [f"{key} ({why}, {time_text(at)})" for key, (at, why) in list(found.items())[:MAX_LISTED]]
            more = (
                f" and {len(found) - MAX_LISTED} more; --json names them all"
                if len(found) > MAX_LISTED
                else ""
            )
            yield f"Pulsar would also split {escape(', '.join(them))}{more}"
    yield (
        "[dim]σ of the brokers' shares of weighted usage, at every tick before its unloads; peak: of the "
        "fullest broker, above 100% where it would have been asked for more than it can; interrupted: "
        f"traffic of unloaded bundles times a pause of {comparison.measured_by.pause_seconds:g} s each[/]"
    )


def replay_document(comparison: StrategyComparison, how: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The same as plain JSON values, with the figures of every tick.

    Parameters
    ----------
    how
        By the strategy's name in the comparison, what it was run with.
    """
    return {
        "overload_usage": comparison.measured_by.overload,
        "pause_seconds": comparison.measured_by.pause_seconds,
        "at": [time_text(at) for at in comparison.unmoved.at.tolist()],
        "unmoved": _document(comparison.unmoved),
        "strategies": [
            {"name": name, **how[name], **_document(effect)} for name, effect in comparison.effects.items()
        ],
    }


def _table(comparison: StrategyComparison) -> Table:
    balance, moves = ["σ mean", "worst", "peak", "overloaded"], ["unloads", "bundles", "clients"]
    table = figures_table(["strategy"], [*balance, *moves, "interrupted", "came back"])
    table.columns[0].no_wrap = True
    table.add_row(UNMOVED, *_balance(comparison.unmoved), *["–"] * 5, style="dim")
    for name, effect in comparison.effects.items():
        table.add_row(
            escape(name),
            *_balance(effect),
            str(int(effect.unloads.sum())),
            str(effect.bundles_unloaded),
            f"{effect.clients_disturbed:,}",
            bytes_text(effect.interrupted_bytes),
            str(len(effect.oscillations)),
        )
    return table


def _balance(effect: ReplayEffect) -> tuple[str, str, str, str]:
    return (
        figure_text(effect.sigma_mean, ".4f"),
        figure_text(effect.sigma_worst, ".4f"),
        figure_text(effect.peak, ".0%"),
        duration_text(effect.overload_seconds),
    )


def _returns(returned: Mapping[str, tuple[Oscillation, ...]], *, whole_times: bool) -> Table:
    """Bundles that came back, the quickest of each strategy first: those were moved for nothing.

    Whole times are with their dates; a recording of less than a day needs none.
    """

    def time(at: float) -> str:
        return time_text(at) if whole_times else time_text(at)[11:19]

    table = figures_table(["came back", "bundle", "to broker", "left", "back"], ["away"])
    for column in table.columns:
        column.no_wrap, column.overflow = column.header != "bundle", "fold"
    for name, found in returned.items():
        quickest = sorted(found, key=lambda one: (one.away_seconds, one.at))[:MAX_LISTED]
        for number, one in enumerate(quickest):
            table.add_row(
                escape(name) if number == 0 else "",
                escape(one.bundle),
                escape(one.target),
                time(one.left_at),
                time(one.at),
                duration_text(one.away_seconds),
            )
        if len(found) > MAX_LISTED:
            more = f"and {len(found) - MAX_LISTED} more after longer; --json names them all"
            table.add_row("", f"[dim]{more}[/]", "", "", "", "")
    return table


def _document(effect: ReplayEffect) -> dict[str, Any]:
    return {
        "sigma_mean": known_value(effect.sigma_mean),
        "sigma_worst": known_value(effect.sigma_worst),
        "peak_usage": known_value(effect.peak),
        "overload_seconds": effect.overload_seconds,
        "overload_broker_seconds": effect.overload_broker_seconds,
        "unloads": int(effect.unloads.sum()),
        "bundles_unloaded": effect.bundles_unloaded,
        "clients_disturbed": effect.clients_disturbed,
        "interrupted_bytes_per_second": effect.interrupted_bytes_per_second,
        "interrupted_bytes": effect.interrupted_bytes,
        "unloads_without_stats": effect.unloads_without_stats,
        "oscillations": [
            {
                "at": time_text(one.at),
                "bundle": one.bundle,
                "source": one.source,
                "target": one.target,
                "left_at": time_text(one.left_at),
                "through": list(one.through),
                "away_seconds": one.away_seconds,
            }
            for one in effect.oscillations
        ],
        "splits": [
            {"bundle": bundle, "at": time_text(at), "reason": reason}
            for bundle, (at, reason) in effect.splits.items()
        ],
        "over_time": {
            "sigma": [known_value(value) for value in effect.sigma.tolist()],
            "peak_usage": [known_value(value) for value in effect.peak_usage.tolist()],
            "overloaded_brokers": effect.overloaded.tolist(),
            "unloads": effect.unloads.tolist(),
        },
    }
