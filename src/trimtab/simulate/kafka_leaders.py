"""Who leads a partition and who stays in sync, as brokers and their disks allow at the moment."""

from collections.abc import Mapping
from functools import partial

from trimtab.simulate.kafka_assignment import elect, elect_preferred
from trimtab.simulate.kafka_state import SimulatedBroker, SimulatedPartition


class Leaders:
    """Elections among the brokers of one cluster."""

    def __init__(self, brokers: Mapping[int, SimulatedBroker]) -> None:
        self._brokers = brokers

    def elect(self, partition: SimulatedPartition) -> None:
        """Choose a leader where the present one may not stay."""
        elect(partition, partial(self._may_lead, partition))

    def elect_preferred(self, partition: SimulatedPartition) -> None:
        """Give the role to the first of the list.

        Raises
        ------
        KafkaRefusal
            ELECTION_NOT_NEEDED or PREFERRED_LEADER_NOT_AVAILABLE.
        """
        elect_preferred(partition, partial(self._may_lead, partition))

    def leave_in_sync(self, partition: SimulatedPartition, broker: int) -> None:
        """Take a broker that cannot go on out of the in-sync set, and elect another leader where it led."""
        if broker not in partition.in_sync:
            return
        if len(partition.in_sync) > 1:
            partition.held[broker].bytes = partition.size_bytes
            partition.in_sync.remove(broker)
        # The last in-sync replica stays in the set: only it may lead once it is back.
        self.elect(partition)

    def _may_lead(self, partition: SimulatedPartition, broker: int) -> bool:
        """Whether a broker may lead, as the controller knows it: not fenced, and the log dir works."""
        owner, replica = self._brokers[broker], partition.held.get(broker)
        return not owner.fenced and replica is not None and owner.log_dirs[replica.log_dir].online
