"""Planner of the balancer `queues`: weights learned from measured work, and settings of the dispatch.

The plan publishes weights of message types and the settings by which workers balance their queues.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from trimtab.model.goals import goal_status
from trimtab.model.plan import Prediction, Problem, Verdict, settings_document
from trimtab.model.queues import (
    RESOURCES,
    ClassLoad,
    Publication,
    PublicationAssignment,
    PublicationBound,
    PublicationCost,
    PublicationKind,
    PublicationReason,
    Published,
    QueueForecast,
    QueuesPlan,
    QueuesSnapshot,
    SchedulerOrder,
)
from trimtab_common.errors import SettingsError
from trimtab_queues.core.scheduling import (
    Effect,
    MoveMessages,
    PauseQueue,
    QueuesObserved,
    ResumeQueue,
    SchedulerState,
    SchedulingSettings,
    handle,
)
from trimtab_queues.format.documents import QueuesSettings

DIGITS: Final = 3
"""Digits of a weight: more digits do not change dispatch."""


Change = tuple[PublicationKind, str, Published | None, Published, PublicationReason]


def publications(snapshot: QueuesSnapshot, settings: QueuesSettings) -> tuple[Publication, ...]:
    """Changed weights by ascending class, then settings if requested."""
    changes: list[Change] = [
        (PublicationKind.WEIGHT, one.message_class, one.published, weight_of(one), _reason(one, settings))
        for one in sorted(snapshot.classes, key=lambda one: one.message_class)
        if is_new(one, settings)
    ]
    changes += [
        (
            PublicationKind.SETTING,
            name,
            before,
            after,
            PublicationReason(
                "asked",
                None,
                f"processes use {before}, the settings of the plan say {after}; publishes {after}",
            ),
        )
        for name, before, after in _settings(snapshot, settings)
    ]
    return tuple(
        Publication(order, kind, name, before, after, reason)
        for order, (kind, name, before, after, reason) in enumerate(changes, 1)
    )


def is_new(one: ClassLoad, settings: QueuesSettings) -> bool:
    """Whether the measurement of a class is to be published: enough samples, a large difference, a small
    error.
    """
    if one.mean_seconds is None or one.mean_seconds <= 0 or one.samples < settings.min_samples:
        return False
    error = one.standard_error_seconds or 0.0
    if one.weight is None or one.weight <= 0:
        return True
    apart = abs(one.mean_seconds - one.weight)
    return apart >= settings.min_change * one.weight and apart > settings.confidence * error


def weight_of(one: ClassLoad) -> float:
    """The measured weight as published: seconds, three digits."""
    assert one.mean_seconds is not None
    return max(1e-6, float(f"{one.mean_seconds:.{DIGITS}g}"))


def _reason(one: ClassLoad, settings: QueuesSettings) -> PublicationReason:
    mean, error = one.mean_seconds or 0.0, one.standard_error_seconds or 0.0
    measured = (
        f"messages of {one.message_class} take {mean:.4g} s (± {error:.2g} s over {one.samples} messages)"
    )
    if one.weight:
        ratio = mean / one.weight
        text = (
            f"{measured}, {ratio:.2f} times their weight of {one.weight:.4g} s; publishes the measured "
            f"weight (limits: {settings.min_change:.0%} and {settings.confidence:g} standard errors)"
        )
    else:
        text = f"{measured} and have no weight; publishes the measured weight"
    return PublicationReason(
        "measured", None, text, one.samples, one.mean_seconds, one.standard_error_seconds
    )


def _settings(
    snapshot: QueuesSnapshot, settings: QueuesSettings
) -> list[tuple[str, float | str | None, float | str]]:
    if not settings.publish_settings:
        return []
    running = {**snapshot.scheduling, "policy": snapshot.policy}
    asked = {
        **{name: getattr(settings.scheduling, name) for name in settings.scheduling.__slots__},
        "policy": settings.policy,
    }
    differ = [name for name in sorted(asked) if running.get(name) != asked[name]]
    return [(name, running.get(name), asked[name]) for name in differ]


UNLIMITED = 2**53


def current_orders(
    snapshot: QueuesSnapshot, settings: QueuesSettings
) -> tuple[tuple[QueueForecast, ...], tuple[SchedulerOrder, ...], list[float]]:
    """Forecast and state of each queue, the scheduler's orders, and the work of each queue after them.

    The machine receives the window of the snapshot at the beginning of a cycle, when only overload causes
    moves. If it orders none, it receives the window again at the end of a cycle, when all queues are
    balanced.
    """
    scheduling = scheduling_of(snapshot, settings)
    schedule, orders = _observed_schedule(snapshot, scheduling, started_before=scheduling.window_seconds)
    when, shown = "now", schedule
    if not any(isinstance(one, MoveMessages) for one in orders):
        ending = _observed_schedule(snapshot, scheduling, started_before=scheduling.cycle_seconds)[1]
        moves = tuple(one for one in ending if isinstance(one, MoveMessages))
        told = [_order_text(one, "now") for one in orders] + [
            _order_text(one, "end of cycle") for one in moves
        ]
        orders = (*orders, *moves)
    else:
        told = [_order_text(one, when) for one in orders]
    seen = shown.last_observation
    assert seen is not None
    forecasts = tuple(
        QueueForecast(
            one.queue,
            one.messages,
            one.work_seconds,
            shown.trends[row],
            shown.forecast[row],
            shown.messages[row],
            shown.states[row].value,
            one.paused,
        )
        for row, one in enumerate(snapshot.queues)
    )
    work = [one.work_seconds for one in snapshot.queues]
    for order in orders:
        if isinstance(order, MoveMessages):
            part = order.work if order.work is not None else _work_of(snapshot, order)
            work[order.source] -= part
            work[order.target] += part
    return forecasts, tuple(told), work


def scheduling_of(snapshot: QueuesSnapshot, settings: QueuesSettings) -> SchedulingSettings:
    """Settings of scheduling as reported by processes; otherwise those of the plan."""
    if settings.publish_settings or not snapshot.scheduling:
        return settings.scheduling
    try:
        return replace(settings.scheduling, **snapshot.scheduling)  # type: ignore[arg-type]
    except (TypeError, SettingsError):
        return settings.scheduling


def _observed_schedule(
    snapshot: QueuesSnapshot, scheduling: SchedulingSettings, started_before: float
) -> tuple[SchedulerState, tuple[Effect, ...]]:
    """The machine after a window with the snapshot's rates, in a cycle that began so many seconds before."""
    window, queues = scheduling.window_seconds, snapshot.queues
    anyone = any(one.alive for one in queues)
    before = QueuesObserved(
        at=0.0,
        capacity=tuple(one.capacity or UNLIMITED for one in queues),
        length=tuple(one.messages for one in queues),
        work=tuple(one.work_seconds for one in queues),
        arrived=(0.0,) * len(queues),
        served=(0.0,) * len(queues),
        paused=tuple(one.paused for one in queues),
        closed=tuple(anyone and not one.alive for one in queues),
        mean_weight=snapshot.mean_weight,
    )
    now = replace(
        before,
        at=window,
        arrived=tuple((one.arrived_seconds_per_second or 0.0) * window for one in queues),
        served=tuple((one.served_seconds_per_second or 0.0) * window for one in queues),
    )
    schedule, _ = handle(SchedulerState(), before, scheduling)
    return handle(replace(schedule, cycle_started_at=window - started_before), now, scheduling)


def _work_of(snapshot: QueuesSnapshot, move: MoveMessages) -> float:
    source = snapshot.queues[move.source]
    return source.work_seconds * (move.messages or 0) / max(1, source.messages)


def _order_text(order: Effect, when: str) -> SchedulerOrder:
    match order:
        case PauseQueue(queue):
            return SchedulerOrder(
                when, "pause", queue, "it is forecast to be overloaded and receives nothing"
            )
        case ResumeQueue(queue):
            return SchedulerOrder(when, "resume", queue, "it is not forecast to be overloaded any more")
        case MoveMessages(source, target, messages, work):
            why = (
                "an overloaded queue gives its work above the mean to the lightest light queue"
                if when == "now"
                else "the heaviest queue gives its work above the mean to the lightest"
            )
            return SchedulerOrder(when, "move", source, why, target, messages, work)
    raise AssertionError(order)


def plan_queues(snapshot: QueuesSnapshot, settings: QueuesSettings) -> QueuesPlan:
    """Make the plan. It publishes weights and settings; the scheduler moves messages, every second.

    `predicted` has the work in the queues, before and after the predicted actions of the scheduler.
    """
    moves = publications(snapshot, settings)
    forecasts, orders, work = current_orders(snapshot, settings)
    before, after = snapshot.imbalance(), snapshot.imbalance(np.array(work))
    breaches = goal_status(snapshot, settings).violations
    problems = tuple(
        Problem(
            "unmet_goal",
            f"{breach.broker}: work {abs(breach.value):.1%} against {breach.goal} {breach.limit:.1%}: "
            "balance scheduling works on it, and weights that are nearer to the truth help it",
            resource="work",
        )
        for breach in breaches
    )
    kinds = [move.kind for move in moves]
    return QueuesPlan(
        balancer="queues",
        strategy="trim",
        seed=0,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=_verdict(bool(moves or orders), problems),
        moves=moves,
        predicted=Prediction(before.measures(), after.measures()),
        problems=problems,
        version=snapshot.version,
        assignments=_assignments(snapshot, moves),
        cost=PublicationCost(kinds.count(PublicationKind.WEIGHT), kinds.count(PublicationKind.SETTING)),
        bound=PublicationBound(0, "publishing moves no message and interrupts nobody"),
        queues=forecasts,
        orders=orders,
    )


def _verdict(any_change: bool, problems: tuple[Problem, ...]) -> Verdict:
    if problems:
        return Verdict.IMPROVED if any_change else Verdict.INCOMPLETE
    return Verdict.BALANCED


def _assignments(
    snapshot: QueuesSnapshot, moves: tuple[Publication, ...]
) -> tuple[PublicationAssignment, ...]:
    """All published values after the moves: unchanged weights and changes."""
    changed = {(move.kind, move.name): move for move in moves}
    stays = {(PublicationKind.WEIGHT, name): value for name, value in snapshot.weights.items()}
    return tuple(
        PublicationAssignment(
            kind,
            name,
            changed[kind, name].before if (kind, name) in changed else stays[kind, name],
            changed[kind, name].after if (kind, name) in changed else stays[kind, name],
        )
        for kind, name in sorted({*stays, *changed})
    )
