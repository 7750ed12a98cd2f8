"""Kafka as a system of the balancer `masters`: leaders are masters, preferred replicas the preferred ones.

Nothing else of a partition moves when its leader does, so that its load here is what a leader carries more
than a follower. Transfers are preferred elections, behind `trimtab.act.masters.MastersPort`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from trimtab.act.execution.port import Failure
from trimtab.act.masters import MastersObservation, TransferRequestResult
from trimtab.act.replicas.port import ClusterObservation, TopicPartition
from trimtab.model.masters import NO_MASTER, MasterGroupLoad, MastersSnapshot, NodeLoad, NodeState
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import ReplicaBrokerState
from trimtab.systems.kafka.calls import AdminCalls, BrokerConfigClaims
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.port import KafkaAdminPort
from trimtab.systems.kafka.settings import KafkaConnection

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from trimtab.model.replicas.snapshot import ReplicasSnapshot


STATES = {
    ReplicaBrokerState.DEAD: NodeState.DEAD,
    ReplicaBrokerState.DRAINING: NodeState.DRAINING,
    ReplicaBrokerState.NO_LEADERS: NodeState.EXCLUDED,
}


def leaders(snapshot: ReplicasSnapshot) -> MastersSnapshot:
    """The leaders of all partitions that are led, or could be, as masterships.

    A partition can only be given to its preferred replica, while that is in sync: by what an election does.
    Of queries nothing is known, so that leaderships are counted there.
    """
    brokers, partitions = snapshot.brokers, snapshot.partitions
    moved = np.maximum(partitions.leader_load - partitions.follower_load, 0.0)
    network = [place for place, name in enumerate(RESOURCES) if name.startswith("network")]
    rate = moved[:, network].sum(axis=1)
    groups = []
    for row in range(len(partitions)):
        first, leader = int(partitions.replicas[row, 0]), int(partitions.leader[row])
        able = (first,) if bool(partitions.in_sync[row, 0]) and bool(brokers.may_lead[first]) else ()
        groups.append(
            MasterGroupLoad(
                group=f"{partitions.topics[partitions.topic[row]]}-{partitions.number[row]}",
                master=NO_MASTER if leader < 0 else leader,
                preferred=first,
                able=able,
                queries_per_second=0.0,
                bytes_per_second=float(rate[row]),
            )
        )
    return MastersSnapshot(
        reference=snapshot.reference,
        quality=snapshot.quality,
        system="kafka",
        version=0,
        nodes=tuple(
            NodeLoad(
                str(brokers.id[row]),
                brokers.host[row],
                STATES.get(ReplicaBrokerState(brokers.state[row]), NodeState.ALIVE),
            )
            for row in range(len(brokers))
        ),
        groups=tuple(groups),
    )


ELECTED = 1
"""Nothing is published here, so that every election counts as the first version."""


class LeadersPort(BrokerConfigClaims):
    """An adapter for one connected admin client.

    A partition goes by `topic-number`. It can only be led by its preferred replica, by what an election does;
    and is only given to it while that is in sync.
    """

    def __init__(self, admin: KafkaAdminClient, clock: Callable[[], float]) -> None:
        self._kafka = KafkaAdminPort(admin, clock)
        self._calls = AdminCalls(admin)

    def observe(self, groups: Collection[str]) -> MastersObservation:
        """Read the leaders of these partitions; missing partitions are left out."""
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
