"""Balance scheduling as a state machine: what is seen goes in, marks and moves come out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab_queues.core.forecast import QueueState, forecast_length, forecast_work, state_of, trend
from trimtab_queues.core.hang_detection import WEIGHTS, Since, progressed
from trimtab_queues.core.messages import (
    Effect,
    Event,
    MessagesMoved,
    MoveMessages,
    PauseQueue,
    QueuesObserved,
    ResumeQueue,
)
from trimtab_queues.core.pairing import QueueForecastBoard, equalise, pass_on, relieve, share
from trimtab_queues.core.settings import SchedulingSettings


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """What a scheduler knows between two facts; a value that may be written down and read back.

    Attributes
    ----------
    last_observation
        The last look, with lengths, work and marks as they are after what was ordered since.
    cycle_started_at
        When the cycle began, on the clock of `seen`; None before the first look.
    trends
        Shape (queues,): D of each queue, seconds of work a second.
    forecast, messages
        Shape (queues,): work at the end of the cycle, and the messages it amounts to.
    states
        Shape (queues,).
    moving
        Moves that were ordered and not answered.
    progress
        Shape (queues,): when each worker last finished something; empty where that is not known.
    late
        Queues whose worker is late with what it has in hand.
    """

    last_observation: QueuesObserved | None = None
    cycle_started_at: float | None = None
    trends: tuple[float, ...] = ()
    forecast: tuple[float, ...] = ()
    messages: tuple[float, ...] = ()
    states: tuple[QueueState, ...] = ()
    moving: tuple[MoveMessages, ...] = ()
    progress: Since = ()
    late: tuple[int, ...] = ()


def handle(
    schedule: SchedulerState, fact: Event, settings: SchedulingSettings
) -> tuple[SchedulerState, tuple[Effect, ...]]:
    """Take a fact in; the schedule after it, and the orders that follow from it.

    Orders are carried out in the order in which they stand, and each `MoveMessages` is answered by a
    `MessagesMoved`, if only by one of nothing. After the last answer queues are marked anew: a queue that has
    given is open again, and one that was given too much is not. Answers that never come are forgotten at the
    next look.

    Parameters
    ----------
    schedule
        `SchedulerState()` at the beginning.
    """
    if isinstance(fact, MessagesMoved):
        return _moved(schedule, fact, settings)
    return _absorb_observation(schedule, fact, settings)


def _absorb_observation(
    before: SchedulerState, observation: QueuesObserved, settings: SchedulingSettings
) -> tuple[SchedulerState, tuple[Effect, ...]]:
    count, last = len(observation.length), before.last_observation
    # Other queues than before, or counters that began anew: rates over such a window would be none.
    if last is None or len(last.length) != count or observation.at < last.at:
        first = SchedulerState(
            observation, observation.at, (0.0,) * count, progress=_progress((), observation)
        )
        return _forecast(first, settings), ()
    trends = tuple(
        trend(
            max(0.0, observation.arrived[queue] - last.arrived[queue]),
            max(0.0, observation.served[queue] - last.served[queue]),
            observation.at - last.at,
            before.trends[queue],
            settings,
        )
        for queue in range(count)
    )
    progress = _progress(before.progress, observation)
    late = _late(last, observation, progress, settings)
    schedule = replace(
        before, last_observation=observation, trends=trends, moving=(), progress=progress, late=late
    )
    schedule = _forecast(schedule, settings)
    overloaded = QueueState.OVERLOAD in schedule.states
    board = _board(schedule, settings)
    assert schedule.cycle_started_at is not None
    if overloaded or observation.at - schedule.cycle_started_at >= settings.cycle_seconds:
        receivers = [queue for queue in range(count) if not observation.closed[queue] and queue not in late]
        (relieve if overloaded else equalise)(board, range(count), receivers)
        schedule = replace(schedule, cycle_started_at=observation.at)
    if settings.idle_transfer == "share":
        pass_on(board, late, observation)
        share(board, observation, late, settings.window_seconds)
    schedule, marks = _marked(schedule)
    return replace(schedule, moving=tuple(board.moves)), (*marks, *board.moves)


def _progress(before: Since, observation: QueuesObserved) -> Since:
    return (
        progressed(before, observation.at, observation.served, observation.held_work)
        if observation.held_work
        else ()
    )


def _late(
    last: QueuesObserved, observation: QueuesObserved, progress: Since, settings: SchedulingSettings
) -> tuple[int, ...]:
    """Queues whose worker is late; none where no other queue is open: one that is late is better than none.

    A worker that had nothing in hand a window ago may have begun this moment.
    """
    if (
        settings.idle_transfer == "nothing"
        or not observation.held_work
        or len(last.held_work) != len(observation.held_work)
    ):
        return ()
    late = tuple(
        queue
        for queue, (held, (_, since)) in enumerate(zip(observation.held_work, progress, strict=True))
        if not observation.closed[queue] and last.held_work[queue] and observation.at - since > WEIGHTS * held
    )
    others = (
        not closed and length < most and queue not in late
        for queue, (closed, length, most) in enumerate(
            zip(observation.closed, observation.length, observation.capacity, strict=True)
        )
    )
    return late if any(others) else ()


def _moved(
    schedule: SchedulerState, fact: MessagesMoved, settings: SchedulingSettings
) -> tuple[SchedulerState, tuple[Effect, ...]]:
    seen = schedule.last_observation
    answered = next(
        (one for one in schedule.moving if (one.source, one.target) == (fact.source, fact.target)), None
    )
    if seen is None or answered is None:
        return schedule, ()  # an answer to a forgotten order: the next look will show what it did
    length, work = list(seen.length), list(seen.work)
    for queue, sign in ((fact.source, -1), (fact.target, 1)):
        length[queue] += sign * fact.messages
        work[queue] += sign * fact.work
    left = list(schedule.moving)
    left.remove(answered)
    schedule = replace(
        schedule, last_observation=replace(seen, length=tuple(length), work=tuple(work)), moving=tuple(left)
    )
    schedule = _forecast(schedule, settings)
    return (schedule, ()) if left else _marked(schedule)


def _forecast(schedule: SchedulerState, settings: SchedulingSettings) -> SchedulerState:
    """Forecast and state of every queue, to the end of the cycle."""
    seen = schedule.last_observation
    assert seen is not None
    figures = [
        _figures(schedule, queue, length, work, settings)
        for queue, (length, work) in enumerate(zip(seen.length, seen.work, strict=True))
    ]
    forecast, messages, states = zip(*figures, strict=True)
    return replace(schedule, forecast=forecast, messages=messages, states=states)


def _figures(
    schedule: SchedulerState, queue: int, length: int, work: float, settings: SchedulingSettings
) -> tuple[float, float, QueueState]:
    seen, began = schedule.last_observation, schedule.cycle_started_at
    assert seen is not None
    assert began is not None
    ahead = forecast_work(work, schedule.trends[queue], began + settings.cycle_seconds - seen.at, settings)
    messages = forecast_length(ahead, length, work, seen.mean_weight, settings)
    return ahead, messages, state_of(messages, ahead, seen.capacity[queue], settings)


def _board(schedule: SchedulerState, settings: SchedulingSettings) -> QueueForecastBoard:
    def state(queue: int, length: int, work: float) -> QueueState:
        return _figures(schedule, queue, length, work, settings)[2]

    assert schedule.last_observation is not None
    return QueueForecastBoard(
        schedule.last_observation.length, schedule.last_observation.work, state, settings
    )


def _marked(schedule: SchedulerState) -> tuple[SchedulerState, tuple[Effect, ...]]:
    """Marks by state: overloaded and late queues are paused, no others; only what changes is ordered."""
    seen = schedule.last_observation
    assert seen is not None
    paused = tuple(
        state is QueueState.OVERLOAD or queue in schedule.late for queue, state in enumerate(schedule.states)
    )
    orders: tuple[Effect, ...] = tuple(
        PauseQueue(queue) if now else ResumeQueue(queue)
        for queue, (was, now) in enumerate(zip(seen.paused, paused, strict=True))
        if was != now
    )
    return replace(schedule, last_observation=replace(seen, paused=paused)), orders
