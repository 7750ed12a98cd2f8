"""Settings of the forecast and of balance scheduling, with the readings of the paper as switches.

Balance scheduling: which queues pause, and which messages move, once a second.

Observations go in and effects come out (`handle`). The load of queues is forecast, heavy queues are paired
with light ones, and the messages of a worker that hangs go to other queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf, isfinite
from typing import Final

from trimtab_common.errors import SettingsError
from trimtab_queues.core.ledger import QueueLedger

CHOICES: Final = {
    "trend_sign": ("corrected", "literal"),
    "forecast_weight": ("mean", "queue"),
    "balance_by": ("work", "count"),
    "when_full": ("block", "drop"),
    "threshold_unit": ("share", "messages", "seconds"),
    "trend": ("rates", "none"),
    "idle_transfer": ("share", "nothing"),
}
"""The words that a setting may have, the default first."""


@dataclass(frozen=True, slots=True)
class SchedulingSettings:
    """Settings of balance scheduling.

    Attributes
    ----------
    window_seconds
        ε: period of checks of the queues, and the window of their rates.
    cycle_seconds
        T: time without overload after which queues are balanced anyway. The end of the cycle is the horizon
        of the forecast.
    light_threshold
        Queues below this are light (β of the paper).
    overload_threshold
        Queues above this are overloaded (α of the paper); between `light_threshold` and this they are
        moderate.
    threshold_unit
        Unit of both thresholds: `share` of the queue's capacity, `messages`, or `seconds` that the worker
        needs to drain the queue.
    trend
        Basis of the forecast. `rates`: arrivals and departures of the last window; `none`: the current
        content.
    trend_sign
        `corrected`: D = (Rin - Rout)/ε; `literal`: the opposite sign, as printed in the paper, which
        forecasts growth as decrease.
    forecast_weight
        Weight that converts forecast work into messages. `mean`: the mean class weight; `queue`: that of the
        queue's own messages, as in the paper. With `queue` the weight cancels: 900 messages of 1 s count less
        than 1,100 of 0.1 s.
    balance_by
        Balanced quantity: `work`, or the `count` of messages (the paper's literal text).
    when_full
        Treatment of a message if no queue is open: `block` its sender, or `drop` the message.
    trend_damping
        φ of a damped trend, 0 < φ <= 1: the change of each further window is φ times the previous one; 1: a
        straight line.
    trend_smoothing
        Share of the newest window in the trend, 0 < share <= 1; the rest is the previous damped trend.
    move_cooldown_seconds
        Minimum time between two moves of a message.
    idle_transfer
        Messages that idle workers receive. `share`: a share of the messages that wait elsewhere for longer
        than a window, and all messages behind a late worker; `nothing`: none, as in the paper. A worker is
        late if it has finished nothing for a window plus three times the weight of its current messages; its
        queue is paused meanwhile.

    Raises
    ------
    SettingsError
        If one is out of range.

    References
    ----------
    Ji, Ni, Liu (2009), Computer Engineering 35(8), sections 2 and 3; the damped trend is Gardner and
    McKenzie's (1985).
    """

    window_seconds: float = 1.0
    cycle_seconds: float = 10.0
    light_threshold: float = 0.1
    overload_threshold: float = 0.8
    threshold_unit: str = "share"
    trend: str = "rates"
    trend_sign: str = "corrected"
    forecast_weight: str = "mean"
    balance_by: str = "work"
    when_full: str = "block"
    trend_damping: float = 1.0
    trend_smoothing: float = 1.0
    move_cooldown_seconds: float = 0.0
    idle_transfer: str = "share"

    def __post_init__(self) -> None:
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise _refused(name, getattr(self, name), f"one of {', '.join(words)}")
        for name in ("window_seconds", "cycle_seconds"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise _refused(name, getattr(self, name), "seconds above 0")
        for name in ("trend_damping", "trend_smoothing"):
            if not 0 < getattr(self, name) <= 1:
                raise _refused(name, getattr(self, name), "above 0 and at most 1")
        if not self.move_cooldown_seconds >= 0:
            raise _refused("move_cooldown_seconds", self.move_cooldown_seconds, "seconds, 0 or more")
        if not (isfinite(self.overload_threshold) and 0 <= self.light_threshold <= self.overload_threshold):
            limits = (
                "light_threshold <= overload_threshold, both 0 or more; "
                f"light_threshold is {self.light_threshold:g}"
            )
            raise _refused("overload_threshold", self.overload_threshold, limits)


def _refused(name: str, value: object, expected: str) -> SettingsError:
    return SettingsError(f"queues.{name} is {value!r}, expected {expected}")


class QueueState(Enum):
    """What a queue's forecast says of it."""

    LIGHT = "light"
    MODERATE = "moderate"
    OVERLOAD = "overload"


def trend(
    arrived: float, went_out: float, elapsed_seconds: float, before: float, settings: SchedulingSettings
) -> float:
    """Change of a queue's work, in seconds of work a second (the paper's D).

    Parameters
    ----------
    arrived, went_out
        Seconds of work over the window; what was moved counts in neither.
    elapsed_seconds
        Length of the window as it was: a late observation must not make rates look higher.
    before
        The trend one window ago.
    """
    if settings.trend == "none" or elapsed_seconds <= 0:
        return 0.0
    rate = (arrived - went_out) / elapsed_seconds
    if settings.trend_sign == "literal":
        rate = -rate
    if settings.trend_smoothing == 1.0:
        return rate
    return settings.trend_smoothing * rate + (1 - settings.trend_smoothing) * settings.trend_damping * before


def forecast_work(work: float, trend: float, horizon_seconds: float, settings: SchedulingSettings) -> float:
    """Seconds of work at the horizon, never below nothing: R_T = max(0, R + D·(T - t)).

    With damping φ < 1 window k of the way adds φ to the power of k of what the first would.
    """
    reach, damping = max(0.0, horizon_seconds), settings.trend_damping
    if damping < 1.0:
        window = settings.window_seconds
        reach = window * damping * (1 - damping ** (reach / window)) / (1 - damping)
    return max(0.0, work + trend * reach)


def forecast_length(
    forecast: float, length: int, work: float, mean_weight: float, settings: SchedulingSettings
) -> float:
    """Messages that the forecast work amounts to: L_T = R_T / r̄.

    Parameters
    ----------
    forecast
        Seconds of work at the horizon.
    length, work
        The queue now.
    mean_weight
        Mean weight of the classes, seconds: r̄ itself, and with `forecast_weight="queue"` that of an empty
        queue.
    """
    mean = work / length if settings.forecast_weight == "queue" and length and work > 0 else mean_weight
    if mean > 0:
        return forecast / mean
    return inf if forecast > 0 else 0.0


def state_of(messages: float, seconds: float, capacity: int, settings: SchedulingSettings) -> QueueState:
    """A queue's state by its forecast, in messages and in seconds of work; on a limit it is moderate."""
    value = seconds if settings.threshold_unit == "seconds" else messages
    unit = capacity if settings.threshold_unit == "share" else 1
    if value < settings.light_threshold * unit:
        return QueueState.LIGHT
    return QueueState.OVERLOAD if value > settings.overload_threshold * unit else QueueState.MODERATE


@dataclass(frozen=True, slots=True)
class QueuesObserved:
    """All queues at an instant, at the end of a window.

    Attributes
    ----------
    at
        Seconds on a clock that never goes back.
    capacity, length
        Shape (queues,): messages that may be there, and that are.
    work
        Shape (queues,): seconds of processing of those.
    arrived, served
        Shape (queues,): seconds of processing since the beginning, what was moved left out.
    paused
        Shape (queues,): the marks as they are, whoever set them.
    closed
        Shape (queues,): nobody empties it, so that it gives what it can and receives nothing.
    mean_weight
        Mean weight of the classes, seconds of processing.
    held, held_work
        Shape (queues,): messages in work, and their seconds of processing; empty where that is not known.
    """

    at: float
    capacity: tuple[int, ...]
    length: tuple[int, ...]
    work: tuple[float, ...]
    arrived: tuple[float, ...]
    served: tuple[float, ...]
    paused: tuple[bool, ...]
    closed: tuple[bool, ...]
    mean_weight: float
    held: tuple[int, ...] = ()
    held_work: tuple[float, ...] = ()

    @classmethod
    def of(cls, ledger: QueueLedger, at: float, mean_weight: float) -> QueuesObserved:
        """The queues of a ledger, now."""
        return cls(
            at=at,
            capacity=tuple(ledger.capacity),
            length=tuple(ledger.length),
            work=tuple(ledger.work),
            arrived=tuple(ledger.arrived),
            served=tuple(ledger.served),
            paused=tuple(ledger.paused),
            closed=tuple(ledger.closed),
            mean_weight=mean_weight,
            held=tuple(ledger.held),
            held_work=tuple(ledger.held_work),
        )


@dataclass(frozen=True, slots=True)
class MessagesMoved:
    """What became of an order to move: how much went over, which may be less than ordered, or nothing."""

    source: int
    target: int
    messages: int
    work: float


Event = QueuesObserved | MessagesMoved


@dataclass(frozen=True, slots=True)
class PauseQueue:
    """Let a queue receive nothing."""

    queue: int


@dataclass(frozen=True, slots=True)
class ResumeQueue:
    """Let a queue receive again."""

    queue: int


@dataclass(frozen=True, slots=True)
class MoveMessages:
    """Take waiting messages, those that came last first, from one queue to another.

    Attributes
    ----------
    messages, work
        The most to take: one of the two is None. No message goes that would exceed it.
    rest_seconds
        Messages that were moved less than so long ago stay.
    """

    source: int
    target: int
    messages: int | None
    work: float | None
    rest_seconds: float = 0.0


Effect = PauseQueue | ResumeQueue | MoveMessages


ProgressTimes = tuple[tuple[float, float], ...]
"""Shape (queues,): work finished since the beginning, and since when it is that or there was none to do."""

HANG_SECONDS: Final = 30.0
"""No worker hangs that has finished something within this time."""
WEIGHTS: Final = 3.0
"""Nor within so many times the work that it has in hand: long messages take long."""


def progress_times(
    before: ProgressTimes, at: float, served: Sequence[float], held_work: Sequence[float]
) -> ProgressTimes:
    """When each worker last finished something, or had nothing to do; `before` as of an earlier look.

    Parameters
    ----------
    at
        Seconds, on a clock that never goes back.
    served
        Shape (queues,): work finished since the beginning, in any unit.
    held_work
        Shape (queues,): seconds of work in the worker's hands, 0 for nothing.
    """
    if len(before) != len(served):
        return tuple((done, at) for done in served)
    return tuple(
        (done, at) if not held or done != last else (last, since)
        for (last, since), done, held in zip(before, served, held_work, strict=True)
    )


class WorkerProgress:
    """When each worker last finished something, or had nothing to do.

    Parameters
    ----------
    hang_timeout_seconds
        The least time without progress after which a worker hangs.
    """

    def __init__(self, hang_timeout_seconds: float = HANG_SECONDS) -> None:
        self.hang_timeout_seconds = hang_timeout_seconds
        self._last: ProgressTimes = ()

    def hanging(self, at: float, served: Sequence[float], held_work: Sequence[float]) -> list[int]:
        """Queues whose worker hangs, ascending; parameters as of `progressed`."""
        self._last = progress_times(self._last, at, served, held_work)
        return [
            queue
            for queue, ((_, since), held) in enumerate(zip(self._last, held_work, strict=True))
            if at - since > max(self.hang_timeout_seconds, WEIGHTS * held)
        ]


MAX_MOVES_PER_ROUND: Final = 8
"""Queues that give to idle workers after one look: each order is a search for messages that may go."""

StateOf = Callable[[int, int, float], QueueState]
"""Queue, its length and its work to its state."""


class QueueForecastBoard:
    """Lengths and work as they will be once the moves ordered so far are carried out.

    Parameters
    ----------
    length, work
        Shape (queues,), as now.
    state_of
        A queue's state were its length and work so.
    """

    def __init__(
        self, length: Sequence[int], work: Sequence[float], state_of: StateOf, settings: SchedulingSettings
    ) -> None:
        self.length, self.work = list(length), list(work)
        self._state_of, self._by_count = state_of, settings.balance_by == "count"
        self._rest_seconds = settings.move_cooldown_seconds
        self.moves: list[MoveMessages] = []

    def give(self, source: int, target: int, messages: int) -> None:
        """Order so many messages, or as many as there are."""
        self.moves.append(MoveMessages(source, target, messages, None, self._rest_seconds))

    def load(self, queue: int) -> float:
        """What is balanced: work or messages."""
        return self.length[queue] if self._by_count else self.work[queue]

    def state(self, queue: int) -> QueueState:
        """The state of a queue after the moves so far."""
        return self._state_of(queue, self.length[queue], self.work[queue])

    def balance(self, source: int, target: int) -> bool:
        """Order what the source has above the mean of both; False where that is not one message."""
        messages, work = self.length[source], self.work[source]
        if self._by_count:
            count = (messages - self.length[target]) // 2
            if count < 1:
                return False
            part = work * count / messages
            self.moves.append(MoveMessages(source, target, count, None, self._rest_seconds))
        else:
            part = (work - self.work[target]) / 2
            count = round(messages * part / work) if part > 0 else 0
            if count < 1:
                return False
            self.moves.append(MoveMessages(source, target, None, part, self._rest_seconds))
        self.length[source] -= count
        self.length[target] += count
        self.work[source] -= part
        self.work[target] += part
        return True


def relieve_overloaded(board: QueueForecastBoard, givers: Sequence[int], receivers: Sequence[int]) -> None:
    """Heaviest overloaded queue with lightest light one, until there is no such pair.

    States are looked at first and loads then: the paper's loop sorts by the present length and tests the
    forecast of the one it meets, so that a long queue that drains hides an overloaded one behind it.

    Parameters
    ----------
    givers, receivers
        Queues that may give, and that may receive.
    """
    done: set[int] = set()
    states = {one: board.state(one) for one in {*givers, *receivers}}
    while True:
        heavy = [one for one in givers if one not in done and states[one] is QueueState.OVERLOAD]
        light = [one for one in receivers if states[one] is QueueState.LIGHT]
        if not heavy or not light:
            return
        source = max(heavy, key=lambda one: (board.load(one), -one))
        target = min(light, key=lambda one: (board.load(one), one))
        if source == target or not board.balance(source, target):
            done.add(source)
        states |= {one: board.state(one) for one in (source, target)}


def equalise(board: QueueForecastBoard, givers: Sequence[int], receivers: Sequence[int]) -> None:
    """Heaviest with lightest, second heaviest with second lightest, and so on to the middle.

    Where all queues are light there is nothing worth moving.
    """
    everyone = sorted({*givers, *receivers}, key=lambda one: (-board.load(one), one))
    if all(board.state(one) is QueueState.LIGHT for one in everyone):
        return
    may_receive = set(receivers)
    lightest_first = [one for one in reversed(everyone) if one in may_receive]
    for source, target in zip(everyone, lightest_first, strict=False):
        if board.load(source) <= board.load(target):
            return
        board.balance(source, target)


def move_from_hanging(board: QueueForecastBoard, late: Collection[int], observation: QueuesObserved) -> None:
    """Spread what waits behind late workers over the queues where nothing waits, the lightest first.

    What one of them cannot take, as messages of a key go together, goes to the lightest. Queues that give or
    receive already are left alone until the next look, here and in `share`.
    """
    free = [
        one
        for one in _receivers(board, observation, late)
        if observation.length[one] <= observation.held[one]
    ]
    busy = _busy(board)
    for source in [one for one in late if one not in busy][:MAX_MOVES_PER_ROUND]:
        waiting = observation.length[source] - observation.held[source]
        if waiting < 1 or not free:
            continue
        each = -(-waiting // len(free))
        for target in free[: -(-waiting // each)]:
            board.give(source, target, each)
        if len(free) > 1:
            board.give(source, free[0], waiting)


def share_with_empty(
    board: QueueForecastBoard, observation: QueuesObserved, late: Collection[int], seconds: float
) -> None:
    """Level the queue where most work waits, and for longer than so many seconds, with one that is empty."""
    if not observation.held_work:
        return
    busy, gone = _busy(board), {*late}
    waits = {
        queue: work - held
        for queue, (work, held) in enumerate(zip(observation.work, observation.held_work, strict=True))
        if queue not in busy and queue not in gone and work - held > seconds
    }
    givers = sorted(waits, key=lambda one: (-waits[one], one))
    idle = [one for one in _receivers(board, observation, late) if not observation.length[one]]
    for source, target in zip(givers[:MAX_MOVES_PER_ROUND], idle, strict=False):
        board.balance(source, target)


def _receivers(board: QueueForecastBoard, observation: QueuesObserved, late: Collection[int]) -> list[int]:
    busy = {*_busy(board), *late}
    found = [
        queue
        for queue in range(len(observation.held))
        if not (observation.closed[queue] or observation.paused[queue] or queue in busy)
    ]
    return sorted(found, key=lambda one: (board.load(one), one))


def _busy(board: QueueForecastBoard) -> set[int]:
    return {queue for move in board.moves for queue in (move.source, move.target)}


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
    progress: ProgressTimes = ()
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
        (relieve_overloaded if overloaded else equalise)(board, range(count), receivers)
        schedule = replace(schedule, cycle_started_at=observation.at)
    if settings.idle_transfer == "share":
        move_from_hanging(board, late, observation)
        share_with_empty(board, observation, late, settings.window_seconds)
    schedule, marks = _marked(schedule)
    return replace(schedule, moving=tuple(board.moves)), (*marks, *board.moves)


def _progress(before: ProgressTimes, observation: QueuesObserved) -> ProgressTimes:
    return (
        progress_times(before, observation.at, observation.served, observation.held_work)
        if observation.held_work
        else ()
    )


def _late(
    last: QueuesObserved, observation: QueuesObserved, progress: ProgressTimes, settings: SchedulingSettings
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
