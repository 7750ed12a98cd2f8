"""The simulated cluster in virtual time, against what was measured on real brokers."""

import pytest

from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.state import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigOperation,
    ErrorCode,
    KafkaRefusal,
    ResourceType,
)

MB = 1e6


def throttle(cluster: SimulatedKafka, bytes_per_second: float) -> None:
    """Throttle all replicas of the topic by the default of all brokers."""
    rate = str(int(bytes_per_second))
    cluster.controller.alter_configs(
        ResourceType.BROKER,
        "",
        [(LEADER_RATE, ConfigOperation.SET, rate), (FOLLOWER_RATE, ConfigOperation.SET, rate)],
    )
    cluster.controller.alter_configs(
        ResourceType.TOPIC,
        "t",
        [(LEADER_REPLICAS, ConfigOperation.SET, "*"), (FOLLOWER_REPLICAS, ConfigOperation.SET, "*")],
    )


def seconds_to_copy(cluster: SimulatedKafka) -> float:
    """Virtual seconds until nothing is in flight."""
    begun = cluster.now
    while cluster.controller.reassignments():
        cluster.advance(0.1)
        assert cluster.now - begun < 1000
    return cluster.now - begun


def one_copy(size: float = 60 * MB, samples: int = 11) -> SimulatedKafka:
    """Three brokers, one partition on the first two."""
    cluster = cluster_of(3, copy_bytes_per_second=100 * MB, quota_samples=samples)
    cluster.controller.create_topic("t", {0: [1, 2]}, size_bytes=size)
    return cluster


def test_an_unthrottled_copy_takes_its_bytes_over_the_bandwidth() -> None:
    """60 MB over 100 MB/s arrive after 0.6 s; then the reassignment is complete and the old copy removed."""
    cluster = one_copy()
    cluster.controller.reassign("t", 0, [1, 3])
    assert seconds_to_copy(cluster) == pytest.approx(0.6, abs=0.11)
    assert cluster.partition("t", 0).replicas == [1, 3]
    assert sorted(cluster.partition("t", 0).held) == [1, 3]


@pytest.mark.parametrize(("rate", "measured"), [(5 * MB, 12.4), (20 * MB, 0.55)])
def test_a_throttle_lets_a_first_burst_pass(rate: float, measured: float) -> None:
    """60 MB take about as long as on real brokers, whose quota averages over eleven seconds."""
    cluster = one_copy()
    throttle(cluster, rate)
    cluster.controller.reassign("t", 0, [1, 3])
    assert seconds_to_copy(cluster) == pytest.approx(measured, rel=0.15, abs=0.2)


def test_a_short_window_makes_a_throttle_bind_at_once() -> None:
    """With two samples the time is linear in the rate (real brokers then reach only half of the rate)."""
    taken = []
    for rate in (20 * MB, 10 * MB, 5 * MB):
        cluster = one_copy(samples=2)
        throttle(cluster, rate)
        cluster.controller.reassign("t", 0, [1, 3])
        taken.append(seconds_to_copy(cluster) * rate)
    assert taken == pytest.approx([60 * MB] * 3, rel=0.25)


def test_a_throttle_holds_back_only_the_replicas_that_are_listed() -> None:
    """A rate without a list of replicas throttles nothing."""
    cluster = one_copy(samples=2)
    cluster.controller.alter_configs(ResourceType.BROKER, "", [(LEADER_RATE, ConfigOperation.SET, "1000")])
    cluster.controller.reassign("t", 0, [1, 3])
    assert seconds_to_copy(cluster) < 1


def test_copies_share_the_bandwidth_of_a_broker() -> None:
    """Two copies into the same broker take twice as long as one."""
    cluster = cluster_of(4, copy_bytes_per_second=100 * MB)
    cluster.controller.create_topic("t", {0: [1, 2], 1: [2, 1]}, size_bytes=100 * MB)
    cluster.controller.reassign("t", 0, [1, 3])
    cluster.controller.reassign("t", 1, [2, 3])
    assert seconds_to_copy(cluster) == pytest.approx(2.0, abs=0.11)


def test_a_reassignment_to_a_dead_broker_stays_in_flight_until_cancelled() -> None:
    """Kafka accepts it without a word; only a cancel ends it."""
    cluster = one_copy()
    cluster.kill_broker(3)
    cluster.advance(7)
    cluster.controller.reassign("t", 0, [1, 3])
    cluster.advance(3600)
    assert cluster.controller.reassignments()
    cluster.controller.reassign("t", 0, None)
    assert not cluster.controller.reassignments()
    assert cluster.partition("t", 0).replicas == [1, 2]


def test_a_dead_broker_is_fenced_when_its_session_expires() -> None:
    """For six seconds it still leads on paper; then leadership goes to an in-sync follower."""
    cluster = one_copy()
    cluster.kill_broker(1)
    cluster.advance(5.9)
    assert cluster.partition("t", 0).leader == 1
    cluster.advance(0.2)
    assert (cluster.partition("t", 0).leader, cluster.partition("t", 0).in_sync) == (2, [2])
    cluster.start_broker(1)
    cluster.advance(5)
    assert sorted(cluster.partition("t", 0).in_sync) == [1, 2]


def test_the_last_in_sync_replica_waits_for_its_broker() -> None:
    """With its only in-sync broker dead a partition is offline, and back as soon as that broker is."""
    cluster = one_copy()
    for broker in (1, 2):
        cluster.kill_broker(broker)
        cluster.advance(7)
    assert cluster.partition("t", 0).leader is None
    cluster.start_broker(1)
    cluster.advance(5)
    assert cluster.partition("t", 0).leader is None, "broker 1 left the in-sync set first, so it may not lead"
    cluster.start_broker(2)
    cluster.advance(5)
    assert cluster.partition("t", 0).leader == 2


def test_nothing_is_answered_while_the_controller_restarts() -> None:
    """Requests are refused, running copies go on, but nothing finishes before the controller is back."""
    cluster = one_copy()
    cluster.controller.reassign("t", 0, [1, 3])
    cluster.restart_controller(5)
    cluster.advance(4)
    with pytest.raises(KafkaRefusal) as refusal:
        cluster.controller.reassign("t", 0, None)
    assert refusal.value.code == ErrorCode.NOT_CONTROLLER
    assert cluster.partition("t", 0).reassigning
    cluster.advance(1.1)
    assert not cluster.controller.reassignments()


def test_a_replica_changes_its_log_dir() -> None:
    """Both dirs hold a copy until the new one is whole."""
    cluster = one_copy()
    before = cluster.partition("t", 0).held[1].log_dir
    other = next(path for path in cluster.brokers[1].log_dirs if path != before)
    cluster.disks.move("t", 0, 1, other)
    cluster.advance(0.1)
    assert 0 < cluster.disks.used_bytes(1, other) < 60 * MB
    cluster.advance(1)
    assert (cluster.disks.used_bytes(1, other), cluster.disks.used_bytes(1, before)) == (60 * MB, 0)


def test_a_log_dir_is_remembered_for_a_replica_yet_to_come() -> None:
    """Requested before the copy starts, the broker answers that the replica is missing, and still places it
    there.
    """
    cluster = one_copy()
    with pytest.raises(KafkaRefusal) as refusal:
        cluster.disks.move("t", 0, 3, "/d1")
    assert refusal.value.code == ErrorCode.REPLICA_NOT_AVAILABLE
    cluster.controller.reassign("t", 0, [1, 3])
    assert cluster.partition("t", 0).held[3].log_dir == "/d1"


def test_a_broken_disk_takes_its_replicas_offline() -> None:
    """Leadership leaves a broker with a failed disk, although the broker is alive."""
    cluster = one_copy()
    cluster.fail_log_dir(1, cluster.partition("t", 0).held[1].log_dir)
    assert (cluster.partition("t", 0).leader, cluster.partition("t", 0).in_sync) == (2, [2])


def test_malformed_configuration_is_refused_and_changes_nothing() -> None:
    """One bad value among several leaves the resource as it was."""
    cluster = one_copy()
    changes = [(LEADER_RATE, ConfigOperation.SET, "1000"), (FOLLOWER_RATE, ConfigOperation.SET, "fast")]
    with pytest.raises(KafkaRefusal, match="fast"):
        cluster.controller.alter_configs(ResourceType.BROKER, "1", changes)
    assert cluster.configs.throttles() == {}
