"""The interface of a balancer's texts (`Renderer`), and the shared texts of executions.

The frames are shared: this module has those of a forecast, of progress and of a receipt, `plan_text` has that
of a plan, `status_text` that of a live status. A balancer's renderer calls them with sentences of its own.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from trimtab.model.documents import OutcomeT, Receipt
from trimtab.report.formats import clock_text
from trimtab.report.plan_text import diff_of_plans
from trimtab.report.tables import table_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.execution.state import AnyExecution
    from trimtab.act.executor import ExecutionSummary, PreparedPlan


MAX_LISTED = 12
"""Lines of one kind that are listed; further ones are counted."""
StepT = TypeVar("StepT")


def comparison_lines(prepared: PreparedPlan, done: str) -> Iterator[str]:
    """The number of changes that the cluster has already, and the changes that no longer fit it.

    Parameters
    ----------
    done
        Words after that number: `moves are done already`.
    """
    fit = prepared.comparison.fit.values()
    number = sum(one == "already done" for one in fit)
    if number:
        yield f"  {number} of {len(fit)} {done}"
    yield from (f"  left out: {one}" for one in prepared.comparison.differences[:MAX_LISTED])


def forecast_of_steps(
    prepared: PreparedPlan, steps: Sequence[StepT], step_text: Callable[[StepT], str], total: str, done: str
) -> str:
    """The forecast of an execution without batches: its steps, their total, and the comparison.

    Parameters
    ----------
    total
        A line below the steps; it may be empty.
    done
        As for `comparison_lines`.
    """
    lines = [f"  {step_text(step)}" for step in steps] or ["  nothing to do"]
    lines += [f"  {total}"] if steps and total else []
    return "\n".join([*lines, *comparison_lines(prepared, done)])


def progress_line(progress: Any, own: Iterable[str]) -> str:
    """The progress in a line: batches, steps, and the balancer's own figures."""
    parts = [f"batch {progress.batch}", f"{progress.steps_ended}/{progress.steps_total} steps", *own]
    if progress.status != "running":
        parts.append(f"{progress.status}: {progress.reason}" if progress.reason else progress.status)
    return ", ".join(parts)


def text_of_receipt(
    receipt: Receipt[OutcomeT],
    balancer: str,
    done: Iterable[str],
    outcome_text: Callable[[OutcomeT], str],
    left: str,
) -> str:
    """The work done, its duration, the steps left with their reasons, and the next command.

    Parameters
    ----------
    done
        The balancer's own lines on what was done.
    left
        Words after the number of steps left: `left, none in flight`.
    """
    states = Counter(outcome.state for outcome in receipt.outcomes)
    told = ", ".join(f"{count} {_state(state)}" for state, count in states.items()) or "no steps"
    reason = f" ({receipt.reason})" if receipt.reason else ""
    lines = [f"execution {receipt.execution} on {receipt.cluster}: {receipt.status}{reason}"]
    lines += [f"  steps: {told}", *done]
    dropped = [outcome for outcome in receipt.outcomes if outcome.state == "dropped"]
    lines += [f"  dropped: {outcome_text(outcome)}: {outcome.reason}" for outcome in dropped[:MAX_LISTED]]
    if len(dropped) > MAX_LISTED:
        lines.append(f"  and {len(dropped) - MAX_LISTED} more dropped")
    for outcome in receipt.left[:MAX_LISTED]:
        why = f", {outcome.reason}" if outcome.reason else ""
        lines.append(f"  left: {outcome_text(outcome)}: {_state(outcome.state)}{why}")
    if len(receipt.left) > MAX_LISTED:
        lines.append(f"  and {len(receipt.left) - MAX_LISTED} more left")
    if receipt.left:
        lines.append(f"  in all {len(receipt.left)} of {len(receipt.outcomes)} steps {left}")
        lines += _next_lines(receipt, balancer)
    return "\n".join(lines)


def _next_lines(receipt: Receipt[OutcomeT], balancer: str) -> list[str]:
    """The commands that continue with the steps left."""
    if receipt.status in ("stopped", "cancelled"):
        return [f"  next: `trimtab execution resume {receipt.execution}` goes on with them"]
    if receipt.status != "incomplete":
        return []
    return [
        f"  next, as soon as the lake has a snapshot from after {clock_text(receipt.ended_at)}:",
        f"    trimtab plan {balancer} --cluster {shlex.quote(receipt.cluster)} --out next.json",
        "    trimtab apply next.json",
    ]


def _state(state: str) -> str:
    return state.replace("_", " ")


def entries_text(rows: Sequence[tuple[ExecutionSummary, str]]) -> str:
    """A table of executions with their statuses (`interrupted` if no process runs it)."""
    if not rows:
        return "no executions"
    cells = [("id", "balancer", "cluster", "begun", "status", "by")]
    cells += [
        (str(entry.id), entry.balancer, entry.cluster, clock_text(entry.created_at), status, entry.owner)
        for entry, status in rows
    ]
    return "\n".join(table_lines(cells, "llllll", indent=""))


def text_of_execution(
    entry: ExecutionSummary,
    state: AnyExecution,
    status: str,
    log: Sequence[tuple[float, str, str, object]],
    step_text: Callable[[Any], str],
    cancels: str,
) -> str:
    """One execution with its steps, the end of its log, and the next command if it is interrupted."""
    lines = [
        f"execution {entry.id} on {entry.cluster} (cluster id {entry.cluster_id}): {status}",
        f"  begun {clock_text(entry.created_at)}, by {entry.owner}",
    ]
    if entry.ended_at is not None:
        lines.append(f"  ended {clock_text(entry.ended_at)}")
    if state.reason:
        lines.append(f"  {state.reason}")
    if status == "interrupted":
        lines.append(
            f"  nobody runs it: `trimtab execution resume {entry.id}` goes on, "
            f"`trimtab execution cancel {entry.id}` {cancels}"
        )
    lines += [*(f"  note: {note}" for note in getattr(state, "notes", ())), ""]
    for record in state.records:
        why = f": {record.reason}" if record.reason else ""
        lines.append(f"  {record.step.number:>4} {step_text(record.step)}  {record.state}{why}")
    lines += ["", f"last of {len(log)} journal entries:"]
    lines += [f"  {clock_text(at)}  {event or '-'} -> {order}" for at, event, order, _ in log[-MAX_LISTED:]]
    return "\n".join(lines)


@runtime_checkable
class Renderer(Protocol):
    """The texts of one balancer: its module `renderer` is a value of this type."""

    @property
    def CANCEL_EFFECT(self) -> str:
        """The effect of `cancel` on steps in flight, for an execution that no process runs."""

    @property
    def CANCELLING(self) -> str:
        """The effect of a running `cancel`."""

    def plan_text(self, plan: Any, snapshot: Any = None, /, *, all_moves: bool = False) -> str:
        """A plan, with the load of its snapshot if that is given."""

    def plan_cost(self, plan: Any, /) -> str:
        """The cost of a plan in a sentence."""

    def move_text(self, move: Any, /) -> str:
        """The change of a move in a line."""

    def forecast_text(self, prepared: Any, forecast: Any, settings: Any, every: bool, /) -> str:
        """The changes that a prepared plan will make, with every step or with the number of steps."""

    def progress_reporter(self) -> Callable[[Any], str]:
        """A new function from the successive states of an execution to lines of progress."""

    def step_text(self, step: Any, /) -> str:
        """A step of an execution in a line."""

    def receipt_text(self, receipt: Any, /) -> str:
        """The work done, the steps left, and the next command."""

    def spent_text(self, receipt: Any, /) -> str:
        """The cost of an execution in a sentence."""

    def status_text(self, status: Any, every: bool, /) -> Iterator[RenderableType]:
        """The current state of a cluster, with all brokers or those that deviate most."""

    def status_document(self, status: Any, /) -> Mapping[str, object]:
        """The same figures as plain JSON values."""


def plan_diff(renderer: Renderer, first: Any, second: Any) -> str:
    """The difference of two plans; empty if they are equal."""
    return diff_of_plans(first, second, renderer.plan_cost, renderer.move_text)


def execution_text(
    renderer: Renderer,
    entry: ExecutionSummary,
    state: Any,
    status: str,
    log: Sequence[tuple[float, str, str, object]],
) -> str:
    """One execution with its steps and the end of its log."""
    return text_of_execution(entry, state, status, log, renderer.step_text, renderer.CANCEL_EFFECT)
