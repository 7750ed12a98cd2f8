"""A Kafka cluster in memory and in virtual time: what it consists of, and what time and the world do to it.

Nothing here reads a clock or draws a random number: time passes by `SimulatedKafka.advance`, chance comes
with the faults (`simulate.faults`). Behaviour follows measurements on Kafka 4.3.1 in KRaft mode.
"""

import math
from collections.abc import Iterable

from simulate.kafka.assignment import Leaders
from simulate.kafka.controller import Controller
from simulate.kafka.copying import Copying
from simulate.kafka.disks import Disks
from simulate.kafka.duties import Duties, Membership
from simulate.kafka.shared import ClusterState, Happening
from simulate.kafka.state import (
    PartitionName,
    SimulatedBroker,
    SimulatedLogDir,
    SimulatedPartition,
    known_partition,
)


class SimulatedKafka:
    """The whole cluster.

    Parameters
    ----------
    brokers
        Those that exist from the beginning.
    quota_samples
        `replication.quota.window.num` of the brokers.
    dir_bytes_per_second
        Speed of copies between two log dirs of one broker.

    Attributes
    ----------
    controller
        Takes what clients ask of the controller.
    disks
        Take what clients ask of one broker about its log dirs.
    groups
        Committed offsets of every consumer group.
    rights
        Codes of the operations that brokers say everybody may do; None: they do not say.
    """

    def __init__(
        self,
        brokers: Iterable[SimulatedBroker],
        cluster_id: str = "simulated-cluster-0000",
        quota_samples: int = 11,
        dir_bytes_per_second: float = 200e6,
    ) -> None:
        state = ClusterState(cluster_id, {broker.id: broker for broker in brokers})
        self.cluster_id, self.configs = cluster_id, state.configs
        self.brokers, self.partitions = state.brokers, state.partitions
        self.groups: dict[str, dict[PartitionName, int]] = {}
        self.rights: set[int] | None = set(range(3, 13))
        self._history = state.history
        self._membership = Membership(state)
        self._leaders = Leaders(state)
        self._copying = Copying(state, quota_samples, dir_bytes_per_second)
        self._duties = Duties(state, self._membership, self._copying, self._leaders)
        self.disks = Disks(state)
        self.controller = Controller(state, self._membership, self.disks, self._leaders, self._duties)

    @property
    def now(self) -> float:
        """Virtual seconds since the beginning."""
        return self._history.now

    @property
    def history(self) -> list[Happening]:
        """Everything that was done to the cluster and that it did by itself, in order."""
        return self._history.happenings

    def partition(self, topic: str, number: int) -> SimulatedPartition:
        """A partition by name.

        Raises
        ------
        KafkaRefusal
            UNKNOWN_TOPIC_OR_PARTITION where there is none.
        """
        return known_partition(self.partitions, topic, number)

    def advance(self, seconds: float) -> None:
        """Let virtual time pass: copies proceed, sessions expire, reassignments finish."""
        end = self.now + seconds
        self._duties.perform()
        while self.now < end:
            copies = self._copying.copies()
            change = self._copying.seconds_until_change(self.now, copies)
            step = min(end - self.now, change, self._seconds_until_event())
            self._copying.pass_time(self.now, step, copies)
            for partition in self.partitions.values():
                if partition.leader is not None and self.brokers[partition.leader].running:
                    partition.size_bytes += partition.growth_bytes_per_second * step
            over = math.isclose(self.now + step, end, abs_tol=1e-9)
            self._history.now = end if over else self.now + step
            self._duties.perform()

    def add_broker(self, broker: SimulatedBroker) -> None:
        """A new empty broker joins."""
        self.brokers[broker.id] = broker
        self._history.note("world", "add_broker", broker.id)

    def kill_broker(self, broker: int) -> None:
        """The process is gone at once; the controller notices when its session expires."""
        if self._membership.kill(broker, self.now):
            self._history.note("world", "kill_broker", broker)

    def start_broker(self, broker: int) -> None:
        """Start a dead broker again."""
        if self._membership.start(broker, self.now):
            self._history.note("world", "start_broker", broker)

    def restart_controller(self, seconds: float) -> None:
        """No controller answers for a while."""
        self._membership.restart_controller(self.now + seconds)
        self._history.note("world", "restart_controller", None, (seconds,))

    def fail_log_dir(self, broker: int, path: str) -> None:
        """A disk breaks: its replicas are offline and leave the in-sync sets."""
        self.brokers[broker].log_dirs[path].online = False
        for partition in self.partitions.values():
            replica = partition.held.get(broker)
            if replica is not None and replica.log_dir == path:
                self._leaders.leave_in_sync(partition, broker)
        self._history.note("world", "fail_log_dir", (broker, path))

    def _seconds_until_event(self) -> float:
        return max(1e-6, min(self._membership.next_changes(), default=math.inf) - self.now)


def cluster_of(
    brokers: int,
    racks: int = 3,
    brokers_per_host: int = 1,
    dirs: int = 2,
    dir_bytes: float = 10e9,
    copy_bytes_per_second: float = 50e6,
    quota_samples: int = 11,
) -> SimulatedKafka:
    """A cluster of like brokers 1..n, racks r1.. in turn, hosts h1.. with so many brokers each."""
    return SimulatedKafka(
        (
            SimulatedBroker(
                number,
                f"h{(number - 1) // brokers_per_host + 1}",
                f"r{(number - 1) % racks + 1}",
                {f"/d{d}": SimulatedLogDir(f"/d{d}", dir_bytes) for d in range(dirs)},
                copy_bytes_per_second,
            )
            for number in range(1, brokers + 1)
        ),
        quota_samples=quota_samples,
    )
