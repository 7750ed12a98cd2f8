"""Settings of clients that would break the order of keys."""

from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.partitioner import DefaultPartitioner, StickyPartitioner
from kafka.partitioner import Partitioner as PartitionerOfKafka

from trimtab_common.errors import SettingsError
from trimtab_keys.clients import aiokafka, kafka_python
from trimtab_keys.clients.settings import RoutingConfig, check_consumer_config, check_producer_config
from trimtab_keys.core.order import OrderingConfig

FOLLOWING = RoutingConfig({}, ordering=OrderingConfig(delivery_seconds=10, gap_seconds=12))


@pytest.mark.parametrize("acks", ["all", -1, "-1"])
@pytest.mark.parametrize("idempotent", [True, "true"])
def test_producer_settings_that_keep_order_are_accepted(acks: object, idempotent: object) -> None:
    """Each client's spelling is accepted; the delivery time-out may be as long as the limit, or shorter."""
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
def test_producer_settings_that_break_order_are_rejected(
    acks: object, idempotent: object, delivery_ms: float, told: str
) -> None:
    """The error names the setting, its value and the expected value."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        check_producer_config(acks, idempotent, delivery_ms, None, None, FOLLOWING)


def test_a_transactional_producer_is_rejected() -> None:
    """Consumers would wait for records that an aborted transaction took back."""
    told = "^transactional_id is 'payments', expected none: consumers would wait gap_seconds for .*; leave it"
    with pytest.raises(SettingsError, match=told):
        check_producer_config("all", True, 1000, "payments", None, FOLLOWING)


def test_a_partitioner_that_places_keys_elsewhere_is_rejected() -> None:
    """Older records of a key still wait in the partition of the other partitioner."""
    told = (
        "^partitioner is fnv1a, expected murmur2_random with confluent-kafka .*; set it for a new topic, or"
    )
    with pytest.raises(SettingsError, match=told):
        check_producer_config("all", True, 1000, None, "fnv1a", FOLLOWING)


@pytest.mark.parametrize("auto_commit", [False, "false"])
@pytest.mark.parametrize("reset", ["earliest", "smallest", "beginning"])
def test_consumer_settings_that_keep_order_are_accepted(auto_commit: object, reset: object) -> None:
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
def test_consumer_settings_that_lose_records_are_rejected(
    auto_commit: object, reset: object, told: str
) -> None:
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
def test_settings_are_checked_before_a_client_connects(
    module: Any, config: dict[str, Any], told: str
) -> None:
    """The tests of confluent-kafka's producer check the same for that client."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        module.Producer(
            "orders", FOLLOWING, bootstrap_servers="localhost:1", request_timeout_ms=1000, **config
        )


@pytest.mark.parametrize("partitioner", [None, DefaultPartitioner(), StickyPartitioner()])
def test_the_partitioners_of_kafka_python_are_accepted(
    partitioner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They place keys by murmur2, as the order guard does."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(KafkaProducer, "__init__", lambda self, **config: given.update(config))
    monkeypatch.setattr(kafka_python, "TableRouter", lambda *_: None)
    kafka_python.Producer("orders", FOLLOWING, partitioner=partitioner)
    assert given["partitioner"] is partitioner
