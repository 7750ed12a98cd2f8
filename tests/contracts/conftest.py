"""Three clusters behind the same port: in memory, behind sockets, and real."""

import itertools
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

import pytest
from kafka.admin import KafkaAdminClient

from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.port import SimulatedPort
from simulate.kafka.server import SimulatedKafkaServer
from support.admin_calls import PATIENCE_SECONDS, ask
from trimtab.act.execution.port import PortError
from trimtab.act.replicas.port import ClusterPort, TopicPartition
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.systems.kafka.client import admin_client, producer
from trimtab.systems.kafka.port import KafkaAdminPort

BROKERS = 4
QUOTA_SAMPLES = 2
_numbers = itertools.count()


class Cluster(Protocol):
    """What a contract needs beside the port: a way to make topics, to break brokers and to let time pass."""

    port: ClusterPort

    def create(self, assignments: Mapping[int, Sequence[int]], size_bytes: int) -> str:
        """Make a topic with so many bytes in each partition; returns its name."""
        ...

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        ...

    def kill(self, broker: int) -> None:
        """Kill a broker."""
        ...

    def start(self, broker: int) -> None:
        """Start a killed broker."""
        ...

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Let time pass until something is so: so many seconds by a simulated clock, more by a real one."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        ...


class SimulatedCluster:
    """The fake, spoken to in memory or through a real admin client."""

    def __init__(
        self, cluster: SimulatedKafka, port: ClusterPort, server: SimulatedKafkaServer | None
    ) -> None:
        self.port = port
        self._cluster = cluster
        self._server = server

    def create(self, assignments: Mapping[int, Sequence[int]], size_bytes: int) -> str:
        """See `Cluster`."""
        topic = f"contract-{next(_numbers)}"
        self._cluster.controller.create_topic(topic, assignments, size_bytes)
        return topic

    def delete(self, topic: str) -> None:
        """See `Cluster`."""
        self._cluster.controller.delete_topic(topic)

    def kill(self, broker: int) -> None:
        """See `Cluster`."""
        self._cluster.kill_broker(broker)
        self.pass_time(0)

    def start(self, broker: int) -> None:
        """See `Cluster`."""
        self._cluster.start_broker(broker)

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """See `Cluster`."""
        deadline = self._cluster.now + seconds
        while not condition():
            assert self._cluster.now < deadline, f"not so after {seconds} virtual seconds"
            self.pass_time(0.2)

    def pass_time(self, seconds: float) -> None:
        """See `Cluster`."""
        if self._server is None:
            self._cluster.advance(seconds)
        else:
            self._server.advance(seconds)


class RealCluster:
    """Brokers of the sandbox."""

    def __init__(self, sandbox: KafkaSandbox, admin: KafkaAdminClient) -> None:
        self.port: ClusterPort = KafkaAdminPort(admin, time.time)
        self._sandbox = sandbox

    def create(self, assignments: Mapping[int, Sequence[int]], size_bytes: int) -> str:
        """See `Cluster`."""
        topic = f"contract-{next(_numbers)}"
        lists = {number: list(replicas) for number, replicas in assignments.items()}
        ask(self._sandbox.connection, lambda admin: admin.create_topics({topic: {"assignments": lists}}))
        names = {TopicPartition(topic, number) for number in assignments}
        self.wait(lambda: self._led(names) == names)
        if size_bytes:
            writer = producer(self._sandbox.connection)
            for number in assignments:
                for _ in range(size_bytes // 10_000):
                    writer.send(topic, value=b"x" * 9_900, partition=number)
            writer.flush()
            writer.close()
        return topic

    def _led(self, names: Collection[TopicPartition]) -> set[TopicPartition]:
        try:
            placements = self.port.observe(names, (), wide=False).placements
        except PortError as error:
            assert error.failure.transient, error
            return set()
        return {name for name, placement in placements.items() if placement.leader is not None}

    def delete(self, topic: str) -> None:
        """See `Cluster`."""
        ask(self._sandbox.connection, lambda admin: admin.delete_topics([topic]))

    def kill(self, broker: int) -> None:
        """See `Cluster`."""
        self._sandbox.kill(broker)

    def start(self, broker: int) -> None:
        """See `Cluster`."""
        self._sandbox.restart(broker)

    def wait(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """See `Cluster`."""
        patience = max(seconds, PATIENCE_SECONDS)
        deadline = time.monotonic() + patience
        while not condition():
            assert time.monotonic() < deadline, f"not so after {patience} seconds"
            time.sleep(0.1)

    def pass_time(self, seconds: float) -> None:
        """See `Cluster`."""
        time.sleep(seconds)


def _fake() -> SimulatedKafka:
    return cluster_of(BROKERS, copy_bytes_per_second=60e6, quota_samples=QUOTA_SAMPLES)


@pytest.fixture(scope="module")
def real_cluster() -> Iterator[RealCluster]:
    """Real brokers, started once for all contracts."""
    with KafkaSandbox.start(
        BROKERS,
        prometheus=False,
        properties={"replication.quota.window.num": str(QUOTA_SAMPLES)},
        print_progress=lambda line: print(f"sandbox: {line}", file=sys.stderr),
    ) as sandbox:
        admin = admin_client(sandbox.connection)
        yield RealCluster(sandbox, admin)
        admin.close()


@pytest.fixture(params=["memory", "sockets", pytest.param("real", marks=pytest.mark.kafka)])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Each of the three in turn."""
    if request.param == "memory":
        fake = _fake()
        yield SimulatedCluster(fake, SimulatedPort(fake), None)
    elif request.param == "sockets":
        with SimulatedKafkaServer(_fake()) as server:
            admin = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=5000)
            yield SimulatedCluster(server.cluster, KafkaAdminPort(admin, time.time), server)
            admin.close()
    else:
        real: RealCluster = request.getfixturevalue("real_cluster")
        yield real


def partition(topic: str, number: int = 0) -> TopicPartition:
    """A partition of a topic."""
    return TopicPartition(topic, number)
