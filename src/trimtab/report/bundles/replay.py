"""Comparison of strategies on a recording of load reports: tables, JSON, progress and a picture.

The picture has a row of panels for each strategy, with the recording as it is in grey. Lines of several
strategies in one panel would hide one another as soon as two strategies decide alike.
"""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from rich.markup import escape

from trimtab.files.head import time_text
from trimtab.report.charts import OVERLOADED, UNMOVED, StairPanel, draw_over_time, save_figure
from trimtab.report.formats import bytes_text, counted, duration_text, figure_text, known_value
from trimtab.report.tables import Column, column_lines, comparison_table, figures_table, table_lines

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType
    from rich.table import Table

    from trimtab.history.bundles.effect import ReplayEffect, StrategyComparison
    from trimtab.history.bundles.spark import TaskProgress
    from trimtab.model.bundles.plan import BundlePlan
    from trimtab.model.bundles.reports import Oscillation
    from trimtab.plan.pulsar.decision import Disagreement, ShedDecision


MAX_LISTED = 5
"""Oscillations of a strategy that are listed, the quickest first; JSON has all of them."""
DAY_SECONDS = 86400.0
BALANCE: Final[tuple[Column[ReplayEffect], ...]] = (
    ("σ mean", lambda one: figure_text(one.sigma_mean, ".4f")),
    ("worst", lambda one: figure_text(one.sigma_worst, ".4f")),
    ("peak", lambda one: figure_text(one.peak, ".0%")),
    ("overloaded", lambda one: duration_text(one.overload_seconds)),
)
MOVES: Final[tuple[Column[ReplayEffect], ...]] = (
    ("unloads", lambda one: str(int(one.unloads.sum()))),
    ("bundles", lambda one: str(one.bundles_unloaded)),
    ("clients", lambda one: f"{one.clients_disturbed:,}"),
    ("interrupted", lambda one: bytes_text(one.interrupted_bytes)),
    ("came back", lambda one: str(len(one.oscillations))),
)


def replay_text(comparison: StrategyComparison) -> Iterator[RenderableType]:
    """A table of the strategies below the recording as it is, then the bundles that came back."""
    unmoved = comparison.unmoved
    if len(unmoved.at):
        overload = figure_text(comparison.measured_by.overload, ".0%")
        yield (
            f"{counted(len(unmoved.at), 'tick')} from {time_text(unmoved.at[0])} to "
            f"{time_text(unmoved.at[-1])}; overloaded: {overload} or more"
        )
    balance = [cell(unmoved) for _, cell in BALANCE]
    first = [UNMOVED, *balance, *["–"] * len(MOVES)]
    yield comparison_table("strategy", comparison.effects, [*BALANCE, *MOVES], first)
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
                "whose broker reported no statistics; their clients and traffic are not counted"
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
        "fullest broker, above 100% where demand exceeded its capacity; interrupted: "
        f"traffic of unloaded bundles times a pause of {comparison.measured_by.pause_seconds:g} s each[/]"
    )


def replay_document(comparison: StrategyComparison, how: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The same figures as plain JSON values, with those of every tick.

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


def _returns(returned: Mapping[str, tuple[Oscillation, ...]], *, whole_times: bool) -> Table:
    """A table of the bundles that came back, the quickest of each strategy first.

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


def _document(effect: ReplayEffect) -> dict[str, object]:
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


BACK = "#111111"
MOST_MARKERS = 400
"""Of returns in one panel; more would be a black bar."""


def draw_replay(comparison: StrategyComparison, folder: Path, name: str, title: str) -> tuple[Path, Path]:
    """Draw σ, the usage of the fullest broker, and the unloads, over time.

    Parameters
    ----------
    comparison
        The figures; the recording as it is is the grey line behind each strategy's.
    folder, name
        `<folder>/<name>.svg` and `<folder>/<name>.png` are written atomically.
    title
        A line above the picture.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    unmoved, overload = comparison.unmoved, comparison.measured_by.overload
    columns: tuple[StairPanel[ReplayEffect], ...] = (
        StairPanel("imbalance σ of the brokers' usage", lambda one: one.sigma),
        StairPanel(
            "usage of the fullest broker", lambda one: one.peak_usage, limit=overload, form="{:.0%}".format
        ),
        StairPanel(
            "bundles unloaded so far", lambda one: np.cumsum(one.unloads).astype(np.float64), compared=False
        ),
    )
    back = Line2D(
        [], [], color=BACK, marker="o", markerfacecolor="white", linestyle="",
        label="a bundle came back to a broker that it had left",
    )  # fmt: skip
    figure = draw_over_time(
        comparison.effects or {UNMOVED: unmoved},
        unmoved,
        unmoved.at,
        columns,
        _panel_title,
        title,
        _chart_title(comparison),
        [Patch(color=OVERLOADED, alpha=0.45, label="overloaded"), back],
        _mark_returns,
    )
    return save_figure(figure, folder, name)


def _mark_returns(row: np.ndarray, at: np.ndarray, effect: ReplayEffect) -> None:
    """Mark the times at which bundles came back, in the panel of unloads."""
    from matplotlib.ticker import MaxNLocator

    back = np.array([one.at for one in effect.oscillations[:MOST_MARKERS]])
    rows = np.searchsorted(effect.at, back)
    so_far = np.cumsum(effect.unloads)[rows]
    row[2].plot(at[rows], so_far, linestyle="", marker="o", markersize=4, color=BACK, markerfacecolor="white")
    row[2].yaxis.set_major_locator(MaxNLocator(4, integer=True))


def _chart_title(comparison: StrategyComparison) -> str:
    unmoved = comparison.unmoved
    words = [f"{len(unmoved.at):,} ticks"]
    if len(unmoved.at):
        begin = datetime.datetime.fromtimestamp(float(unmoved.at[0]), datetime.UTC)
        words.append(f"from {begin:%Y-%m-%d %H:%M} UTC")
    words.append(f"overloaded: {comparison.measured_by.overload:.0%} or more")
    return f"{', '.join(words)}; {UNMOVED}: {_balance_text(unmoved)}"


def _panel_title(effect: ReplayEffect) -> str:
    unloads, back = int(effect.unloads.sum()), len(effect.oscillations)
    return " · ".join(
        (
            _balance_text(effect),
            f"{unloads:,} unload{'' if unloads == 1 else 's'}, {back:,} came back",
            f"{effect.clients_disturbed:,} clients disturbed",
            f"{bytes_text(effect.interrupted_bytes)} interrupted",
        )
    )


def _balance_text(effect: ReplayEffect) -> str:
    if not np.isfinite(effect.sigma).any():
        return "no broker"
    overload = duration_text(effect.overload_seconds) if effect.overload_seconds else "0 s"
    return f"σ {effect.sigma_mean:.4f} on average, overloaded for {overload}"


BETWEEN_SECONDS = 15.0
"""Between two lines where standard error is no terminal."""


class ReplayProgress:
    """Prints the progress of a replay; on a terminal the line is erased at the end."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._started = self._logged = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def local(self, ticks: int, at: float) -> None:
        """Print the number of ticks so far, and the time of the last."""
        pace = ticks / max(time.monotonic() - self._started, 1e-9)
        self._print_progress(f"{_reached(ticks, at)}, {pace:,.0f} ticks a second")

    def on_spark(self, statuses: Mapping[str, TaskProgress], tasks: int) -> None:
        """Print the progress of the Spark tasks that have begun, of `tasks` in all."""
        ended = sum(one.ended for one in statuses.values())
        at_work = [
            f"{name} at {_reached(one.ticks, one.at)}" for name, one in statuses.items() if not one.ended
        ]
        self._print_progress("; ".join([f"{ended} of {tasks} replays ended", *at_work]))

    def _print_progress(self, text: str) -> None:
        if self._live:
            import shutil

            room = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text[:room]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self._logged >= BETWEEN_SECONDS:
            self._logged = time.monotonic()
            print(f"trimtab: {text}", file=sys.stderr, flush=True)


def _reached(ticks: int, at: float) -> str:
    from trimtab.files.head import time_text

    return f"tick {ticks:,} ({time_text(at)})"


MAX_MOVES_LISTED = 8


@dataclass(frozen=True)
class StrategyProposal:
    """The moves that one strategy proposes.

    Attributes
    ----------
    name
        What it is called here.
    strategy, placement, options
        What it was asked with; None for a placement that is not asked.
    decision
        With the numbers that decided.
    plan
        The same as a plan, judged by the goals of `trim`.
    disagreements
        Where shedder and placement are at odds.
    """

    name: str
    strategy: str
    placement: str | None
    options: Mapping[str, str]
    decision: ShedDecision
    plan: BundlePlan
    disagreements: Sequence[Disagreement]


PROPOSAL_COLUMNS: Final[tuple[Column[StrategyProposal], ...]] = (
    ("strategy", lambda one: one.name),
    ("placement", lambda one: one.placement or "its own"),
    ("unloads", lambda one: str(one.plan.cost.unloads)),
    ("clients", lambda one: str(one.plan.cost.sessions)),
    ("traffic", lambda one: f"{bytes_text(int(one.plan.cost.bytes_per_second))}/s"),
    ("worst deviation", lambda one: _worst(one.plan.predicted.after.worst_deviation)),
    ("peak", lambda one: _worst(one.plan.predicted.after.peak_usage)),
    ("agrees", lambda one: f"no ({len(one.disagreements)})" if one.disagreements else "yes"),
)


def _worst(by_resource: Mapping[str, float]) -> str:
    return f"{max(by_resource.values(), default=0.0):.0%}"


def strategies_text(desired: Sequence[StrategyProposal]) -> str:
    """A table of all strategies, then each with its moves and the figures that decided."""
    lines = ["What each strategy would do now, and what comes of it:"]
    lines += column_lines(desired, "llrrrrrl", PROPOSAL_COLUMNS)
    for one in desired:
        lines += ["", *_one(one)]
    return "\n".join(lines) + "\n"


def strategies_document(desired: Sequence[StrategyProposal]) -> list[dict[str, Any]]:
    """The same figures as plain JSON values, with the moves and problems of each plan."""
    from trimtab.files.bundles.decisions import reason_document

    return [
        {
            "name": one.name,
            "strategy": one.strategy,
            "placement": one.placement,
            "options": dict(one.options),
            "unloads": {source: list(bundles) for source, bundles in one.decision.unloads.items()},
            "destinations": dict(one.decision.destinations),
            "why": reason_document(one.decision.facts),
            "verdict": str(one.plan.verdict),
            "clients": one.plan.cost.sessions,
            "bytes_per_second": one.plan.cost.bytes_per_second,
            "worst_deviation_after": dict(one.plan.predicted.after.worst_deviation),
            "peak_usage_after": dict(one.plan.predicted.after.peak_usage),
            "disagreements": [asdict(each) for each in one.disagreements],
            "problems": [problem.text for problem in one.plan.problems],
        }
        for one in desired
    ]


def _one(one: StrategyProposal) -> Iterator[str]:
    options = "".join(f", {name}={value}" for name, value in one.options.items())
    yield f"{one.name} ({one.strategy}, {one.placement or 'destinations of its own'}{options}):"
    moves = one.plan.moves
    if not moves:
        yield "  unloads nothing"
    shown = [
        [str(m.order), m.bundle, f"{m.source or 'nobody'} → {m.target or 'split'}", m.reason.text]
        for m in moves[:MAX_MOVES_LISTED]
    ]
    yield from table_lines(shown, align="rlll")
    if len(moves) > len(shown):
        yield f"  ... and {counted(len(moves) - len(shown), 'more unload')}; --strategy {one.name} shows all"
    for line in reason_lines(one.decision):
        yield f"  {line}"
    for each in one.disagreements:
        yield f"  shedder and placement disagree: {each.text}"


def reason_lines(decision: ShedDecision) -> Iterator[str]:
    """The figures that decided, a line each."""
    for name, value in decision.facts.items():
        if name not in ("placements", "refused", "reasons", "problems", "splits"):
            yield f"{name.replace('_', ' ')}: {_value(value)}"
    for bundle, size in decision.facts.get("splits", {}).items():
        outcome = "would be split" if size["outcome"] == "split" else f"stays whole: {size['outcome']}"
        figures = f"{size['topics']} topics, {size['sessions']} clients, {size['msg_rate']:,.0f} messages/s"
        carried = f"{figures}, {bytes_text(size['msg_throughput'])}/s"
        yield f"{bundle} is above Pulsar's limit of {size['reason']} ({carried}) and {outcome}"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_value(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return "; ".join(map(_value, value)) or "none"
    return str(value)
