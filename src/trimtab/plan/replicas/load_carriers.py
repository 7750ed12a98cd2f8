"""Who bears load and of which kinds, beyond brokers and resources: hosts as further rows, numbers as columns.

Without such goals the rows are the brokers and the columns the resources, and nothing else is computed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trimtab.model.goals import Goals
from trimtab.model.imbalance import mean_of
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.hosts import Hosts, host_goals, host_theta, hosts_with_goal
from trimtab.model.replicas.numbers import (
    broker_numbers,
    number_capacity,
    number_goals,
    number_loads,
    requested_counts,
)
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.plan.search.limits import TOLERANCE, EpsilonScale, UsageLimits, limits_around


@dataclass(frozen=True, eq=False)
class LoadCarriers:
    """Rows and columns of a search.

    Attributes
    ----------
    hosts
        None where they bear no load of their own, or `host_load` is not asked for.
    use
        Shape (partitions, 2, columns): load of follower and leader; resources first, then numbers.
    inverse
        Shape (rows, columns): 1 / capacity, 0 where not limited; brokers first, then hosts.
    host_row
        Shape (brokers,): row of its host, -1 for none.
    """

    snapshot: ReplicasSnapshot
    settings: ReplicasSettings
    hosts: Hosts | None
    use: FloatArray
    inverse: FloatArray
    host_row: IntArray

    @property
    def plain(self) -> bool:
        """Brokers and resources alone."""
        return self.hosts is None and self.use.shape[2] == len(RESOURCES)

    @cached_property
    def host_goals(self) -> Goals:
        """θ and ε of the hosts."""
        return host_goals(self.snapshot, self.settings)

    @cached_property
    def host_theta(self) -> FloatArray:
        """Shape (hosts, resources)."""
        assert self.hosts is not None
        return host_theta(self.hosts, self.host_goals)

    def load(self, load: FloatArray, replicas: IntArray, leader: IntArray) -> FloatArray:
        """Shape (rows, columns): what every row bears.

        Parameters
        ----------
        load
            Shape (brokers, resources).
        replicas, leader
            Broker indices: the placement that it is the load of.
        """
        if self.plain:
            return load
        if self.use.shape[2] > len(RESOURCES):
            load = np.hstack([load, broker_numbers(self.snapshot, self.settings, replicas, leader)])
        return load if self.hosts is None else np.vstack([load, self.hosts.load(load)])

    def widened(
        self, bare: UsageLimits, carried: FloatArray, share: float, stretch: EpsilonScale
    ) -> UsageLimits:
        """The bounds of all rows and columns.

        Parameters
        ----------
        bare
            Those of brokers and resources.
        carried
            Shape (rows, columns): the load that the mean is taken from.
        share
            Of ε.
        stretch
            Shape (brokers, columns).
        """
        if self.plain:
            return bare
        brokers, width = bare.high.shape
        if self.use.shape[2] > width:
            numbers = stretch[0][:, width:], stretch[1][:, width:]
            bare = _joined(bare, self._of_numbers(carried[:brokers, width:], share, numbers), axis=1)
        if self.hosts is None:
            return bare
        mean = mean_of(carried[brokers:, :width], self.hosts.capacity, self.hosts.counted)
        asked = self.host_goals
        counted, reach = self.hosts.counted, self._of_hosts(stretch, width)
        rows = limits_around(mean, counted, asked.theta, asked.epsilon, asked.idle, reach, share)
        top = np.where(np.isfinite(rows.theta), self.host_theta * TOLERANCE, np.inf)
        rows = rows._replace(
            theta=top, high=np.where(rows.theta > rows.high, rows.high, np.minimum(rows.high, top))
        )
        blank = np.zeros((len(self.hosts), bare.high.shape[1] - width))
        beside = UsageLimits(blank + np.inf, blank - np.inf, blank + np.inf, blank, blank)
        return _joined(bare, _joined(rows, beside, axis=1), axis=0)

    def _of_hosts(self, stretch: EpsilonScale, width: int) -> EpsilonScale:
        """That of hosts: as far as any broker there."""
        assert self.hosts is not None
        most, least = (np.ones((len(self.hosts), width)) for _ in range(2))
        on = self.hosts.of >= 0
        np.maximum.at(most, self.hosts.of[on], stretch[0][on, :width])
        np.minimum.at(least, self.hosts.of[on], stretch[1][on, :width])
        return most, least

    def _of_numbers(self, numbers: FloatArray, share: float, stretch: EpsilonScale) -> UsageLimits:
        capacity = number_capacity(self.snapshot, self.settings)
        counted = np.isfinite(capacity) & self.snapshot.brokers.in_service[:, None]
        mean = np.nan_to_num(mean_of(numbers, capacity, counted))
        goals = number_goals(self.settings)
        bounds = limits_around(mean, counted, goals.theta, goals.epsilon, 0.0, stretch, share)
        whole = np.asarray(goals.is_integral) & (mean > 0)
        return bounds._replace(
            high=np.where(whole, np.maximum(bounds.high, np.ceil(mean)), bounds.high),
            low=np.where(whole, np.minimum(bounds.low, np.floor(mean)), bounds.low),
        )

    def ceiling(self, bare: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
        """The most that rows should bear on the way; numbers have no such limit.

        Parameters
        ----------
        bare
            Shape (brokers, resources): that of the brokers.
        before, after
            Shape (rows, columns): utilisations at the start and the end.
        """
        if self.plain:
            return bare
        found = np.full(before.shape, np.inf)
        brokers, width = bare.shape
        found[:brokers, :width] = bare
        if self.hosts is not None:
            most = np.maximum(before, after)[brokers:, :width] * (1 + 1e-12)
            found[brokers:, :width] = np.maximum(most, np.minimum(self.host_theta, 1e300))
        return found


def load_carriers(
    snapshot: ReplicasSnapshot, settings: ReplicasSettings, use: FloatArray, inverse: FloatArray
) -> LoadCarriers:
    """The rows and columns that the settings ask for.

    Parameters
    ----------
    use
        Shape (partitions, 2, resources).
    inverse
        Shape (brokers, resources).
    """
    hosts = hosts_with_goal(snapshot, settings)
    host_row = np.full(len(inverse), -1, dtype=np.int32)
    if requested_counts(settings):
        use = np.ascontiguousarray(
            np.concatenate([use, np.stack(number_loads(snapshot, settings), axis=1)], axis=2)
        )
        capacity = number_capacity(snapshot, settings)
        # Who is not counted has a number all the same, which nobody limits.
        inverse = np.hstack([inverse, np.where(np.isfinite(capacity), 1.0 / capacity, 0.0)])
    if hosts is not None:
        host_row = np.where(hosts.of >= 0, hosts.of + len(inverse), -1).astype(np.int32)
        rows = np.zeros((len(hosts), inverse.shape[1]))
        rows[:, : len(RESOURCES)] = np.where(hosts.counted, 1.0 / hosts.capacity, 0.0)
        inverse = np.vstack([inverse, rows])
    return LoadCarriers(snapshot, settings, hosts, use, np.ascontiguousarray(inverse), host_row)


def _joined(first: UsageLimits, second: UsageLimits, axis: int) -> UsageLimits:
    pairs = zip(first, second, strict=True)
    return UsageLimits(*(np.ascontiguousarray(np.concatenate(pair, axis=axis)) for pair in pairs))
