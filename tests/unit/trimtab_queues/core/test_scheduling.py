"""Balance scheduling by worked examples: facts in, orders out."""

from dataclasses import replace
from typing import Any

import pytest

from trimtab_queues.core.scheduling import (
    Effect,
    MessagesMoved,
    MoveMessages,
    PauseQueue,
    QueuesObserved,
    QueueState,
    ResumeQueue,
    SchedulerState,
    SchedulingSettings,
    handle,
)

HUNDREDS = SchedulingSettings(
    light_threshold=0.1, overload_threshold=0.8, window_seconds=1.0, cycle_seconds=10.0
)


def seen(at: float, *works: float, arrived: tuple[float, ...] = (), **others: object) -> QueuesObserved:
    """Queues of at most 100 messages with so many messages of one second each."""
    count = len(works)
    found = QueuesObserved(
        at=at,
        capacity=(100,) * count,
        length=tuple(round(work) for work in works),
        work=works,
        arrived=arrived or (0.0,) * count,
        served=(0.0,) * count,
        paused=(False,) * count,
        closed=(False,) * count,
        mean_weight=1.0,
    )
    return replace(found, **others)  # type: ignore[arg-type]


def run(
    *facts: QueuesObserved | MessagesMoved, settings: SchedulingSettings = HUNDREDS
) -> tuple[SchedulerState, tuple[Effect, ...]]:
    """What is known after all of them, and what the last one led to."""
    schedule, orders = SchedulerState(), tuple[Effect, ...]()
    for fact in facts:
        schedule, orders = handle(schedule, fact, settings)
    return schedule, orders


def test_the_first_observation_orders_nothing() -> None:
    """There is no rate yet."""
    schedule, orders = run(seen(0, 90, 0))
    assert orders == ()
    assert schedule.states == (QueueState.OVERLOAD, QueueState.LIGHT)


def test_an_overloaded_queue_is_paused_and_gives_half_the_difference_to_the_lightest() -> None:
    """90 and 4 meet at 47; the third, with 40, is moderate and receives nothing."""
    schedule, orders = run(seen(0, 90, 4, 40), seen(1, 90, 4, 40))
    assert orders == (PauseQueue(0), MoveMessages(0, 1, None, 43.0))
    assert schedule.cycle_started_at == 1, "the cycle begins anew"


def test_after_the_move_queues_are_marked_again() -> None:
    """The giver is open again; a duplicate answer orders nothing."""
    first = run(seen(0, 90, 4, 40), seen(1, 90, 4, 40))[0]
    schedule, orders = handle(first, MessagesMoved(0, 1, 43, 43.0), HUNDREDS)
    assert orders == (ResumeQueue(0),)
    assert schedule.last_observation is not None
    assert (schedule.last_observation.work, schedule.last_observation.length) == (
        (47.0, 47.0, 40),
        (47, 47, 40),
    )
    assert handle(schedule, MessagesMoved(0, 1, 43, 43.0), HUNDREDS) == (schedule, ())


def test_a_move_of_nothing_leaves_the_queue_paused() -> None:
    """All of it is in work: it is as overloaded as before."""
    schedule = run(seen(0, 90, 4, 40), seen(1, 90, 4, 40))[0]
    schedule, orders = handle(schedule, MessagesMoved(0, 1, 0, 0.0), HUNDREDS)
    assert orders == ()
    assert schedule.last_observation is not None
    assert schedule.last_observation.paused == (True, False, False)


def test_a_queue_is_overloaded_by_forecast_work() -> None:
    """50 now and 4 more each second are 86 at the end of the cycle, 9 seconds on; 3 more are 77."""
    assert run(seen(0, 46, 4), seen(1, 50, 4, arrived=(4.0, 0.0)))[1] == (
        PauseQueue(0),
        MoveMessages(0, 1, None, 23.0),
    )
    assert run(seen(0, 47, 4), seen(1, 50, 4, arrived=(3.0, 0.0)))[1] == ()


def test_with_the_printed_sign_a_growing_queue_is_forecast_to_shrink() -> None:
    """85 now and 1 more each second are 76 at the end by the literal formula, and 94 by the intended one."""
    facts = seen(0, 84, 4), seen(1, 85, 4, arrived=(1.0, 0.0))
    assert run(*facts, settings=replace(HUNDREDS, trend_sign="literal"))[1] == ()
    assert PauseQueue(0) in run(*facts)[1]


def test_a_long_queue_that_drains_does_not_hide_an_overloaded_one() -> None:
    """95 of which 9 go each second are none at the end; 60 that grow by 4 are 96: the second queue gives."""
    drains = seen(1, 95, 60, 4, arrived=(0.0, 4.0, 0.0), served=(9.0, 0.0, 0.0))
    schedule, orders = run(seen(0, 104, 56, 4), drains)
    assert schedule.states == (QueueState.MODERATE, QueueState.OVERLOAD, QueueState.LIGHT)
    assert orders == (PauseQueue(1), MoveMessages(1, 2, None, 28.0))


def test_by_count_half_the_difference_of_messages_moves_at_any_weight() -> None:
    """90 messages of a second and 4 of nine seconds: 43 messages go, though that makes work uneven."""
    by_count = replace(HUNDREDS, balance_by="count", forecast_weight="queue")
    queues = {"length": (90, 4), "work": (90.0, 36.0)}
    orders = run(seen(0, 0, 0, **queues), seen(1, 0, 0, **queues), settings=by_count)[1]
    assert orders == (PauseQueue(0), MoveMessages(0, 1, 43, None))


def test_after_a_cycle_without_overload_the_ends_meet_in_the_middle() -> None:
    """60 with 10 and 50 with 20 meet at 35; 30 in the middle stays. A second earlier nothing happens."""
    queues = (50, 30, 60, 10, 20)
    assert run(seen(0, *queues), seen(9.9, *queues))[1] == ()
    orders = run(seen(0, *queues), seen(9, *queues), seen(10, *queues))[1]
    assert orders == (MoveMessages(2, 3, None, 25.0), MoveMessages(0, 4, None, 15.0))


def test_queues_that_are_all_light_are_left_alone() -> None:
    """9 and 1 of a hundred are light; 10 is not, and it is balanced."""
    assert run(seen(0, 9, 1), seen(10, 9, 1))[1] == ()
    assert run(seen(0, 10, 1), seen(10, 10, 1))[1] == (MoveMessages(0, 1, None, 4.5),)


def test_a_closed_queue_gives_and_does_not_receive() -> None:
    """Its worker is missing: the lightest is skipped, and a heavy one may be relieved."""
    closed = {"closed": (False, True, False)}
    assert run(seen(0, 90, 0, 8, **closed), seen(1, 90, 0, 8, **closed))[1] == (
        PauseQueue(0),
        MoveMessages(0, 2, None, 41.0),
    )
    assert run(seen(0, 0, 90, 8, **closed), seen(1, 0, 90, 8, **closed))[1] == (
        PauseQueue(1),
        MoveMessages(1, 0, None, 45.0),
    )


def test_the_heaviest_keeps_its_turn_if_the_lightest_is_closed() -> None:
    """After a cycle without overload 60 moves with 20, since the queue without work has no worker."""
    closed = {"closed": (False, True, False)}
    orders = run(seen(0, 60, 0, 20, **closed), seen(10, 60, 0, 20, **closed))[1]
    assert orders == (MoveMessages(0, 2, None, 20.0),)


def test_a_scheduler_that_takes_over_finds_the_marks_and_corrects_them() -> None:
    """Its predecessor died with queue 1 paused, which is light by now."""
    marks = {"paused": (False, True)}
    assert run(seen(0, 50, 5, **marks), seen(1, 50, 5, **marks))[1] == (ResumeQueue(1),)


def test_restarted_counters_and_other_queues_are_a_first_observation() -> None:
    """No rate is taken over a restart of the clock, or over queues that were not there."""
    assert run(seen(5, 90, 4), seen(1, 90, 4))[1] == ()
    assert run(seen(0, 90, 4), seen(1, 90, 4, 4))[1] == ()


def working(at: float, *works: float, held: tuple[int, ...], **others: Any) -> QueuesObserved:
    """The same with so many of these messages of one second in work."""
    return seen(at, *works, held=held, held_work=tuple(map(float, held)), **others)


def test_messages_behind_a_late_worker_are_moved_to_idle_queues() -> None:
    """A message of a second is in work for more than 3 s: its queue is paused, and the idle one takes all."""
    facts = [working(at, 2, 0, 2, held=(1, 0, 1), served=(0.0, 0.0, at)) for at in (0, 1, 2, 3)]
    assert run(*facts)[1] == ()
    late = working(3.1, 2, 0, 2, held=(1, 0, 1), served=(0.0, 0.0, 3.1))
    schedule, orders = run(*facts, late)
    assert schedule.late == (0,)
    assert orders == (PauseQueue(0), MoveMessages(0, 1, 1, None))
    paused = {"paused": (True, False, False)}
    done = working(4.1, 1, 1, 2, held=(1, 1, 1), served=(1.0, 0.0, 4.1), **paused)
    assert run(*facts, late, done)[1] == (ResumeQueue(0),)
    assert run(*facts, late, settings=replace(HUNDREDS, idle_transfer="nothing"))[1] == ()


def test_messages_behind_a_late_worker_are_spread() -> None:
    """Five over two queues, the lightest first; what is left, as keys that go together, to the lightest."""
    facts = [working(at, 6, 1, 0, held=(1, 1, 0), served=(0.0, at, 0.0)) for at in (0, 1, 4)]
    assert run(*facts)[1] == (
        PauseQueue(0),
        MoveMessages(0, 2, 3, None),
        MoveMessages(0, 1, 3, None),
        MoveMessages(0, 2, 5, None),
    )


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"held": (0, 0)}, "the worker had nothing in hand at the look before"),
        ({"served": (0.5, 0.0)}, "it has finished something since"),
        ({"closed": (True, False)}, "its worker is gone: what lies there is rescued"),
        ({"length": (5, 100)}, "no other queue is open"),
    ],
)
def test_a_worker_is_not_late_by_one_missing_condition(others: dict[str, Any], why: str) -> None:
    """One message of a second in work for 4 s, but for one fact."""
    first, second = (working(at, 5, 0, held=(1, 0)) for at in (0, 4))
    assert run(first, second)[0].late == (0,)
    if "held" in others:
        first = working(0, 5, 0, held=(0, 0))
    else:
        second = replace(second, **others)
    assert run(first, second)[0].late == (), why


def test_a_late_queue_receives_nothing() -> None:
    """It is the lightest, and the overloaded one gives to the next."""
    facts = [working(at, 90, 1, 5, held=(1, 1, 1), served=(at, 0.0, at)) for at in (0, 4)]
    orders = run(*facts)[1]
    assert orders == (PauseQueue(0), PauseQueue(1), MoveMessages(0, 2, None, 42.5))


def test_idle_workers_get_a_share_of_messages_that_wait_longer_than_a_window() -> None:
    """The heaviest gives half of its work to the first idle queue, the next to the next."""
    queues = {"held": (1, 1, 0, 0, 1), "served": (0.0,) * 5}
    facts = [working(at, 5, 8, 0, 0, 2, **queues) for at in (0, 1)]  # type: ignore[arg-type]
    assert run(*facts)[1] == (MoveMessages(1, 2, None, 4.0), MoveMessages(0, 3, None, 2.5))
    closed = replace(facts[1], closed=(False, False, True, False, False))
    assert run(facts[0], closed)[1] == (MoveMessages(1, 3, None, 4.0),)
    assert run(*facts, settings=replace(HUNDREDS, idle_transfer="nothing"))[1] == ()


@pytest.mark.parametrize("light", [2, 3])
def test_two_overloaded_queues_give_to_the_lightest_in_turn(light: int) -> None:
    """The heavier goes first; a second receiver serves the second giver, and one alone serves both."""
    queues = (85, 95, *[5.0] * (light - 1))
    orders = [
        order for order in run(seen(0, *queues), seen(1, *queues))[1] if isinstance(order, MoveMessages)
    ]
    assert orders[0] == MoveMessages(1, 2, None, 45.0)
    assert orders[1:] == ([MoveMessages(0, 3, None, 40.0)] if light == 3 else [])


def test_queues_are_marked_again_once_all_moves_are_answered() -> None:
    """Between two answers a queue may have a temporary state."""
    queues = (85, 95, 5, 5)
    schedule, orders = run(seen(0, *queues), seen(1, *queues))
    assert orders == (
        PauseQueue(0),
        PauseQueue(1),
        MoveMessages(1, 2, None, 45.0),
        MoveMessages(0, 3, None, 40.0),
    )
    schedule, orders = handle(schedule, MessagesMoved(1, 2, 45, 45.0), HUNDREDS)
    assert orders == ()
    assert handle(schedule, MessagesMoved(0, 3, 40, 40.0), HUNDREDS)[1] == (ResumeQueue(0), ResumeQueue(1))
