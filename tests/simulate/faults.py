"""Faults around an execution, as a script in virtual time that a seed makes.

At most one broker is down at a time, so that with two in-sync replicas nothing goes offline by the script's
own doing: whatever is offline then, is ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import KafkaRefusal, PartitionName

OPERATOR = "operator"
"""Under which name others than trimtab act on the cluster."""


@dataclass(frozen=True)
class Fault:
    """Something that happens at a virtual time."""

    at: float

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        raise NotImplementedError


@dataclass(frozen=True)
class BrokerKilled(Fault):
    """The process of a broker dies."""

    broker: int

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        cluster.kill_broker(self.broker)


@dataclass(frozen=True)
class BrokerStarted(Fault):
    """A dead broker is started again."""

    broker: int

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        cluster.start_broker(self.broker)


@dataclass(frozen=True)
class ControllerRestarted(Fault):
    """No controller for so many seconds."""

    seconds: float

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        cluster.restart_controller(self.seconds)


@dataclass(frozen=True)
class TopicDeleted(Fault):
    """Somebody deletes a topic; with `reset`, and creates it again at once."""

    topic: str
    reset: bool = False

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        lists = {n.number: list(p.replicas) for n, p in cluster.partitions.items() if n.topic == self.topic}
        cluster.controller.delete_topic(self.topic, OPERATOR)
        if self.reset:
            alive = [broker.id for broker in cluster.brokers.values() if not broker.fenced]
            assignments = {number: [alive[number % len(alive)]] for number in lists}
            cluster.controller.create_topic(self.topic, assignments, size_bytes=1e6, actor=OPERATOR)


@dataclass(frozen=True)
class ForeignReassignment(Fault):
    """Somebody else moves a partition: to `target`, with as many replicas or not."""

    partition: PartitionName
    target: tuple[int, ...]

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        cluster.controller.reassign(*self.partition, self.target, OPERATOR)


@dataclass(frozen=True)
class ForeignCancel(Fault):
    """Somebody else cancels what is in flight on a partition, whosever it is."""

    partition: PartitionName

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        cluster.controller.reassign(*self.partition, None, OPERATOR)


@dataclass(frozen=True)
class LogDirFailed(Fault):
    """A disk breaks."""

    broker: int
    path: str

    def strike(self, cluster: SimulatedKafka) -> None:
        """Let it happen."""
        cluster.fail_log_dir(self.broker, self.path)


class FaultScript:
    """Faults in the order of their times; lets virtual time pass and strikes on the way.

    A fault that Kafka refuses (the topic is gone already, no controller answers) simply does not happen.

    Attributes
    ----------
    struck
        What has happened so far.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._forecast = sorted(faults, key=lambda fault: fault.at)
        self.struck: list[Fault] = []

    def advance(self, cluster: SimulatedKafka, seconds: float) -> None:
        """Let virtual time pass, with everything that happens in it."""
        end = cluster.now + seconds
        while self._forecast and self._forecast[0].at <= end:
            fault = self._forecast.pop(0)
            cluster.advance(max(0.0, fault.at - cluster.now))
            try:
                fault.strike(cluster)
            except KafkaRefusal:
                continue
            self.struck.append(fault)
        cluster.advance(max(0.0, end - cluster.now))

    def __str__(self) -> str:
        return "\n".join(f"  {fault}" for fault in (*self.struck, *self._forecast))


def random_faults(
    generator: np.random.Generator, cluster: SimulatedKafka, seconds: float, number: int
) -> list[Fault]:
    """So many faults within so many seconds, each of a kind drawn at random.

    Parameters
    ----------
    cluster
        As it is before the execution begins; gives the brokers and partitions to choose from.
    """
    partitions = sorted(cluster.partitions)
    brokers = sorted(cluster.brokers)
    faults: list[Fault] = []
    everyone_up_from = 0.0
    for at in sorted(float(time) for time in generator.uniform(0.0, seconds, size=number)):
        name = partitions[generator.integers(len(partitions))]
        broker = brokers[generator.integers(len(brokers))]
        kind = generator.choice(["kill", "controller", "delete", "reset", "move", "grow", "cancel"])
        if kind == "kill":
            if at >= everyone_up_from:
                down = float(generator.choice([2.0, 12.0, 45.0, 200.0]))
                # A broker started before its session expired is back only after that; then it catches up.
                everyone_up_from = at + max(down, 6.0) + 20.0
                faults += [BrokerKilled(at, broker), BrokerStarted(at + down, broker)]
        elif kind == "controller":
            faults.append(ControllerRestarted(at, float(generator.choice([0.5, 3.0, 12.0]))))
        elif kind in ("delete", "reset"):
            faults.append(TopicDeleted(at, name.topic, reset=kind == "reset"))
        elif kind == "cancel":
            faults.append(ForeignCancel(at, name))
        else:
            held = len(cluster.partitions[name].replicas)
            wanted = held if kind == "move" else held + 1
            chosen = generator.permutation(brokers)[: min(wanted, len(brokers))]
            faults.append(ForeignReassignment(at, name, tuple(int(b) for b in chosen)))
    return faults
