"""kafka-python's own admin client against the simulated cluster."""

import threading
from collections.abc import Iterator

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import InvalidReplicationAssignmentError, NoReassignmentInProgressError
from kafka.structs import TopicPartitionReplica

from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from simulate.kafka.state import PartitionName


@pytest.fixture
def server() -> Iterator[SimulatedKafkaServer]:
    """Four brokers, two partitions of 60 MB."""
    cluster = cluster_of(4, racks=2)
    cluster.controller.create_topic("t", {0: [1, 2], 1: [2, 3]}, size_bytes=60e6)
    with SimulatedKafkaServer(cluster) as running:
        yield running


@pytest.fixture
def admin(server: SimulatedKafkaServer) -> Iterator[KafkaAdminClient]:
    """The real client."""
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap, client_id="test", request_timeout_ms=5000)
    yield client
    client.close()


def test_a_client_sees_brokers_topics_and_disks(admin: KafkaAdminClient) -> None:
    """Every view that an operator has of a cluster is there."""
    brokers = admin.describe_cluster()["brokers"]
    assert [(b["broker_id"], b["rack"], b["is_fenced"]) for b in brokers] == [
        (1, "r1", False),
        (2, "r2", False),
        (3, "r1", False),
        (4, "r2", False),
    ]
    (topic,) = admin.describe_topics(["t"])
    assert [(p["leader_id"], p["replica_nodes"]) for p in topic["partitions"]] == [(1, [1, 2]), (2, [2, 3])]
    (seen,) = admin.describe_log_dirs(brokers=[1])
    sizes = {d["log_dir"]: d["total_bytes"] - d["usable_bytes"] for d in seen["log_dirs"]}
    assert sizes == {"/d0": 60_000_000, "/d1": 0}


def test_a_reassignment_is_started_watched_and_finished(
    server: SimulatedKafkaServer, admin: KafkaAdminClient
) -> None:
    """Errors of single partitions are returned with the success of others."""
    moved = TopicPartition("t", 0)
    answers = admin.alter_partition_reassignments({moved: [4, 2], TopicPartition("t", 1): [2, 9]})
    assert answers == {moved: None, TopicPartition("t", 1): InvalidReplicationAssignmentError}
    assert admin.list_partition_reassignments() == {
        moved: {"replicas": [4, 2, 1], "adding_replicas": [4], "removing_replicas": [1]}
    }
    server.advance(60)
    assert admin.list_partition_reassignments() == {}
    assert admin.alter_partition_reassignments({moved: None}) == {moved: NoReassignmentInProgressError}


def test_configuration_is_changed_and_read_back(admin: KafkaAdminClient) -> None:
    """A broker's own throttle and a topic's list of throttled replicas."""
    broker = ConfigResource(ConfigResourceType.BROKER, "1", {"leader.replication.throttled.rate": "5000000"})
    topic = ConfigResource(ConfigResourceType.TOPIC, "t", {"leader.replication.throttled.replicas": "0:1"})
    assert admin.alter_configs([broker, topic], incremental=True) == {
        "broker": {"1": "OK"},
        "topic": {"t": "OK"},
    }
    seen = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "t")])
    assert seen["topic"]["t"]["leader.replication.throttled.replicas"]["value"] == "0:1"


def test_a_dead_broker_refuses_connections_and_is_fenced(server: SimulatedKafkaServer) -> None:
    """The others go on; the dead one stays in the list with its flag up."""
    server.do(lambda cluster: cluster.kill_broker(4))
    server.advance(7)
    assert len(server.bootstrap) == 3
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=5000)
    assert {b["broker_id"]: b["is_fenced"] for b in client.describe_cluster()["brokers"]}[4]
    client.close()


def test_a_request_waits_in_the_broker_until_a_controller_is_back(
    server: SimulatedKafkaServer, admin: KafkaAdminClient
) -> None:
    """While the controller restarts a change is neither lost nor refused, only late."""
    server.do(lambda cluster: cluster.restart_controller(2.0))
    back = threading.Timer(0.2, server.advance, (2.5,))
    back.start()
    assert admin.alter_partition_reassignments({TopicPartition("t", 0): [4, 2]}) == {
        TopicPartition("t", 0): None
    }
    back.join()


def test_offsets_groups_topics_and_log_dirs(server: SimulatedKafkaServer, admin: KafkaAdminClient) -> None:
    """The rest of what collectors and executors ask."""
    server.do(lambda cluster: cluster.groups.update(g={PartitionName("t", 0): 5}))
    assert admin.list_partition_offsets({TopicPartition("t", 0): -1})[TopicPartition("t", 0)].offset == 60_000
    assert [group["group_id"] for group in admin.list_groups()] == ["g"]
    assert admin.list_group_offsets(["g"])["g"][TopicPartition("t", 0)].offset == 5
    answers = admin.alter_replica_log_dirs({TopicPartitionReplica("t", 0, 2): "/d1"})
    assert [error.errno for error in answers.values()] == [0]
    admin.create_topics({"u": {"num_partitions": 3, "replication_factor": 2}}, wait_for_metadata=True)
    admin.delete_topics(["u"])
    assert [topic["name"] for topic in admin.describe_topics()] == ["t"]
