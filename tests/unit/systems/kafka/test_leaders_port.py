"""Kafka's leaders as masterships: elected where the preferred replica can lead, and told why where not."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient

from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from simulate.kafka.state import PartitionName
from trimtab.act.control import Runner
from trimtab.act.executor import PlanDrift, PreparedPlan, StateCodecs
from trimtab.act.journal import Journal
from trimtab.act.masters import (
    EXECUTOR,
    MastersExecutionState,
    MastersMachine,
    TransferLimits,
    TransferRequestResult,
    TransferSettings,
    TransferStep,
    warnings,
)
from trimtab.act.replicas.port import Answers, TopicPartition
from trimtab.systems.kafka.leaders import ELECTED, LeadersPort, partition_of

PARTITIONS = 6
MB = 1_000_000
SESSION_SECONDS = 30


@pytest.fixture
def server() -> Iterator[SimulatedKafkaServer]:
    """Three brokers; broker 1 is preferred in six partitions, and leads none since it was away."""
    cluster = cluster_of(3)
    replicas = {number: [1, 2 + number % 2] for number in range(PARTITIONS)}
    cluster.controller.create_topic("led", replicas, size_bytes=MB)
    cluster.controller.create_topic("alone", {0: [3]}, size_bytes=MB)
    with SimulatedKafkaServer(cluster) as running:
        running.do(lambda cluster: cluster.kill_broker(1))
        running.advance(SESSION_SECONDS)
        running.do(lambda cluster: cluster.start_broker(1))
        running.advance(SESSION_SECONDS)
        yield running


@contextmanager
def connected(server: SimulatedKafkaServer) -> Iterator[LeadersPort]:
    """A real client of the brokers that are alive."""
    client = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=5000)
    yield LeadersPort(client, time.time)
    client.close()


@pytest.fixture
def port(server: SimulatedKafkaServer) -> Iterator[LeadersPort]:
    """A real client of all three."""
    with connected(server) as opened:
        yield opened


def elections(server: SimulatedKafkaServer) -> list[tuple[str, int]]:
    """Partitions that a leader was elected in, in order."""
    happened = [one.subject for one in server.cluster.history if one.verb == "elect"]
    return [(one.topic, one.number) for one in happened if isinstance(one, PartitionName)]


def refused(answer: TransferRequestResult) -> dict[str, str]:
    """Why, by partition; all of these may be tried again."""
    assert answer.version == ELECTED
    assert all(one.transient for one in answer.failures.values())
    return {name: one.message for name, one in answer.failures.items()}


def test_the_preferred_replica_is_elected(server: SimulatedKafkaServer, port: LeadersPort) -> None:
    """It is in sync and the only able one; other groups do not change."""
    seen = port.observe(["led-0", "led-1"])
    assert seen.masters == {"led-0": "2", "led-1": "3"}
    assert seen.able == {"led-0": {"1"}, "led-1": {"1"}}
    assert port.request_transfers(seen.version, {"led-1": "1"}) == TransferRequestResult(ELECTED)
    assert port.observe(["led-0", "led-1"]).masters == {"led-0": "2", "led-1": "1"}
    assert elections(server) == [("led", 1)]


def test_an_empty_request_elects_no_leader(server: SimulatedKafkaServer, port: LeadersPort) -> None:
    """An empty list would mean all partitions to Kafka; so would one of which all are refused."""
    assert port.request_transfers(ELECTED, {}) == TransferRequestResult(ELECTED)
    assert refused(port.request_transfers(ELECTED, {"led-0": "3"})) == {
        "led-0": "broker 1, its preferred replica, alone can lead it"
    }
    assert elections(server) == []
    assert "ElectLeaders" not in {name for _, _, name in server.requests}


def test_a_replica_that_is_out_of_sync_is_not_elected(
    server: SimulatedKafkaServer, port: LeadersPort
) -> None:
    """Its disk failed, while its broker is alive: Kafka is not called for it, and for the other partition it
    is.
    """

    def fail(cluster: SimulatedKafka) -> list[int]:
        cluster.fail_log_dir(1, cluster.partition("led", 0).held[1].log_dir)
        return [number for number in range(PARTITIONS) if 1 not in cluster.partition("led", number).in_sync]

    lost = server.do(fail)
    assert 0 < len(lost) < PARTITIONS
    other = next(number for number in range(PARTITIONS) if number not in lost)
    seen = port.observe(["led-0"])
    assert (seen.able["led-0"], "1" in seen.alive) == (frozenset(), True)
    assert refused(port.request_transfers(ELECTED, {"led-0": "1", f"led-{other}": "1"})) == {
        "led-0": "broker 1, its preferred replica, is not in sync"
    }
    assert elections(server) == [("led", other)]


def test_a_replica_that_is_offline_is_not_elected(server: SimulatedKafkaServer) -> None:
    """The last in-sync replica stays so when its broker is missing: a broker that does not answer does not
    lead.
    """
    server.do(lambda cluster: cluster.kill_broker(3))
    server.advance(SESSION_SECONDS)
    assert server.cluster.partition("alone", 0).in_sync == [3]
    with connected(server) as port:
        seen = port.observe(["alone-0"])
        assert (seen.masters["alone-0"], seen.able["alone-0"]) == (None, frozenset())
        assert "3" not in seen.alive
        assert refused(port.request_transfers(ELECTED, {"alone-0": "3"})) == {
            "alone-0": "broker 3, its preferred replica, does not answer"
        }
    assert elections(server) == []


def test_a_partition_that_is_being_reassigned_is_left_alone(
    server: SimulatedKafkaServer, port: LeadersPort
) -> None:
    """Broker 1 stays its first replica and is in sync; but the result of the move is not ours to predict."""
    server.do(lambda cluster: cluster.controller.reassign("led", 0, [1, 2, 3]))
    assert port.observe(["led-0"]).able["led-0"] == frozenset()
    assert refused(port.request_transfers(ELECTED, {"led-0": "1"})) == {
        "led-0": "its replicas are being moved"
    }
    server.advance(60)
    assert port.request_transfers(ELECTED, {"led-0": "1"}) == TransferRequestResult(ELECTED)
    assert elections(server) == [("led", 0)]


def test_a_missing_partition_is_reported(server: SimulatedKafkaServer, port: LeadersPort) -> None:
    """Deleted since the plan: left out of the observation, and rejected."""
    server.do(lambda cluster: cluster.controller.delete_topic("alone"))
    assert port.observe(["alone-0"]).masters == {}
    assert refused(port.request_transfers(ELECTED, {"alone-0": "3"})) == {"alone-0": "is not there any more"}


def test_names_of_topics_may_have_hyphens() -> None:
    """The number is behind the last one."""
    assert partition_of("orders-of-today-12") == TopicPartition("orders-of-today", 12)


def test_elections_come_a_few_at_a_time(
    server: SimulatedKafkaServer, port: LeadersPort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No request exceeds two; one partition is in transfer, and is reported beforehand."""
    server.do(lambda cluster: cluster.controller.reassign("led", 3, [1, 2]))
    groups, asked = [f"led-{number}" for number in range(PARTITIONS)], []
    elect = port._kafka.elect_preferred

    def counted(partitions: Collection[TopicPartition]) -> Answers:
        asked.append(len(partitions))
        return elect(partitions)

    monkeypatch.setattr(port._kafka, "elect_preferred", counted)
    seen = port.observe(groups)
    steps = tuple(
        TransferStep(number, group, seen.masters[group], "1", number)
        for number, group in enumerate(groups, 1)
    )
    settings = TransferSettings(masters=TransferLimits(max_in_flight=2))
    ready = PreparedPlan(None, seen.cluster, seen, PlanDrift({}, ()), steps)
    assert warnings(port, ready, settings, None) == [
        "led-3: its replicas are being moved now; it is waited for, 30 s"
    ]
    state = carried_out(port, EXECUTOR.new_execution(seen.cluster, steps, settings, 1000.0), tmp_path)
    assert asked == [2, 2, 1]
    assert state.status == "incomplete"
    assert {one.step.group: one.reason for one in state.records if one.state == "failed"} == {
        "led-3": "its replicas are being moved"
    }
    assert elections(server) == [("led", number) for number in (0, 1, 2, 4, 5)]


def carried_out(port: LeadersPort, state: MastersExecutionState, folder: Path) -> MastersExecutionState:
    """Journaled and run to its end; time passes for the execution alone."""
    now = [1000.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.01)

    with Journal(
        folder / "journal.sqlite", StateCodecs({"masters": EXECUTOR.codec}, unnamed="masters")
    ) as journal:
        number = journal.create(state, "led", "{}", "test", {})
        machine = MastersMachine(port, lambda: now[0], None)
        return Runner(machine, journal, None, number, state, clock=lambda: now[0], sleep=sleep).run()
