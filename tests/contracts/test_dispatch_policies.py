"""What every dispatch policy keeps, whatever it prefers."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_common.errors import SettingsError
from trimtab_queues.core.catalogue import DEFAULT, POLICIES, DispatchInputs, policy_named
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy

CLASSES = ((1.0, 5.0), (2.0, 3.0), (7.0, 1.0))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["choose", "finish", "pause", "resume", "close", "reopen", "move"]),
        st.integers(0, 30),
        st.sampled_from([1.0, 2.0, 7.0]),
    ),
    max_size=60,
)
ROOMS = st.integers(1, 24).flatmap(lambda count: st.lists(st.integers(1, 4), min_size=count, max_size=count))
"""Capacities, of few queues and of many: some policies go about the two differently."""

every_policy = pytest.mark.parametrize("name", POLICIES)


def made(name: str, ledger: QueueLedger) -> DispatchPolicy:
    """The policy, with the same chance each time."""
    return policy_named(
        name, ledger, DispatchInputs(chance=random.Random(3).random, classes=CLASSES, threshold=2)
    )


def lists_of(ledger: QueueLedger) -> dict[str, Any]:
    """All that a policy must leave alone."""
    return {
        name: copy.copy(getattr(ledger, name)) for name in QueueLedger.__slots__ if not name.startswith("_")
    }


def played(
    name: str, capacity: list[int], steps: list[tuple[str, int, float]]
) -> list[tuple[int | None, list[bool]]]:
    """Choices, each with the queues that were open, in a ledger to which all this happens."""
    ledger = QueueLedger(capacity)
    policy, found = made(name, ledger), []
    queues: list[list[float]] = [[] for _ in capacity]
    for what, number, weight in steps:
        queue = number % len(capacity)
        if what == "choose":
            before = lists_of(ledger)
            chosen = policy.choose(weight)
            assert lists_of(ledger) == before, "a policy reads, and counts nothing"
            found.append((chosen, list(ledger.open)))
            if chosen is not None:
                ledger.enqueued(chosen, weight)
                queues[chosen].append(weight)
        elif what == "finish" and queues[queue]:
            done = queues[queue].pop(0)
            ledger.started(queue, done)
            ledger.finished(queue, done)
        elif what == "move" and queues[queue]:
            target = (queue + 1) % len(capacity)
            if target != queue and ledger.open[target]:
                queues[target].append(queues[queue].pop())
                ledger.moved(queue, target, 1, queues[target][-1])
        elif what in ("pause", "resume", "close", "reopen"):
            getattr(ledger, what)(queue)
    return found


@every_policy
@given(capacity=ROOMS, steps=STEPS)
def test_a_message_is_put_in_an_open_queue_or_rejected(
    name: str, capacity: list[int], steps: list[tuple[str, int, float]]
) -> None:
    """Never to one that is paused, closed or full; who does not insist finds an open one if one is there."""
    insists = made(name, QueueLedger([1])).waits_for_choice
    for chosen, is_open in played(name, capacity, steps):
        assert is_open[chosen] if chosen is not None else insists or not any(is_open)


@every_policy
@given(capacity=ROOMS, steps=STEPS)
def test_the_same_happenings_lead_to_the_same_choices(
    name: str, capacity: list[int], steps: list[tuple[str, int, float]]
) -> None:
    """No clock, no chance of its own."""
    assert played(name, capacity, steps) == played(name, capacity, steps)


@every_policy
def test_back_pressure_ends_when_a_queue_is_open_again(name: str) -> None:
    """With all paused every call answers None at once; with all resumed messages flow again."""
    ledger = QueueLedger([3] * 3)
    policy = made(name, ledger)
    for queue in range(3):
        ledger.pause(queue)
    assert [policy.choose(1.0) for _ in range(5)] == [None] * 5
    for queue in range(3):
        ledger.resume(queue)
    assert policy.choose(1.0) is not None


@every_policy
def test_a_free_worker_takes_only_from_queues_with_waiting_messages(name: str) -> None:
    """Nothing is there; then one message in work; then one that waits."""
    ledger = QueueLedger([9] * 2)
    policy = made(name, ledger)
    assert [policy.source(worker) for worker in range(2)] == [None, None]
    ledger.enqueued(0, 1.0)
    ledger.started(0, 1.0)
    assert [policy.source(worker) for worker in range(2)] == [None, None]
    ledger.enqueued(0, 1.0)
    assert policy.source(0) == 0
    assert policy.source(1) in (None, 0)


@every_policy
def test_its_name_is_the_one_in_the_catalogue(name: str) -> None:
    """Settings and figures speak of the same."""
    assert made(name, QueueLedger([1])).name == name


def test_a_policy_that_is_not_there_or_lacks_something_is_refused() -> None:
    """The error names the setting and what it may be, or what is missing."""
    assert DEFAULT == "least_work_left"
    with pytest.raises(SettingsError, match="queues.policy is 'fair', expected one of round_robin, "):
        policy_named("fair", QueueLedger([1]))
    with pytest.raises(SettingsError, match="'power_of_two' draws queues and needs a generator"):
        policy_named("power_of_two", QueueLedger([1]))
    with pytest.raises(SettingsError, match="'size_interval' needs the weights and rates of the classes"):
        policy_named("size_interval", QueueLedger([1]))
