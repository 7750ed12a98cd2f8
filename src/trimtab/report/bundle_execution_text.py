"""An execution of bundles for people: what it will do, how far it is, what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.report.execution_text import SHOWN, clock_text, duration_text, head_lines, log_lines

if TYPE_CHECKING:
    from trimtab.act.bundles.forecast import Forecast
    from trimtab.act.bundles.prepare import Comparison
    from trimtab.act.bundles.progress import Progress
    from trimtab.act.bundles.settings import BundlesSettings
    from trimtab.act.bundles.state import BundlesState
    from trimtab.act.bundles.steps import Step
    from trimtab.act.journal_entries import Entry
    from trimtab.model.bundle_receipt import BundleOutcome, BundlesReceipt


def forecast_text(forecast: Forecast, comparison: Comparison, settings: BundlesSettings) -> str:
    """What will happen: the take-over, every step batch after batch, and what of the plan is left out."""
    lines = []
    if forecast.batches:
        lines.append(
            "  switches the brokers' own shedding and splitting off, and gives both back as they were"
        )
    for number, batch in enumerate(forecast.batches, 1):
        lines.append(f"  batch {number}:")
        lines += [f"    {_step_text(step)}" for step in batch]
    if not forecast.batches:
        lines.append("  nothing to do")
    else:
        pace = settings.pace
        lines.append(
            f"  in all {forecast.unloads} unloads that disconnect {forecast.sessions} clients for a moment, "
            f"{forecast.splits} splits that disconnect nobody; at most {pace.unloads_per_batch} unloads at "
            f"once, {pace.sessions_per_minute} clients a minute"
            + (f", so {duration_text(forecast.seconds)} or more" if forecast.seconds >= 1 else "")
        )
    done = sum(standing == "already done" for standing in comparison.standing.values())
    if done:
        lines.append(f"  {done} of {len(comparison.standing)} moves are done already")
    lines += [f"  left out: {difference}" for difference in comparison.differences[:SHOWN]]
    return "\n".join(lines)


def progress_text(progress: Progress) -> str:
    """One line: batches, steps, clients disturbed."""
    parts = [f"batch {progress.batch}", f"{progress.steps_ended}/{progress.steps_total} steps"]
    if progress.sessions_disturbed:
        parts.append(f"{progress.sessions_disturbed} clients disconnected so far")
    if progress.under_way:
        parts.append(f"under way: {progress.under_way[0]}")
        if len(progress.under_way) > 1:
            parts[-1] += f" and {len(progress.under_way) - 1} more"
    if progress.status != "running":
        parts.append(f"{progress.status}: {progress.reason}" if progress.reason else progress.status)
    return ", ".join(parts)


def receipt_text(receipt: BundlesReceipt) -> str:
    """What was done, how long bundles were without an owner, what was left and why."""
    states = Counter(outcome.state for outcome in receipt.outcomes)
    told = ", ".join(f"{count} {state}" for state, count in states.items()) or "no steps"
    kinds = Counter(outcome.kind for outcome in receipt.done)
    lines = [
        f"execution {receipt.execution} on {receipt.cluster}: {receipt.status}"
        + (f" ({receipt.reason})" if receipt.reason else ""),
        f"  steps: {told}",
        f"  {kinds['unload']} bundles moved, {kinds['split']} split in {duration_text(receipt.seconds)}, "
        f"{receipt.batches} batches; {receipt.sessions} clients disconnected for a moment",
    ]
    if receipt.longest_unowned_seconds is not None:
        times = sorted(o.unowned_seconds for o in receipt.done if o.unowned_seconds is not None)
        lines.append(
            f"  from unload to new owner, as far as we could see: {times[len(times) // 2]:.2f} s in the "
            f"middle, {times[-1]:.2f} s at most"
        )
    lines += [f"  note: {note}" for note in receipt.notes[:SHOWN]]
    for outcome in receipt.left[:SHOWN]:
        why = f", {outcome.reason}" if outcome.reason else ""
        lines.append(f"  left: {_outcome_text(outcome)}: {outcome.state}{why}")
    if len(receipt.left) > SHOWN:
        lines.append(f"  and {len(receipt.left) - SHOWN} more left")
    return "\n".join([*lines, *_next_lines(receipt)])


def execution_text(
    entry: Entry, state: BundlesState, status: str, log: Sequence[tuple[float, str, str, object]]
) -> str:
    """One execution with all its steps and the last of its log."""
    lines = head_lines(entry, state, status, cancelling="gives the brokers' balancing back")
    lines += [f"  note: {note}" for note in state.notes]
    return "\n".join([*lines, "", *_record_lines(state), "", *log_lines(log)])


def _record_lines(state: BundlesState) -> Iterator[str]:
    for record in state.records:
        why = f": {record.reason}" if record.reason else ""
        yield f"  {record.step.number:>4} {_step_text(record.step)}  {record.state}{why}"


def _step_text(step: Step) -> str:
    if step.kind == "split":
        return f"split  {step.bundle} at {_cuts(step.boundaries)}"
    return f"unload {step.bundle} {step.source or 'nobody'} -> {step.target}, {step.sessions} clients"


def _outcome_text(outcome: BundleOutcome) -> str:
    if outcome.kind == "split":
        return f"split {outcome.bundle} at {_cuts(outcome.boundaries)}"
    return f"unload {outcome.bundle} {outcome.source or 'nobody'} -> {outcome.target}"


def _cuts(boundaries: tuple[int, ...]) -> str:
    return ", ".join(f"0x{one:08x}" for one in boundaries)


def _next_lines(receipt: BundlesReceipt) -> list[str]:
    """What is still to be done about what was left, and by which commands."""
    if not receipt.left:
        return []
    lines = [f"  in all {len(receipt.left)} of {len(receipt.outcomes)} steps left, none under way"]
    if receipt.status in ("stopped", "cancelled"):
        return [*lines, f"  next: `trimtab execution resume {receipt.execution}` goes on with them"]
    return [
        *lines,
        f"  next, as soon as the lake has a snapshot from after {clock_text(receipt.ended_at)}:",
        "    trimtab plan bundles --out next.json",
        "    trimtab apply next.json",
    ]
