"""Balance scheduling as a state machine: what is seen goes in, marks and moves come out."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trimtab.online.queues.forecast import State, forecast_length, forecast_work, state_of, trend
from trimtab.online.queues.hanging import WEIGHTS, Since, progressed
from trimtab.online.queues.messages import Fact, Move, Moved, Order, Pause, QueuesSeen, Resume
from trimtab.online.queues.pairing import Board, equalise, pass_on, relieve, share
from trimtab.online.queues.settings import Scheduling


@dataclass(frozen=True, slots=True)
class Schedule:
    """What a scheduler knows between two facts; a value that may be written down and read back.

    Attributes
    ----------
    seen
        The last look, with lengths, work and marks as they are after what was ordered since.
    began
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

    seen: QueuesSeen | None = None
    began: float | None = None
    trends: tuple[float, ...] = ()
    forecast: tuple[float, ...] = ()
    messages: tuple[float, ...] = ()
    states: tuple[State, ...] = ()
    moving: tuple[Move, ...] = ()
    progress: Since = ()
    late: tuple[int, ...] = ()


def handle(schedule: Schedule, fact: Fact, settings: Scheduling) -> tuple[Schedule, tuple[Order, ...]]:
    """Take a fact in; the schedule after it, and the orders that follow from it.

    Orders are carried out in the order in which they stand, and each `Move` is answered by a `Moved`, if only
    by one of nothing. After the last answer queues are marked anew: a queue that has given is open again, and
    one that was given too much is not. Answers that never come are forgotten at the next look.

    Parameters
    ----------
    schedule
        `Schedule()` at the beginning.
    """
    if isinstance(fact, Moved):
        return _moved(schedule, fact, settings)
    return _seen(schedule, fact, settings)


def _seen(before: Schedule, seen: QueuesSeen, settings: Scheduling) -> tuple[Schedule, tuple[Order, ...]]:
    count, last = len(seen.length), before.seen
    # Other queues than before, or counters that began anew: rates over such a window would be none.
    if last is None or len(last.length) != count or seen.at < last.at:
        first = Schedule(seen, seen.at, (0.0,) * count, progress=_progress((), seen))
        return _forecast(first, settings), ()
    trends = tuple(
        trend(
            max(0.0, seen.arrived[queue] - last.arrived[queue]),
            max(0.0, seen.served[queue] - last.served[queue]),
            seen.at - last.at,
            before.trends[queue],
            settings,
        )
        for queue in range(count)
    )
    progress = _progress(before.progress, seen)
    late = _late(last, seen, progress, settings)
    schedule = replace(before, seen=seen, trends=trends, moving=(), progress=progress, late=late)
    schedule = _forecast(schedule, settings)
    overloaded = State.OVERLOAD in schedule.states
    board = _board(schedule, settings)
    assert schedule.began is not None
    if overloaded or seen.at - schedule.began >= settings.cycle_seconds:
        receivers = [queue for queue in range(count) if not seen.closed[queue] and queue not in late]
        (relieve if overloaded else equalise)(board, range(count), receivers)
        schedule = replace(schedule, began=seen.at)
    if settings.idle == "share":
        pass_on(board, late, seen)
        share(board, seen, late, settings.window_seconds)
    schedule, marks = _marked(schedule)
    return replace(schedule, moving=tuple(board.moves)), (*marks, *board.moves)


def _progress(before: Since, seen: QueuesSeen) -> Since:
    return progressed(before, seen.at, seen.served, seen.held_work) if seen.held_work else ()


def _late(last: QueuesSeen, seen: QueuesSeen, progress: Since, settings: Scheduling) -> tuple[int, ...]:
    """Queues whose worker is late; none where no other queue is open: one that is late is better than none.

    A worker that had nothing in hand a window ago may have begun this moment.
    """
    if settings.idle == "nothing" or not seen.held_work or len(last.held_work) != len(seen.held_work):
        return ()
    late = tuple(
        queue
        for queue, (held, (_, since)) in enumerate(zip(seen.held_work, progress, strict=True))
        if not seen.closed[queue] and last.held_work[queue] and seen.at - since > WEIGHTS * held
    )
    others = (
        not closed and length < most and queue not in late
        for queue, (closed, length, most) in enumerate(
            zip(seen.closed, seen.length, seen.capacity, strict=True)
        )
    )
    return late if any(others) else ()


def _moved(schedule: Schedule, fact: Moved, settings: Scheduling) -> tuple[Schedule, tuple[Order, ...]]:
    seen = schedule.seen
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
        schedule, seen=replace(seen, length=tuple(length), work=tuple(work)), moving=tuple(left)
    )
    schedule = _forecast(schedule, settings)
    return (schedule, ()) if left else _marked(schedule)


def _forecast(schedule: Schedule, settings: Scheduling) -> Schedule:
    """Forecast and state of every queue, to the end of the cycle."""
    seen = schedule.seen
    assert seen is not None
    figures = [
        _figures(schedule, queue, length, work, settings)
        for queue, (length, work) in enumerate(zip(seen.length, seen.work, strict=True))
    ]
    forecast, messages, states = zip(*figures, strict=True)
    return replace(schedule, forecast=forecast, messages=messages, states=states)


def _figures(
    schedule: Schedule, queue: int, length: int, work: float, settings: Scheduling
) -> tuple[float, float, State]:
    seen, began = schedule.seen, schedule.began
    assert seen is not None
    assert began is not None
    ahead = forecast_work(work, schedule.trends[queue], began + settings.cycle_seconds - seen.at, settings)
    messages = forecast_length(ahead, length, work, seen.mean_weight, settings)
    return ahead, messages, state_of(messages, ahead, seen.capacity[queue], settings)


def _board(schedule: Schedule, settings: Scheduling) -> Board:
    def state(queue: int, length: int, work: float) -> State:
        return _figures(schedule, queue, length, work, settings)[2]

    assert schedule.seen is not None
    return Board(schedule.seen.length, schedule.seen.work, state, settings)


def _marked(schedule: Schedule) -> tuple[Schedule, tuple[Order, ...]]:
    """Marks by state: overloaded and late queues are paused, no others; only what changes is ordered."""
    seen = schedule.seen
    assert seen is not None
    paused = tuple(
        state is State.OVERLOAD or queue in schedule.late for queue, state in enumerate(schedule.states)
    )
    orders: tuple[Order, ...] = tuple(
        Pause(queue) if now else Resume(queue)
        for queue, (was, now) in enumerate(zip(seen.paused, paused, strict=True))
        if was != now
    )
    return replace(schedule, seen=replace(seen, paused=paused)), orders
