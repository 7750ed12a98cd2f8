"""From the placement that a strategy ends with to the plan that tells it."""

from dataclasses import dataclass

import numpy as np

from trimtab.model.imbalance import imbalance
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Prediction, Problem, settings_document
from trimtab.model.replicas.plan import Assignment, Bound, Cost, Move, MoveKind, Plan
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.snapshot import BrokerState
from trimtab.plan.replicas.bounds import bound_of
from trimtab.plan.replicas.dirs import dirs_of
from trimtab.plan.replicas.explain import narrator
from trimtab.plan.replicas.headroom import held_back, sent_home, too_full
from trimtab.plan.replicas.moves import LEADER_STEP, Steps, path_to
from trimtab.plan.replicas.problem import Placement, ProblemData
from trimtab.plan.replicas.reasons import reasons_of
from trimtab.plan.replicas.schedule import schedule, urgency
from trimtab.plan.replicas.verdicts import judge
from trimtab.plan.search.limits import Limits
from trimtab.plan.search.reasons import Reasons, blank_reasons


@dataclass(frozen=True, eq=False)
class _Path:
    """The way to a placement: steps in order, and the load at its end; partitions in `held` found no room."""

    placement: Placement
    steps: Steps
    chosen: IntArray
    rows: IntArray
    leaders: IntArray
    load: FloatArray
    goal: Limits
    ceiling: FloatArray
    held: IntArray


def plan_of(problem: ProblemData, strategy: str, placement: Placement, cut: Problem | None = None) -> Plan:
    """Steps, reasons, cost, predictions and verdict of a placement; `cut`: limits left out a part of it.

    Partitions of which a copy would fill a disk above θ on the way stay where they are.
    """
    snapshot, settings = problem.snapshot, problem.settings
    brokers, load_before = snapshot.brokers, snapshot.broker_load()
    usage = load_before * problem.arrays.inverse
    path = _path(problem, placement, usage)
    before = imbalance(load_before, brokers.capacity, brokers.in_service, RESOURCES)
    after = imbalance(path.load, brokers.capacity, brokers.in_service, RESOURCES)
    moves = _moves(problem, path.steps, _reasons(problem, path.steps, path.goal, usage, path.ceiling))
    cost = cost_of(moves)
    cuts = tuple(one for one in (cut, held_back(problem, path.held)) if one is not None)
    judgement = judge(problem, path.placement, path.load, (before, after), bool(moves), cuts)
    return Plan(
        level="replicas",
        strategy=strategy,
        seed=settings.seed,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=judgement.verdict,
        moves=moves,
        assignments=_assignments(problem, path.chosen, path.rows, path.leaders),
        predicted=Prediction(before.measures(), after.measures()),
        cost=cost,
        bound=_bound(problem, path.goal, load_before, cost, judgement.goals_met),
        problems=judgement.problems,
    )


def _path(problem: ProblemData, placement: Placement, usage: FloatArray) -> _Path:
    """The way to a placement, or to as much of it as no disk is too full for.

    Parameters
    ----------
    usage
        Shape (brokers, resources): that of the snapshot.
    """
    snapshot = problem.snapshot
    held = np.zeros(0, dtype=np.int32)
    while True:
        steps, chosen, rows, leaders = path_to(problem, placement)
        replicas, leader = snapshot.partitions.replicas.copy(), problem.first_leader
        replicas[chosen], leader[chosen] = rows, leaders
        load = snapshot.broker_load(replicas, leader)
        goal = problem.limits(load)
        ceiling = _ceiling(problem, usage, load * problem.arrays.inverse)
        steps = _in_order(problem, steps, goal, usage, ceiling)
        full = np.setdiff1d(too_full(problem, steps), held)
        if not len(full):
            return _Path(placement, steps, chosen, rows, leaders, load, goal, ceiling, held)
        held = np.union1d(held, full).astype(np.int32)
        placement = sent_home(problem, placement, full)


def cost_of(moves: tuple[Move, ...]) -> Cost:
    """The sum of the moves."""
    kinds = [move.kind for move in moves]
    return Cost(
        bytes=sum(move.bytes for move in moves),
        replica_moves=kinds.count(MoveKind.REPLICA),
        leader_moves=kinds.count(MoveKind.LEADER),
        log_dir_moves=kinds.count(MoveKind.LOG_DIR),
    )


def _ceiling(problem: ProblemData, before: FloatArray, after: FloatArray) -> FloatArray:
    """The most that brokers should bear on the way: θ (or capacity), or start or end if that is higher."""
    asked = "theta" in problem.settings.goals
    top = np.array(problem.settings.theta if asked else [1.0] * len(RESOURCES))
    return np.asarray(np.maximum(np.maximum(before, after) * (1 + 1e-12), top))


def _in_order(
    problem: ProblemData, steps: Steps, goal: Limits, usage: FloatArray, ceiling: FloatArray
) -> Steps:
    """The steps in the order of execution."""
    leaving = ~problem.snapshot.brokers.in_service[np.maximum(steps.source, 0)]
    distance = np.maximum(usage - goal.high, 0.0).sum(axis=1)
    priority = urgency(steps, leaving, distance)
    order = schedule(problem.arrays, usage.copy(), ceiling, *steps, priority)
    return Steps(*(np.ascontiguousarray(column[order]) for column in steps))


def _reasons(
    problem: ProblemData, steps: Steps, goal: Limits, usage: FloatArray, ceiling: FloatArray
) -> Reasons:
    arrays, brokers = problem.arrays, problem.snapshot.brokers
    reasons = blank_reasons(len(steps.kind), rules=4)
    draining = ~brokers.in_service & (brokers.state != BrokerState.DEAD)
    held = np.bincount(arrays.home[arrays.home >= 0], minlength=len(brokers)).astype(np.float64)
    place, demoted = arrays.home.copy(), problem.demoted.copy()
    reasons_of(arrays, goal, steps, usage.copy(), ceiling, draining, demoted, place, held, reasons)
    return reasons


def _moves(problem: ProblemData, steps: Steps, reasons: Reasons) -> tuple[Move, ...]:
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    topics, topic, number = parts.topics, parts.topic.tolist(), parts.number.tolist()
    size = np.rint(problem.arrays.size).astype(np.int64).tolist()
    reason = narrator(problem, steps, reasons)
    made = []
    columns = (*(column.tolist() for column in steps[:4]), dirs_of(problem, steps))
    for i, (kind, p, source, target, (source_dir, target_dir)) in enumerate(zip(*columns, strict=True)):
        made.append(
            Move(
                order=i + 1,
                kind=MoveKind.LEADER if kind == LEADER_STEP else MoveKind.REPLICA,
                topic=topics[topic[p]],
                partition=number[p],
                source=ids[source] if source >= 0 else None,
                target=ids[target],
                bytes=0 if kind == LEADER_STEP else size[p],
                reason=reason(i),
                source_dir=source_dir,
                target_dir=target_dir,
            )
        )
    return tuple(made)


def _assignments(
    problem: ProblemData, chosen: IntArray, rows: IntArray, leaders: IntArray
) -> tuple[Assignment, ...]:
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    return tuple(
        Assignment(
            topic=parts.topics[topic],
            partition=number,
            before=tuple(ids[b] for b in before if b >= 0),
            after=tuple(ids[b] for b in after if b >= 0),
            leader_after=ids[leader] if leader >= 0 else None,
        )
        for topic, number, before, after, leader in zip(
            parts.topic[chosen].tolist(),
            parts.number[chosen].tolist(),
            parts.replicas[chosen].tolist(),
            rows.tolist(),
            leaders.tolist(),
            strict=True,
        )
    )


def _bound(problem: ProblemData, goal: Limits, load: FloatArray, cost: Cost, goals_met: bool) -> Bound:
    bound = bound_of(problem, goal, load)
    if goals_met or bound.bytes <= cost.bytes:
        return bound
    # Fewer bytes than the goals would take: no bound on this plan, so none above its cost is claimed.
    return Bound(
        cost.bytes, f"not all goals are met; to meet them takes at least {bound.bytes} bytes: {bound.proof}"
    )
