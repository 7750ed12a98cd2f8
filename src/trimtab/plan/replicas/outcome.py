"""From the placement that a strategy ends with to the plan that tells it."""

from dataclasses import dataclass

import numpy as np

from trimtab.model.load import RESOURCES, IntArray
from trimtab.model.plan import (
    Assignment,
    Bound,
    Cost,
    Move,
    MoveKind,
    Plan,
    Prediction,
    Reason,
    Verdict,
)
from trimtab.plan.replicas import moves as moves_
from trimtab.plan.replicas.limits import Limits, limits
from trimtab.plan.replicas.problem import ProblemData


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


def plan_of(problem: ProblemData, strategy: str, outcome: Outcome) -> Plan:
    """Steps, reasons, cost, predictions and verdict of an outcome."""
    snapshot, settings, arrays = problem.snapshot, problem.settings, problem.arrays
    parts = snapshot.partitions
    first_leader = np.ascontiguousarray(parts.leader, dtype=np.int32)
    chosen = moves_.changed_partitions(arrays.home, first_leader, outcome.place, outcome.lead)
    *columns, rows, leaders = moves_.steps_of(
        arrays, problem.home_lead, first_leader, outcome.place, outcome.lead, chosen
    )
    steps = moves_.Steps(*columns)
    replicas = parts.replicas.copy()
    replicas[chosen] = rows
    leader = parts.leader.copy()
    leader[chosen] = leaders
    before_load, after_load = snapshot.broker_load(), snapshot.broker_load(replicas, leader)
    before, after = snapshot.imbalance(), snapshot.imbalance(replicas, leader)
    goal = limits(problem, after_load, 1.0)
    usage = before_load * arrays.inverse
    ceiling = _ceiling(problem, goal, usage, after_load * arrays.inverse)
    source = np.maximum(steps.source, 0)
    leaving = ~snapshot.brokers.in_service[source]
    distance = np.maximum(usage - goal.high, 0.0).sum(axis=1)
    priority = moves_.urgency(steps, leaving, distance)
    order = moves_.schedule(arrays, usage.copy(), ceiling, *steps, priority)
    moves = _moves(problem, steps, order)
    return Plan(
        level="replicas",
        strategy=strategy,
        seed=settings.seed,
        settings=settings_document(problem),
        snapshot=snapshot.reference,
        verdict=_verdict(problem, after, outcome, bool(moves)),
        moves=moves,
        assignments=_assignments(problem, chosen, rows, leaders),
        predicted=Prediction(before.measures(), after.measures()),
        cost=cost_of(moves),
        bound=Bound(0, "none computed"),
        problems=(),
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


def _ceiling(problem: ProblemData, goal: Limits, before: "np.ndarray", after: "np.ndarray") -> "np.ndarray":
    top = np.where(np.isfinite(goal.theta), np.array(problem.settings.theta), 1.0)
    return np.maximum(np.maximum(before, after), top) * (1 + 1e-12)


def _moves(problem: ProblemData, steps: moves_.Steps, order: "np.ndarray") -> tuple[Move, ...]:
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    topics = parts.topics
    topic, number = parts.topic.tolist(), parts.number.tolist()
    size = np.rint(problem.arrays.size).astype(np.int64).tolist()
    made = []
    rows = zip(
        steps.kind[order].tolist(),
        steps.partition[order].tolist(),
        steps.source[order].tolist(),
        steps.target[order].tolist(),
        strict=True,
    )
    for place, (kind, p, source, target) in enumerate(rows, 1):
        made.append(
            Move(
                order=place,
                kind=MoveKind.REPLICA if kind else MoveKind.LEADER,
                topic=topics[topic[p]],
                partition=number[p],
                source=ids[source] if source >= 0 else None,
                target=ids[target],
                bytes=size[p] if kind else 0,
                reason=Reason("epsilon", None, ids[target], None, None, None, ""),
            )
        )
    return tuple(made)


def _assignments(
    problem: ProblemData, chosen: IntArray, rows: IntArray, leaders: IntArray
) -> tuple[Assignment, ...]:
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    return tuple(
        Assignment(
            topic=parts.topics[parts.topic[p]],
            partition=int(parts.number[p]),
            before=tuple(ids[b] for b in before if b >= 0),
            after=tuple(ids[b] for b in after if b >= 0),
            leader_after=ids[leader] if leader >= 0 else None,
        )
        for p, before, after, leader in zip(
            chosen.tolist(), parts.replicas[chosen].tolist(), rows.tolist(), leaders.tolist(), strict=True
        )
    )


def _verdict(problem: ProblemData, after: "object", outcome: Outcome, any_move: bool) -> Verdict:
    settings = problem.settings
    usage, deviation, counted = after.usage, after.deviation, after.counted  # type: ignore[attr-defined]
    stays = bool((problem.arrays.leaving & (outcome.place == problem.arrays.home)).any())
    holds = not stays
    if "theta" in settings.goals:
        holds &= bool((~counted | (usage <= np.array(settings.theta))).all())
    if "epsilon" in settings.goals:
        holds &= bool((~counted | (deviation <= np.array(settings.epsilon))).all())
    if holds:
        return Verdict.LEVELLED if any_move else Verdict.LEVEL
    return Verdict.INFEASIBLE if stays else Verdict.IMPROVED
