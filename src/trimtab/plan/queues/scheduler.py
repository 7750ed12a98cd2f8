"""Predicts the scheduler's actions for a snapshot, with the state machine of the data plane."""

from __future__ import annotations

from dataclasses import replace

from trimtab.model.queues.plan import QueueForecast, SchedulerOrder
from trimtab.model.queues.snapshot import QueuesSnapshot
from trimtab_common.errors import SettingsError
from trimtab_queues.core.scheduling import (
    Effect,
    MoveMessages,
    PauseQueue,
    QueuesObserved,
    ResumeQueue,
    SchedulerState,
    handle,
)
from trimtab_queues.core.settings import SchedulingSettings
from trimtab_queues.format.settings import QueuesSettings

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
