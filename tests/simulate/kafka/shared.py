"""The state that all parts of one simulated cluster share, with its clock and its record."""

from dataclasses import dataclass, field

from simulate.kafka.configs import ConfigStore
from simulate.kafka.state import PartitionName, SimulatedBroker, SimulatedPartition


@dataclass(frozen=True)
class Happening:
    """Something that was done to the cluster, for checkers to judge afterwards.

    Attributes
    ----------
    at
        Virtual seconds.
    actor
        Who did it: the client id of a request, or `cluster` for what the cluster does by itself.
    verb
        `reassign`, `cancel`, `finish`, `elect`, `configure`, `move_log_dir`, `kill_broker`, ...
    subject
        A partition, broker, topic or config resource.
    """

    at: float
    actor: str
    verb: str
    subject: object
    detail: tuple[object, ...] = ()


class History:
    """One cluster's clock and record, shared by all parts of the cluster.

    Attributes
    ----------
    now
        Virtual seconds since the beginning.
    happenings
        In order.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.happenings: list[Happening] = []

    def note(self, actor: str, verb: str, subject: object, detail: tuple[object, ...] = ()) -> None:
        """Record what happens now."""
        self.happenings.append(Happening(self.now, actor, verb, subject, detail))


@dataclass
class ClusterState:
    """Everything that the parts of one cluster share.

    Attributes
    ----------
    brokers, partitions
        By id, and by name.
    configs, history
        Dynamic configuration; clock and record.
    """

    cluster_id: str
    brokers: dict[int, SimulatedBroker]
    partitions: dict[PartitionName, SimulatedPartition] = field(default_factory=dict)
    configs: ConfigStore = field(default_factory=ConfigStore)
    history: History = field(default_factory=History)
