"""The texts of the balancer `bundles`: bundles, unloads, splits, and the clients that they disconnect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.model.bundles.plan import BundleMove, BundleMoveKind, BundlePlan, BundlesReceipt
from trimtab.model.bundles.snapshot import NO_OWNER, RESOURCES, BundlesSnapshot
from trimtab.model.load import imbalance, resource_name
from trimtab.report.formats import bytes_text, counted, duration_text
from trimtab.report.plan_text import (
    bound_text,
    idle_resources,
    load_lines,
    move_lines,
    prediction_in_views,
    purpose_text,
    text_of_plan,
)
from trimtab.report.renderer import MAX_LISTED, comparison_lines, progress_line, text_of_receipt
from trimtab.report.status_text import live_status_document, live_status_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trimtab.act.bundles.load_check import BundlesForecast, BundlesProgress
    from trimtab.act.bundles.state import BundlesExecutionState, BundleStep, UnloadSettings
    from trimtab.act.executor import PreparedPlan
    from trimtab.model.bundles.plan import BundleOutcome
    from trimtab.model.load import ImbalanceSummary
    from trimtab.systems.pulsar.status import PulsarBroker, PulsarStatus


CANCEL_EFFECT: Final = "restores the brokers' own balancing"
"""The effect of `cancel` on steps in flight."""
CANCELLING: Final = "bundles under way get an owner, no further unload begins (an unload is not rolled back)"
"""The effect of a running `cancel`."""


def spent_text(receipt: BundlesReceipt | None) -> str:
    """The cost of an execution in a sentence."""
    if receipt is None:
        return "nothing had to be done"
    splits = sum(outcome.kind == "split" for outcome in receipt.done)
    unloads = sum(outcome.kind == "unload" for outcome in receipt.done)
    return (
        f"{counted(splits, 'bundle')} split, {counted(unloads, 'bundle')} moved, "
        f"{receipt.sessions} clients reconnected, in {receipt.seconds:.1f} s"
    )


def plan_text(plan: BundlePlan, snapshot: BundlesSnapshot | None = None, *, all_moves: bool = False) -> str:
    """The text of a plan, with the load and views of its snapshot if that is given."""
    beyond = "disturbs more clients than this plan"
    return text_of_plan(
        plan,
        () if snapshot is None else _load(snapshot),
        plan_cost(plan),
        bound_text(
            plan, plan.bound.proof, plan.cost.sessions, plan.bound.sessions, _clients, "disturbs", beyond
        ),
        [
            *prediction_in_views(plan, RESOURCES, _views(plan, snapshot), _idle(plan, snapshot)),
            *(() if snapshot is None else _unlimited(snapshot)),
        ],
        move_lines(
            plan.moves,
            purpose=lambda move: purpose_text(move.reason, move.reason.view),
            together=lambda moves: _clients(sum(move.sessions for move in moves)),
            cells=_cells,
            all_moves=all_moves,
        ),
    )


def _load(snapshot: BundlesSnapshot) -> Iterator[str]:
    brokers, bundles, reference = snapshot.brokers, snapshot.bundles, snapshot.reference
    owned = bundles.owner != NO_OWNER
    number = np.bincount(bundles.owner[owned], minlength=len(brokers))
    clients = np.bincount(bundles.owner[owned], weights=bundles.sessions[owned], minlength=len(brokers))
    unowned = int((~owned).sum())
    head = (
        f"{reference.cluster} at {reference.taken_at}: {counted(len(brokers), 'broker')}, "
        f"{counted(len(bundles), 'bundle')}{f' ({unowned} unowned)' if unowned else ''}, "
        f"{int(bundles.sessions.sum())} clients; views: {', '.join(snapshot.views)}"
    )
    states = ["" if serves else "out of service" for serves in brokers.in_service.tolist()]
    texts = {"broker": brokers.name, "": states}
    counts = {"bundles": [str(one) for one in number], "clients": [f"{one:.0f}" for one in clients]}
    nominal = snapshot.quality.nominal_capacity
    return load_lines([head], snapshot.imbalance(), texts, counts, only_counted=True, nominal=nominal)


def _idle(plan: BundlePlan, snapshot: BundlesSnapshot | None) -> dict[str, list[str]]:
    """By view: resources that are used too little to be balanced."""
    views, nominal = ({}, ()) if snapshot is None else (snapshot.by_view, snapshot.quality.nominal_capacity)
    return {name: idle_resources(plan, measured, nominal) for name, measured in views.items()}


def _unlimited(snapshot: BundlesSnapshot) -> Iterator[str]:
    """The resources that have load but no capacity, and their deviation from the mean."""
    load, brokers = snapshot.broker_load()[0], snapshot.brokers
    apart = imbalance(load, np.ones_like(load), brokers.in_service, RESOURCES).worst_deviation
    free = np.asarray(~snapshot.imbalance().counted.any(axis=0))
    named = [
        f"{resource_name(name)} ({apart[place]:.0%} from the mean)"
        for place, name in enumerate(RESOURCES)
        if free[place] and apart[place] > 0
    ]
    if named:
        yield f"  not limited, so not balanced: {', '.join(named)}; declare it in [capacity] if it is to be"


def plan_cost(plan: BundlePlan) -> str:
    """The cost of a plan in a sentence."""
    cost = plan.cost
    splits = f"{counted(cost.splits, 'split')}, " if cost.splits else ""
    verb = "disconnects" if cost.unloads == 1 else "disconnect"
    return (
        f"{splits}{counted(cost.unloads, 'unload')} that {verb} {_clients(cost.sessions)} for a moment, "
        f"{bytes_text(int(cost.bytes_per_second))}/s interrupted"
    )


def _clients(number: int) -> str:
    return counted(number, "client")


def _cells(move: BundleMove) -> tuple[str, str, str]:
    if move.kind is BundleMoveKind.SPLIT:
        return move.bundle, f"on {move.source or 'nobody'} at {_cuts(move.boundaries)}", ""
    return move.bundle, f"{move.source or 'nobody'} → {move.target}", _clients(move.sessions)


def move_text(move: BundleMove) -> str:
    """The change of a move in a line."""
    bundle, way, _ = _cells(move)
    return f"{bundle}: {move.kind} {way}"


def _views(
    plan: BundlePlan, snapshot: BundlesSnapshot | None
) -> dict[str, tuple[ImbalanceSummary, ImbalanceSummary]]:
    """Measures of every view; without a snapshot only those of the newest view."""
    if snapshot is None:
        return {"now": (plan.predicted.before, plan.predicted.after)}
    from trimtab.plan.bundles.splitting import carried_out

    later = carried_out(snapshot, plan).by_view
    return {name: (one.measures(), later[name].measures()) for name, one in snapshot.by_view.items()}


def forecast_text(
    prepared: PreparedPlan, expected: BundlesForecast, settings: UnloadSettings, every: bool
) -> str:
    """The steps of every batch, and the moves of the plan that are left out."""
    pace = settings.limits
    lines = []
    for number, batch in enumerate(expected.batches, 1):
        lines += [f"  batch {number}:", *(f"    {step_text(step)}" for step in batch)]
    if lines:
        longer = f", so {duration_text(expected.seconds)} or more" if expected.seconds >= 1 else ""
        lines = [
            "  switches the brokers' own shedding and splitting off, and gives both back as they were",
            *lines,
            f"  in all {expected.unloads} unloads that disconnect {expected.sessions} clients for a moment, "
            f"{expected.splits} splits that disconnect nobody; at most {pace.max_unloads_per_batch} unloads "
            "at "
            f"once, {pace.max_sessions_per_minute} clients a minute{longer}",
        ]
    else:
        lines = ["  nothing to do"]
    lines += comparison_lines(prepared, "moves are done already")
    return "\n".join(lines)


def progress_reporter() -> Callable[[BundlesExecutionState], str]:
    """A function from states to lines of progress."""
    from trimtab.act.bundles.load_check import progress_of

    return lambda state: progress_text(progress_of(state))


def progress_text(progress: BundlesProgress) -> str:
    """The progress in a line: steps, and clients disconnected."""
    parts = []
    if progress.sessions_disturbed:
        parts.append(f"{progress.sessions_disturbed} clients disconnected so far")
    if progress.in_flight:
        first, *more = progress.in_flight
        parts.append(f"under way: {first}" + (f" and {len(more)} more" if more else ""))
    return progress_line(progress, parts)


def step_text(step: BundleStep) -> str:
    """A step in a line."""
    if step.kind == "split":
        return f"split  {step.bundle} at {_cuts(step.boundaries)}"
    return f"unload {step.bundle} {step.source or 'nobody'} -> {step.target}, {step.sessions} clients"


def receipt_text(receipt: BundlesReceipt) -> str:
    """The work done, the time without an owner, and the steps left with their reasons."""
    kinds = Counter(outcome.kind for outcome in receipt.done)
    # An unload that did not lead to the destination may have been none: Pulsar says yes all the same.
    most = "at most " if receipt.unloads > kinds["unload"] else ""
    done = [
        f"  {kinds['unload']} bundles moved, {kinds['split']} split in {duration_text(receipt.seconds)}, "
        f"{receipt.batches} batches",
        f"  {counted(receipt.unloads, 'unload')}, {most}{receipt.sessions} clients disconnected for a moment",
    ]
    times = sorted(o.in_flight_seconds for o in receipt.done if o.in_flight_seconds is not None)
    if times:
        done.append(
            f"  from first unload to new owner, as observed: median {times[len(times) // 2]:.2f} s, "
            f"at most {times[-1]:.2f} s"
        )
    done += [f"  note: {note}" for note in receipt.notes[:MAX_LISTED]]
    return text_of_receipt(receipt, "bundles", done, _outcome, "left, none under way")


def _outcome(outcome: BundleOutcome) -> str:
    if outcome.kind == "split":
        return f"split {outcome.bundle} at {_cuts(outcome.boundaries)}"
    return f"unload {outcome.bundle} {outcome.source or 'nobody'} -> {outcome.target}"


def _cuts(boundaries: Sequence[int]) -> str:
    return ", ".join(f"0x{one:08x}" for one in boundaries)


def status_text(status: PulsarStatus, every: bool = False) -> Iterator[RenderableType]:
    """The current owners of bundles, and their load."""
    pulsar = " ".join(["Pulsar", ", ".join(status.versions)]).strip()
    return live_status_text(
        status,
        f"{status.bundles:,} bundles, {status.topics:,} topics; {pulsar}, "
        f"load manager {status.load_manager or 'unknown'}",
        [_broker(broker) for broker in status.brokers],
        {"traffic kB/s": 1e3, "messages/s": 1, "bundles": 1, "sessions": 1},
        _notes(status),
        every=every,
    )


def _broker(broker: PulsarBroker) -> str:
    notes = [broker.state] if broker.state != "alive" else []
    notes += ["leader"] if broker.is_leader else []
    return f"broker {broker.name}" + (f" ({', '.join(notes)})" if notes else "")


def _notes(status: PulsarStatus) -> Iterator[str]:
    """Bundles without an owner, and Pulsar's own balancing."""
    from trimtab.systems.pulsar.status import SHEDDER, SWITCHES

    if status.unowned:
        yield (
            f"[dim]{status.unowned} of {status.bundles} bundles have no owner: no client uses their topics[/]"
        )
    for name, setting in SWITCHES.items():
        told = status.setting(setting)
        if len(told) > 1:
            yield (
                f"[yellow]![/] {name}: on in some brokers, off in others ({setting}); they read it from "
                "their own files or from the cluster's dynamic configuration"
            )
        elif told:
            strategy = ", ".join(one.rpartition(".")[2] for one in status.setting(SHEDDER))
            by = f", by {strategy}" if name == "shedding" and told == ("true",) and strategy else ""
            yield f"{name}: {'on' if told == ('true',) else 'off'}{by}"
        else:
            yield f"[dim]{name}: unknown; reading it needs the rights of a superuser[/]"
    yield (
        "[dim]Usage over capacity needs samples: `trimtab collect`, then `trimtab pipeline run`, then "
        "`trimtab status`.[/]"
    )


def status_document(status: PulsarStatus) -> dict[str, object]:
    """The same figures as plain JSON values."""
    from trimtab.systems.pulsar.status import SHEDDER, SWITCHES

    facts = {
        "load_manager": status.load_manager,
        "versions": list(status.versions),
        "bundles": status.bundles,
        "unowned_bundles": status.unowned,
        "topics": status.topics,
        "settings": {name: list(status.setting(name)) for name in (*SWITCHES.values(), SHEDDER)},
    }
    brokers = [{"id": b.name, "state": b.state, "leader": b.is_leader} for b in status.brokers]
    figures = ("throughput_bytes_per_second", "messages_per_second", "bundles", "sessions")
    return live_status_document(status, "bundles", facts, brokers, figures)
