"""Policies as partitioners of three clients, none of them connected."""

from __future__ import annotations

from collections import Counter

import pytest
from kafka.cluster import ClusterMetadata
from kafka.partitioner import Partitioner as PartitionerOfKafka

from trimtab.dataplane.keys import partitioners as module
from trimtab.dataplane.keys.kafka_python import Partitioner
from trimtab.dataplane.keys.partitioners import PolicyPartitioner
from trimtab.model.errors import SettingsError
from trimtab.online.keys.catalogue import Given
from trimtab.online.keys.load import LoadView
from trimtab.online.keys.murmur2 import murmur2

KEYS = [b"key %d" % number for number in range(200)]


def java(key: bytes, count: int) -> int:
    """Where the Java client sends it."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def test_partitions_that_are_not_sorted_change_nothing() -> None:
    """The callable of aiokafka and kafka-python 2 gets them in any order; confluent-kafka's a range."""
    partition = PolicyPartitioner("hash")
    for key in KEYS:
        assert partition(key, [3, 0, 4, 1, 2], [0]) == java(key, 5)
        assert partition(key, range(5)) == java(key, 5)


def test_partitions_with_a_gap_are_taken_in_their_order() -> None:
    """Where a client knows only some of them, the second is the second."""
    partition = PolicyPartitioner("hash")
    assert {partition(key, [9, 2, 5]) for key in KEYS} == {2, 5, 9}
    assert all(partition(key, [9, 2, 5]) == (2, 5, 9)[java(key, 3)] for key in KEYS)
    assert all(partition(key, range(2, 5)) == 2 + java(key, 3) for key in KEYS)


def test_kafka_python_3_asks_an_object() -> None:
    """It is one that its producer takes, and goes by the key as it is sent."""
    cluster = ClusterMetadata(bootstrap_servers="localhost:1")
    cluster.partitions_for_topic = lambda _: {2, 0, 1}
    partitioner = Partitioner("hash")
    assert isinstance(partitioner, PartitionerOfKafka)
    for key in KEYS:
        assert partitioner.partition("t", "not this", key, None, None, cluster) == java(key, 3)


def test_topics_of_different_counts_take_turns_and_each_keeps_what_it_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A policy by load that began anew at each record would send all of a key to one place of two."""
    made: list[int] = []

    def view(count: int) -> LoadView:
        made.append(count)
        return LoadView(count)

    monkeypatch.setattr(module, "LoadView", view)
    partition, places = PolicyPartitioner("pkg", seed=1), Counter[int]()
    for _ in range(100):
        places[partition(b"21", range(5))] += 1
        assert partition(b"21", range(3)) < 3
    assert sorted(places.values()) == [50, 50]
    assert made == [5, 3]


def test_what_a_policy_found_in_one_topic_is_not_said_of_another() -> None:
    """The partition at which a batch without keys stays is one of 24; of three it is none."""
    partition = PolicyPartitioner("sticky", Given(batch_records=1000), seed=1)
    stays = {partition(None, range(24)) for _ in range(50)}
    assert len(stays) == 1
    assert stays.isdisjoint(range(3)), "another seed: this one shows nothing"
    assert all(partition(None, range(3)) < 3 for _ in range(50))
    assert {partition(None, range(24)) for _ in range(50)} == stays


def test_a_policy_that_is_not_there_is_refused_at_once() -> None:
    """Not with the first record."""
    with pytest.raises(SettingsError, match="policy is 'fair'"):
        PolicyPartitioner("fair")
