"""With kafka-python and aiokafka, an acknowledgement after the delivery time-out counts as a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError as TimeoutOfAiokafka
from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError
from kafka.producer.future import FutureProduceResult, FutureRecordMetadata
from kafka.structs import TopicPartition

from trimtab_keys.clients import aiokafka, kafka_python
from trimtab_keys.clients.ordered_producer import OrderedProducer
from trimtab_keys.core.order import OrderedSender, Stamp

STAMP = Stamp(1, (), 7)


def in_time() -> float:
    """The time of a record sent just now."""
    return time.monotonic()


def too_late() -> float:
    """The time of a record sent before the process slept for some minutes."""
    return time.monotonic() - 121


def sending() -> OrderedProducer:
    """A producer with the default time-outs."""
    return OrderedProducer(OrderedSender(3), "p", 1.0)


def failures(one: OrderedProducer) -> list[tuple[bytes, Stamp]]:
    """Places of failed records, which will be filled."""
    return list(one._failures)


def promised(one: OrderedProducer, since: float) -> tuple[FutureProduceResult, Any]:
    """A batch of kafka-python, and the future that the application gets for a record of it."""
    batch = FutureProduceResult(TopicPartition("t", 0))
    record = FutureRecordMetadata(batch, 0, 1, None, 1, 1, 0)
    given = kafka_python._DeadlineFuture(record, one, since)
    given.add_errback(lambda _: one.failed(b"hot", STAMP))
    return batch, given


def test_kafka_python_reports_a_late_acknowledgement_as_a_failure() -> None:
    """The future fails, and its error callbacks are called."""
    for since, failed in ((in_time(), False), (too_late(), True)):
        one = sending()
        batch, given = promised(one, since)
        called: list[str] = []
        given.add_callback(lambda _, called=called: called.append("acknowledged"))
        given.add_errback(lambda _, called=called: called.append("failed"))
        batch.success((5, -1, None))
        assert called == ["failed" if failed else "acknowledged"]
        assert failures(one) == [(b"hot", STAMP)] * failed
        if failed:
            with pytest.raises(KafkaTimeoutError, match="consumers may have gone on without it"):
                given.get(1)
        else:
            assert given.get(1).offset == 5


def test_kafka_python_fails_within_the_time_limit() -> None:
    """The application waits no longer than its own time limit."""
    one = sending()
    batch, given = promised(one, in_time())
    with pytest.raises(KafkaTimeoutError, match="Timeout after waiting"):
        given.get(0.01)
    assert not failures(one)
    batch.failure(NotLeaderForPartitionError())
    with pytest.raises(NotLeaderForPartitionError):
        given.get(1)
    assert failures(one) == [(b"hot", STAMP)]


def awaited(since: float, end: Callable[[asyncio.Future[int], asyncio.Future[Any]], object]) -> Any:
    """The result for the application and the failures, once the future of the client has ended."""

    async def run() -> Any:
        one, of = sending(), asyncio.get_running_loop().create_future()
        given = aiokafka._in_time(of, one, b"hot", STAMP, since)
        end(of, given)
        outcome: Any = await asyncio.gather(given, return_exceptions=True)
        await asyncio.sleep(0)
        return outcome[0], failures(one)

    return asyncio.run(run())


def test_aiokafka_reports_a_late_acknowledgement_as_a_failure() -> None:
    """The future fails; a future that the application cancelled does not change the fate of the record."""
    assert awaited(in_time(), lambda of, _: of.set_result(5)) == (5, [])
    found, filled = awaited(too_late(), lambda of, _: of.set_result(5))
    assert isinstance(found, TimeoutOfAiokafka)
    assert filled == [(b"hot", STAMP)]
    error = ValueError("refused")
    assert awaited(in_time(), lambda of, _: of.set_exception(error)) == (error, [(b"hot", STAMP)])
    _, filled = awaited(in_time(), lambda of, given: given.cancel() and of.set_result(5))
    assert filled == []
