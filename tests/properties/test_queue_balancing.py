"""Invariants of balance scheduling over worlds of queues in virtual time."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.history.queues.simulation import (
    DispatchScheme,
    QueuesSimulationRun,
    QueuesWorld,
    ReplayedMessage,
)
from trimtab_queues.core.catalogue import POLICIES, DispatchInputs
from trimtab_queues.core.scheduling import CHOICES, QueueState, SchedulingSettings

WEIGHTS = (1.0, 2.0, 4.0, 7.0, 10.0)
"""Whole seconds: sums of them are exact, so that nothing has to be nearly equal."""
SCHEDULING = st.builds(
    SchedulingSettings,
    window_seconds=st.sampled_from([1.0, 3.0]),
    cycle_seconds=st.sampled_from([2.0, 10.0]),
    light_threshold=st.sampled_from([0.0, 0.2]),
    overload_threshold=st.sampled_from([0.3, 0.8]),
    trend_damping=st.sampled_from([1.0, 0.7]),
    trend_smoothing=st.sampled_from([1.0, 0.5]),
    **{name: st.sampled_from(words) for name, words in CHOICES.items()},
)
ARRIVALS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.5, 3.0]), st.sampled_from(WEIGHTS), st.none() | st.integers(0, 3)),
    min_size=1,
    max_size=60,
)


def arriving(drawn: list[tuple[float, float, int | None]]) -> list[ReplayedMessage]:
    """Messages, each so long after the one before."""
    now, found = 0.0, []
    for number, (pause, weight, key) in enumerate(drawn):
        now += pause
        found.append(ReplayedMessage(number, now, weight, key))
    return found


def check(course: QueuesSimulationRun) -> None:
    """The ledger counts what is there, keys are where they are said to be, and marks fit what is forecast."""
    ledger, in_work = (
        course.ledger,
        [[m for _, w, m in course.ends if w == q] for q in range(len(course.ledger))],
    )
    for queue, waiting in enumerate(course.waiting):
        there = [*waiting, *in_work[queue]]
        assert ledger.length[queue] == len(there)
        assert ledger.work[queue] == sum(message.weight for message in there)
        assert ledger.held[queue] == len(in_work[queue]) <= 1
        assert ledger.length[queue] <= ledger.capacity[queue] + course.roams
        assert ledger.open[queue] == (
            not ledger.paused[queue] and ledger.length[queue] < ledger.capacity[queue]
        )
    if course.scheme.scheduling is not None:
        assert not course.schedule.moving, "every order was answered"
        assert ledger.paused == [state is QueueState.OVERLOAD for state in course.schedule.states]
        assert course.schedule.last_observation is not None
        assert list(course.schedule.last_observation.work) == ledger.work, "what was moved is known"


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=25)
@given(drawn=ARRIVALS, scheduling=SCHEDULING | st.none(), room=st.integers(2, 12))
def test_nothing_is_lost_nothing_is_done_twice(
    name: str, drawn: list[tuple[float, float, int | None]], scheduling: SchedulingSettings | None, room: int
) -> None:
    """With a source that waits, all messages are worked off once, and work is conserved on the way."""
    messages = arriving(drawn)
    scheme = DispatchScheme(
        policy=lambda ledger: POLICIES[name](
            ledger, DispatchInputs(chance=random.Random(1).random, classes=[(one, 1.0) for one in WEIGHTS])
        ),
        scheduling=scheduling,
    )
    watched: list[QueuesSimulationRun] = []

    def watch(course: QueuesSimulationRun) -> None:
        watched.append(course)
        check(course)

    run = QueuesWorld(scheme, [room] * 4, 4.8).run(messages, watch)
    assert run.lost == 0
    whole = sum(message.weight for message in messages)
    assert sum(run.busy_seconds) == whole == sum(watched[-1].ledger.served)
    assert sum(watched[-1].ledger.arrived) == whole
    assert run.makespan_seconds >= max(whole / 4, *(m.deadline + m.weight for m in messages))
    assert all(
        done >= taken + message.weight and taken >= message.deadline
        for message, done, taken in zip(messages, run.finished_at, run.accepted_at, strict=True)
    )
    if not watched[-1].roams:
        assert run.overtaken == 0, "messages of one user are begun in order, moved or not"


@settings(max_examples=60)
@given(drawn=ARRIVALS, scheduling=SCHEDULING, room=st.integers(2, 6))
def test_a_source_that_drops_loses_only_messages_without_a_queue(
    drawn: list[tuple[float, float, int | None]], scheduling: SchedulingSettings, room: int
) -> None:
    """Accepted is finished."""
    scheme = DispatchScheme(
        policy=lambda ledger: POLICIES["marked_round_robin"](ledger, DispatchInputs()),
        scheduling=scheduling,
        full="drop",
    )
    run = QueuesWorld(scheme, [room] * 3, 4.8).run(arriving(drawn), check)
    assert [at < 0 for at in run.accepted_at] == [at < 0 for at in run.finished_at]
