"""Pairs of queues: who gives to whom, and how much."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from trimtab_queues.core.forecast import QueueState
from trimtab_queues.core.messages import MoveMessages, QueuesObserved
from trimtab_queues.core.settings import SchedulingSettings

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


def relieve(board: QueueForecastBoard, givers: Sequence[int], receivers: Sequence[int]) -> None:
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


def pass_on(board: QueueForecastBoard, late: Collection[int], observation: QueuesObserved) -> None:
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


def share(
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
