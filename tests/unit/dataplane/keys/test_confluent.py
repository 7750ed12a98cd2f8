"""What confluent-kafka's consumer does with errors in its callbacks, without a broker."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from trimtab.dataplane.keys.confluent import Consumer


class Deaf:
    """A client whose coordinator does not answer."""

    closed = False

    def committed(self, names: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Nobody says."""
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, seconds: float) -> None:
        """Nothing comes."""

    def close(self) -> None:
        """The end."""
        self.closed = True


class Patient:
    """As much of `Receiving` as a step without records asks for."""

    commits: ClassVar[dict[int, int]] = {}

    def patience(self, seconds: float) -> float:
        """At once."""
        return 0.0

    def assigned(self, partition: int, position: int) -> None:
        """Not to be called."""
        raise AssertionError("a partition begins nowhere")

    def close(self) -> None:
        """The end."""


def consumer() -> Any:
    """One that was never connected."""
    made: Any = Consumer.__new__(Consumer)
    made.client, made.receiving = Deaf(), Patient()
    made._topic, made._closing, made._trouble = "orders", False, None
    return made


def test_an_error_in_a_callback_is_raised_by_the_step() -> None:
    """Raised in the callback it would come out as a `KafkaError`, which no `except` catches."""
    deaf = consumer()
    deaf._assigned(deaf.client, [TopicPartition("orders", 0)])
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        deaf.step()
    assert deaf._trouble is None


def test_a_rebalance_while_it_closes_asks_nobody() -> None:
    """Nothing is consumed any more."""
    deaf = consumer()
    deaf.close()
    deaf._assigned(deaf.client, [TopicPartition("orders", 0)])
    assert deaf.client.closed
    assert deaf._trouble is None
