"""What the service observes: the newest snapshot of a lake, and other work in the cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from trimtab.balancers import Balancer
from trimtab.balancers.clusters import Cluster
from trimtab.decide.events import Observed
from trimtab.files.store import Location
from trimtab.model.goals import GoalStatus, goal_status
from trimtab.observe.lake.lake import Lake
from trimtab.serve.documents import BrokerStatus, LargestPart, ResourceStatus
from trimtab_common.errors import InputError

MAX_LARGEST: Final = 200
"""Largest partitions that the service shows of a target."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A snapshot as the service has read it.

    Attributes
    ----------
    folder
        Where it lies; tells whether a newer one has come.
    event
        What decisions need of it.
    snapshot
        Without the loads of hours to come, which take most of its memory.
    goals
        Load and missed goals, by the settings of the balancer.
    """

    balancer: Balancer
    folder: Path
    event: Observed
    snapshot: Any
    goals: GoalStatus
    resources: tuple[ResourceStatus, ...]

    @cached_property
    def brokers(self) -> tuple[BrokerStatus, ...]:
        """Every broker with its load by resource."""
        return broker_rows(self, self.snapshot)

    @property
    def verdict(self) -> str:
        """The state of the load: `above_limit`, `unbalanced` or `balanced`."""
        if self.event.broken_limits:
            return "above_limit"
        missed = bool(self.goals.violations) or any(one.violations() for one in self.goals.secondary_goals)
        return "unbalanced" if missed else "balanced"

    @cached_property
    def largest(self) -> tuple[LargestPart, ...]:
        """The largest partitions by their largest load."""
        return largest_parts(self)


def observation_of(
    balancer: Balancer, cluster: Cluster, lake: Location, settings: Any, before: Observation | None
) -> Observation:
    """The newest snapshot of a cluster; `before` where it is the newest still.

    Raises
    ------
    TrimtabError
        If the lake cannot be read, or has no snapshot of the cluster.
    """
    folder = Lake(lake, balancer.pipeline()).newest_snapshot(cluster.id)
    if before is not None and before.folder == folder:
        return before
    found = observed(balancer, balancer.snapshot().read(folder), folder, settings)
    # Here once, and not in the first request; what reading took goes back to the machine.
    _ = found.brokers, found.largest
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    return found


def observed(balancer: Balancer, snapshot: Any, folder: Path, settings: Any) -> Observation:
    """The observation that a snapshot gives, by settings of the balancer."""
    assert balancer.observed is not None
    goals = goal_status(snapshot, settings)
    taken_at = datetime.fromisoformat(snapshot.reference.taken_at).timestamp()
    return Observation(
        balancer=balancer,
        folder=folder,
        event=balancer.observed()(snapshot, settings, taken_at),
        snapshot=getattr(snapshot, "without_forecast", lambda: snapshot)(),
        goals=goals,
        resources=_resources(snapshot, goals),
    )


def _resources(snapshot: Any, goals: GoalStatus) -> tuple[ResourceStatus, ...]:
    measured, names = snapshot.imbalance(), snapshot.row_names
    theta = np.broadcast_to(np.asarray(goals.goals.theta, dtype=float), (len(measured.resources),))
    found = []
    for at, resource in enumerate(measured.resources):
        busiest, farthest = int(measured.usage[:, at].argmax()), int(measured.deviation[:, at].argmax())
        is_nominal = resource in goals.nominal
        found.append(
            ResourceStatus(
                resource=resource,
                mean=None if is_nominal else known(measured.mean[at]),
                peak=None if is_nominal else known(measured.peak_usage[at]),
                peak_broker=str(names[busiest]),
                deviation=known(measured.worst_deviation[at]),
                deviation_broker=str(names[farthest]),
                limit=None if is_nominal else known(theta[at]),
            )
        )
    return tuple(found)


def known(value: float) -> float | None:
    """A figure, or None where it is not finite."""
    return float(value) if np.isfinite(value) else None


def broker_rows(observation: Observation, snapshot: Any) -> tuple[BrokerStatus, ...]:
    """Every broker of an observation, with the load of a snapshot of the same brokers."""
    measured = snapshot.imbalance()
    brokers = {one.name: one for one in observation.event.brokers}
    find = getattr(observation.balancer.renderer(), "broker_figures", None)
    figures: dict[str, Any] = {} if find is None else find(snapshot)
    signed = np.copysign(measured.deviation, measured.usage - measured.mean)

    def values(row: int, table: Any) -> tuple[float | None, ...]:
        counted = zip(table[row], measured.counted[row], strict=True)
        return tuple(known(value) if is_counted else None for value, is_counted in counted)

    rows = []
    for row, name in enumerate(map(str, snapshot.row_names)):
        one = brokers.get(name)
        its = {figure: of[row] for figure, of in figures.items()}
        rows.append(
            BrokerStatus(
                name=name,
                rack="" if one is None or one.rack == name else one.rack,
                is_online=one is not None and one.alive,
                usage=values(row, measured.usage),
                deviation=values(row, signed),
                host=its.pop("host", ""),
                load=tuple(map(known, its.pop("load", ()))),
                capacity=tuple(map(known, its.pop("capacity", ()))),
                replicas=its.pop("replica_count", 0 if one is None else one.replicas),
                leaders=its.pop("leaders", 0),
                bytes_stored=its.pop("bytes_stored", None),
                figures=its,
            )
        )
    return tuple(rows)


def broker_rows_after(observation: Observation, plan: Any) -> tuple[BrokerStatus, ...]:
    """The brokers as they are after all moves of a plan, by the load of a snapshot; empty if not known."""
    after = getattr(observation.balancer.renderer(), "snapshot_after_plan", None)
    return () if after is None else broker_rows(observation, after(observation.snapshot, plan))


def largest_parts(
    observation: Observation, of: str = "partitions", sort: str = "", count: int = MAX_LARGEST
) -> tuple[LargestPart, ...]:
    """The largest partitions or topics by a resource, as far as the balancer tells.

    Raises
    ------
    InputError
        If there is no such resource.
    """
    largest = getattr(observation.balancer.renderer(), "largest", None)
    if largest is None:
        return ()
    known_names = [one.resource for one in observation.resources]
    if sort and sort not in known_names:
        raise InputError(f"sort is {sort[:40]}: use {', '.join(known_names)}")
    found = largest(observation.snapshot, count, of, *([sort] if sort else []))
    return tuple(
        LargestPart(name=name, leader=leader, brokers=brokers, load=load, partitions=number)
        for name, leader, brokers, load, number in found
    )


def with_online_brokers(event: Observed, online: frozenset[str]) -> Observed:
    """An event with the brokers as the cluster lists them now, which is newer than any snapshot."""
    changed = tuple(one.name for one in event.brokers if one.alive != (one.name in online))
    if not changed:
        return event
    brokers = tuple(replace(one, alive=one.name in online) for one in event.brokers)
    return replace(event, brokers=brokers, changed_brokers=changed)


def conflict_text(differences: Sequence[str]) -> str:
    """How the cluster differs from what a plan needs, in short; empty where the plan still fits."""
    more = f", and {len(differences) - 3} more" if len(differences) > 3 else ""
    return "; ".join(differences[:3]) + more
