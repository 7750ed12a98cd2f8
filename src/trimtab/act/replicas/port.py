"""The one way an execution of this level reaches a cluster: what an adapter must offer.

`trimtab.act.kafka.port.KafkaAdminPort` is the real one; tests bring fakes. Rules for every adapter, besides
those of `trimtab.act.port`:

- Errors of single partitions are returned in `Answers`, never raised; only a call that failed as a whole
  raises `PortError`.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from trimtab.act.execution.messages import Failure
from trimtab.act.port import ClaimPort
from trimtab.act.replicas.observation import Answers, Observation, OwnRates, ThrottleConfig, TopicPartition


class ClusterPort(ClaimPort, Protocol):
    """The seam between an execution and a cluster."""

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> Observation:
        """Look at these partitions, at all reassignments, and at the log dirs of these brokers.

        Parameters
        ----------
        partitions
            Whose placement and copies are wanted; those that do not exist are left out of the answer.
        brokers
            Whose log dirs and copies are wanted; one that does not answer is left out.
        wide
            Also look over every partition of the cluster for `Observation.unhealthy`.
        """
        ...

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Answers:
        """Ask for new replica lists (Kafka's order), each refused if it would change the replication factor.

        A list with the same brokers in another order takes effect at once.
        """
        ...

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """Roll back what is in flight; where nothing is, the answer is `NoReassignmentInProgress`."""
        ...

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """Give leadership to the first of each list; one that leads already is a yes."""
        ...

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """Send the replica on that broker to that log dir.

        For a replica that the broker does not hold yet, the dir is remembered for its arrival; Kafka says
        `ReplicaNotAvailable` then, which is a yes here. If any broker of a partition refuses, the partition's
        answer is that failure.
        """
        ...

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """The cluster-wide default rates, and the lists of these topics (those that exist)."""
        ...

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """The throttle rates that these brokers have of their own.

        Each is asked itself; one that does not answer is left out: it throttles nobody.
        """
        ...

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """Make rates and lists what `config` says: None removes a setting; other topics are not touched.

        Returns
        -------
        Mapping
            Topic -> failure for the lists that could not be written (a deleted topic is no failure); the
            empty string stands for the rates.
        """
        ...
