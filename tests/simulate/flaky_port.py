"""A port whose calls take time and get lost: the request before it arrived, or the answer on its way back."""

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import numpy as np

from trimtab.act.execution.port import Failure, PortError
from trimtab.act.replicas.port import (
    Answers,
    ClusterObservation,
    ClusterPort,
    OwnRates,
    ThrottleConfig,
    TopicPartition,
)

_T = TypeVar("_T")

LOST = Failure("KafkaConnection", "the connection was lost", transient=True)


class FlakyPort:
    """Hands every call on to a real port, sometimes.

    Parameters
    ----------
    generator
        Decides which calls are lost.
    lost_fraction
        Share of calls that are lost, half of them only after they took effect.
    pass_time
        Told the seconds that a call takes before it takes effect.
    """

    def __init__(
        self,
        port: ClusterPort,
        generator: np.random.Generator,
        lost_fraction: float,
        pass_time: Callable[[float], None],
        call_seconds: float = 0.02,
    ) -> None:
        self._port = port
        self._generator = generator
        self._lost_fraction = lost_fraction
        self._pass_time = pass_time
        self._call_seconds = call_seconds

    def observe(
        self, partitions: Collection[TopicPartition], brokers: Collection[int], *, wide: bool
    ) -> ClusterObservation:
        """See `ClusterPort.observe`."""
        return self._call(lambda: self._port.observe(partitions, brokers, wide=wide))

    def min_in_sync(self, topics: Collection[str]) -> Mapping[str, int]:
        """See `ClusterPort.min_in_sync`."""
        return self._call(lambda: self._port.min_in_sync(topics))

    def reassign(
        self,
        targets: Mapping[TopicPartition, tuple[int, ...]],
        resized: Collection[TopicPartition] = (),
    ) -> Answers:
        """See `ClusterPort.reassign`."""
        return self._call(lambda: self._port.reassign(targets, resized))

    def cancel_reassignments(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.cancel_reassignments`."""
        return self._call(lambda: self._port.cancel_reassignments(partitions))

    def elect_preferred(self, partitions: Collection[TopicPartition]) -> Answers:
        """See `ClusterPort.elect_preferred`."""
        return self._call(lambda: self._port.elect_preferred(partitions))

    def move_log_dirs(self, targets: Mapping[tuple[TopicPartition, int], str]) -> Answers:
        """See `ClusterPort.move_log_dirs`."""
        return self._call(lambda: self._port.move_log_dirs(targets))

    def read_throttle(self, topics: Collection[str]) -> ThrottleConfig:
        """See `ClusterPort.read_throttle`."""
        return self._call(lambda: self._port.read_throttle(topics))

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """See `ClusterPort.own_rates`."""
        return self._call(lambda: self._port.own_rates(brokers))

    def write_throttle(self, config: ThrottleConfig) -> Mapping[str, Failure]:
        """See `ClusterPort.write_throttle`."""
        return self._call(lambda: self._port.write_throttle(config))

    def read_cordons(self, brokers: Collection[int]) -> Mapping[int, str | None]:
        """See `ClusterPort.read_cordons`."""
        return self._call(lambda: self._port.read_cordons(brokers))

    def write_cordons(self, values: Mapping[int, str | None]) -> Mapping[int, Failure]:
        """See `ClusterPort.write_cordons`."""
        return self._call(lambda: self._port.write_cordons(values))

    @property
    def claim_rights(self) -> str:
        """See `ClaimPort.claim_rights`."""
        return self._port.claim_rights

    def read_claims(self) -> frozenset[str]:
        """See `ClusterPort.read_claims`."""
        return self._call(self._port.read_claims)

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClusterPort.write_claims`."""
        self._call(lambda: self._port.write_claims(added, removed))

    def _call(self, call: Callable[[], _T]) -> _T:
        chance = self._generator.random()
        self._pass_time(self._call_seconds)
        if chance < self._lost_fraction / 2:
            raise PortError(LOST)
        answer = call()
        if chance < self._lost_fraction:
            raise PortError(LOST)
        return answer
