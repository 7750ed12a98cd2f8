"""What the port to real clusters makes of its client's weaknesses, and of brokers that lag the controller."""

import time
from collections.abc import Iterator

import pytest
from kafka.admin import KafkaAdminClient

from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from trimtab.act.execution.port import PortError
from trimtab.act.replicas.port import TopicPartition
from trimtab.systems.kafka.port import METADATA_LAG_SECONDS, KafkaAdminPort

BROKERS = (1, 2, 3, 4)
NAME = TopicPartition("t", 0)


@pytest.fixture
def server() -> Iterator[SimulatedKafkaServer]:
    """Four brokers, a partition of 60 MB on two of them."""
    cluster = cluster_of(4)
    cluster.controller.create_topic("t", {0: [1, 2]}, size_bytes=60e6)
    with SimulatedKafkaServer(cluster) as running:
        yield running


@pytest.fixture
def admin(server: SimulatedKafkaServer) -> Iterator[KafkaAdminClient]:
    """A client that last looked who there is while broker 4 was dead."""
    server.do(lambda cluster: cluster.kill_broker(4))
    server.advance(10)
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=5000)
    server.do(lambda cluster: cluster.start_broker(4))
    server.advance(10)
    yield client
    client.close()


class Late:
    """A client whose brokers show, of one topic, what was so a while ago."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin
        self.lagging = False
        self._shown: object = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._admin, name)

    def describe_topics(self, topics: list[str]) -> object:
        """As it was when the lag began."""
        if not self.lagging:
            self._shown = self._admin.describe_topics(topics)
        return self._shown


def test_a_returned_broker_is_queried_immediately(
    server: SimulatedKafkaServer, admin: KafkaAdminClient
) -> None:
    """The client refreshes its brokers every five minutes; disks are read and replicas moved before that."""
    port = KafkaAdminPort(admin, time.time)
    assert {broker.node_id for broker in admin._manager.cluster.brokers()} == {1, 2, 3}
    seen = port.observe([NAME], BROKERS, wide=False)
    assert set(seen.log_dirs) == set(BROKERS)


def test_a_controller_address_that_the_client_does_not_know_is_no_failure(admin: KafkaAdminClient) -> None:
    """Any broker may be named as the way to the controller, also one that has just come back."""
    port = KafkaAdminPort(admin, time.time)
    admin._controller_id = 4
    assert port.reassign({NAME: (2, 1)}) == {NAME: None}


def test_an_unknown_broker_is_retried(admin: KafkaAdminClient) -> None:
    """A refresh of the brokers does not help while the answering broker itself lags."""
    port = KafkaAdminPort(admin, time.time)
    admin._controller_id = 9
    with pytest.raises(PortError, match="UnknownBrokerId") as caught:
        port.reassign({NAME: (2, 1)})
    assert caught.value.failure.transient
    assert port.reassign({NAME: (2, 1)}) == {NAME: None}, "it asks anew where the controller is"


def test_a_client_that_has_ended_is_an_error_of_the_port(admin: KafkaAdminClient) -> None:
    """Errors of a library are converted to errors with one sentence."""
    port = KafkaAdminPort(admin, time.time)
    admin._net._closed = True
    try:
        with pytest.raises(PortError) as caught:
            port.observe([NAME], BROKERS, wide=False)
    finally:
        admin._net._closed = False
    assert not caught.value.failure.transient


def test_a_copy_is_complete_only_when_the_queried_broker_knows_it(
    server: SimulatedKafkaServer, admin: KafkaAdminClient
) -> None:
    """The controller has completed it; a list of old and new brokers would look like a third replica."""
    late = Late(admin)
    port = KafkaAdminPort(late, lambda: server.cluster.now)
    assert port.reassign({NAME: (3, 2)}) == {NAME: None}
    flying = port.observe([NAME], (), wide=False)
    assert flying.placements[NAME].replicas == (3, 2, 1)
    late.lagging = True
    server.advance(METADATA_LAG_SECONDS / 2)
    assert not admin.list_partition_reassignments()
    seen = port.observe([NAME], (), wide=False)
    assert (seen.reassignments, seen.placements) == (flying.reassignments, flying.placements)
    late.lagging = False
    seen = port.observe([NAME], (), wide=False)
    assert (dict(seen.reassignments), seen.placements[NAME].replicas) == ({}, (3, 2))


def test_a_list_that_only_grows_is_through_once_its_new_replica_is_in_sync(
    server: SimulatedKafkaServer, admin: KafkaAdminClient
) -> None:
    """It is the same list before its end, after it, and for a moment after it was cancelled."""
    late = Late(admin)
    port = KafkaAdminPort(late, lambda: server.cluster.now)
    assert port.reassign({NAME: (1, 2, 3)}, [NAME]) == {NAME: None}
    flying = port.observe([NAME], (), wide=False)
    assert flying.placements[NAME].replicas == (1, 2, 3)
    late.lagging = True
    port.cancel_reassignments([NAME])
    assert not admin.list_partition_reassignments()
    assert port.observe([NAME], (), wide=False).reassignments == flying.reassignments
    late.lagging = False
    seen = port.observe([NAME], (), wide=False)
    assert (dict(seen.reassignments), seen.placements[NAME].replicas) == ({}, (1, 2))


def test_a_partition_that_stays_as_it_was_in_flight_is_through_in_the_end(
    server: SimulatedKafkaServer, admin: KafkaAdminClient
) -> None:
    """A request for exactly the current brokers is possible, so the controller's answer is authoritative."""
    late = Late(admin)
    port = KafkaAdminPort(late, lambda: server.cluster.now)
    port.reassign({NAME: (3, 2)})
    port.observe([NAME], (), wide=False)
    late.lagging = True
    server.advance(METADATA_LAG_SECONDS / 2)
    assert port.observe([NAME], (), wide=False).reassignments
    server.advance(METADATA_LAG_SECONDS)
    assert not port.observe([NAME], (), wide=False).reassignments
