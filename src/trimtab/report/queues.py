"""The balancer `queues` for people: plans, receipts, status, and replays as tables and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from trimtab.model.queues import (
    RESOURCES,
    ClassLoad,
    Publication,
    PublicationKind,
    QueueForecast,
    QueuesPlan,
    QueuesSnapshot,
    SchedulerOrder,
)
from trimtab.report.charts import BASELINE, FAINT, INK, LINE, LOW, save_figure, small_multiples, style_axes
from trimtab.report.formats import counted, duration_text, figure_text, known_value
from trimtab.report.plan_text import idle_resources, load_lines, move_lines, prediction_lines, text_of_plan
from trimtab.report.renderer import forecast_of_steps, progress_line, text_of_receipt
from trimtab.report.status_text import live_status_document, live_status_text
from trimtab.report.tables import Column, column_lines, comparison_table

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from rich.console import RenderableType

    from trimtab.act.execution.settings import RetryPolicy
    from trimtab.act.executor import PreparedPlan
    from trimtab.act.queues import PublishStep, QueuesExecutionState
    from trimtab.history.queues.compare import DispatchPolicyResult, Waits
    from trimtab.model.queues import Arrivals, PublicationOutcome, QueuesReceipt
    from trimtab.systems.redis.port import QueuesStatus


CANCEL_EFFECT: Final = "leaves the published document as it is; apply an older plan to undo it"
"""The effect of `cancel` on steps in flight."""
CANCELLING: Final = "the published document stays"
"""The effect of a running `cancel`."""

QUEUE: Final = "queue"
CHANGE: Final = "change"
"""The nouns of this balancer for a carrier of load, and for a move of a plan."""
CLASS_COLUMNS: Final[tuple[Column[ClassLoad], ...]] = (
    ("class", lambda one: one.message_class),
    ("in force s", lambda one: figure_text(one.weight, ".4g")),
    ("measured s", lambda one: _plus_minus(one.mean_seconds, one.standard_error_seconds, ".3g")),
    ("messages", lambda one: str(one.samples)),
    ("sent/s", lambda one: f"{one.sent_per_second:.1f}"),
    ("done/s", lambda one: f"{one.processed_per_second:.1f}"),
    ("wait s", lambda one: figure_text(one.wait_seconds, ".3g")),
    ("p99 s", lambda one: figure_text(one.wait_p99_seconds, ".3g")),
)
QUEUE_COLUMNS: Final[tuple[Column[QueueForecast], ...]] = (
    ("queue", lambda one: f"queue {one.queue}"),
    ("messages", lambda one: str(one.messages)),
    ("work s", lambda one: f"{one.work_seconds:.4g}"),
    ("trend s/s", lambda one: f"{round(one.trend, 6) + 0.0:+.3g}"),  # sums of floats: no 3.55e-15, no -0
    ("forecast s", lambda one: f"{one.forecast_seconds:.4g}"),
    ("forecast messages", lambda one: f"{one.forecast_messages:.0f}"),
    ("state", lambda one: one.state),
    ("mark", lambda one: "paused" if one.paused else ""),
)


def plan_text(plan: QueuesPlan, snapshot: QueuesSnapshot | None = None, *, all_moves: bool = False) -> str:
    """The text of a plan, with queues and classes of its snapshot if that is given."""
    return text_of_plan(
        plan,
        () if snapshot is None else _load(snapshot),
        plan_cost(plan),
        "",
        [
            *_prediction(plan, snapshot),
            "",
            "The scheduler, with what it would do now:",
            *_queue_lines(plan),
            *_order_lines(plan.orders),
        ],
        move_lines(
            plan.moves,
            purpose=lambda move: f"{move.reason.goal} {move.kind}s",
            together=lambda moves: f"published at once, as version {plan.version + 1} or later",
            cells=_cells,
            all_moves=all_moves,
            noun=CHANGE,
        ),
        CHANGE,
    )


def _prediction(plan: QueuesPlan, snapshot: QueuesSnapshot | None) -> list[str]:
    if snapshot is None:
        return prediction_lines(plan, RESOURCES, None)
    idle = idle_resources(plan, snapshot.imbalance(), ())
    return prediction_lines(plan, RESOURCES, len(snapshot.queues), idle)


def _load(snapshot: QueuesSnapshot) -> Iterator[str]:
    reference = snapshot.reference
    running = dict(snapshot.quality.extra)
    head = (
        f"{reference.cluster} at {reference.taken_at}: {counted(len(snapshot.queues), 'queue')}, policy "
        f"{snapshot.policy or 'unknown'}; weights of version {snapshot.version}, in use by "
        f"{running.get('x_processes_of_version', 0)} of {running.get('x_processes', 0)} processes"
    )
    texts = {"queue": snapshot.row_names, "": ["" if one.alive else "no worker" for one in snapshot.queues]}
    counts = {
        "messages": [str(one.messages) for one in snapshot.queues],
        "work s": [f"{one.work_seconds:.4g}" for one in snapshot.queues],
        "speed": [_plus_minus(one.speed, one.speed_error, ".2f") for one in snapshot.queues],
    }
    yield from load_lines([head], snapshot.imbalance(), texts, counts, carrier=QUEUE)
    if snapshot.classes:
        yield "Classes, their weights and what was measured:"
        yield from (*column_lines(snapshot.classes, "lrrrrrrr", CLASS_COLUMNS), "")


def _plus_minus(value: float | None, error: float | None, form: str) -> str:
    return figure_text(value, form) + ("" if error is None or value is None else f" ±{error:.2g}")


def _queue_lines(plan: QueuesPlan) -> list[str]:
    return column_lines(plan.queues, "lrrrrrll", QUEUE_COLUMNS)


def _order_lines(orders: tuple[SchedulerOrder, ...]) -> Iterator[str]:
    if not orders:
        yield "  nothing: no queue is overloaded, and they are balanced, or all of them light"
    for one in orders:
        yield f"  {one.when}: {_order(one)}: {one.text}"


def _order(one: SchedulerOrder) -> str:
    if one.kind != "move":
        return f"{one.kind} queue {one.queue}"
    amount = (
        counted(one.messages or 0, "message") if one.work_seconds is None else f"{one.work_seconds:.4g} s"
    )
    return f"move {amount} of work, queue {one.queue} → queue {one.target}"


def plan_cost(plan: QueuesPlan) -> str:
    """The cost of a plan in a sentence."""
    settings = f", {counted(plan.cost.settings, 'setting')}" if plan.cost.settings else ""
    weights = counted(plan.cost.weights, "weight")
    return f"{weights}{settings} to publish; no message moves, and no worker is interrupted"


def _cells(move: Publication) -> tuple[str, str, str]:
    unit = " s" if move.kind is PublicationKind.WEIGHT else ""
    before = "not published" if move.before is None else f"{move.before}{unit}"
    return move.name, f"{before} → {move.after}{unit}", ""


def move_text(move: Publication) -> str:
    """The change of a move in a line."""
    return f"{move.kind} {move.name}: {move.before} → {move.after}"


def forecast_text(
    prepared: PreparedPlan, steps: tuple[PublishStep, ...], settings: RetryPolicy, every: bool
) -> str:
    """Everything that will be published, and the changes of the plan that are left out."""
    version = prepared.observation.version + 1
    total = (
        f"in all {counted(len(steps), 'change')} in one document, version {version}; "
        "senders and workers take it up within a second or two"
    )
    return forecast_of_steps(
        prepared, steps, lambda step: f"publishes {step_text(step)}", total, "changes are published already"
    )


def progress_reporter() -> Callable[[QueuesExecutionState], str]:
    """A function from states to lines of progress."""
    from trimtab.act.execution.state import ExecutionProgress

    return lambda state: progress_line(ExecutionProgress(**state.progress()), [])


def step_text(step: PublishStep) -> str:
    """A step in a line."""
    kind, _, name = step.key.partition("/")
    unit = " s" if kind == "weight" else ""
    return f"{kind} {name}: " + ("not published any more" if step.after is None else f"{step.after}{unit}")


def receipt_text(receipt: QueuesReceipt) -> str:
    """The published version, and the steps left."""
    return text_of_receipt(receipt, "queues", [f"  {spent_text(receipt)}"], _outcome, "left")


def _outcome(outcome: PublicationOutcome) -> str:
    return f"{outcome.name} = {outcome.after}"


def spent_text(receipt: QueuesReceipt) -> str:
    """The cost of an execution in a sentence."""
    version = max((one.version or 0 for one in receipt.outcomes), default=0)
    told = f" as version {version}" if version else ""
    return f"{counted(len(receipt.done), CHANGE)} published{told}, in {duration_text(receipt.seconds)}"


def status_text(status: QueuesStatus, every: bool = False) -> Iterator[RenderableType]:
    """The current content of each queue, its worker, and the weights in force."""
    yield from live_status_text(
        status,
        f"{counted(status.processes, 'process', 'processes')}, weights of version {status.version}",
        [_named(status, row) for row in range(len(status.brokers))],
        {"messages": 1, "work ms": 1e-3, "in work": 1},
        _notes(status),
        every=every,
        carrier=QUEUE,
        source="the server",
    )


def _named(status: QueuesStatus, row: int) -> str:
    one = status.brokers[row]
    notes = [*(() if one.alive else ("no worker",)), *(("paused",) if one.paused else ())]
    return one.name + (f" ({', '.join(notes)})" if notes else "")


def _notes(status: QueuesStatus) -> Iterator[str]:
    for name, weight in sorted(status.weights.items()):
        published = status.published.get(name)
        source = "as published" if published is not None else "as programs declare"
        yield f"class {name}: {weight:.4g} s, {source}; {status.processed.get(name, 0):,} processed so far"
    if status.behind:
        yield f"[yellow]![/] {status.behind} of {status.processes} processes use an older version"


def status_document(status: QueuesStatus) -> dict[str, object]:
    """The same figures as plain JSON values."""
    facts = {
        "version": status.version,
        "processes": status.processes,
        "processes_behind": status.behind,
        "weights": dict(status.weights),
        "published": dict(status.published),
    }
    brokers = [{"id": one.name, "alive": one.alive, "paused": one.paused} for one in status.brokers]
    document = live_status_document(
        status, "queues", facts, brokers, ("messages", "work_seconds", "held_messages")
    )
    return {**document, "source": "server"}


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
