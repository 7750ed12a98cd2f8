"""From the placement that a strategy ends with to the plan that tells it."""

from dataclasses import dataclass

import numpy as np

from trimtab.model.imbalance import imbalance
from trimtab.model.load import RESOURCES, FloatArray, IntArray
from trimtab.model.plan import Assignment, Bound, Cost, Move, MoveKind, Plan, Prediction, Problem
from trimtab.model.replicas import BrokerState
from trimtab.plan.replicas import moves as moves_
from trimtab.plan.replicas.bounds import bound_of
from trimtab.plan.replicas.dirs import dirs_of
from trimtab.plan.replicas.explain import narrator
from trimtab.plan.replicas.limits import Limits, limits
from trimtab.plan.replicas.problem import ProblemData
from trimtab.plan.replicas.reasons import Reasons, reasons_of
from trimtab.plan.replicas.verdicts import judge


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where a strategy ends.

    Attributes
    ----------
    place
        Shape (partitions, width): broker index of each slot.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    """

    place: IntArray
    lead: IntArray


def plan_of(problem: ProblemData, strategy: str, outcome: Outcome, cut: Problem | None = None) -> Plan:
    """Steps, reasons, cost, predictions and verdict of an outcome; `cut` says if limits left out a part of
    it.
    """
    snapshot, settings, arrays = problem.snapshot, problem.settings, problem.arrays
    parts, brokers = snapshot.partitions, snapshot.brokers
    dead = brokers.state == BrokerState.DEAD
    # A dead broker leads nothing, whatever the snapshot still says.
    first_leader = np.where((parts.leader >= 0) & dead[parts.leader], -1, parts.leader).astype(np.int32)
    chosen = moves_.changed_partitions(arrays.home, first_leader, outcome.place, outcome.lead)
    *columns, rows, leaders = moves_.steps_of(
        arrays, problem.home_lead, first_leader, outcome.place, outcome.lead, chosen
    )
    replicas, leader = parts.replicas.copy(), first_leader.copy()
    replicas[chosen], leader[chosen] = rows, leaders
    load_before, load = snapshot.broker_load(), snapshot.broker_load(replicas, leader)
    before = imbalance(load_before, brokers.capacity, brokers.in_service)
    after = imbalance(load, brokers.capacity, brokers.in_service)
    goal = limits(problem, load, 1.0)
    usage = load_before * arrays.inverse
    ceiling = _ceiling(problem, usage, load * arrays.inverse)
    steps = _in_order(problem, moves_.Steps(*columns), goal, usage, ceiling)
    moves = _moves(problem, steps, _reasons(problem, steps, goal, usage, ceiling))
    cost = cost_of(moves)
    judgement = judge(problem, outcome.place, outcome.lead, load, after, bool(moves), cut)
    return Plan(
        level="replicas",
        strategy=strategy,
        seed=settings.seed,
        settings=settings_document(problem),
        snapshot=snapshot.reference,
        verdict=judgement.verdict,
        moves=moves,
        assignments=_assignments(problem, chosen, rows, leaders),
        predicted=Prediction(before.measures(), after.measures()),
        cost=cost,
        bound=_bound(problem, goal, load_before, cost, judgement.goals_met),
        problems=judgement.problems,
    )


def cost_of(moves: tuple[Move, ...]) -> Cost:
    """The sum of the moves."""
    kinds = [move.kind for move in moves]
    return Cost(
        bytes=sum(move.bytes for move in moves),
        replica_moves=kinds.count(MoveKind.REPLICA),
        leader_moves=kinds.count(MoveKind.LEADER),
        log_dir_moves=kinds.count(MoveKind.LOG_DIR),
    )


def settings_document(problem: ProblemData) -> dict[str, object]:
    """The settings that shape a plan, as plain JSON values."""
    s = problem.settings
    return {
        "strategy": s.strategy,
        "theta": dict(zip(RESOURCES, s.theta, strict=True)),
        "epsilon": dict(zip(RESOURCES, s.epsilon, strict=True)),
        "goals": list(s.goals),
        "excluded_topics": list(s.excluded_topics),
        "excluded_brokers_for_leaders": list(s.excluded_brokers_for_leaders),
        "excluded_brokers_for_replicas": list(s.excluded_brokers_for_replicas),
        "max_bytes": s.max_bytes,
        "max_moves": s.max_moves,
        "seed": s.seed,
        "time_budget_seconds": s.time_budget_seconds,
    }


def _ceiling(problem: ProblemData, before: FloatArray, after: FloatArray) -> FloatArray:
    """What no broker should pass on the way: θ (or its capacity), or where it is or ends if that is
    higher.
    """
    asked = "theta" in problem.settings.goals
    top = np.array(problem.settings.theta if asked else [1.0] * len(RESOURCES))
    return np.asarray(np.maximum(np.maximum(before, after) * (1 + 1e-12), top))


def _in_order(
    problem: ProblemData, steps: moves_.Steps, goal: Limits, usage: FloatArray, ceiling: FloatArray
) -> moves_.Steps:
    """The steps in the order of execution."""
    leaving = ~problem.snapshot.brokers.in_service[np.maximum(steps.source, 0)]
    distance = np.maximum(usage - goal.high, 0.0).sum(axis=1)
    priority = moves_.urgency(steps, leaving, distance)
    order = moves_.schedule(problem.arrays, usage.copy(), ceiling, *steps, priority)
    return moves_.Steps(*(np.ascontiguousarray(column[order]) for column in steps))


def _reasons(
    problem: ProblemData, steps: moves_.Steps, goal: Limits, usage: FloatArray, ceiling: FloatArray
) -> Reasons:
    number = len(steps.kind)
    reasons = Reasons(
        goal=np.zeros(number, np.int8),
        resource=np.zeros(number, np.int8),
        broker=np.zeros(number, np.int32),
        measure=np.zeros((number, 3)),
        other=np.zeros((number, 2)),
        rejected=np.zeros((number, 4), np.int32),
    )
    draining = ~problem.snapshot.brokers.in_service & (problem.snapshot.brokers.state != BrokerState.DEAD)
    reasons_of(problem.arrays, goal, steps, usage.copy(), ceiling, draining, *reasons)
    return reasons


def _moves(problem: ProblemData, steps: moves_.Steps, reasons: Reasons) -> tuple[Move, ...]:
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    topics, topic, number = parts.topics, parts.topic.tolist(), parts.number.tolist()
    size = np.rint(problem.arrays.size).astype(np.int64).tolist()
    reason = narrator(problem, steps, reasons)
    made = []
    columns = (
        steps.kind.tolist(),
        steps.partition.tolist(),
        steps.source.tolist(),
        steps.target.tolist(),
        dirs_of(problem, steps),
    )
    for i, (kind, p, source, target, (source_dir, target_dir)) in enumerate(zip(*columns, strict=True)):
        made.append(
            Move(
                order=i + 1,
                kind=MoveKind.LEADER if kind == moves_.LEADER_STEP else MoveKind.REPLICA,
                topic=topics[topic[p]],
                partition=number[p],
                source=ids[source] if source >= 0 else None,
                target=ids[target],
                bytes=0 if kind == moves_.LEADER_STEP else size[p],
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
    in_service = problem.snapshot.brokers.in_service
    fixed_mean = (problem.counted == in_service[:, None]).all(axis=0)
    bound = bound_of(problem, goal, load, fixed_mean)
    if goals_met or bound.bytes <= cost.bytes:
        return bound
    # Fewer bytes than the goals would take: no bound on this plan, so none above its cost is claimed.
    return Bound(
        cost.bytes, f"not all goals are met; to meet them takes at least {bound.bytes} bytes: {bound.proof}"
    )
