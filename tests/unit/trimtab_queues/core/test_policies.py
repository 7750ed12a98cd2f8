"""Dispatch policies by worked examples."""

import random
from collections import Counter
from math import inf
from typing import Any

import pytest

from trimtab_common.errors import InputError
from trimtab_queues.core.catalogue import (
    CentralQueue,
    CountThreshold,
    JoinIdleQueue,
    JoinShortestQueue,
    MinMin,
    PowerOfTwo,
    WorkStealing,
)
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import (
    FEW,
    LeastWorkLeft,
    LightLoadFirst,
    OpenRoundRobinQueue,
    RoundRobinQueue,
    SizeInterval,
    equal_work_limits,
)
from trimtab_queues.core.scheduling import SchedulingSettings


def holding(*queues: tuple[float, ...], capacity: int = 99) -> QueueLedger:
    """Queues with messages of these weights waiting."""
    ledger = QueueLedger([capacity] * len(queues))
    for queue, weights in enumerate(queues):
        for weight in weights:
            ledger.enqueued(queue, weight)
    return ledger


def test_round_robin_waits_for_its_turn_and_the_marked_one_skips_paused_queues() -> None:
    """Queue 1 is paused: the one waits for it, and goes on there; the other passes it over."""
    plain, marked = QueueLedger([9] * 3), QueueLedger([9] * 3)
    for ledger in (plain, marked):
        ledger.pause(1)
    waits, passes = RoundRobinQueue(plain), OpenRoundRobinQueue(marked)
    assert [waits.choose(1.0) for _ in range(3)] == [0, None, None]
    assert [passes.choose(1.0) for _ in range(5)] == [0, 2, 0, 2, 0]
    plain.resume(1)
    marked.resume(1)
    assert [waits.choose(1.0) for _ in range(4)] == [1, 2, 0, 1]
    assert [passes.choose(1.0) for _ in range(4)] == [1, 2, 0, 1]


def test_marked_round_robin_loses_no_turn_to_back_pressure() -> None:
    """With all paused it returns none, and continues from its position."""
    ledger = QueueLedger([9] * 3)
    policy = OpenRoundRobinQueue(ledger)
    assert policy.choose(1.0) == 0
    for queue in range(3):
        ledger.pause(queue)
    assert [policy.choose(1.0) for _ in range(4)] == [None] * 4
    for queue in range(3):
        ledger.resume(queue)
    assert policy.choose(1.0) == 1


def test_least_work_left_counts_seconds_and_passes_closed_queues_over() -> None:
    """Three short messages are less than one long one; the first of equals is taken."""
    ledger = QueueLedger([9] * 3)
    policy = LeastWorkLeft(ledger)
    assert policy.choose(1.0) == 0
    ledger.enqueued(0, 1.0)
    for _ in range(3):
        ledger.enqueued(1, 0.1)
    ledger.enqueued(2, 0.5)
    assert policy.choose(1.0) == 1
    ledger.pause(1)
    assert policy.choose(1.0) == 2
    ledger.close(0)
    ledger.close(2)
    assert policy.choose(1.0) is None


def test_least_work_left_is_the_same_of_many_queues_as_of_few() -> None:
    """Above a number of queues a heap finds the least; work that shrinks and marks must not fool it."""
    chance = random.Random(7)
    ledger = QueueLedger([5] * (FEW + 14))
    policy, inside = LeastWorkLeft(ledger), [list[Any]() for _ in range(len(ledger))]
    for _ in range(6000):
        queue, weight = chance.randrange(len(ledger)), float(chance.randrange(1, 9))
        match chance.choice(("send", "send", "finish", "pause", "resume", "refresh")):
            case "send":
                least = min(
                    (o for o, may in enumerate(ledger.open) if may), key=ledger.work.__getitem__, default=None
                )
                assert policy.choose(weight) == least
                if least is not None:
                    ledger.enqueued(least, weight)
                    inside[least].append(weight)
            case "finish" if inside[queue]:
                ledger.started(queue, inside[queue][0])
                ledger.finished(queue, inside[queue].pop(0))
            case "pause":
                ledger.pause(queue)
            case "resume":
                ledger.resume(queue)
            case "refresh":
                inside[queue] = inside[queue][:2]
                ledger.refresh(queue, length=len(inside[queue]), work=sum(inside[queue]))


def test_join_shortest_queue_counts_messages_whatever_they_weigh() -> None:
    """One of ten seconds is fewer than two of a tenth."""
    assert JoinShortestQueue(holding((0.1, 0.1), (10.0,))).choose(1.0) == 1
    assert JoinShortestQueue(holding((1.0,), (10.0,))).choose(1.0) == 0, "the first of equals"


def test_count_threshold_passes_long_queues_over_until_all_are_long() -> None:
    """Two messages are the threshold; where all have two, turns go round again."""
    ledger = holding((1.0, 1.0), (), (1.0,))
    policy = CountThreshold(ledger, 2)
    chosen = []
    for _ in range(6):
        chosen.append(policy.choose(1.0))
        ledger.enqueued(chosen[-1] or 0, 1.0)
    assert chosen == [1, 2, 1, 2, 0, 1]
    with pytest.raises(InputError, match="threshold of count_threshold is 0, expected 1 or more"):
        CountThreshold(ledger, 0)


def test_power_of_two_takes_the_one_with_less_work_of_two_that_differ() -> None:
    """The draws .5 and .0 of three queues are 1 and then 0; .0 and .0 are 0 and then 1, never 0 twice."""
    ledger = holding((5.0,), (1.0,), ())
    draws = iter([0.5, 0.0, 0.0, 0.0, 0.0, 0.99])
    policy = PowerOfTwo(ledger, draws.__next__)
    assert [policy.choose(1.0) for _ in range(3)] == [1, 1, 2]


def test_power_of_two_draws_again_among_open_queues() -> None:
    """Queue 2, the emptiest, is paused: over many draws both others come, the lighter one always."""
    ledger = holding((5.0,), (1.0,), ())
    ledger.pause(2)
    policy = PowerOfTwo(ledger, random.Random(1).random)
    assert {policy.choose(1.0) for _ in range(50)} == {1}
    ledger.pause(1)
    assert policy.choose(1.0) == 0
    even = PowerOfTwo(QueueLedger([9] * 4), random.Random(1).random)
    assert min(Counter(even.choose(1.0) for _ in range(400)).values()) > 60


def test_an_idle_worker_precedes_the_round() -> None:
    """Queue 1 is idle; once it is not, the round begins; a paused idle queue is none."""
    ledger = holding((1.0,), (), (1.0,))
    policy = JoinIdleQueue(ledger)
    assert [policy.choose(1.0), policy.choose(1.0)] == [1, 1]
    ledger.enqueued(1, 1.0)
    assert [policy.choose(1.0) for _ in range(4)] == [0, 1, 2, 0]
    idle = holding((), (1.0,), ())
    idle.pause(0)
    assert JoinIdleQueue(idle).choose(1.0) == 2


def test_min_min_finishes_early_and_takes_the_shortest_of_a_batch_first() -> None:
    """Work 4 at speed 4 is done before work 2 at speed 1; 1, 2 and 6 seconds are spread as they ascend."""
    assert MinMin(holding((4.0,), (2.0,)), [4.0, 1.0]).choose(1.0) == 0
    assert MinMin(holding((2.0,), (4.0,)), [1.0, 4.0]).choose(1.0) == 1
    policy = MinMin(holding((), ()))
    # 1 -> queue 0 (1), 2 -> queue 1 (2), 6 -> queue 0 (7 against 8), whatever the order they stand in.
    assert policy.assign([6.0, 1.0, 2.0]) == [0, 0, 1]
    assert MinMin(holding((1.0,), (), capacity=1)).assign([2.0, 1.0]) == [None, 1], "one place is left"
    with pytest.raises(InputError, match="speeds of min_min are .*, expected one above 0 for each of 2"):
        MinMin(holding((), ()), [1.0, 0.0])


def test_light_queues_come_first_then_moderate_ones_each_in_turn() -> None:
    """Of 10, light is none yet and overload is above 8; without a light one the moderate two take turns."""
    settings = SchedulingSettings(
        threshold_unit="messages", light_threshold=1, overload_threshold=8, forecast_weight="queue"
    )
    ledger = holding((1.0,) * 9, (), (1.0,), (1.0, 1.0))
    policy = LightLoadFirst(ledger, settings)
    assert [policy.choose(1.0) for _ in range(2)] == [1, 1]
    ledger.enqueued(1, 1.0)
    assert [policy.choose(1.0) for _ in range(5)] == [2, 3, 1, 2, 3]
    for queue in (1, 2, 3):
        ledger.pause(queue)
    assert policy.choose(1.0) == 0, "an overloaded queue is open as long as nobody pauses it"


def test_a_thief_takes_from_the_queue_with_most_work_waiting() -> None:
    """Queue 0 holds more, but that is in work; a worker with work of its own steals nothing."""
    ledger = holding((9.0,), (1.0, 2.0), (), (2.0,))
    ledger.started(0, 9.0)
    policy = WorkStealing(ledger)
    assert [policy.source(worker) for worker in range(4)] == [1, 1, 1, 3]


def test_all_workers_take_from_the_central_queue() -> None:
    """And all messages go there."""
    ledger = QueueLedger([9, 9])
    policy = CentralQueue(ledger)
    assert (policy.choose(1.0), policy.source(1)) == (0, None)
    ledger.enqueued(0, 1.0)
    assert policy.source(1) == 0


def test_a_message_moved_out_of_the_central_queue_is_processed_too() -> None:
    """By the worker of the queue that it was moved to, once nothing waits in the middle."""
    ledger = QueueLedger([9, 9])
    policy = CentralQueue(ledger)
    for _ in range(2):
        ledger.enqueued(0, 1.0)
    ledger.moved(0, 1, 1, 1.0)
    assert policy.source(1) == 0
    ledger.started(0, 1.0)
    assert policy.source(1) == 1
    ledger.started(1, 1.0)
    assert policy.source(1) is None


def test_each_interval_of_sizes_has_its_queue() -> None:
    """On a limit a message goes below it; an interval whose queue is paused waits."""
    policy = SizeInterval(QueueLedger([9] * 3), [1.0, 5.0])
    assert [policy.choose(weight) for weight in (0.5, 1.0, 1.1, 5.0, 9.0)] == [0, 0, 1, 1, 2]
    policy.ledger.pause(1)
    assert policy.choose(2.0) is None
    with pytest.raises(InputError, match=r"limits of size_interval are \[5.0, 1.0\], expected 2 that ascend"):
        SizeInterval(QueueLedger([9] * 3), [5.0, 1.0])


def test_limits_cut_classes_into_parts_as_equal_as_whole_classes_allow() -> None:
    """Work 1, 2, 3 and 6 is 6 and 6 for two queues; the paper's five classes leave one of five empty."""
    assert equal_work_limits([(1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (6.0, 1.0)], 2) == [3.0]
    # Middles of the classes' work, of 2.4: .05 .2 .5 1.05 1.9; shares end at .48 .96 1.44 1.92 2.4.
    assert equal_work_limits([(one, 1.0) for one in (0.1, 0.2, 0.4, 0.7, 1.0)], 5) == [0.2, 0.4, 0.7, inf]
