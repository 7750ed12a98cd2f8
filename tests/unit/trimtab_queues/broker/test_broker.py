"""The broker as programs meet it, with queues inside the process."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from taskiq.exceptions import SendTaskError

from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_queues import BalancedBroker, QueuesFullError, retry_after_seconds
from trimtab_queues.broker.backend import BODY_BYTES_MAX, Envelope
from trimtab_queues.broker.broker import broker_arguments
from trimtab_queues.core.catalogue import CentralQueue, WorkStealing
from trimtab_queues.core.ledger import QueueLedger
from trimtab_queues.core.policies import DispatchPolicy, OpenRoundRobinQueue

TEN_LINES = """
import asyncio
from trimtab_queues import BalancedBroker

broker = BalancedBroker(queues=2)

@broker.task(weight=0.05)
async def add(one: int, two: int) -> int:
    return one + two

async def main() -> None:
    task = await add.kiq(20, 22)
    print((await task.wait_result(timeout=60)).return_value)
    await broker.shutdown()

asyncio.run(main())
"""

PROJECT = """
import asyncio
from typing import Annotated
from taskiq import Context, InMemoryBroker, SimpleRetryMiddleware, TaskiqDepends
from taskiq import TaskiqEvents, TaskiqMiddleware
from trimtab_queues import BalancedBroker

class Count(TaskiqMiddleware):
    sent = executed = 0
    def pre_send(self, message):
        self.sent += 1
        return message
    def post_execute(self, message, result):
        self.executed += 1

count = Count()
broker = {broker}
broker.add_middlewares(count, SimpleRetryMiddleware(default_retry_count=3))
said = []

@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def begin(state) -> None:
    state.factor = 3

def factor(context: Annotated[Context, TaskiqDepends()]) -> int:
    return context.state.factor

@broker.task
async def times(one: int, by: Annotated[int, TaskiqDepends(factor)]) -> int:
    return one * by

@broker.task
def plus(one: int) -> int:
    return one + 1

@broker.task(retry_on_error=True)
async def unlucky() -> str:
    said.append("again")
    if len(said) < 3:
        raise ValueError("not yet")
    return "at last"

async def main() -> None:
    await broker.startup()
    tasks = [await times.kiq(4), await plus.kiq(4)]
    print([(await one.wait_result(timeout=60)).return_value for one in tasks])
    await unlucky.kiq()
    while len(said) < 3 or count.executed < 5:
        await asyncio.sleep(0.01)
    print(said, count.sent, count.executed)
    await broker.shutdown()

asyncio.run(main())
"""


def _printed(program: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return answer.stdout


def test_a_fresh_project_needs_ten_lines() -> None:
    """No server, no worker command: the program prints its sum."""
    assert _printed(TEN_LINES) == "42\n"


def test_a_project_of_taskiq_changes_its_broker_line_alone() -> None:
    """Middlewares, retries, dependencies, events and tasks without async do what they did before."""
    before = _printed(PROJECT.format(broker="InMemoryBroker()"))
    assert before == "[12, 5]\n['again', 'again', 'again'] 5 5\n"
    assert _printed(PROJECT.format(broker="BalancedBroker(queues=2)")) == before


def test_messages_of_a_user_keep_their_order_though_workers_do_many_at_once() -> None:
    """Later ones are quicker, so that without keys they would overtake; different users are not in line."""

    async def story() -> None:
        broker = BalancedBroker(queues=2, max_async_tasks=20)
        done: dict[str, list[int]] = {"ann": [], "bob": [], "": []}
        started = []

        @broker.task(weight=0.01)
        async def say(user: str, number: int) -> None:
            started.append(user)
            await asyncio.sleep(0.03 / (1 + number))
            done[user].append(number)

        for number in range(12):
            for user in ("ann", "bob"):
                await say.kicker().with_labels(affinity_key=user).kiq(user, number)
        await broker.drained()
        await broker.shutdown()
        assert done["ann"] == done["bob"] == list(range(12))
        assert set(started[:2]) == {"ann", "bob"}

    asyncio.run(story())


def test_back_pressure_is_an_error_with_a_time_or_a_wait() -> None:
    """A web layer answers 429 with Retry-After; a program that may wait is let in when there is room."""

    async def story() -> None:
        broker = BalancedBroker(queues=1, capacity=2)
        go = asyncio.Event()

        @broker.task(weight=3.0)
        async def work() -> None:
            await go.wait()

        for _ in range(2):
            await work.kiq()
        with pytest.raises(SendTaskError) as told:
            await work.kiq()
        assert retry_after_seconds(told.value) == 3.0
        assert isinstance(told.value.__cause__, QueuesFullError)
        assert "2 messages lie in 1 queues of 2" in str(told.value.__cause__)
        broker.enqueue_timeout_seconds = None
        waiting = asyncio.create_task(work.kiq())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        go.set()
        await waiting
        await broker.drained()
        await broker.shutdown()

    asyncio.run(story())
    assert retry_after_seconds(ValueError("another")) is None


def test_weights_come_from_the_label_else_the_class_else_the_default() -> None:
    """The class is the task's name unless a label overrides it."""

    async def story() -> None:
        broker = BalancedBroker(queues=1, weights={"votes": 0.25, "quiz": 2.0}, default_weight=0.5)
        go = asyncio.Event()

        @broker.task(task_name="quiz")
        async def quiz() -> None:
            await go.wait()

        await quiz.kiq()
        await quiz.kicker().with_labels(message_class="votes").kiq()
        await quiz.kicker().with_labels(message_class="unheard of").kiq()
        await quiz.kicker().with_labels(weight=7).kiq()
        assert broker.backend.ledger.work == [2.0 + 0.25 + 0.5 + 7.0]
        with pytest.raises(SendTaskError) as told:
            await quiz.kicker().with_labels(weight="much").kiq()
        assert "label weight of task quiz is 'much'" in str(told.value.__cause__)
        go.set()
        await broker.drained()
        await broker.shutdown()

    asyncio.run(story())


@pytest.mark.parametrize("weight", [0, -1.0, float("nan"), float("inf"), 1e7])
def test_a_weight_out_of_range_is_refused(weight: float) -> None:
    """At once, where the broker is made."""
    with pytest.raises(InputError, match="weight of class a is .* expected seconds"):
        BalancedBroker(weights={"a": weight})


NUMBERS = {
    "queues": (0, 2.5, True, "4"),
    "capacity": (0, 1.5),
    "max_worker_crashes": (0, -1, 2.0),
    "slots": (0,),
    "max_async_tasks": (0, -1, 1.5),
    "heartbeat_timeout_seconds": (0, -1, float("nan"), float("inf")),
    "hang_timeout_seconds": (0, -1, float("nan")),
    "max_overtake_seconds": (-1, float("nan"), float("inf")),
    "enqueue_timeout_seconds": (-1, -5, float("nan"), "1"),
}


@pytest.mark.parametrize(("name", "value"), [(name, one) for name, many in NUMBERS.items() for one in many])
def test_a_number_out_of_range_is_refused(name: str, value: object) -> None:
    """At once, where the broker is made; also where it does not matter inside a process."""
    with pytest.raises(InputError, match=f"{name} is {re.escape(repr(value))}, expected "):
        BalancedBroker(**{name: value})  # type: ignore[arg-type]


def test_a_settings_file_has_a_key_for_every_argument(tmp_path: Path) -> None:
    """Each number of the broker is a key of `[queues]`, -1 for ever; those out of range are refused."""
    file = tmp_path / "trimtab.toml"
    lines = {
        "queues": 3, "capacity": 7, "max_worker_crashes": 2, "slots": 2, "max_async_tasks": 5,
        "heartbeat_timeout_seconds": 4.0,
        "hang_timeout_seconds": 9.0, "max_overtake_seconds": 0.0, "enqueue_timeout_seconds": -1.0,
    }  # fmt: skip
    assert set(lines) == set(NUMBERS)
    file.write_text("\n".join(["[queues]", *(f"{name} = {value}" for name, value in lines.items())]))
    found = broker_arguments(file, {})
    assert {name: found[name] for name in lines} == {**lines, "enqueue_timeout_seconds": None}
    assert len(BalancedBroker.from_settings(file).backend.ledger) == 3
    for name, value in {**dict.fromkeys(lines, -2), "max_overtake_seconds": -0.5}.items():
        file.write_text(f"[queues]\n{name} = {value}")
        with pytest.raises(SettingsError, match=f"queues.{name} is .*{value}"):
            broker_arguments(file, {})


def test_the_server_is_a_cluster_of_the_settings(tmp_path: Path) -> None:
    """The only one of Redis, or the one that is named; clusters of other systems are passed over."""
    file, kafka = tmp_path / "trimtab.toml", '[clusters.k]\naddress = "kafka://k:1"\n'
    one = '[clusters.a]\naddress = "redis://a:1/0"\nname = "jobs"\n'
    file.write_text(kafka + one)
    found = broker_arguments(file, {})
    assert (found["url"], found["name"]) == ("redis://a:1/0", "jobs")
    file.write_text(one + '[clusters.b]\naddress = "redis://b:1/0"\n')
    assert broker_arguments(file, {}, "b")["url"] == "redis://b:1/0"
    with pytest.raises(SettingsError, match="name several servers: pass cluster= a or b"):
        broker_arguments(file, {})
    with pytest.raises(SettingsError, match=r"'c' is none of the servers in \[clusters.NAME\]: a, b"):
        broker_arguments(file, {}, "c")
    file.write_text(kafka)
    assert "url" not in broker_arguments(file, {})


@pytest.mark.parametrize("policy", [CentralQueue, WorkStealing])
def test_policies_whose_workers_take_from_other_queues_are_rejected(
    policy: Callable[[QueueLedger], DispatchPolicy],
) -> None:
    """Their half that chooses a queue would run, and their half that takes would not."""
    with pytest.raises(
        InputError, match="policy is (central_queue|work_stealing), .* name one of the others"
    ):
        BalancedBroker(policy=policy)


def test_work_is_balanced_although_counts_are_not() -> None:
    """One message of a hundred next to a hundred of one: least work left puts them on different queues."""

    async def story(policy: object) -> list[int]:
        broker = BalancedBroker(queues=2, policy=policy, scheduling=None)  # type: ignore[arg-type]
        go = asyncio.Event()

        @broker.task
        async def work() -> None:
            await go.wait()

        await work.kicker().with_labels(weight=100).kiq()
        for _ in range(10):
            await work.kicker().with_labels(weight=1).kiq()
        lengths = list(broker.backend.ledger.length)
        go.set()
        await broker.drained()
        await broker.shutdown()
        return lengths

    from trimtab_queues.core.policies import LeastWorkLeft

    assert asyncio.run(story(LeastWorkLeft)) == [1, 10]
    assert asyncio.run(story(OpenRoundRobinQueue)) == [6, 5]


def test_dispatch_inside_a_process_uses_current_counts() -> None:
    """No counts are read between two bursts: messages finished since the last one do not count."""

    async def story() -> None:
        broker = BalancedBroker(queues=2, scheduling=None)
        ended = []

        @broker.task(weight=5.0)
        async def work(number: int) -> None:
            ended.append(number)

        for number in range(4):
            await work.kiq(number)
        while len(ended) < 4 or any(broker.backend.ledger.length):
            await asyncio.sleep(0.01)
        assert broker.backend.ledger.work == [0.0, 0.0]
        await broker.shutdown()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_messages_of_a_key_in_flight_are_counted_in_one_queue() -> None:
    """No answer is there yet: the second of a key follows the first, and takes no turn of the other queue."""

    async def story() -> None:
        broker = BalancedBroker(queues=2, scheduling=None)
        chosen: dict[str, list[int]] = {}
        answered = asyncio.Event()

        async def put(envelope: Envelope, queue: int | None) -> int | None:
            assert queue is not None
            broker.backend.ledger.sending(queue, envelope.weight)
            chosen.setdefault(envelope.affinity_key, []).append(queue)
            await answered.wait()
            broker.backend.ledger.sent(queue, envelope.weight)
            return queue

        async def vote() -> None: ...

        task = broker.register_task(vote, task_name="vote")
        await broker.startup()
        broker.backend.put = put  # type: ignore[method-assign]
        keys = [key for key in "abcdefgh" for _ in range(2)]
        sending = [asyncio.create_task(task.kicker().with_labels(affinity_key=key).kiq()) for key in keys]
        while sum(map(len, chosen.values())) < len(keys):
            await asyncio.sleep(0)
        assert sorted(chosen.values()) == [[0, 0]] * 4 + [[1, 1]] * 4
        answered.set()
        await asyncio.gather(*sending)
        assert broker.backend.ledger.length == [0, 0]
        await broker.shutdown()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_an_oversized_message_is_rejected_and_not_stored() -> None:
    """The sender learns its size and the remedy."""

    async def story() -> None:
        broker = BalancedBroker(queues=1)

        @broker.task
        async def note(text: str) -> None: ...

        with pytest.raises(SendTaskError) as told:
            await note.kiq("x" * (BODY_BYTES_MAX + 1))
        assert isinstance(told.value.__cause__, InputError)
        assert "bytes, expected at most 16,777,216" in str(told.value.__cause__)
        assert [one.length for one in (await broker.backend.counts()).queues] == [0]
        await broker.shutdown()

    asyncio.run(story())


def test_invalid_messages_are_skipped() -> None:
    """Bytes that are no message, and a task that is not there: a warning each, and the next one runs."""

    async def story() -> None:
        broker = BalancedBroker(queues=1)
        done = []

        @broker.task
        async def note(number: int) -> None:
            done.append(number)

        async def gone() -> None: ...

        await broker.startup()
        await broker.backend.put(Envelope("t", b"\xff no message", "class", 1), 0)
        absent = broker.register_task(gone, task_name="gone")
        del broker.local_task_registry["gone"]
        await absent.kiq()
        await note.kiq(1)
        await asyncio.wait_for(broker.drained(), 60)
        assert done == [1]
        await broker.shutdown()

    asyncio.run(story())


def test_a_label_timeout_ends_a_task_that_hangs() -> None:
    """It is taskiq's own, and the next message runs."""

    async def story() -> None:
        broker = BalancedBroker(queues=1)

        @broker.task(timeout=0.05)
        async def hang() -> None:
            await asyncio.Event().wait()

        @broker.task
        async def note() -> int:
            return 7

        hung, noted = await hang.kiq(), await note.kiq()
        assert (await noted.wait_result(timeout=60)).return_value == 7
        assert (await hung.wait_result(timeout=60)).is_err
        await broker.shutdown()

    asyncio.run(story())


def test_a_stop_finishes_only_current_work() -> None:
    """SIGTERM must not cut a message in half."""

    async def story() -> None:
        broker = BalancedBroker(queues=1)
        ended, go = [], asyncio.Event()

        @broker.task
        async def work(number: int) -> None:
            await go.wait()
            ended.append(number)

        for number in range(3):
            await work.kiq(number)
        while not broker.backend.ledger.held[0]:
            await broker.backend.counts()
            await asyncio.sleep(0.01)
        stopping = asyncio.create_task(broker.shutdown())
        await asyncio.sleep(0.02)
        go.set()
        await stopping
        assert ended == [0]
        assert (await broker.backend.counts()).queues[0].length == 2

    asyncio.run(story())


def test_metrics_are_read_by_prometheus_own_client() -> None:
    """One message of two seconds in work, another waiting behind it."""
    from prometheus_client.parser import text_string_to_metric_families

    async def story() -> None:
        broker = BalancedBroker(queues=1)
        go = asyncio.Event()

        @broker.task(weight=2.0)
        async def work() -> None:
            await go.wait()

        await work.kiq()
        await work.kiq()
        while not broker.backend.ledger.held[0]:
            await broker.backend.counts()
            await asyncio.sleep(0.01)
        read = {
            sample.name: (sample.labels, sample.value)
            for family in text_string_to_metric_families(await broker.metrics())
            for sample in family.samples
        }
        for name in (
            "dead_letters",
            "stranded_messages",
            "duplicates_total",
            "moved_messages_total",
            "pauses_total",
        ):
            assert read.pop(f"trimtab_queues_{name}") == ({}, 0)
        assert read == {
            f"trimtab_queue_{name}": ({"queue": "0"}, value)
            for name, value in {
                "messages": 2, "work_seconds": 4.0, "held_messages": 1, "paused": 0, "alive": 1,
                "arrived_work_seconds_total": 4.0, "served_work_seconds_total": 0.0,
            }.items()
        }  # fmt: skip
        assert await broker.unhealthy() == []
        go.set()
        await broker.drained()
        await broker.shutdown()
        assert await broker.unhealthy() == ["no queue has a living worker: start some"]

    asyncio.run(story())


def test_a_sender_waits_for_a_full_server() -> None:
    """Its error states this, and the queue has nothing of the message; a waiting sender is admitted later."""

    async def story() -> None:
        broker, refusals = BalancedBroker(queues=1, enqueue_timeout_seconds=None), 2
        await broker.startup()
        put = broker.backend.put

        async def full(*arguments: Any) -> int | None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise QueuesFullError("the server of the queues is full", 1.0)
            return await put(*arguments)

        broker.backend.put = full  # type: ignore[assignment, method-assign]
        done = []

        async def vote() -> None:
            done.append(1)

        await broker.register_task(vote, task_name="vote").kiq()
        await broker.drained()
        assert done == [1]
        await broker.shutdown()

    asyncio.run(story())


@pytest.mark.parametrize("key", ["", "once"])
def test_a_server_without_an_answer_raises_a_connection_error(key: str) -> None:
    """Only with an idempotency key is the message sent again; what ends the waiting is the server's error."""

    async def story() -> int:
        broker, sent = BalancedBroker(queues=1, enqueue_timeout_seconds=0.1), 0

        async def gone(*arguments: object) -> int:
            nonlocal sent
            sent += 1
            raise ConnectError("the server of the queues does not answer")

        await broker.startup()
        broker.backend.put = gone  # type: ignore[assignment, method-assign]

        async def vote() -> None: ...

        task = broker.register_task(vote, task_name="vote")
        with pytest.raises(SendTaskError) as refused:
            await task.kicker().with_labels(idempotency_key=key).kiq()
        assert isinstance(refused.value.__cause__, ConnectError)
        assert retry_after_seconds(refused.value) is None
        await broker.shutdown()
        return sent

    assert (asyncio.run(story()) > 1) == bool(key)
