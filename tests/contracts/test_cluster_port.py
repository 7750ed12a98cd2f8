"""What every cluster behind `ClusterPort` does alike: the fake in memory and behind sockets, real brokers.

Whatever the simulation proves about an execution rests on these: the fake answers as Kafka does.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from contracts.conftest import Cluster
from trimtab.act.execution.port import Failure, PortError
from trimtab.act.replicas.port import ClusterObservation, ThrottleConfig, TopicPartition

pytestmark = pytest.mark.timeout(600)

MB = 1_000_000
BROKERS = (1, 2, 3, 4)


def look(cluster: Cluster, *partitions: TopicPartition, wide: bool = False) -> ClusterObservation:
    """One look at these partitions and at all brokers."""
    for _ in range(200):
        try:
            return cluster.port.observe(partitions, BROKERS, wide=wide)
        except PortError as error:
            # A broker that has just died takes the calls under way with it; the next ones go elsewhere.
            assert error.failure.transient, error
            cluster.pass_time(0.1)
    return cluster.port.observe(partitions, BROKERS, wide=wide)


def look_until(
    cluster: Cluster,
    so: Callable[[ClusterObservation], bool],
    *partitions: TopicPartition,
    seconds: float = 5.0,
    wide: bool = False,
) -> ClusterObservation:
    """The first look that shows something: brokers hear of what is so a moment after the controller."""
    seen = []

    def shows() -> bool:
        seen.append(look(cluster, *partitions, wide=wide))
        return so(seen[-1])

    cluster.wait(shows, seconds)
    return seen[-1]


def replicas(cluster: Cluster, name: TopicPartition) -> tuple[int, ...]:
    """The list of a partition as the broker that answers knows it; empty if it does not know it yet."""
    placement = look(cluster, name).placements.get(name)
    return () if placement is None else placement.replicas


def leader(cluster: Cluster, name: TopicPartition) -> int | None:
    """The leader of a partition as the broker that answers knows it."""
    placement = look(cluster, name).placements.get(name)
    return None if placement is None else placement.leader


def in_sync(cluster: Cluster, name: TopicPartition) -> list[int]:
    """The replicas in sync as the broker that answers knows them, in order of their ids."""
    placement = look(cluster, name).placements.get(name)
    return [] if placement is None else sorted(placement.in_sync)


def code(failure: Failure | None) -> str | None:
    """Kafka's word, None for yes."""
    return None if failure is None else failure.code


@contextmanager
def throttled(cluster: Cluster, topic: str, bytes_per_second: int) -> Iterator[None]:
    """All replicas of a topic held back for a while."""
    rate = str(bytes_per_second)
    config = ThrottleConfig(rate, rate, {topic: "*"}, {topic: "*"})
    assert cluster.port.write_throttle(config) == {}
    try:
        cluster.wait(lambda: cluster.port.read_throttle([topic]) == config, 5)
        yield
    finally:
        cluster.port.write_throttle(ThrottleConfig(None, None, {topic: None}, {topic: None}))


def settle(cluster: Cluster, name: TopicPartition) -> None:
    """Wait until the partition is not in flight."""
    cluster.wait(lambda: name not in look(cluster, name).reassignments)


def test_an_observation_has_placement_brokers_disks_and_copies(cluster: Cluster) -> None:
    """What an execution decides from; partitions that do not exist are simply not there."""
    topic = cluster.create({0: [1, 2], 1: [2, 3]}, MB)
    name, missing = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)
    seen = look_until(
        cluster,
        lambda seen: name in seen.placements and {(name, 1), (name, 2)} <= seen.copies.keys(),
        name,
        missing,
        wide=True,
    )
    assert set(seen.placements) == {name}
    assert seen.placements[name].replicas == (1, 2)
    assert seen.placements[name].leader == 1
    assert sorted(seen.placements[name].in_sync) == [1, 2]
    assert seen.placements[name].topic_id is not None
    assert seen.alive == frozenset(BROKERS)
    assert {broker: len(dirs) for broker, dirs in seen.log_dirs.items()} == dict.fromkeys(BROKERS, 2)
    assert all(d.online and d.total_bytes and d.usable_bytes for dirs in seen.log_dirs.values() for d in dirs)
    (copy,) = seen.copies[name, 1]
    assert 0.9 * MB < copy.size_bytes < 1.2 * MB
    assert seen.unhealthy == frozenset()
    assert look(cluster, name).unhealthy is None
    cluster.delete(topic)


def test_a_reassignment_is_first_in_flight_and_then_complete(cluster: Cluster) -> None:
    """While it lasts the list is the target followed by what leaves."""
    topic = cluster.create({0: [1, 2]}, 4 * MB)
    name = TopicPartition(topic, 0)
    with throttled(cluster, topic, 200_000):
        assert cluster.port.reassign({name: (3, 2)}) == {name: None}
        cluster.wait(lambda: replicas(cluster, name) == (3, 2, 1), 5)
        flying = look(cluster, name).reassignments[name]
        assert (flying.replicas, flying.adding, flying.removing) == ((3, 2, 1), (3,), (1,))
        assert flying.target == {3, 2}
        assert flying.origin == {1, 2}
    settle(cluster, name)
    cluster.wait(lambda: replicas(cluster, name) == (3, 2), 5)
    cluster.wait(lambda: leader(cluster, name) in (2, 3), 5)
    cluster.wait(lambda: (name, 1) not in look(cluster, name).copies, 5)
    cluster.delete(topic)


def test_a_throttle_holds_a_copy_back_until_it_is_lifted(cluster: Cluster) -> None:
    """4 MB at 100 kB/s do not arrive within three seconds, and arrive soon after the throttle is removed."""
    topic = cluster.create({0: [1, 2]}, 4 * MB)
    name = TopicPartition(topic, 0)
    with throttled(cluster, topic, 100_000):
        cluster.port.reassign({name: (1, 3)})
        cluster.pass_time(3)
        assert name in look(cluster, name).reassignments
    settle(cluster, name)
    cluster.delete(topic)


def test_a_new_order_takes_effect_at_once(cluster: Cluster) -> None:
    """The same brokers in another order: nothing is in flight, and no leader changes."""
    topic = cluster.create({0: [1, 2, 3]}, 0)
    name = TopicPartition(topic, 0)
    assert cluster.port.reassign({name: (3, 1, 2)}) == {name: None}
    cluster.wait(lambda: replicas(cluster, name) == (3, 1, 2), 5)
    cluster.wait(lambda: leader(cluster, name) == 1, 5)
    assert not look(cluster, name).reassignments
    cluster.delete(topic)


def test_rejections_are_returned_for_each_partition(cluster: Cluster) -> None:
    """One bad target does not spoil the others of the same call."""
    topic = cluster.create({0: [1, 2], 1: [1, 2], 2: [1, 2]}, 0)
    names = [TopicPartition(topic, number) for number in range(3)]
    missing = TopicPartition("no-such-topic", 0)
    answers = cluster.port.reassign(
        {names[0]: (1, 2, 3), names[1]: (1, 99), names[2]: (2, 1), missing: (1, 2)}
    )
    assert {name: code(answer) for name, answer in answers.items()} == {
        names[0]: "InvalidReplicationFactor",
        names[1]: "InvalidReplicationAssignment",
        names[2]: None,
        missing: "UnknownTopicOrPartition",
    }
    cluster.wait(lambda: replicas(cluster, names[2]) == (2, 1), 5)
    cluster.delete(topic)


def test_a_change_of_the_replication_factor_must_be_declared(cluster: Cluster) -> None:
    """What is named as resized grows and shrinks; what is not, in the same call, is refused."""
    topic = cluster.create({0: [1, 2], 1: [1, 2]}, MB)
    one, other = (TopicPartition(topic, number) for number in range(2))
    assert cluster.port.min_in_sync([topic, "no-such-topic"]) == {topic: 1, "no-such-topic": 1}
    answers = cluster.port.reassign({one: (1, 2, 3), other: (1, 2, 3)}, [one])
    assert {name: code(answer) for name, answer in answers.items()} == {
        one: None,
        other: "InvalidReplicationFactor",
    }
    settle(cluster, one)
    cluster.wait(lambda: replicas(cluster, one) == (1, 2, 3), 5)
    assert cluster.port.reassign({one: (1, 3)}, [one]) == {one: None}
    settle(cluster, one)
    cluster.wait(lambda: replicas(cluster, one) == (1, 3), 5)
    cluster.wait(lambda: leader(cluster, one) == 1, 5)
    assert replicas(cluster, other) == (1, 2)
    cluster.delete(topic)


def test_cancelling_restores_the_old_brokers_in_kafkas_order(cluster: Cluster) -> None:
    """A leaving broker returns at the end of the list; without a reassignment Kafka reports an error."""
    topic = cluster.create({0: [1, 2, 3]}, 4 * MB)
    name = TopicPartition(topic, 0)
    with throttled(cluster, topic, 100_000):
        cluster.port.reassign({name: (4, 2, 3)})
        cluster.wait(lambda: name in look(cluster, name).reassignments, 5)
        assert cluster.port.cancel_reassignments([name]) == {name: None}
        cluster.wait(lambda: replicas(cluster, name) == (2, 3, 1), 5)
        cluster.wait(lambda: (name, 4) not in look(cluster, name).copies, 5)
    answer = cluster.port.cancel_reassignments([name])[name]
    assert code(answer) == "NoReassignmentInProgress"
    cluster.delete(topic)


def test_an_election_gives_leadership_to_the_first_of_the_list(cluster: Cluster) -> None:
    """A repeated election succeeds, since the broker leads already; an unknown topic is a failure."""
    topic = cluster.create({0: [1, 2]}, 0)
    name, missing = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)
    cluster.port.reassign({name: (2, 1)})
    assert cluster.port.elect_preferred([name]) == {name: None}
    cluster.wait(lambda: leader(cluster, name) == 2, 5)
    assert cluster.port.elect_preferred([name]) == {name: None}
    assert code(cluster.port.elect_preferred([missing])[missing]) == "UnknownTopicOrPartition"
    cluster.delete(topic)


def test_a_replica_that_lags_cannot_be_elected(cluster: Cluster) -> None:
    """Leadership is not given to a copy that is still arriving."""
    topic = cluster.create({0: [1, 2]}, 4 * MB)
    name = TopicPartition(topic, 0)
    with throttled(cluster, topic, 100_000):
        cluster.port.reassign({name: (3, 2)})
        cluster.wait(lambda: name in look(cluster, name).reassignments, 5)
        refused = cluster.port.elect_preferred([name])[name]
        assert refused is not None
        assert (refused.code, refused.transient) == ("PreferredLeaderNotAvailable", True)
    settle(cluster, name)
    cluster.delete(topic)


def test_a_throttle_is_written_read_and_taken_away(cluster: Cluster) -> None:
    """None takes a setting away; what is not set reads as None, also for a topic that does not exist.

    Real brokers learn of a change a moment after the controller has confirmed it.
    """
    topic = cluster.create({0: [1, 2]}, 0)
    asked = (topic, "no-such-topic")
    nothing = ThrottleConfig(None, None, dict.fromkeys(asked), dict.fromkeys(asked))
    assert cluster.port.read_throttle(asked) == nothing
    some = ThrottleConfig("1000000", "2000000", {topic: "0:1"}, {topic: "0:2"})
    assert cluster.port.write_throttle(some) == {}
    cluster.wait(lambda: cluster.port.read_throttle([topic]) == some, 5)
    assert cluster.port.write_throttle(nothing) == {}
    cluster.wait(lambda: cluster.port.read_throttle(asked) == nothing, 5)
    cluster.delete(topic)


def test_a_cordon_is_written_read_and_taken_away(cluster: Cluster) -> None:
    """All log dirs, one of them, or none; the broker reports the configured value."""
    port = cluster.port
    paths = sorted(log_dir.path for log_dir in look(cluster).log_dirs[4])
    assert port.read_cordons([3, 4]) == {3: None, 4: None}
    for value, cordoned in (("*", paths), (paths[0], paths[:1]), (None, [])):
        assert port.write_cordons({4: value}) == {}
        cluster.wait(lambda value=value: port.read_cordons([3, 4]) == {3: None, 4: value}, 5)  # type: ignore[misc]
        look_until(
            cluster,
            lambda seen, cordoned=cordoned: (  # type: ignore[misc]
                sorted(log_dir.path for log_dir in seen.log_dirs[4] if log_dir.cordoned) == cordoned
            ),
        )
    assert port.write_cordons({4: None}) == {}
    assert code(port.write_cordons({4: "/no/such/dir"}).get(4)) == "InvalidRequest"


def test_a_cordoned_broker_takes_replicas_that_are_sent_there(cluster: Cluster) -> None:
    """Only Kafka's own choice leaves it out: lists that name it are taken as before."""
    topic = cluster.create({0: [1, 2], 1: [1, 3]}, MB)
    sent, reordered = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert cluster.port.write_cordons({3: "*"}) == {}
    try:
        cluster.wait(lambda: cluster.port.read_cordons([3]) == {3: "*"}, 5)
        answers = cluster.port.reassign({sent: (1, 3), reordered: (3, 1)})
        assert answers == {sent: None, reordered: None}
        cluster.wait(lambda: replicas(cluster, sent) == (1, 3) and replicas(cluster, reordered) == (3, 1))
    finally:
        assert cluster.port.write_cordons({3: None}) == {}
        cluster.wait(lambda: cluster.port.read_cordons([3]) == {3: None}, 5)
    cluster.delete(topic)


def test_a_dead_broker_neither_reports_nor_accepts_a_cordon(cluster: Cluster) -> None:
    """No other broker answers for it, and a later attempt may succeed."""
    cluster.kill(4)
    try:
        cluster.wait(lambda: 4 not in look(cluster).alive)
        with pytest.raises(PortError) as refused:
            cluster.port.read_cordons([1, 4])
        assert refused.value.failure.transient
        failures = cluster.port.write_cordons({1: None, 4: "*"})
        assert failures.keys() == {4}
        assert failures[4].transient
    finally:
        cluster.start(4)
        cluster.wait(lambda: 4 in look(cluster).alive)


def test_claims_are_left_and_taken_away(cluster: Cluster) -> None:
    """Claims persist in the cluster; two can exist at the same time."""
    assert cluster.port.read_claims() == frozenset()
    cluster.port.write_claims(["user=ada&host=h%2F1&pid=7"], [])
    cluster.port.write_claims(["user=bob&host=h2&pid=8"], ["nobody's"])
    both = {"user=ada&host=h%2F1&pid=7", "user=bob&host=h2&pid=8"}
    cluster.wait(lambda: cluster.port.read_claims() == both, 5)
    cluster.port.write_claims(["user=eve&host=h3&pid=9"], ["user=ada&host=h%2F1&pid=7"])
    later = {"user=bob&host=h2&pid=8", "user=eve&host=h3&pid=9"}
    cluster.wait(lambda: cluster.port.read_claims() == later, 5)
    cluster.port.write_claims([], later)
    cluster.wait(lambda: cluster.port.read_claims() == frozenset(), 5)


def test_replicas_change_their_log_dir_now_or_when_they_come(cluster: Cluster) -> None:
    """A target dir can be set before the replica exists; an unknown dir is a failure."""
    topic = cluster.create({0: [1, 2]}, MB)
    name = TopicPartition(topic, 0)
    seen = look_until(cluster, lambda seen: {(name, 1), (name, 2)} <= seen.copies.keys(), name)
    other = {
        broker: next(d.path for d in seen.log_dirs[broker] if d.path != seen.copies[name, broker][0].path)
        for broker in (1, 2)
    }
    assert cluster.port.move_log_dirs({(name, 2): other[2]}) == {name: None}
    cluster.wait(lambda: [c.path for c in look(cluster, name).copies.get((name, 2), ())] == [other[2]], 20)
    wanted = seen.log_dirs[3][1].path
    assert cluster.port.move_log_dirs({(name, 3): wanted}) == {name: None}
    cluster.port.reassign({name: (3, 2)})
    settle(cluster, name)
    cluster.wait(lambda: [c.path for c in look(cluster, name).copies.get((name, 3), ())] == [wanted], 5)
    assert code(cluster.port.move_log_dirs({(name, 2): "/no-such-dir"})[name]) == "LogDirNotFound"
    cluster.delete(topic)


def test_deleting_a_topic_ends_reassignments_in_flight(cluster: Cluster) -> None:
    """No trace of the topic remains in the observation."""
    topic = cluster.create({0: [1, 2]}, 4 * MB)
    name = TopicPartition(topic, 0)
    with throttled(cluster, topic, 100_000):
        cluster.port.reassign({name: (3, 2)})
        cluster.wait(lambda: name in look(cluster, name).reassignments, 5)
        cluster.delete(topic)
        cluster.wait(lambda: not look(cluster, name).placements, 5)
        cluster.wait(lambda: not look(cluster, name).reassignments, 5)


def test_a_dead_broker_is_fenced_and_copies_towards_it_wait(cluster: Cluster) -> None:
    """Kafka takes a reassignment towards the dead; it stays in flight, can be cancelled, or goes on later."""
    topic = cluster.create({0: [1, 2], 1: [4, 2]}, MB)
    name, led = TopicPartition(topic, 0), TopicPartition(topic, 1)
    cluster.kill(4)
    seen = look_until(cluster, lambda seen: 4 not in seen.alive, name, led, seconds=30)
    assert seen.brokers[4].fenced
    assert 4 not in seen.log_dirs
    cluster.wait(lambda: leader(cluster, led) == 2, 10)
    cluster.wait(lambda: in_sync(cluster, led) == [2], 5)
    assert cluster.port.reassign({name: (4, 2)}) == {name: None}
    cluster.pass_time(2)
    assert look(cluster, name).reassignments[name].adding == (4,)
    assert cluster.port.cancel_reassignments([name]) == {name: None}
    assert cluster.port.reassign({led: (3, 2)}) == {led: None}
    settle(cluster, led)
    assert cluster.port.reassign({name: (4, 2)}) == {name: None}
    cluster.start(4)
    settle(cluster, name)
    cluster.wait(lambda: in_sync(cluster, name) == [2, 4], 5)
    assert set(replicas(cluster, name)) == {2, 4}
    cluster.delete(topic)
