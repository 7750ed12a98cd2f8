"""What a cluster does unasked: fence and unfence brokers, let replicas join in sync, finish reassignments."""

from collections.abc import Mapping

from trimtab.simulate.kafka_assignment import finish_reassignment
from trimtab.simulate.kafka_copying import Copying
from trimtab.simulate.kafka_history import History
from trimtab.simulate.kafka_leaders import Leaders
from trimtab.simulate.kafka_membership import Membership
from trimtab.simulate.kafka_state import PartitionName, SimulatedPartition


class Duties:
    """The controller's duties in one cluster, left undone while there is no controller."""

    def __init__(
        self,
        partitions: Mapping[PartitionName, SimulatedPartition],
        membership: Membership,
        copying: Copying,
        leaders: Leaders,
        history: History,
    ) -> None:
        self._partitions = partitions
        self._membership = membership
        self._copying = copying
        self._leaders = leaders
        self._history = history

    def perform(self) -> None:
        """Do everything that is due at this instant."""
        if self._membership.controller_returns(self._history.now):
            self._history.note("cluster", "controller_back", None)
        if self._membership.controller_available:
            self._fence()
            self._unfence()
            self._join_in_sync()
            self._finish_reassignments()

    def _fence(self) -> None:
        for broker in self._membership.newly_fenced(self._history.now):
            for partition in self._partitions.values():
                self._leaders.leave_in_sync(partition, broker.id)
            self._history.note("cluster", "fence", broker.id)

    def _unfence(self) -> None:
        for broker in self._membership.newly_unfenced(self._history.now):
            for partition in self._partitions.values():
                if partition.leader is None:
                    self._leaders.elect(partition)
            self._history.note("cluster", "unfence", broker.id)

    def _join_in_sync(self) -> None:
        for partition, replica in self._copying.caught_up():
            partition.in_sync.append(replica)
            if partition.leader is None:
                self._leaders.elect(partition)

    def _finish_reassignments(self) -> None:
        for partition in self._partitions.values():
            dropped = finish_reassignment(partition)
            if dropped is not None:
                partition.drop_replicas(dropped)
                self._leaders.elect(partition)
                self._history.note("cluster", "finish", partition.name, tuple(partition.replicas))
