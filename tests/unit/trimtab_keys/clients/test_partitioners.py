"""Policies as partitioners of three clients, none of them connected."""

from __future__ import annotations

from collections import Counter

import pytest
from kafka.cluster import ClusterMetadata
from kafka.partitioner import Partitioner as PartitionerOfKafka

from trimtab_common.errors import InputError, SettingsError
from trimtab_keys.clients import partitioners as module
from trimtab_keys.clients.kafka_python import Partitioner
from trimtab_keys.clients.partitioners import PolicyPartitioner
from trimtab_keys.clients.settings import LoadConfig
from trimtab_keys.core.load import PartitionLoadView, TopicLoad
from trimtab_keys.core.policies import POLICIES, IpooaSettings, KeyPolicyInputs, policy_named
from trimtab_keys.core.routing import murmur2

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


def test_kafka_python_3_accepts_the_partitioner_object() -> None:
    """It is one that its producer takes, and goes by the key as it is sent."""
    cluster = ClusterMetadata(bootstrap_servers="localhost:1")
    cluster.partitions_for_topic = lambda _: {2, 0, 1}
    partitioner = Partitioner("hash")
    assert isinstance(partitioner, PartitionerOfKafka)
    for key in KEYS:
        assert partitioner.partition("t", "not this", key, None, None, cluster) == java(key, 3)


def test_topics_of_different_counts_alternate_and_each_keeps_its_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A policy by load that restarted at each record would send all of a key to one of two places."""
    made: list[int] = []

    def view(count: int) -> PartitionLoadView:
        made.append(count)
        return PartitionLoadView(count)

    monkeypatch.setattr(module, "PartitionLoadView", view)
    partition, places = PolicyPartitioner("pkg", seed=1), Counter[int]()
    for _ in range(100):
        places[partition(b"21", range(5))] += 1
        assert partition(b"21", range(3)) < 3
    assert sorted(places.values()) == [50, 50]
    assert made == [5, 3]


def test_a_policys_finding_in_one_topic_does_not_apply_to_another() -> None:
    """The partition at which a batch without keys stays is one of 24; of three it is none."""
    partition = PolicyPartitioner("sticky", KeyPolicyInputs(batch_records=1000), seed=1)
    stays = {partition(None, range(24)) for _ in range(50)}
    assert len(stays) == 1
    assert stays.isdisjoint(range(3)), "another seed: this one shows nothing"
    assert all(partition(None, range(3)) < 3 for _ in range(50))
    assert {partition(None, range(24)) for _ in range(50)} == stays


def test_an_unknown_policy_is_rejected_at_construction() -> None:
    """Not with the first record."""
    with pytest.raises(SettingsError, match="policy is 'fair'"):
        PolicyPartitioner("fair")


class Load:
    """A load that a test sets; the topic's hash divides by four."""

    settings = LoadConfig({}, "t", "g")

    def __init__(self, *backlog: float, in_use: int = 4) -> None:
        self.asked: list[int] = []
        self.see(*backlog, in_use=in_use)

    def see(self, *backlog: float, in_use: int = 4, topic_id: str = "id", base: int = 4) -> None:
        """So much waits and arrives in a second; consumers do a hundred."""
        self.partitions = len(backlog)
        self.load = TopicLoad(topic_id, base, in_use, backlog, backlog, [100.0] * len(backlog))

    def request_partition(self, known: int) -> None:
        """Noted."""
        self.asked.append(known)


HOT = b"21"
"""Partition 0 of 4, and of 5."""
LEAST = KeyPolicyInputs(ipooa=IpooaSettings(candidate="least"))


@pytest.mark.parametrize("kind", [PolicyPartitioner, Partitioner])
@pytest.mark.parametrize("given", [None, LEAST, KeyPolicyInputs(ipooa=IpooaSettings(isc="literal"))])
def test_a_policy_that_needs_load_is_rejected_without_it(
    kind: type[PolicyPartitioner], given: KeyPolicyInputs | None
) -> None:
    """It would silently be the plain hash."""
    with pytest.raises(SettingsError, match=r"policy 'ipooa' goes by the load .*give load=LiveLoad"):
        kind("ipooa", given)


def test_which_policies_need_load() -> None:
    """All others do something else than the hash by what they count themselves, or are the hash."""
    needy = {name for name in POLICIES if name != "key_groups" and policy_named(name).needs_load}
    assert needy == {"ipooa"}


def test_records_follow_the_load() -> None:
    """Home while it is not overloaded; then to the emptiest, until what was sent there counts; then home."""
    load = Load(0, 0, 0, 0)
    partition = PolicyPartitioner("ipooa", LEAST, seed=1, load=load)
    assert partition(HOT, range(4)) == 0
    load.see(200, 90, 10, 90)
    assert [partition(HOT, range(4)) for _ in range(40)] == [2] * 40
    load.see(0, 90, 90, 90)
    assert partition(HOT, range(4)) == 0
    assert not load.asked


def test_each_observation_counts_once() -> None:
    """Between two of them what is sent counts: 21 records bring an ISC of .5 to .6 and more."""
    load = Load(50, 0, 0, 0)
    partition = PolicyPartitioner("ipooa", LEAST, seed=1, load=load)
    assert [partition(HOT, range(4)) for _ in range(30)].count(0) == 21


def test_candidates_are_similar_by_records_sent() -> None:
    """A record of the hot key went to 2 as well, so that 2 is most like home, though 1 and 3 are as empty."""
    load = Load(0, 0, 0, 0)
    partition = PolicyPartitioner("ipooa", seed=1, load=load)
    assert partition(HOT, range(4)) == 0
    load.see(200, 200, 0, 200)
    while partition(HOT, range(4)) != 2:
        load.see(200, 200, 0, 200)
    for _ in range(20):
        load.see(200, 0, 0, 0)
        assert partition(HOT, range(4)) == 2


def test_the_printed_consumption_sees_keys() -> None:
    """All keys lie in one partition, which has more than Θ of them; a load of any size it does not see."""
    load = Load(0, 0, 0, 0)
    partition = PolicyPartitioner(
        "ipooa", KeyPolicyInputs(ipooa=IpooaSettings(isc="literal", candidate="least")), 1, load
    )
    assert partition(HOT, range(4)) == 0
    assert partition(HOT, range(4)) == 0
    load.see(0, 0, 0, 0)
    assert partition(HOT, range(4)) != 0


def test_if_all_are_overloaded_a_partition_is_requested_and_used_once_known() -> None:
    """It is there, then the client knows it: the next record goes there."""
    load = Load(200, 200, 200, 200)
    partition = PolicyPartitioner("ipooa", LEAST, seed=1, load=load)
    assert partition(HOT, range(4)) < 4
    assert load.asked == [4]
    load.see(200, 200, 200, 200, 0)
    assert partition(HOT, range(4)) < 4
    assert partition(HOT, [4, 2, 3, 1, 0]) == 4
    assert load.asked == [4, 4]
    load.see(200, 200, 200, 200, 10, in_use=5)
    assert partition(HOT, range(5)) == 4, "a candidate like the others now"


def test_the_hash_keeps_its_base_when_partitions_are_added() -> None:
    """Over five nearly all keys would move."""
    load = Load(0, 0, 0, 0, 0)
    partition = PolicyPartitioner("ipooa", LEAST, load=load)
    assert all(partition(key, range(5)) == java(key, 4) for key in KEYS)


def test_a_recreated_topic_starts_again() -> None:
    """Two partitions where there were four."""
    load = Load(0, 0, 0, 0)
    partition = PolicyPartitioner("ipooa", LEAST, load=load)
    partition(HOT, range(4))
    load.see(0, 0, in_use=2, topic_id="other", base=2)
    assert all(partition(key, range(2)) == java(key, 2) for key in KEYS)


def test_a_partitioner_by_load_is_for_its_topic_alone() -> None:
    """Another topic of the same producer is refused, by its name or by its partitions."""
    partition = Partitioner("ipooa", LEAST, load=Load(0, 0, 0, 0))
    with pytest.raises(InputError, match="topic t has 4 partitions, and the client gave 3"):
        partition(HOT, range(3))
    cluster = ClusterMetadata(bootstrap_servers="localhost:1")
    with pytest.raises(InputError, match="goes by the load of topic t, and was asked for u"):
        partition.partition("u", None, HOT, None, None, cluster)


def test_kafka_python_3_refreshes_metadata_after_a_partition_was_added() -> None:
    """Once for each observation, until it knows; by itself it would refresh after five minutes."""
    load, asked, known = Load(0, 0, 0, 0), [], {0, 1, 2, 3}
    cluster = ClusterMetadata(bootstrap_servers="localhost:1")
    cluster.partitions_for_topic = lambda _: known
    cluster.request_update = lambda: asked.append(1)
    partitioner = Partitioner("ipooa", LEAST, load=load)

    def sent(times: int) -> int:
        """So many records; how often it was told since."""
        asked.clear()
        for _ in range(times):
            partitioner.partition("t", None, HOT, None, None, cluster)
        return len(asked)

    assert sent(3) == 0
    load.see(0, 0, 0, 0, 0)
    assert sent(3) == 1
    load.see(0, 0, 0, 0, 0)
    assert sent(3) == 1
    known.add(4)
    load.see(0, 0, 0, 0, 0)
    assert sent(3) == 0


def test_other_policies_use_the_load_if_available() -> None:
    """PKG takes the emptier of two by what waits, not by what it sent."""
    load = Load(1000, 1000, 1000, 1000)
    partition = PolicyPartitioner("pkg", seed=1, load=load)
    two = {partition(HOT, range(4)) for _ in range(10)}
    assert len(two) == 2
    full, empty = sorted(two)
    load.see(*(900 if one == full else 0 for one in range(4)))
    assert {partition(HOT, range(4)) for _ in range(100)} == {empty}
