"""Errors in the callbacks of confluent-kafka's consumer."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from trimtab_keys.clients import confluent as module
from trimtab_keys.clients.confluent import Consumer


class Deaf:
    """A client whose coordinator does not answer, always or for some requests."""

    closed = False

    def __init__(self, deaf_for: int = 10**9) -> None:
        self._deaf_for = deaf_for
        self.begun: list[TopicPartition] = []

    def committed(self, names: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Fail at first, then return offset 7."""
        self._deaf_for -= 1
        if self._deaf_for >= 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return [TopicPartition(one.topic, one.partition, 7) for one in names]

    def get_watermark_offsets(self, name: TopicPartition, timeout: float) -> tuple[int, int]:
        """The beginning and the end of the log."""
        return 3, 9

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Note the partitions that the client starts."""
        self.begun += partitions

    def poll(self, seconds: float) -> None:
        """Return no record and no error."""

    def close(self) -> None:
        """Note that the client is closed."""
        self.closed = True


class Patient:
    """The methods of `OrderedConsumer` that a step without records calls."""

    commits: ClassVar[dict[int, int]] = {}

    def poll_timeout(self, seconds: float) -> float:
        """Let the client return at once."""
        return 0.0

    def __init__(self) -> None:
        self.begun: list[tuple[int, int]] = []

    def assigned(self, partition: int, position: int) -> None:
        """Note a partition and its position."""
        self.begun.append((partition, position))

    def close(self) -> None:
        """Do nothing when the consumer closes."""


def consumer(client: Deaf) -> Any:
    """A consumer that was never connected."""
    made: Any = Consumer.__new__(Consumer)
    made.client, made.receiving, made._incremental = client, Patient(), False
    made._topic, made._closing, made._trouble = "orders", False, None
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set all waiting times of the module to zero."""
    monkeypatch.setattr(module, "BEGIN_SECONDS", 0.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.0)


def test_a_partition_whose_leader_has_just_died_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next leader is known some seconds later, so the consumer must not end."""
    monkeypatch.setattr(module, "BEGIN_SECONDS", 60.0)
    late = consumer(Deaf(deaf_for=5))
    late._assigned(late.client, [TopicPartition("orders", 2)])
    assert late.receiving.begun == [(2, 7)]
    assert [(one.partition, one.offset) for one in late.client.begun] == [(2, 7)]
    assert late._trouble is None


def test_an_error_in_a_callback_is_raised_by_the_step() -> None:
    """The client would raise it in the callback as a `KafkaError`, which no `except` catches."""
    deaf = consumer(Deaf())
    deaf._assigned(deaf.client, [TopicPartition("orders", 0)])
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        deaf.step()
    assert deaf._trouble is None
    assert not deaf.receiving.begun


def test_a_rebalance_during_close_sends_no_request() -> None:
    """The consumer reads no more records at this time."""
    deaf = consumer(Deaf())
    deaf.close()
    deaf._assigned(deaf.client, [TopicPartition("orders", 0)])
    assert deaf.client.closed
    assert deaf._trouble is None
