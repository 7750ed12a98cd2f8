"""Plans for another replication factor: the problem with vacancies, its proofs, and the reasons of its steps.

A replica to add waits on a *vacancy*: an additional dead broker that it must leave. A dropped replica moves
to a vacancy. So lists keep their width, and all rules for moves (racks, hosts, space on disks and in log
dirs, limits, bytes) hold for added and dropped replicas too.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np

from trimtab.model.errors import PlanError
from trimtab.model.load import BoolArray, FloatArray, IntArray, resource_name
from trimtab.model.plan import Problem
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.model.replicas.settings import DISK, RESOURCES, UNITS, ReplicasSettings
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab.plan.replicas.arrays import Placement, crowding, group_cap
from trimtab.plan.replicas.explain import RULES
from trimtab.plan.replicas.headroom import ROUNDING, ceiling, too_few_holders
from trimtab.plan.replicas.infeasible import PinnedPartitions, counted, named
from trimtab.plan.replicas.moves import LEADER_STEP, StepArrays
from trimtab.plan.replicas.problem import ReplicasProblem, excluded_partitions, problem_data
from trimtab.plan.search.reasons import StepReasons, UnitScale, change, rejections


def problem_with_vacancies(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> ReplicasProblem:
    """The problem of giving partitions the requested number of replicas.

    Only these partitions change, and none of their replicas moves.

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
    """Shape (partitions,): requested number of replicas, 0 without a request.

    A topic's own name precedes patterns; patterns skip excluded topics.

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
    """Shape (partitions,): whether the requested number of replicas is missed under a placement."""
    held = ((place >= 0) & (place < problem.brokers)).sum(axis=1)
    return np.asarray((problem.target_factor > 0) & (held != problem.target_factor))


GOAL = "replication_factor"


def factor_problems(
    problem: ReplicasProblem, place: IntArray, lead: IntArray, retained: PinnedPartitions
) -> tuple[list[Problem], list[Problem]]:
    """Problems that no plan of this kind can solve, and those that only this plan leaves unsolved.

    Parameters
    ----------
    place, lead
        The placement in slots.
    retained
        Partitions that stay because of limits, or because disks lack space during the execution.
    """
    proven: list[Problem] = []
    open_: list[Problem] = []
    left = unmet(problem, place)
    have = ((problem.arrays.initial >= 0) & (problem.arrays.initial < problem.brokers)).sum(axis=1)
    orphaned = left & problem.orphaned
    short = left & ~orphaned & (problem.target_factor > have)
    if orphaned.any():
        text = (
            "keep the replicas that they have: no broker that runs holds them in sync, so there is nothing "
            "to copy from, and none may be given up; bring one of their brokers back"
        )
        proven.append(
            _problem(problem, orphaned, "conflicting_constraints", text, proof={"online_in_sync_copies": 0})
        )
    too_few, where = _too_few(problem, short)
    proven += where
    no_room = [] if where else _no_disk_space(problem, short & ~too_few, place, lead)
    if not where and not no_room and (short & ~too_few).any():
        copies = np.where(problem.target_factor > 0, problem.target_factor, have).astype(np.int32)
        one = too_few_holders(problem, copies)
        no_room = [] if one is None else [_of_partitions(problem, one, short & ~too_few)]
    proven += no_room
    limited, held = (np.isin(np.arange(len(left)), rows) for rows in retained)
    reasons = (
        (limited, "a limit on moves or bytes left them out"),
        (held, "their copies would fill a disk on the way"),
    )
    rest = (short & ~too_few) if not no_room else np.zeros_like(short)
    dropped = left & ~orphaned & ~short
    for which, why in (*reasons, (np.ones_like(left), "")):
        for group, other in (
            (rest, "no broker was found that has room for one more on its disk; not proven impossible"),
            (dropped, "no other replica in sync may lead"),
        ):
            if (mine := group & which).any():
                text = f"keep the replicas that they have: {why or other}"
                open_.append(_problem(problem, mine, "unmet_goal", text, proof={"goal": GOAL}))
        rest, dropped = rest & ~which, dropped & ~which
    for name in ("rack", "host"):
        open_ += _crowded(problem, place, left, name)
    return proven, open_


def _of_partitions(problem: ReplicasProblem, proven: Problem, which: BoolArray) -> Problem:
    """A proof about disks, with the partitions that miss their number for this reason."""
    number = int(which.sum())
    kept = f"{counted(number)} ({named(problem, which)}) cannot all get the replicas that are asked for"
    proof: dict[str, object] = {**proven.proof, "partitions": number}
    return replace(proven, text=f"{kept}: {proven.text}", proof=proof)


def _too_few(problem: ReplicasProblem, short: BoolArray) -> tuple[BoolArray, list[Problem]]:
    """Partitions with more requested replicas than permitted brokers."""
    arrays, home = problem.arrays, problem.arrays.initial
    open_ = int(arrays.may_receive.sum())
    closed = ((home >= 0) & (home < problem.brokers) & ~arrays.may_receive[home]).sum(axis=1)
    which = short & (problem.target_factor > open_ + closed)
    if not which.any():
        return which, []
    need = int(problem.target_factor[which].max())
    have = open_ + int(closed[which & (problem.target_factor == need)].min())
    more, s = need - have, "s" if need - have > 1 else ""
    text = (
        f"are to have {need} replicas on {need} different brokers, but only {have} brokers may hold them: "
        f"add {more} broker{s}, or open so many that are dead, drain or may be given no replicas; or "
        f"ask for {have}; they keep what they have"
    )
    choices = {"add_brokers": {"count": more}, "ask_for": {"replication_factor": have}}
    proof: dict[str, object] = {
        "replication_factor": need,
        "brokers_that_may_hold_them": have,
        "choices": choices,
    }
    return which, [_problem(problem, which, "add_brokers", text, count=more, proof=proof)]


def _no_disk_space(
    problem: ReplicasProblem, short: BoolArray, place: IntArray, lead: IntArray
) -> list[Problem]:
    """More bytes are to be added than all disks together can hold below θ."""
    arrays = problem.arrays
    if not short.any():
        return []
    top, service = ceiling(problem)[: problem.brokers], problem.counted[: problem.brokers, DISK]
    open_ = arrays.may_receive[: problem.brokers]
    if (open_ & ~service).any():
        return []
    capacity = problem.snapshot.brokers.capacity[: problem.brokers, DISK]
    # Dropped replicas of the same plan make space.
    without = Placement(np.where(arrays.initial >= problem.brokers, arrays.initial, place), lead)
    held = problem.load(without)[: problem.brokers, DISK]
    free = float(np.maximum(top[open_] * capacity[open_] - held[open_], 0.0).sum())
    missing = ((arrays.initial >= problem.brokers) * arrays.size[:, None]).sum()
    if missing <= free * ROUNDING:
        return []
    theta = problem.settings.theta[DISK]
    typical = float(np.median(capacity[open_])) if open_.any() else 0.0
    more = max(1, int(np.ceil((missing - free) / (theta * typical) - 1e-9))) if typical else 1
    s = "s" if more > 1 else ""
    text = (
        f"keep the replicas that they have: {missing:.6g} bytes are to be added in all, and all disks "
        f"together have room for {free:.6g} below {100 * theta:g}%: add {more} broker{s} of "
        f"{typical:.6g} bytes; or ask for fewer replicas, or of fewer topics; or raise theta.disk"
    )
    proof: dict[str, object] = {
        "needed_bytes": float(missing),
        "free_bytes": free,
        "theta": theta,
        "choices": {"add_brokers": {"count": more}, "ask_for_less": {}, "raise_theta": {}},
    }
    return [_problem(problem, short, "add_brokers", text, count=more, resource="disk", proof=proof)]


def _crowded(problem: ReplicasProblem, place: IntArray, left: BoolArray, name: str) -> list[Problem]:
    """Partitions that exceed the cap of a rack or a host with their current number of replicas."""
    arrays = problem.arrays
    group, cap = getattr(arrays, name), getattr(arrays, f"{name}_cap")
    real = np.where(place < problem.brokers, place, -1)
    which = (problem.target_factor > 0) & ~left & crowding(real, group, cap)
    if not which.any():
        return []
    text = (
        f"crowd a {name}: by the replicas that they had, or for want of brokers elsewhere that have room and "
        "may be given some; a plan without replication_factor spreads what can be spread"
    )
    return [_problem(problem, which, "unmet_goal", text, proof={"goal": name})]


def _problem(
    problem: ReplicasProblem,
    which: BoolArray,
    kind: str,
    text: str,
    *,
    count: int | None = None,
    resource: str | None = None,
    proof: dict[str, object],
) -> Problem:
    number = int(which.sum())
    told = {"partitions": number, **proof}
    sentence = f"{counted(number)} ({named(problem, which)}) {text}"
    return Problem(kind, sentence, count=count, resource=resource, proof=told)


def factor_narrator(
    problem: ReplicasProblem, steps: StepArrays, reasons: StepReasons, usage: FloatArray, order: list[int]
) -> Callable[[int], ReplicaReason]:
    """A function from the number of a step to its reason.

    Parameters
    ----------
    usage
        Shape (rows, columns), before all steps.
    order
        The place of each step among the plan's moves, from 1.
    """
    return _Narrator(problem, steps, reasons, usage, order)


class _Narrator:
    def __init__(
        self,
        problem: ReplicasProblem,
        steps: StepArrays,
        reasons: StepReasons,
        usage: FloatArray,
        order: list[int],
    ) -> None:
        self.problem, self.steps, self.reasons, self.order = problem, steps, reasons, order
        self.ids = problem.snapshot.brokers.id.tolist()
        held = (problem.arrays.initial >= 0) & (problem.arrays.initial < problem.brokers)
        self.number = held.sum(axis=1).tolist()
        self.usage = usage[: problem.brokers, : len(RESOURCES)].copy()
        self.departs = {
            (int(p), int(b)): at
            for kind, p, b, at in zip(*(c.tolist() for c in steps[:3]), order, strict=True)
            if kind != LEADER_STEP
        }

    def __call__(self, i: int) -> ReplicaReason:
        """The reason of a step; to be called in the order of steps."""
        problem = self.problem
        kind, p, source, target, role = (int(column[i]) for column in self.steps)
        wanted, name = int(problem.target_factor[p]), problem.snapshot.partitions.name_of(p)
        if kind == LEADER_STEP:
            use = problem.arrays.use[p, 1] - problem.arrays.use[p, 0]
            text = f"{name}'s leader is offline"
            if source >= 0 and (p, source) in self.departs:
                drop = self.departs[p, source]
                text = f"the replica of broker {self.ids[source]}, which leads, is dropped (move {drop})"
            self._bear(target, use)
            if source >= 0:
                self._bear(source, -use)
            told = f"{text}; moves leader of {name} to broker {self.ids[target]}, which is in sync"
            return ReplicaReason(
                GOAL, None, self.ids[source if source >= 0 else target], None, None, None, told
            )
        use, before = problem.arrays.use[p, role], self.number[p]
        if target >= problem.brokers:
            self.number[p] -= 1
            what, side = source, -1.0
            does = f"drops that of broker {self.ids[source]}, which {self._state(p, source)}"
        else:
            self.number[p] += 1
            what, side = target, 1.0
            does = f"adds one on broker {self.ids[target]}"
        after = self.number[p]
        load = self._load(what, side * use)
        text = f"{name} has {before} of {wanted} replicas; {does}{load}"
        if side > 0:
            rejected = self.reasons.rejected[i].tolist()
            rejected[0] -= problem.vacancies - 1
            text = f"{text}{rejections(problem.brokers - 1, rejected, RULES)}"
        return ReplicaReason(GOAL, None, self.ids[what], float(before), float(after), float(wanted), text)

    def _bear(self, b: int, use: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add a load to a broker; its usage before and after."""
        was = self.usage[b].copy()
        self.usage[b] += use[: len(RESOURCES)] * self.problem.arrays.inverse[b]
        return was, self.usage[b]

    def _load(self, b: int, use: FloatArray) -> str:
        """The resource of the broker that changes most, before and after; nothing of a dead broker."""
        if self.problem.snapshot.brokers.state[b] == ReplicaBrokerState.DEAD:
            return ""
        was, now = self._bear(b, use)
        r = int(np.argmax(np.abs(now - was)))
        name, scale = RESOURCES[r], None
        if name in self.problem.snapshot.quality.nominal_capacity:
            scale = UnitScale(float(self.problem.snapshot.brokers.capacity[b, r]), UNITS[name])
        return f" ({resource_name(name)} {change(float(was[r]), max(0.0, float(now[r])), scale)})"

    def _state(self, p: int, b: int) -> str:
        """Why the replica of a broker is dropped: its state, or the best balance."""
        problem = self.problem
        s = int(np.flatnonzero(problem.arrays.initial[p] == b)[0])
        state = problem.snapshot.brokers.state[b]
        if state == ReplicaBrokerState.DEAD:
            return "is dead"
        if problem.offline[p, s]:
            return "holds it in a log dir that is offline"
        if state == ReplicaBrokerState.DRAINING:
            return "is to be emptied"
        return "can spare it best" if problem.snapshot.partitions.in_sync[p, s] else "is not in sync"
