"""An execution for people: what it will do, how far it is, what became of it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trimtab.report.before_after import bytes_text

if TYPE_CHECKING:
    from trimtab.act.execution.state import AnyExecution
    from trimtab.act.journal_entries import Entry
    from trimtab.act.replicas.forecast import Forecast
    from trimtab.act.replicas.prepare import Comparison
    from trimtab.act.replicas.progress import Progress
    from trimtab.act.replicas.settings import ExecutionSettings
    from trimtab.act.replicas.state import ExecutionState
    from trimtab.act.replicas.steps import Step
    from trimtab.model.receipt import ReplicasReceipt

SHOWN = 12


def forecast_text(
    forecast: Forecast, comparison: Comparison, settings: ExecutionSettings, rate: float | None
) -> str:
    """What will happen: batch after batch, bytes, time; and what of the plan is left out."""
    lines = []
    for number, batch in enumerate(forecast.batches[:SHOWN], 1):
        kinds = Counter(_kind(step) for step in batch.steps)
        what = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        size = f", {bytes_text(batch.bytes)}" if batch.bytes else ""
        lines.append(f"  batch {number}: {what}{size}")
    if len(forecast.batches) > SHOWN:
        lines.append(f"  and {len(forecast.batches) - SHOWN} more batches")
    if not forecast.batches:
        lines.append("  nothing to do")
    lines.append(f"  copies {bytes_text(forecast.bytes)} in all; {_pace(forecast, settings, rate)}")
    done = sum(standing == "already done" for standing in comparison.standing.values())
    if done:
        lines.append(f"  {done} of {len(comparison.standing)} partitions are already as planned")
    lines += [f"  left out: {difference}" for difference in comparison.differences[:SHOWN]]
    lines += [f"  cannot begin as things are: {step}: {why}" for step, why in forecast.blocked[:SHOWN]]
    return "\n".join(lines)


def _kind(step: Step) -> str:
    if step.kind == "lead":
        return "leader moves"
    return "copies" if step.kind == "copy" else "moves between log dirs"


def _pace(forecast: Forecast, settings: ExecutionSettings, rate: float | None) -> str:
    limits = f"at most {settings.copies_per_broker} copies a broker at first"
    if rate is None or not forecast.bytes:
        return limits + ("" if not forecast.bytes else ", no throttle")
    seconds = forecast.seconds(rate)
    took = "" if seconds is None else f", at most about {duration_text(seconds)}"
    return f"{limits}, throttle {bytes_text(rate)}/s a broker{took}"


def progress_text(progress: Progress) -> str:
    """One line: bytes left, rate, time left."""
    parts = [
        f"batch {progress.batch}",
        f"{progress.steps_ended}/{progress.steps_total} steps",
    ]
    if progress.bytes_total:
        parts.append(f"{bytes_text(progress.bytes_left)} left of {bytes_text(progress.bytes_total)}")
        if progress.steps_active:
            parts.append(f"{bytes_text(progress.bytes_per_second)}/s")
            if progress.seconds_left is not None:
                parts.append(f"{duration_text(progress.seconds_left)} left")
    if progress.status != "running":
        parts.append(f"{progress.status}: {progress.reason}" if progress.reason else progress.status)
    return ", ".join(parts)


def receipt_text(receipt: ReplicasReceipt) -> str:
    """What was done, how long it took, what was left and why."""
    states = Counter(outcome.state for outcome in receipt.outcomes)
    told = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in states.items()) or "no steps"
    lines = [
        f"execution {receipt.execution} on {receipt.cluster}: {receipt.status}"
        + (f" ({receipt.reason})" if receipt.reason else ""),
        f"  steps: {told}",
        f"  copied {bytes_text(receipt.copied_bytes)} in {duration_text(receipt.seconds)}, "
        f"{receipt.batches} batches",
    ]
    if receipt.measured is not None:
        lines.append(f"  the load now, by {receipt.measured_from}:")
        for name, sigma in receipt.measured.sigma.items():
            worst, peak = receipt.measured.worst_deviation[name], receipt.measured.peak_usage[name]
            lines.append(f"    {name:<12} σ {sigma:.4f}, worst deviation {worst:.1%}, peak {peak:.1%}")
    for outcome in receipt.left[:SHOWN]:
        lines.append(
            f"  left: {outcome.topic}-{outcome.partition} {list(outcome.before)} -> {list(outcome.after)}: "
            f"{outcome.state.replace('_', ' ')}" + (f", {outcome.reason}" if outcome.reason else "")
        )
    if len(receipt.left) > SHOWN:
        lines.append(f"  and {len(receipt.left) - SHOWN} more left")
    lines += _next_lines(receipt)
    return "\n".join(lines)


def _next_lines(receipt: ReplicasReceipt) -> list[str]:
    """What is still to be done about what was left, and by which commands."""
    if not receipt.left:
        return []
    size = bytes_text(sum(outcome.bytes for outcome in receipt.left))
    lines = [f"  in all {len(receipt.left)} of {len(receipt.outcomes)} steps and {size} left, none in flight"]
    if receipt.status in ("stopped", "cancelled"):
        return [*lines, f"  next: `trimtab execution resume {receipt.execution}` goes on with them"]
    if receipt.status == "incomplete":
        lines += [
            f"  next, as soon as the lake has a snapshot from after {clock_text(receipt.ended_at)}:",
            f"    trimtab plan replicas --cluster {shlex.quote(receipt.cluster)} --out next.json",
            "    trimtab apply next.json",
        ]
    return lines


def entries_text(rows: Sequence[tuple[Entry, str]]) -> str:
    """A table of executions; each with its status as seen from here (`interrupted` where nobody runs it)."""
    if not rows:
        return "no executions"
    cells = [("id", "level", "cluster", "begun", "status", "by")]
    cells += [
        (str(entry.id), entry.level, entry.cluster, clock_text(entry.created_at), status, entry.owner)
        for entry, status in rows
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(6)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def execution_text(
    entry: Entry, state: ExecutionState, status: str, log: Sequence[tuple[float, str, str, object]]
) -> str:
    """One execution with all its steps and the last of its log."""
    lines = head_lines(entry, state, status, cancelling="rolls back what is in flight and cleans up")
    return "\n".join([*lines, "", *_step_lines(state), "", *log_lines(log)])


def head_lines(entry: Entry, state: AnyExecution, status: str, *, cancelling: str) -> list[str]:
    """Which execution it is, of whatever level, and what to do about an interrupted one.

    Parameters
    ----------
    cancelling
        What `cancel` does about what is in flight.
    """
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
            f"`trimtab execution cancel {entry.id}` {cancelling}"
        )
    return lines


def _step_lines(state: ExecutionState) -> Iterator[str]:
    for record in state.records:
        step = record.step
        change = f"{list(step.before)} -> {list(step.after)}"
        if step.kind == "log_dir":
            change = ", ".join(f"broker {broker} -> {path}" for broker, path in step.directories)
        size = f", {bytes_text(step.bytes)}" if step.bytes else ""
        why = f": {record.reason}" if record.reason else ""
        yield f"  {step.number:>4} {step.kind:<7} {step.partition} {change}{size}  {record.state}{why}"


def log_lines(log: Sequence[tuple[float, str, str, object]]) -> Iterator[str]:
    """The last of a journal's log."""
    yield f"last of {len(log)} journal entries:"
    for at, event, order, _ in log[-SHOWN:]:
        yield f"  {clock_text(at)}  {event or '-'} -> {order}"


def clock_text(at: float) -> str:
    """Seconds since 1970 as a date and time of day, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def duration_text(seconds: float) -> str:
    """Seconds for people: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
