"""The world of queues by hand, and the makespans that the balancer's source is known by."""

import random
from dataclasses import replace
from typing import Any

import pytest

from simulate.arrivals import at_random, in_step
from trimtab.history.queues.simulation import DispatchScheme, QueuesWorld, ReplayedMessage
from trimtab_queues.core.catalogue import POLICIES, DispatchInputs
from trimtab_queues.core.scheduling import SchedulingSettings

WEIGHTS = (0.1, 0.2, 0.4, 0.7, 1.0)
AS_PAPER = SchedulingSettings(idle_transfer="nothing")
BY_COUNT = replace(AS_PAPER, balance_by="count", forecast_weight="queue")
THRESHOLD = replace(
    BY_COUNT,
    threshold_unit="messages",
    light_threshold=3000,
    overload_threshold=3000,
    trend="none",
    window_seconds=10.0,
)


def scheme(policy: str, scheduling: SchedulingSettings | None = None, **others: Any) -> DispatchScheme:
    """A policy by name, with or without balance scheduling."""
    given = DispatchInputs(chance=random.Random(1).random, classes=[(weight, 1.0) for weight in WEIGHTS])
    return DispatchScheme(
        policy=lambda ledger: POLICIES[policy](ledger, given), scheduling=scheduling, **others
    )


def messages(*weights: float) -> list[ReplayedMessage]:
    """All due at once."""
    return [ReplayedMessage(number, 0.0, weight) for number, weight in enumerate(weights)]


def test_each_worker_takes_its_own_queue_in_order() -> None:
    """3 and 2 seconds on queue 0, one of 4 on queue 1: done after 3, 4 and 5 seconds."""
    run = QueuesWorld(scheme("round_robin"), [9, 9], 1.0).run(messages(3.0, 4.0, 2.0))
    assert run.finished_at == [3.0, 4.0, 5.0]
    assert run.busy_seconds == [5.0, 4.0]
    assert run.makespan_seconds == 5.0


def test_a_faster_worker_takes_less_time_for_the_same_work() -> None:
    """Twice the speed, half of the time."""
    run = QueuesWorld(scheme("round_robin"), [9, 9], 1.0, speed=[2.0, 1.0]).run(messages(3.0, 4.0, 2.0))
    assert run.finished_at == [1.5, 4.0, 2.5]


def test_a_source_that_finds_no_room_waits_or_loses() -> None:
    """Room for one: the second message enters when the first is done, or is lost."""
    blocked = QueuesWorld(scheme("round_robin"), [1], 1.0).run(messages(2.0, 1.0))
    assert (blocked.accepted_at, blocked.finished_at, blocked.lost) == ([0.0, 2.0], [2.0, 3.0], 0)
    dropped = QueuesWorld(scheme("round_robin", full="drop"), [1], 1.0).run(messages(2.0, 1.0))
    assert (dropped.finished_at, dropped.lost) == ([2.0, -1.0], 1)


def test_an_idle_worker_steals_and_a_central_queue_keeps_none_idle() -> None:
    """In turn, 1 and 1 second go to queue 1: its worker takes the second 9 of queue 0 when it is free."""
    weights = (9.0, 1.0, 9.0, 1.0)
    alone = QueuesWorld(scheme("marked_round_robin"), [9, 9], 1.0).run(messages(*weights))
    assert (alone.makespan_seconds, alone.stolen) == (18.0, 0)
    stolen = QueuesWorld(scheme("work_stealing"), [9, 9], 1.0).run(messages(*weights))
    assert (stolen.makespan_seconds, stolen.stolen) == (11.0, 1)
    central = QueuesWorld(scheme("central_queue"), [9, 9], 1.0).run(messages(*weights))
    assert central.finished_at == [9.0, 1.0, 10.0, 10.0]


def test_a_moved_message_starts_immediately() -> None:
    """Four seconds wait in queue 0 and nothing in queue 1: after a cycle half goes over."""
    settings = SchedulingSettings(light_threshold=0.1, window_seconds=1.0, cycle_seconds=1.0)
    late = [ReplayedMessage(number, 0.0, 1.0, "ann" if number == 0 else None) for number in range(8)]
    run = QueuesWorld(scheme("size_interval", settings), [9, *[9] * 4], 1.0).run(late)
    assert run.moved > 0
    assert run.makespan_seconds < 8.0
    assert sum(run.busy_seconds) == 8.0


@pytest.mark.parametrize(
    ("name", "made", "seconds"),
    [
        ("none", scheme("round_robin"), 2000.0),
        ("threshold", scheme("marked_round_robin", THRESHOLD), 2000.0),
        ("forecast by count", scheme("marked_round_robin", BY_COUNT), 1347.2),
        ("forecast by work", scheme("marked_round_robin", AS_PAPER), 960.2),
        ("least work left", scheme("least_work_left"), 960.4),
    ],
)
def test_ten_thousand_messages_have_the_expected_makespan(
    name: str, made: DispatchScheme, seconds: float
) -> None:
    """Each class on a queue of its own is 2,000 s; all work over five workers is 960 s."""
    run = QueuesWorld(made, [10_000] * 5, 0.48).run(in_step(10_000, WEIGHTS, 0.01))
    assert run.makespan_seconds == pytest.approx(seconds, abs=0.06)
    assert sum(run.busy_seconds) == pytest.approx(4800.0)


def test_pausing_loses_more_than_no_balancing_if_the_source_does_not_wait() -> None:
    """Thirty seconds of a message every 10 ms, far more than five queues of a hundred can hold."""
    arrivals = at_random(3000, WEIGHTS, 0.01, 4)
    plain = QueuesWorld(scheme("marked_round_robin", full="drop"), [100] * 5, 0.48).run(arrivals)
    paused = QueuesWorld(scheme("marked_round_robin", AS_PAPER, full="drop"), [100] * 5, 0.48).run(arrivals)
    assert 0 < plain.lost < paused.lost


def test_min_min_starts_the_shortest_of_the_gathered_messages_first() -> None:
    """Three messages within a tenth of a second: those of one and two seconds come before the one of six."""
    run = QueuesWorld(scheme("min_min", gather_seconds=0.1), [9], 1.0).run(messages(6.0, 1.0, 2.0))
    assert run.finished_at == pytest.approx([9.1, 1.1, 3.1])


def test_work_takes_its_actual_time_whatever_the_dispatcher_expects() -> None:
    """Believed to be alike, the message of 5 s and the three of 1 s go to two queues in turn: 6 and 2 s."""
    believed = [
        ReplayedMessage(number, 0.0, 1.0, seconds=seconds)
        for number, seconds in enumerate((5.0, 1.0, 1.0, 1.0))
    ]
    run = QueuesWorld(scheme("least_work_left"), [9, 9], 1.0).run(believed)
    assert run.busy_seconds == [6.0, 2.0]
    assert run.finished_at == [5.0, 1.0, 6.0, 2.0]
