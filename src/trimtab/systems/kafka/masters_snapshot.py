"""A snapshot of Kafka's brokers seen as masterships: leaders are masters, preferred replicas the preferred
ones.

Nothing else of a partition moves when its leader does, so that its load here is what a leader carries more
than a follower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.masters.snapshot import NO_MASTER, MasterGroupLoad, MastersSnapshot, NodeLoad, NodeState
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.snapshot import ReplicaBrokerState

if TYPE_CHECKING:
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
