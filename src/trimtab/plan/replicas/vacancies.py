"""A problem in which partitions are to have another number of replicas.

A replica that is to be added waits on a *vacancy*: a dead broker beyond those that there are, which it must
leave. One that is dropped goes to a vacancy. So lists keep their width, and all that is known about moves
(racks, hosts, room on disks and in log dirs, limits, bytes) holds for added and dropped replicas too.
"""

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from trimtab.model.errors import PlanError
from trimtab.model.load import BoolArray, IntArray
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab.plan.replicas.arrays import group_cap
from trimtab.plan.replicas.problem import ReplicasProblem, excluded_partitions, problem_data


def problem_with_vacancies(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> ReplicasProblem:
    """The problem of giving partitions the number of replicas that is asked of their topics.

    Nothing but these partitions may change, and of their replicas none moves.

    Raises
    ------
    PlanError
        If no topic is meant, or two patterns ask different numbers of one.
    """
    wanted = target_factors(snapshot, settings)
    have = snapshot.partitions.replication_factor
    asked = wanted > 0
    missing = np.where(asked, np.maximum(wanted - have, 0), 0)
    vacancies = int(np.abs(np.where(asked, wanted - have, 0)).max(initial=0))
    number = len(snapshot.brokers)
    problem = problem_data(_widened(snapshot, missing, vacancies), settings)
    arrays = problem.arrays
    changes = asked & (wanted != have)
    factor = np.where(asked, wanted, have).astype(np.int32)
    return replace(
        problem,
        arrays=arrays._replace(
            movable=arrays.movable & changes,
            leaving=np.ascontiguousarray(arrays.initial >= number),
            rack_cap=group_cap("rack", settings, factor, problem.racks),
            host_cap=group_cap("host", settings, factor, problem.hosts),
        ),
        excluded=~changes,
        target_factor=np.where(changes, wanted, 0).astype(np.int32),
        vacancies=vacancies,
    )


def target_factors(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> IntArray:
    """Shape (partitions,): how many replicas each is to have, 0 where none is asked.

    A topic's own name goes before patterns; excluded topics are passed over where a pattern meets them.

    Raises
    ------
    PlanError
        If a name or pattern meets no topic, a topic that is asked by name is excluded, or two patterns ask
        different numbers of one topic.
    """
    parts, asked = snapshot.partitions, settings.replication_factor
    of_topic = np.array([_factor_of(topic, asked) for topic in parts.topics], dtype=np.int32)
    for name in asked:
        if not any(name == topic or fnmatchcase(topic, name) for topic in parts.topics):
            raise PlanError(
                f"replication_factor: no topic of the snapshot of {snapshot.reference.taken_at} is called "
                f"{name} or meets it as a pattern; correct it"
            )
    wanted = of_topic[parts.topic] if len(parts) else np.zeros(0, dtype=np.int32)
    excluded = excluded_partitions(snapshot, settings.excluded_topics)
    for topic in np.unique(parts.topic[excluded]).tolist():
        if parts.topics[topic] in asked:
            raise PlanError(
                f"replication_factor: topic {parts.topics[topic]} is excluded (excluded_topics), so that it "
                "stays as it is; take it out of one of the two"
            )
    return np.where(excluded, 0, wanted).astype(np.int32)


def _factor_of(topic: str, request: Mapping[str, int]) -> int:
    if topic in request:
        return request[topic]
    met = {pattern: factor for pattern, factor in request.items() if fnmatchcase(topic, pattern)}
    if len(set(met.values())) > 1:
        told = " and ".join(f"{pattern} asks {factor}" for pattern, factor in met.items())
        raise PlanError(f"replication_factor: of topic {topic} {told}; name the topic itself, or one of them")
    return next(iter(met.values()), 0)


def _widened(snapshot: ReplicasSnapshot, missing: IntArray, vacancies: int) -> ReplicasSnapshot:
    """The snapshot with vacancies as its last brokers, and on them the replicas that are missing."""
    brokers, parts = snapshot.brokers, snapshot.partitions
    if not vacancies:
        return snapshot
    first = int(brokers.id.max(initial=-1)) + 1
    names = tuple(f"vacancy {number}" for number in range(1, vacancies + 1))
    unlimited = np.full((vacancies, len(RESOURCES)), np.inf)
    with_vacancies = ReplicaBrokers(
        id=np.concatenate([brokers.id, np.arange(first, first + vacancies)]),
        host=(*brokers.host, *names),
        rack=(*brokers.rack, *names),
        state=np.concatenate([brokers.state, np.full(vacancies, ReplicaBrokerState.DEAD)]).astype(np.int8),
        capacity=np.vstack([brokers.capacity, unlimited]),
    )
    return replace(snapshot, brokers=with_vacancies, partitions=_with_missing(parts, missing, len(brokers)))


def _with_missing(parts: Partitions, missing: IntArray, first: int) -> Partitions:
    have = parts.replication_factor
    width = max(parts.replicas.shape[1], int((have + missing).max(initial=0)))
    more = width - parts.replicas.shape[1]

    def wider(columns: np.ndarray, value: float | int | bool) -> np.ndarray:
        return np.pad(columns, ((0, 0), (0, more)), constant_values=value)

    replicas = wider(parts.replicas, NO_BROKER)
    for number in range(int(missing.max(initial=0))):
        rows = np.flatnonzero(missing > number)
        replicas[rows, have[rows] + number] = first + number
    return replace(
        parts,
        replicas=np.ascontiguousarray(replicas),
        in_sync=np.ascontiguousarray(wider(parts.in_sync, False)),
        log_dir=np.ascontiguousarray(wider(parts.log_dir, NO_BROKER)),
        held_seconds=wider(parts.held_seconds, np.inf) if parts.held_seconds.size else parts.held_seconds,
    )


def unmet(problem: ReplicasProblem, place: IntArray) -> BoolArray:
    """Shape (partitions,): is to have another number of replicas, and has not under a placement."""
    held = ((place >= 0) & (place < problem.brokers)).sum(axis=1)
    return np.asarray((problem.target_factor > 0) & (held != problem.target_factor))
