"""A Kafka cluster behind `trimtab.act.masters.state.MastersPort`: leaders, by preferred elections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trimtab.act.execution.port import Failure
from trimtab.act.masters.state import MastersObservation, TransferRequestResult
from trimtab.act.replicas.port import ClusterObservation, TopicPartition
from trimtab.systems.kafka.calls import AdminCalls
from trimtab.systems.kafka.claims import BrokerConfigClaims
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.port import KafkaAdminPort
from trimtab.systems.kafka.settings import KafkaConnection

ELECTED = 1
"""Nothing is published here, so that every election counts as the first version."""


class LeadersPort(BrokerConfigClaims):
    """An adapter for one connected admin client.

    A partition goes by `topic-number`. It can only be led by its preferred replica, by what an election does;
    and is only given to it while that is in sync.
    """

    def __init__(self, admin: Any, clock: Callable[[], float]) -> None:
        self._kafka = KafkaAdminPort(admin, clock)
        self._calls = AdminCalls(admin)

    def observe(self, groups: Collection[str]) -> MastersObservation:
        """See `MastersPort.observe`."""
        seen = self._kafka.observe([partition_of(name) for name in groups], (), wide=False)
        alive = seen.alive
        masters: dict[str, str | None] = {}
        able: dict[str, frozenset[str]] = {}
        hindered: dict[str, str] = {}
        for partition, place in seen.placements.items():
            name, first = str(partition), place.replicas[0]
            masters[name] = None if place.leader is None else str(place.leader)
            why = _ineligible_reason(seen, partition)
            able[name] = frozenset() if why else frozenset({str(first)})
            hindered[name] = why or f"broker {first}, its preferred replica, alone can lead it"
        return MastersObservation(
            seen.cluster_id, "", ELECTED, masters, able, frozenset(map(str, alive)), hindered
        )

    def request_transfers(self, base: int, targets: Mapping[str, str]) -> TransferRequestResult:
        """See `MastersPort.request_transfers`; who is not the preferred replica by now, or not in sync, is
        refused.
        """
        seen = self.observe(list(targets))
        wrong = {
            name: Failure("NotElected", seen.hindered.get(name, "is not there any more"), True)
            for name, node in targets.items()
            if node not in seen.able.get(name, frozenset())
        }
        asked = [partition_of(name) for name in targets if name not in wrong]
        # Asked for none, Kafka would elect leaders of all there are.
        answers = self._kafka.elect_preferred(asked) if asked else {}
        failed = {str(partition): failure for partition, failure in answers.items() if failure is not None}
        return TransferRequestResult(ELECTED, {**wrong, **failed})


def partition_of(name: str) -> TopicPartition:
    """The partition of a name, `topic-number`."""
    topic, _, number = name.rpartition("-")
    return TopicPartition(topic, int(number))


def _ineligible_reason(observation: ClusterObservation, partition: TopicPartition) -> str:
    """Why a partition's preferred replica cannot lead it now; empty where it can."""
    place = observation.placements[partition]
    first = place.replicas[0]
    if partition in observation.reassignments:
        return "its replicas are being moved"  # which of them is preferred is about to change
    if first not in observation.alive:
        return f"broker {first}, its preferred replica, does not answer"
    if first not in place.in_sync:
        return f"broker {first}, its preferred replica, is not in sync"
    return ""


@contextmanager
def open_leaders(connection: KafkaConnection, clock: Callable[[], float]) -> Iterator[LeadersPort]:
    """A cluster to act on, by a client of its own.

    Raises
    ------
    ConnectError
        If it cannot be reached.
    """
    with open_admin(connection, request_timeout_ms=15_000) as admin:
        yield LeadersPort(admin, clock)
