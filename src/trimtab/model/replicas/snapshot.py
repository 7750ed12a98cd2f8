"""The snapshot of the balancer `replicas`: which broker holds which replica, with which load.

Struct of arrays: brokers, log dirs and topics are indices, so that a million replicas fit in memory and in
cache.

A plan is made for the recent load, or for what the hours to come are expected to bring (`with_load`). Values
of hours are added up hour by hour: partitions that are busy at different times of the day are not busy
together, and the sum of their peaks is a load that no broker ever bears.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.goals import GoalEvaluation, IntraBrokerBalance
from trimtab.model.load import BoolArray, FloatArray, Imbalance, IntArray, imbalance
from trimtab.model.replicas.log_dirs import NO_BROKER as NO_BROKER
from trimtab.model.replicas.log_dirs import LogDirs as LogDirs
from trimtab.model.replicas.log_dirs import LogDirState as LogDirState
from trimtab.model.replicas.log_dirs import dir_goal_status
from trimtab.model.replicas.secondary_goals import secondary_goals
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.topics import topic_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.model.replicas.plan import ReplicaAssignment

NO_HOURS = np.zeros((0, 0, len(RESOURCES)))
"""Loads of no hours to come."""
LOAD_FORECAST: Final = "x_load_forecast"
"""Field of a snapshot's quality: how its forecast came about, and the errors of those before."""


class ReplicaBrokerState(IntEnum):
    """The uses that a broker is open to; the names in files are lower case."""

    ALIVE = 0
    NEW = 1
    DEAD = 2
    DRAINING = 3
    NO_LEADERS = 4
    NO_NEW_REPLICAS = 5


@dataclass(frozen=True, eq=False)
class ReplicaBrokers:
    """All brokers, in ascending order of id.

    Attributes
    ----------
    id
        Shape (brokers,), Kafka's node ids, ascending.
    host, rack
        Length (brokers,). A missing rack is the host; a missing host is `broker-<id>`, a host of its own.
    state
        Shape (brokers,), `ReplicaBrokerState`.
    capacity
        Shape (brokers, resources), in `UNITS`; infinite where not limited and not balanced.
    """

    id: NDArray[np.int64]
    host: tuple[str, ...]
    rack: tuple[str, ...]
    state: NDArray[np.int8]
    capacity: FloatArray

    def __len__(self) -> int:
        return len(self.id)

    @property
    def online(self) -> BoolArray:
        """Shape (brokers,): not dead, so that what it holds weighs."""
        return np.asarray(self.state != ReplicaBrokerState.DEAD)

    @property
    def in_service(self) -> BoolArray:
        """Shape (brokers,): neither dead nor draining; imbalance is measured over these brokers."""
        return np.asarray(
            (self.state != ReplicaBrokerState.DEAD) & (self.state != ReplicaBrokerState.DRAINING)
        )

    @property
    def may_lead(self) -> BoolArray:
        """Shape (brokers,): may be given leaderships by its state."""
        return np.asarray(self.in_service & (self.state != ReplicaBrokerState.NO_LEADERS))

    @property
    def may_receive(self) -> BoolArray:
        """Shape (brokers,): may be given replicas by its state."""
        return np.asarray(self.in_service & (self.state != ReplicaBrokerState.NO_NEW_REPLICAS))


@dataclass(frozen=True, eq=False)
class Partitions:
    """All partitions, ordered by (topic name, partition number).

    Attributes
    ----------
    topics
        Distinct topic names, ascending.
    topic, number
        Shape (partitions,): index into `topics`, and Kafka's partition number.
    replicas
        Shape (partitions, widest replication factor): broker indices in Kafka's order (the first is the
        preferred leader), padded with `NO_BROKER` at the end.
    leader
        Shape (partitions,): broker index, or `NO_BROKER` where offline.
    in_sync
        Shape of `replicas`: whether that replica is in sync (False in padding).
    log_dir
        Shape of `replicas`: index into `LogDirs`, `NO_BROKER` where unknown.
    leader_load, follower_load
        Shape (partitions, resources), in `UNITS`: what the broker carries for holding this role.
    leader_forecast, follower_forecast
        Shape (partitions, hours, resources): the same, as expected in each hour to come, the nearest first;
        no hours where nobody knows.
    held_seconds
        Shape of `replicas`: how long each has been on its broker, as far as a move there was seen; infinite
        where it was not, and no columns where nobody looked.
    """

    topics: tuple[str, ...]
    topic: IntArray
    number: IntArray
    replicas: IntArray
    leader: IntArray
    in_sync: BoolArray
    log_dir: IntArray
    leader_load: FloatArray
    follower_load: FloatArray
    leader_forecast: FloatArray = field(default_factory=lambda: NO_HOURS)
    follower_forecast: FloatArray = field(default_factory=lambda: NO_HOURS)
    held_seconds: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))

    def __len__(self) -> int:
        return len(self.number)

    def rows_of(self, topic: int) -> slice:
        """The rows of a topic, by its index."""
        # A plain integer would have NumPy convert the whole array.
        number = self.topic.dtype.type(topic)
        begin, end = (int(np.searchsorted(self.topic, number, side)) for side in ("left", "right"))
        return slice(begin, end)

    def name_of(self, row: int) -> str:
        """A partition as Kafka's tools call it: `topic-number`."""
        return f"{self.topics[self.topic[row]]}-{self.number[row]}"

    @property
    def replication_factor(self) -> IntArray:
        """Replication factor of each partition, shape (partitions,)."""
        return np.asarray((self.replicas != NO_BROKER).sum(axis=1), dtype=np.int32)

    @property
    def hours(self) -> int:
        """Number of hours to come of which the loads are told."""
        return int(self.leader_forecast.shape[1])

    @property
    def settled_seconds(self) -> FloatArray:
        """Shape (partitions,): how long none of its replicas has come anew; infinite where unknown."""
        if not self.held_seconds.size:
            return np.full(len(self), np.inf)
        return np.asarray(self.held_seconds.min(axis=1))


@dataclass(frozen=True, eq=False)
class ReplicasSnapshot:
    """Everything a planner of the balancer `replicas` may know.

    Attributes
    ----------
    extra
        Further fields of the file, by names that begin with `x_`.
    hosts
        Declared capacities of hosts, by name: a number a resource, infinite where none is declared.
    """

    reference: SnapshotReference
    quality: Quality
    brokers: ReplicaBrokers
    log_dirs: LogDirs
    partitions: Partitions
    extra: tuple[tuple[str, object], ...] = field(default=())
    hosts: tuple[tuple[str, tuple[float, ...]], ...] = ()

    @property
    def row_names(self) -> tuple[int, ...]:
        """Names of the rows of `imbalance().usage`: Kafka's ids of the brokers."""
        return tuple(self.brokers.id.tolist())

    @property
    def backtest(self) -> Mapping[str, Any]:
        """Forecasts of the last day against their outcomes, as in the quality; empty where there are none."""
        forecast = dict(self.quality.extra).get(LOAD_FORECAST)
        found = forecast.get("backtest") if isinstance(forecast, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def forecast_errors(self) -> dict[str, float]:
        """By resource, Σ|forecast − outcome| / Σ outcome over partitions and the hours of the last day.

        Of the trend where it counts; resources without a known outcome are left out.
        """
        known = self.backtest
        trend = known.get("trend", ())
        off = {
            one: known.get("error_with_trend" if one in trend else "error", {}).get(one) for one in RESOURCES
        }
        return {name: float(one) for name, one in off.items() if one is not None}

    def with_overrides(self, settings: Mapping[str, Any]) -> ReplicasSnapshot:
        """The snapshot with the states that settings of a plan ask for: `drain` empties, `add` fills.

        And with what they say that hosts can carry. The dead stay dead; brokers and hosts that are not there
        are passed over.
        """
        state = self.brokers.state.copy()
        for name, asked in (("drain", ReplicaBrokerState.DRAINING), ("add", ReplicaBrokerState.NEW)):
            state[np.isin(self.brokers.id, settings.get(name) or ()) & (state != ReplicaBrokerState.DEAD)] = (
                asked
            )
        hosts = dict(self.hosts)
        for host, capacity in (settings.get("host_capacity") or {}).items():
            if host in self.brokers.host:
                known = dict(zip(RESOURCES, hosts.get(host, ()), strict=False))
                hosts[host] = tuple(float(capacity.get(one, known.get(one, np.inf))) for one in RESOURCES)
        return replace(self, brokers=replace(self.brokers, state=state), hosts=tuple(sorted(hosts.items())))

    def without_forecast(self) -> ReplicasSnapshot:
        """The snapshot without the loads of hours to come."""
        parts = replace(self.partitions, leader_forecast=NO_HOURS, follower_forecast=NO_HOURS)
        return replace(self, partitions=parts)

    def intra_broker(self, settings: Any) -> IntraBrokerBalance | None:
        """The log dirs of brokers that have several, by the goals of a planner's settings; None for none."""
        return dir_goal_status(self, settings)

    def broker_load(self, replicas: IntArray | None = None, leader: IntArray | None = None) -> FloatArray:
        """Shape (brokers, resources), in `UNITS`: loads under a placement (by default the snapshot's own).

        A replica on a dead broker weighs nothing there: it is offline.

        Parameters
        ----------
        replicas, leader
            As in `Partitions`; the placement to weigh.
        """
        parts, brokers = self.partitions, len(self.brokers)
        held = parts.replicas if replicas is None else replicas
        leading = parts.leader if leader is None else leader
        online = self.brokers.state != ReplicaBrokerState.DEAD
        load = np.zeros((brokers, len(RESOURCES)))
        for column in range(held.shape[1]):
            holder = held[:, column].astype(np.intp)
            leads = (holder == leading) & (holder != NO_BROKER)
            weighs = (holder != NO_BROKER) & online[holder]
            here = holder[weighs]
            for resource in range(load.shape[1]):
                weight = np.where(leads, parts.leader_load[:, resource], parts.follower_load[:, resource])
                load[:, resource] += np.bincount(here, weights=weight[weighs], minlength=brokers)
        return load

    def secondary_goals(self, settings: Any) -> tuple[GoalEvaluation, ...]:
        """Hosts, numbers and topics under the snapshot's own placement, where settings ask for them."""
        placement = self.partitions.replicas, self.partitions.leader
        topics = topic_numbers(self, settings, *placement)
        found = secondary_goals(self, settings, self.broker_load(), *placement)
        return found if topics is None else (*found, topics)

    def imbalance(self, replicas: IntArray | None = None, leader: IntArray | None = None) -> Imbalance:
        """Equations 1 to 5 of a placement (by default the snapshot's own) over the brokers in service."""
        load = self.broker_load(replicas, leader)
        return imbalance(load, self.brokers.capacity, self.brokers.in_service, RESOURCES)


def snapshot_after(snapshot: ReplicasSnapshot, assignments: Iterable[ReplicaAssignment]) -> ReplicasSnapshot:
    """The snapshot with the placement after a plan, all replicas in sync; log dirs are not known there.

    Partitions and brokers that the snapshot does not have are left out.
    """
    parts, ids = snapshot.partitions, {one: at for at, one in enumerate(snapshot.brokers.id.tolist())}
    topics = {name: at for at, name in enumerate(parts.topics)}
    changed: dict[int, ReplicaAssignment] = {}
    for one in assignments:
        rows = parts.rows_of(topics.get(one.topic, -1))
        row = rows.start + int(np.searchsorted(parts.number[rows], one.partition))
        if row < rows.stop and parts.number[row] == one.partition and ids.keys() >= set(one.after):
            changed[row] = one
    width = max([parts.replicas.shape[1], *(len(one.after) for one in changed.values())])
    replicas = np.full((len(parts), width), NO_BROKER, dtype=parts.replicas.dtype)
    replicas[:, : parts.replicas.shape[1]] = parts.replicas
    leader = parts.leader.copy()
    for row, one in changed.items():
        replicas[row] = NO_BROKER
        replicas[row, : len(one.after)] = [ids[broker] for broker in one.after]
        leader[row] = NO_BROKER if one.leader_after is None else ids[one.leader_after]
    placed = replace(
        parts,
        replicas=replicas,
        leader=leader,
        in_sync=replicas != NO_BROKER,
        log_dir=np.full_like(replicas, NO_BROKER),
        held_seconds=np.zeros((0, 0)),
    )
    return replace(snapshot, partitions=placed)


def with_load(snapshot: ReplicasSnapshot, load: str) -> ReplicasSnapshot:
    """The snapshot with one of `LOADS` in place of the recent load.

    A snapshot that tells no hours to come stays as it is: there is nothing better than the recent load.
    """
    parts = snapshot.partitions
    if load == "recent" or not parts.hours:
        return snapshot
    if load == "peak":
        hour = busiest_hours(snapshot)
        every = np.arange(len(RESOURCES))
        leader, follower = parts.leader_forecast[:, hour, every], parts.follower_forecast[:, hour, every]
    else:
        leader, follower = parts.leader_forecast.mean(axis=1), parts.follower_forecast.mean(axis=1)
    return replace(snapshot, partitions=replace(parts, leader_load=leader, follower_load=follower))


def forecast_usage(snapshot: ReplicasSnapshot) -> FloatArray:
    """Utilisation of every broker in each hour to come, as replicas lie: shape (hours, brokers, resources).

    0 where a resource has no capacity, and on brokers that are not in service.
    """
    parts, capacity = snapshot.partitions, snapshot.brokers.capacity
    loads = np.empty((parts.hours, *capacity.shape))
    for hour in range(parts.hours):
        now = replace(
            parts, leader_load=parts.leader_forecast[:, hour], follower_load=parts.follower_forecast[:, hour]
        )
        loads[hour] = replace(snapshot, partitions=now).broker_load()
    counted = np.isfinite(capacity) & snapshot.brokers.in_service[:, None]
    return np.where(counted, loads / np.where(counted, capacity, 1.0), 0.0)


def busiest_hours(snapshot: ReplicasSnapshot) -> np.ndarray:
    """Shape (resources,): the hour to come in which the fullest broker is fullest; the first of several."""
    return np.asarray(forecast_usage(snapshot).max(axis=1).argmax(axis=0))
