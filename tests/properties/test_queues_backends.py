"""Back-ends of queues against a model of lists, in sequences that nobody thought of."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.queue_backends import Opened, checked, in_process, message, redis_streams
from support.redis_server import Server, binaries
from tiers import by_tier
from trimtab_queues.broker.backend import Backend, Delivery
from trimtab_queues.core.scheduling import MoveMessages

QUEUES, CAPACITY = 2, 7
MESSAGES = st.tuples(st.integers(1, 9), st.sampled_from(("", "k", "l")), st.booleans())
"""Weight in microseconds, affinity key, and whether it is quick."""


@dataclass
class Model:
    """Names of messages by queue, in order, with those that a worker has."""

    waiting: list[list[str]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    held: list[list[str]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    key: dict[str, str] = field(default_factory=dict)
    weight: dict[str, int] = field(default_factory=dict)
    quick: dict[str, bool] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)

    def there(self, queue: int) -> list[str]:
        return self.waiting[queue] + self.held[queue]

    def bound(self, key: str) -> int | None:
        return next(
            (q for q in range(QUEUES) if key and any(self.key[one] == key for one in self.there(q))), None
        )

    def movable(self, source: int, messages: int | None, work: int | None, room: int) -> list[str]:
        """Newest first; a key whole or not at all; what does not fit is passed over."""
        left, budget = min(room, room if messages is None else messages), work
        chosen: list[str] = []
        seen: set[str] = set()
        by_lane = sorted(reversed(self.waiting[source]), key=lambda one: self.quick[one])
        for name in by_lane:
            key = self.key[name]
            if key and key in seen:
                continue
            seen.add(key)
            group = [one for one in self.there(source) if key and self.key[one] == key] or [name]
            weight = sum(self.weight[one] for one in group)
            if all(one in self.waiting[source] for one in group) and len(group) <= left:
                if budget is not None and weight > budget:
                    continue
                chosen += group
                left -= len(group)
                budget = None if budget is None else budget - weight
        return [one for one in self.waiting[source] if one in chosen]

    def turn(self, queue: int) -> str | None:
        """Whose turn it is: quick ones first, each lane in its order."""
        return next(iter(sorted(self.waiting[queue], key=lambda one: not self.quick[one])), None)


def machine(opened: Opened) -> type[RuleBasedStateMachine]:
    """Rules over one kind of back-end."""

    class Sequences(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.loop = asyncio.new_event_loop()
            self.opening: AbstractAsyncContextManager[Backend] = opened([CAPACITY] * QUEUES)
            self.backend = self.run(self.opening.__aenter__())
            fence = self.run(self.backend.lease("machine", 3600.0))
            assert fence is not None
            self.fence = fence
            self.model, self.count = Model(), 0
            self.hands: list[list[Delivery]] = [[] for _ in range(QUEUES)]
            self.workers: list[str | None] = [None] * QUEUES

        def run(self, story: Coroutine[Any, Any, Any]) -> Any:
            return self.loop.run_until_complete(story)

        def teardown(self) -> None:
            self.run(self.opening.__aexit__(None, None, None))
            self.loop.close()

        @initialize()
        def workers_come(self) -> None:
            for _ in range(QUEUES):
                self.claim()

        @rule(queue=st.integers(0, QUEUES - 1), burst=st.lists(MESSAGES, min_size=2, max_size=5))
        def put(self, queue: int, burst: list[tuple[int, str, bool]]) -> None:
            for weight, key, quick in burst:
                self.put_one(queue, weight, key, quick)

        def put_one(self, queue: int, weight: int, key: str, quick: bool) -> None:
            self.count += 1
            name, model = f"m{self.count}", self.model
            bound = model.bound(key)
            goes = queue if bound is None else bound
            refused = len(model.there(goes)) >= CAPACITY or (bound is None and goes in model.paused)
            answer = self.run(self.backend.put(message(name, weight, key, quick=quick), queue))
            assert answer == (None if refused else goes)
            if not refused:
                model.waiting[goes].append(name)
                model.key[name], model.weight[name] = key, weight
                others = [one for one in model.there(goes) if key and model.key[one] == key and one != name]
                model.quick[name] = model.quick[others[0]] if others else quick

        @rule()
        @precondition(lambda self: None in self.workers)
        def claim(self) -> None:
            self.count += 1
            worker = f"w{self.count}"
            claim = self.run(self.backend.claim(worker))
            free = [queue for queue in range(QUEUES) if self.workers[queue] is None]
            assert claim.queue == max(free, key=lambda one: (len(self.model.there(one)), -one))
            self.workers[claim.queue] = worker
            left = [one.envelope.task_id for one in claim.left_over]
            assert sorted(left) == sorted(self.model.held[claim.queue])
            for lane in (True, False):
                of_lane = [one for one in left if self.model.quick[one] == lane]
                assert of_lane == [
                    one for one in self.model.held[claim.queue] if self.model.quick[one] == lane
                ]
            for delivery in claim.left_over:
                assert self.run(self.backend.start(worker, delivery))
            self.hands[claim.queue] = list(claim.left_over)

        @precondition(lambda self: any(self.model.waiting))
        @rule(queue=st.integers(0, QUEUES - 1))
        def take(self, queue: int) -> None:
            worker = self.workers[queue]
            if worker is None:
                return
            delivery = self.run(self.backend.take(worker, queue, 0.001))
            turn = self.model.turn(queue)
            assert (None if delivery is None else delivery.envelope.task_id) == turn
            if delivery is not None and turn is not None:
                assert delivery.envelope.quick == self.model.quick[turn]
                self.model.waiting[queue].remove(turn)
                self.model.held[queue].append(turn)
                self.hands[queue].append(delivery)

        @precondition(lambda self: any(self.hands))
        @rule(queue=st.integers(0, QUEUES - 1), which=st.integers(0, 5))
        def finish(self, queue: int, which: int) -> None:
            if not self.hands[queue]:
                return
            delivery = self.hands[queue].pop(which % len(self.hands[queue]))
            assert self.run(self.backend.finish(delivery))
            self.model.held[queue].remove(delivery.envelope.task_id)
            assert not self.run(self.backend.finish(delivery))

        @rule(queue=st.integers(0, QUEUES - 1))
        def release(self, queue: int) -> None:
            if (worker := self.workers[queue]) is not None:
                self.run(self.backend.release(worker, queue))
                self.workers[queue], self.hands[queue] = None, []

        @rule(queue=st.integers(0, QUEUES - 1), paused=st.booleans())
        def mark(self, queue: int, paused: bool) -> None:
            assert self.run(self.backend.mark(queue, paused, self.fence))
            (self.model.paused.add if paused else self.model.paused.discard)(queue)

        @precondition(lambda self: any(self.model.waiting))
        @rule(
            fuller=st.integers(0, 3),
            most=st.sampled_from((0, 1, 2, 3, 5, 8, 13, 30)),
            by_work=st.booleans(),
        )
        def move(self, fuller: int, most: int, by_work: bool) -> None:
            # Mostly out of the queue where more waits: out of an empty one there is nothing to get wrong.
            waiting = [len(one) for one in self.model.waiting]
            source = waiting.index(max(waiting) if fuller else min(waiting))
            taker = (source + 1) % QUEUES
            order = MoveMessages(source, taker, None if by_work else most, most * 1e-6 if by_work else None)
            moved = self.run(self.backend.move(order, self.fence))
            # As a back-end reads it: a fraction of a microsecond is none.
            work = None if order.work is None else int(order.work * 1_000_000)
            room = CAPACITY - len(self.model.there(taker))
            names = self.model.movable(source, order.messages, work, room)
            assert moved.messages == len(names)
            for name in names:
                self.model.waiting[source].remove(name)
            self.model.waiting[taker] += names

        @invariant()
        def counters_are_true(self) -> None:
            self.run(checked(self.backend))
            model = self.model
            for queue, one in enumerate(self.run(self.backend.counts()).queues):
                assert one.length == len(model.there(queue))
                assert one.held == len(model.held[queue])
                assert one.work_microseconds == sum(model.weight[name] for name in model.there(queue))
                assert one.paused == (queue in model.paused)

    return Sequences


@pytest.fixture(scope="module", params=["in_process", "valkey"])
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Opened, int]]:
    """A way to open one kind of back-end, and how many sequences it is quick enough for."""
    if request.param == "in_process":
        yield in_process, 100
        return
    server = Server(binaries()["valkey"], tmp_path_factory.mktemp("valkey"))
    yield redis_streams(server.url, heartbeat_timeout_seconds=3600.0), 30
    server.stop()


def test_any_sequence_agrees_with_lists(opened: tuple[Opened, int]) -> None:
    """Messages in, out, between queues, workers joining and leaving: lengths, work and order
    equal the model.
    """
    backend, examples = opened
    run_state_machine_as_test(
        machine(backend),
        settings=settings(
            max_examples=by_tier(examples // 3, examples, examples),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            derandomize=True,
            phases=[Phase.generate],
        ),
    )
