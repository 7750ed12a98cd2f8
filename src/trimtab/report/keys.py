"""The balancer `keys` for people: plans, receipts, status, and replays as tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.model.keys import (
    RESOURCES,
    HotKey,
    KeysPlan,
    KeysSnapshot,
    RoutingCost,
    RoutingMove,
    RoutingMoveKind,
    short_key_text,
)
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
from trimtab.report.formats import counted, duration_text, figure_text
from trimtab.report.plan_text import load_lines, move_lines, prediction_lines, text_of_plan
from trimtab.report.renderer import MAX_LISTED, forecast_of_steps, progress_line, text_of_receipt
from trimtab.report.tables import Column, column_lines, comparison_table

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from trimtab.act.executor import PreparedPlan
    from trimtab.act.keys.state import KeysExecutionSettings, KeysExecutionState, RoutingStep
    from trimtab.history.keys.compare import KeyPolicyResult
    from trimtab.history.keys.simulation import KeyStream
    from trimtab.model.keys import KeysReceipt, PartitionDrain, RoutingOutcome


CANCEL_EFFECT: Final = "leaves the table as it is; `trimtab apply PLAN --revert` undoes a plan"
"""The effect of `cancel` on steps in flight."""
CANCELLING: Final = "the table stays as it is"
"""The effect of a running `cancel`."""

PARTITION: Final = "partition"
KEY_COLUMNS: Final[tuple[Column[HotKey], ...]] = (
    ("key", lambda one: short_key_text(one.key)),
    ("group", lambda one: str(one.group)),
    ("records/s", lambda one: f"{one.records_per_second:,.1f}"),
    ("share", lambda one: f"{one.share:.1%}"),
    ("consumer", lambda one: figure_text(one.consumer, ".0%")),
    ("partitions", lambda one: _places(one.partitions)),
)
DRAIN_COLUMNS: Final[tuple[Column[PartitionDrain], ...]] = (
    ("partition", lambda one: str(one.partition)),
    ("waiting", lambda one: f"{one.backlog:,}"),
    ("records/s", lambda one: f"{one.before_per_second:,.1f}"),
    ("after", lambda one: f"{one.after_per_second:,.1f}"),
    ("drained in", lambda one: _drained(one.drain_before_seconds)),
    ("after", lambda one: _drained(one.drain_after_seconds)),
)


def plan_text(plan: KeysPlan, snapshot: KeysSnapshot | None = None, *, all_moves: bool = False) -> str:
    """The text of a plan, with partitions and keys of its snapshot if that is given."""
    nominal = () if snapshot is None else snapshot.quality.nominal_capacity
    bound = plan.bound.records_per_second
    return text_of_plan(
        plan,
        () if snapshot is None else _load(snapshot),
        plan_cost(plan),
        f"any plan moves {bound:,.0f} records/s or more ({plan.bound.proof})" if bound else "",
        [
            *prediction_lines(
                plan, RESOURCES, None if snapshot is None else len(snapshot.partitions), nominal=nominal
            ),
            *_fullest_lines(plan),
            *_drain_lines(plan.drains),
        ],
        move_lines(
            plan.moves,
            purpose=lambda move: move.reason.goal.replace("_", " "),
            together=lambda moves: f"{sum(m.records_per_second for m in moves):,.0f} records/s",
            cells=_cells,
            all_moves=all_moves,
        ),
    )


def _load(snapshot: KeysSnapshot) -> Iterator[str]:
    reference, extra = snapshot.reference, dict(snapshot.quality.extra)
    reads = f"read by {snapshot.consumers}" if snapshot.consumers else "read by no group"
    head = (
        f"{snapshot.topic} of {reference.cluster.rpartition('@')[2]} at {reference.taken_at}, {reads}: "
        f"{counted(len(snapshot.partitions), 'partition')}, table {snapshot.version} over {snapshot.base}; "
        f"{extra.get('x_records_read', 0):,} records read, {extra.get('x_distinct_keys', 0):,} keys"
    )
    if snapshot.keyless_share:
        head += f", {snapshot.keyless_share:.1%} of the records without a key"
    if snapshot.placed_share is not None:
        head += f"; {snapshot.placed_share:.1%} of those with a key lie where the table puts them"
    measured = snapshot.imbalance()
    parts = snapshot.partitions
    counts = {
        "records/s": [f"{one.records_per_second:,.1f}" for one in parts],
        "waiting": [f"{one.backlog:,}" for one in parts],
        "done/s": [figure_text(one.served_per_second, ",.1f") for one in parts],
        "ISC": [figure_text(one.isc, ".2f") for one in parts],
        "literal": [figure_text(one.isc_literal, ".2f") for one in parts],
    }
    nominal = snapshot.quality.nominal_capacity
    texts = {PARTITION: list(snapshot.row_names)}
    yield from load_lines([head], measured, texts, counts, nominal=nominal, carrier=PARTITION)
    total = sum(one.records_per_second for one in parts)
    if total:
        greatest = max(one.records_per_second for one in parts)
        yield f"fullest partition: {greatest * len(parts) / total:.2f} times the mean"
    if snapshot.capacity is not None:
        yield (
            f"one consumer can do {snapshot.consumer_capacity or 0:,.1f} records/s, "
            f"{snapshot.capacity:,.1f} in one partition"
        )
    if snapshot.keys:
        yield "Most frequent keys, and their share of one consumer's capacity:"
        yield from (*column_lines(snapshot.keys[:MAX_LISTED], "lrrrrl", KEY_COLUMNS), "")


def _places(places: tuple[int, ...]) -> str:
    return ", ".join(map(str, places))


def _fullest_lines(plan: KeysPlan) -> Iterator[str]:
    found = plan.max_over_mean
    if found is not None:
        yield f"  fullest partition: {found[0]:.2f} times the mean, {found[1]:.2f} after"


def _drain_lines(drains: tuple[PartitionDrain, ...]) -> Iterator[str]:
    """Partitions with a backlog, and the time that it takes before and after; waiting records do not move."""
    waiting = [one for one in drains if one.backlog]
    if not waiting:
        return
    worst = sorted(waiting, key=lambda one: (-one.backlog, one.partition))[:MAX_LISTED]
    yield from ("", *column_lines(worst, "rrrrrr", DRAIN_COLUMNS))


def _drained(seconds: float | None) -> str:
    return "never or unknown" if seconds is None else duration_text(seconds)


def plan_cost(plan: KeysPlan) -> str:
    """The cost of a plan in a sentence."""
    cost: RoutingCost = plan.cost
    added = f", {counted(cost.partitions, 'partition')} to add" if cost.partitions else ""
    keys = f"{counted(cost.keys, 'key')} to split differently"
    groups = f"{counted(cost.groups, 'key group')} to move"
    return f"{groups}, {keys}{added}; {cost.records_per_second:,.0f} records/s change their partition"


def _cells(move: RoutingMove) -> tuple[str, str, str]:
    if move.kind is RoutingMoveKind.ADD:
        return move.name, f"{move.before[0]} → {move.after[0]} partitions", ""
    name = f"group {move.name}" if move.kind is RoutingMoveKind.GROUP else short_key_text(move.name)
    return name, f"{_places(move.before)} → {_places(move.after)}", f"{move.records_per_second:,.0f}/s"


def move_text(move: RoutingMove) -> str:
    """The change of a move in a line."""
    name = short_key_text(move.name)
    if name != move.name:
        # Two long keys may begin alike, and plans are compared by these lines.
        name += f" {sha256(move.name.encode()).hexdigest()[:8]}"
    return f"{move.kind} {name}: {_places(move.before)} → {_places(move.after)}"


def forecast_text(
    prepared: PreparedPlan, steps: tuple[RoutingStep, ...], settings: KeysExecutionSettings, every: bool
) -> str:
    """Each step, and the changes of the plan that are left out."""
    return forecast_of_steps(prepared, steps, step_text, "", "routes stand so already")


def progress_reporter() -> Callable[[KeysExecutionState], str]:
    """A function from states to lines of progress."""
    from trimtab.act.execution.state import ExecutionProgress
    from trimtab.act.keys.machine import missing

    def line(state: KeysExecutionState) -> str:
        seen = state.observation
        lacks = [] if seen is None else [missing(one.step, seen) for one in state.active]
        return progress_line(ExecutionProgress(**state.progress()), [one for one in lacks if one])

    return line


def step_text(step: RoutingStep) -> str:
    """A step in a line."""
    from trimtab.act.keys.executor import step_name

    return f"{step.kind}: {step_name(step)}"


def receipt_text(receipt: KeysReceipt) -> str:
    """The published version, and the steps left."""
    return text_of_receipt(receipt, "keys", [f"  {spent_text(receipt)}"], _outcome, "left")


def _outcome(outcome: RoutingOutcome) -> str:
    return f"{outcome.kind}: {outcome.name}"


def spent_text(receipt: KeysReceipt) -> str:
    """The cost of an execution in a sentence."""
    version = max((one.version or 0 for one in receipt.outcomes), default=0)
    told = f"routing table {version} is in force" if version else "no table was published"
    return f"{told}, in {duration_text(receipt.seconds)}"


def status_text(snapshot: KeysSnapshot, every: bool = False) -> Iterator[RenderableType]:
    """The newest reading of a topic: hot keys, their shares and cost, and the balance of partitions."""
    yield from _load(snapshot)


def status_document(snapshot: KeysSnapshot) -> dict[str, object]:
    """The same figures as plain JSON values."""
    measures = asdict(snapshot.imbalance().measures())
    return {
        "balancer": "keys",
        "cluster": snapshot.reference.cluster,
        "taken_at": snapshot.reference.taken_at,
        "topic": snapshot.topic,
        "consumers": snapshot.consumers,
        "version": snapshot.version,
        "keyless_share": snapshot.keyless_share,
        "placed_share": snapshot.placed_share,
        "measures": measures,
        "partitions": [asdict(one) for one in snapshot.partitions],
        "keys": [asdict(one) for one in snapshot.keys],
    }


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
