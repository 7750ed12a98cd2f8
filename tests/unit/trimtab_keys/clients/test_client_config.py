"""What a client's own settings may not be, since order rests on it."""

from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.partitioner import DefaultPartitioner, StickyPartitioner
from kafka.partitioner import Partitioner as PartitionerOfKafka

from trimtab_common.errors import SettingsError
from trimtab_keys.clients import aiokafka, kafka_python
from trimtab_keys.clients.settings import RoutingConfig, check_consumer_config, check_producer_config
from trimtab_keys.core.order.messages import OrderingConfig

FOLLOWING = RoutingConfig({}, ordering=OrderingConfig(delivery_seconds=10, gap_seconds=12))


@pytest.mark.parametrize("acks", ["all", -1, "-1"])
@pytest.mark.parametrize("idempotent", [True, "true"])
def test_a_producer_that_keeps_its_promises_is_taken(acks: object, idempotent: object) -> None:
    """In the terms of each client; a delivery time-out may have the stated value, or less."""
    for delivery_ms in (1.0, 10_000.0):
        check_producer_config(acks, idempotent, delivery_ms, None, None, FOLLOWING)


@pytest.mark.parametrize(
    ("acks", "idempotent", "delivery_ms", "told"),
    [
        (1, True, 1000, "acks is 1, expected 'all'"),
        (0, True, 1000, "acks is 0, expected 'all'"),
        ("1", "true", 1000, "acks is '1', expected 'all'"),
        ("all", False, 1000, "idempotence is off, expected on"),
        ("all", "false", 1000, "idempotence is off, expected on"),
        ("all", None, 1000, "idempotence is off, expected on"),
        ("all", True, 10_001, "the delivery time-out is 10.001 s, expected 10 s .delivery_seconds. or less"),
    ],
)
def test_a_producer_that_does_not_is_refused(
    acks: object, idempotent: object, delivery_ms: float, told: str
) -> None:
    """With the setting, what it is, and what it must be."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        check_producer_config(acks, idempotent, delivery_ms, None, None, FOLLOWING)


def test_a_transaction_is_refused() -> None:
    """Consumers would wait for what it takes back."""
    told = "^transactional_id is 'payments', expected none: consumers would wait gap_seconds for .*; leave it"
    with pytest.raises(SettingsError, match=told):
        check_producer_config("all", True, 1000, "payments", None, FOLLOWING)


def test_a_partitioner_that_places_keys_elsewhere_is_refused() -> None:
    """Their older records still wait where it put them."""
    told = (
        "^partitioner is fnv1a, expected murmur2_random with confluent-kafka .*; set it for a new topic, or"
    )
    with pytest.raises(SettingsError, match=told):
        check_producer_config("all", True, 1000, None, "fnv1a", FOLLOWING)


@pytest.mark.parametrize("auto_commit", [False, "false"])
@pytest.mark.parametrize("reset", ["earliest", "smallest", "beginning"])
def test_a_consumer_that_keeps_its_promises_is_taken(auto_commit: object, reset: object) -> None:
    """In the terms of each client."""
    check_consumer_config(auto_commit, reset)


@pytest.mark.parametrize(
    ("auto_commit", "reset", "told"),
    [
        (True, "earliest", "auto-commit is on, expected off"),
        ("true", "earliest", "auto-commit is on, expected off"),
        (False, "latest", "auto.offset.reset is 'latest', expected 'earliest'"),
        (False, "none", "auto.offset.reset is 'none', expected 'earliest'"),
    ],
)
def test_a_consumer_that_does_not_is_refused(auto_commit: object, reset: object, told: str) -> None:
    """Commits would include unprocessed records, or records be skipped silently."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        check_consumer_config(auto_commit, reset)


class Custom(PartitionerOfKafka):  # type: ignore[misc]
    """One of an application."""

    def partition(self, *_: Any) -> int:
        """The first."""
        return 0


def any_partition(key: bytes | None, all_partitions: list[int], available: list[int]) -> int:
    """One of an application, for aiokafka."""
    return all_partitions[0]


@pytest.mark.parametrize(
    ("module", "config", "told"),
    [
        (kafka_python, {"transactional_id": "payments"}, "transactional_id is 'payments'"),
        (kafka_python, {"partitioner": Custom()}, "partitioner is Custom, expected"),
        (aiokafka, {"transactional_id": "payments"}, "transactional_id is 'payments'"),
        (aiokafka, {"partitioner": any_partition}, "partitioner is any_partition, expected"),
    ],
)
def test_a_client_is_refused_before_it_connects(module: Any, config: dict[str, Any], told: str) -> None:
    """Of confluent-kafka's producer this stands in its own tests."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        module.Producer(
            "orders", FOLLOWING, bootstrap_servers="localhost:1", request_timeout_ms=1000, **config
        )


@pytest.mark.parametrize("partitioner", [None, DefaultPartitioner(), StickyPartitioner()])
def test_kafka_pythons_own_partitioners_are_taken(partitioner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They place keys by murmur2, as the order guard does."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(KafkaProducer, "__init__", lambda self, **config: given.update(config))
    monkeypatch.setattr(kafka_python, "TableRouter", lambda *_: None)
    kafka_python.Producer("orders", FOLLOWING, partitioner=partitioner)
    assert given["partitioner"] is partitioner
