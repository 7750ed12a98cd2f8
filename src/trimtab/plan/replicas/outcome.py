"""From the final placement of a strategy to its plan: moves with reasons, costs, bound and prediction.

With the goal `preferred_order`, replica lists are reordered: the leader becomes the first, without a copy and
without another leader. Kafka prefers the first of the list. A leader that is not first, as after a broker has
died and returned, loses its role at the next election of preferred leaders, regardless of load.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trimtab.model.documents import collections_paused
from trimtab.model.load import FloatArray, IntArray, imbalance
from trimtab.model.plan import Prediction, Problem, settings_document
from trimtab.model.replicas.log_dirs import dir_balance
from trimtab.model.replicas.plan import (
    DirPrediction,
    Plan,
    ReplicaAssignment,
    ReplicaBound,
    ReplicaCost,
    ReplicaMove,
    ReplicaMoveKind,
    ReplicaReason,
)
from trimtab.model.replicas.secondary_goals import secondary_goals
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import ReplicaBrokerState
from trimtab.plan.replicas.arrays import Placement
from trimtab.plan.replicas.board import topic_table
from trimtab.plan.replicas.bounds import bound_of
from trimtab.plan.replicas.budget import ReducedProblem
from trimtab.plan.replicas.dir_schedule import DirMove, LogDirSchedule, log_dir_bound, schedule_log_dirs
from trimtab.plan.replicas.explain import narrator
from trimtab.plan.replicas.factor import factor_narrator
from trimtab.plan.replicas.headroom import held_back, reverted, too_full
from trimtab.plan.replicas.infeasible import NOTHING_PINNED, PinnedPartitions
from trimtab.plan.replicas.moves import LEADER_STEP, StepArrays, path_to, schedule, urgency
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.replicas.reasons import reasons_of, topic_reasons
from trimtab.plan.replicas.verdicts import (
    evaluate,
    predicted_hosts,
    predicted_numbers,
    predicted_topics,
    topic_pair,
)
from trimtab.plan.search.limits import UsageLimits
from trimtab.plan.search.reasons import StepReasons, blank_reasons
from trimtab.plan.search.verdicts import with_problem

ORDER_GOAL = "preferred_order"


def misordered(problem: ReplicasProblem, rows: IntArray, leaders: IntArray) -> IntArray:
    """Partitions whose leader is not the first of its list, ascending; none without the goal.

    Excluded topics keep their order, and a demoted broker is never preferred.

    Parameters
    ----------
    rows, leaders
        Shape (partitions, width) and (partitions,): lists in Kafka's order and leaders, broker indices.
    """
    if ORDER_GOAL not in problem.settings.goals or not len(rows):
        return np.zeros(0, dtype=np.int32)
    arrays = problem.arrays
    wrong = (leaders >= 0) & (rows[:, 0] != leaders) & arrays.movable & arrays.may_lead[leaders]
    return np.flatnonzero(wrong & (rows == leaders[:, None]).any(axis=1)).astype(np.int32)


def put_first(rows: IntArray, leaders: IntArray) -> IntArray:
    """Lists with their leaders first, the others in the order that they had."""
    behind = np.argsort(rows != leaders[:, None], axis=1, kind="stable")
    return np.take_along_axis(rows, behind, axis=1)


def limit_order_moves(
    problem: ReplicasProblem, wrong: IntArray, spent: int
) -> tuple[IntArray, Problem | None]:
    """As many of the partitions as `max_moves` leaves, and the problem of those left out."""
    most = problem.settings.max_moves
    left = len(wrong) if most is None else max(0, most - spent)
    if left >= len(wrong):
        return wrong, None
    number = len(wrong) - left
    text = f"{number} partitions keep a list whose first broker does not lead: max_moves {most} left them out"
    return wrong[:left], Problem("limit_reached", text, proof={"goal": ORDER_GOAL, "partitions": number})


def order_reason(name: str, broker: int, first: int) -> ReplicaReason:
    """Of a partition's list of which `broker` leads and `first` is the first; Kafka's ids."""
    text = (
        f"broker {broker} leads {name}, but an election would make broker {first} leader, the first of its "
        f"list; puts broker {broker} first"
    )
    return ReplicaReason(ORDER_GOAL, None, broker, None, None, None, text)


@dataclass(frozen=True, eq=False)
class PlanPath:
    """The path to a placement: steps in order, and the final load; partitions in `held` found no space."""

    placement: Placement
    steps: StepArrays
    chosen: IntArray
    rows: IntArray
    leaders: IntArray
    replicas: IntArray
    replica_leader: IntArray
    load: FloatArray
    goal: UsageLimits
    ceiling: FloatArray
    held: IntArray
    log_dir_schedule: LogDirSchedule


@collections_paused()
def plan_of(
    problem: ReplicasProblem,
    strategy: str,
    placement: Placement,
    cut: ReducedProblem | None = None,
    dear: Problem | None = None,
    path: PlanPath | None = None,
) -> Plan:
    """Steps, reasons, cost, predictions and verdict of a placement.

    Partitions stay in place if a copy would fill a disk above θ during the execution.

    Parameters
    ----------
    cut
        Problem of moves left out by limits on bytes and moves.
    dear
        Problem of copies left out because they cost too much for their gain.
    path
        The path to the placement, if it is known already.
    """
    snapshot, settings = problem.snapshot, problem.settings
    brokers, load_before = snapshot.brokers, snapshot.broker_load()
    usage = _first_usage(problem)
    path = path or path_of(problem, placement)
    before = imbalance(load_before, brokers.capacity, brokers.in_service, RESOURCES)
    after = imbalance(path.load, brokers.capacity, brokers.in_service, RESOURCES)
    reasons = _reasons(problem, path, usage)
    moves = _moves(problem, path.steps, reasons, path.log_dir_schedule, usage, path.goal)
    path, orders, left_out = _in_preferred_order(problem, path, len(moves))
    moves += orders
    cost = cost_of(moves)
    limited = None if cut is None else cut.problem
    left = (dear, limited, path.log_dir_schedule.cut, held_back(problem, path.held))
    cuts = tuple(one for one in left if one is not None)
    kept = PinnedPartitions(NOTHING_PINNED.by_limits if cut is None else cut.partitions, path.held)
    first = secondary_goals(snapshot, settings, load_before, problem.arrays.initial, problem.first_leader)
    last = secondary_goals(snapshot, settings, path.load, path.replicas, path.replica_leader)
    beside = tuple(zip(first, last, strict=True))
    topics = topic_pair(problem, path.replicas, path.replica_leader)
    measured = (before, after)
    ends = path.placement, path.replica_leader, path.load
    judgement = evaluate(
        problem, *ends, measured, path.log_dir_schedule, bool(moves), cuts, beside, topics, kept
    )
    if left_out is not None:
        judgement = with_problem(judgement, left_out)
    return Plan(
        balancer="replicas",
        strategy=strategy,
        seed=settings.seed,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=judgement.verdict,
        moves=moves,
        assignments=_assignments(problem, path),
        predicted=Prediction(before.measures(), after.measures()),
        cost=cost,
        bound=_bound(problem, path.goal, load_before, cost, judgement.goals_met),
        problems=judgement.problems,
        log_dirs=_dir_prediction(problem, path.log_dir_schedule),
        hosts=predicted_hosts(beside),
        numbers=predicted_numbers(beside),
        topics=predicted_topics(topics),
    )


def _first_usage(problem: ReplicasProblem) -> FloatArray:
    """Shape (rows, columns): utilisations of the snapshot."""
    if problem.carriers.plain:
        return problem.first_usage
    first = Placement(problem.arrays.initial, problem.first_lead)
    return problem.usage(first)


def path_of(problem: ReplicasProblem, placement: Placement) -> PlanPath:
    """The path to a placement, or to the part of it for which disks have space."""
    snapshot, usage = problem.snapshot, _first_usage(problem)
    held = np.zeros(0, dtype=np.int32)
    while True:
        steps, chosen, rows, leaders = path_to(problem, placement)
        replicas, leader = snapshot.partitions.replicas.copy(), problem.first_leader
        replicas[chosen], leader[chosen] = rows, leaders
        load = snapshot.broker_load(replicas, leader)
        borne = problem.carriers.load(load, replicas, leader)
        goal = problem.limits(borne)
        ceiling = _ceiling(problem, usage, borne * problem.carriers.inverse)
        steps = _in_order(problem, steps, goal, usage, ceiling)
        full = np.setdiff1d(too_full(problem, steps), held)
        if not len(full):
            way = schedule_log_dirs(problem, steps)
            full = np.setdiff1d(way.full, held)
        if not len(full):
            of = replicas, leader, load
            return PlanPath(placement, steps, chosen, rows, leaders, *of, goal, ceiling, held, way)
        held = np.union1d(held, full).astype(np.int32)
        placement = reverted(problem, placement, full)


def cost_of(moves: tuple[ReplicaMove, ...]) -> ReplicaCost:
    """The sum of the moves."""
    kinds = [move.kind for move in moves]
    between_dirs = sum(move.bytes for move in moves if move.kind is ReplicaMoveKind.LOG_DIR)
    return ReplicaCost(
        bytes=sum(move.bytes for move in moves) - between_dirs,
        replica_moves=kinds.count(ReplicaMoveKind.REPLICA),
        leader_moves=kinds.count(ReplicaMoveKind.LEADER),
        log_dir_moves=kinds.count(ReplicaMoveKind.LOG_DIR),
        log_dir_bytes=between_dirs,
        order_moves=kinds.count(ReplicaMoveKind.ORDER),
        added_replicas=kinds.count(ReplicaMoveKind.ADD),
        dropped_replicas=kinds.count(ReplicaMoveKind.DROP),
    )


def _ceiling(problem: ReplicasProblem, before: FloatArray, after: FloatArray) -> FloatArray:
    """The limit of brokers' load during the execution: θ (or capacity), or start or end if that is higher."""
    asked = "theta" in problem.settings.goals
    top = np.array(problem.settings.theta if asked else [1.0] * len(RESOURCES))
    brokers, width = problem.counted.shape
    most = np.maximum(before, after)[:brokers, :width] * (1 + 1e-12)
    return problem.carriers.ceiling(np.asarray(np.maximum(most, top)), before, after)


def _in_order(
    problem: ReplicasProblem, steps: StepArrays, goal: UsageLimits, usage: FloatArray, ceiling: FloatArray
) -> StepArrays:
    """The steps in the order of execution."""
    leaving = ~problem.snapshot.brokers.in_service[np.maximum(steps.source, 0)]
    if problem.resizes:
        # Dropped replicas make space for added ones.
        leaving = steps.target >= problem.brokers
    resources = problem.counted.shape[1]
    distance = np.maximum(usage - goal.high, 0.0)[:, :resources].sum(axis=1)
    priority = urgency(steps, leaving, distance)
    order: Any = np.empty_like(priority)
    schedule(problem.wide, usage.copy(), ceiling, *steps, priority, order)
    return StepArrays(*(np.ascontiguousarray(column[order]) for column in steps))


def _reasons(problem: ReplicasProblem, path: PlanPath, usage: FloatArray) -> StepReasons:
    steps, goal, ceiling = path.steps, path.goal, path.ceiling
    arrays, brokers = problem.arrays, problem.snapshot.brokers
    reasons = blank_reasons(len(steps.kind), rules=4)
    draining = ~brokers.in_service & (brokers.state != ReplicaBrokerState.DEAD)
    held = np.bincount(arrays.initial[arrays.initial >= 0], minlength=len(brokers)).astype(np.float64)
    place, demoted = arrays.initial.copy(), problem.demoted.copy()
    reasons_of(problem.wide, goal, steps, usage.copy(), ceiling, draining, demoted, place, held, reasons)
    if problem.topics is not None:
        end = topic_table(problem.topics, path.replicas, path.replica_leader)
        table = end._replace(counts=problem.topics.counts(arrays.initial, problem.first_leader))
        topic_reasons(table, problem.topics.row, goal, steps, reasons)
    return reasons


def _kind(brokers: int, kind: int, source: int, target: int) -> ReplicaMoveKind:
    """A step's kind as a move: from a vacancy a replica is added, to a vacancy one is dropped."""
    if kind == LEADER_STEP:
        return ReplicaMoveKind.LEADER
    if source >= brokers:
        return ReplicaMoveKind.ADD
    return ReplicaMoveKind.DROP if target >= brokers else ReplicaMoveKind.REPLICA


def _moves(
    problem: ReplicasProblem,
    steps: StepArrays,
    reasons: StepReasons,
    log_dir_schedule: LogDirSchedule,
    usage: FloatArray,
    goal: UsageLimits,
) -> tuple[ReplicaMove, ...]:
    """The steps, and between them the moves from dir to dir."""
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    topics, moved = parts.topics, steps.partition
    topic, number = parts.topic[moved].tolist(), parts.number[moved].tolist()
    size = np.rint(problem.arrays.size[moved]).astype(np.int64).tolist()
    earlier = np.cumsum(
        np.bincount([move.place for move in log_dir_schedule.moves], minlength=len(steps.kind) + 1)
        if log_dir_schedule.moves
        else np.zeros(len(steps.kind) + 1, dtype=np.int64)
    )
    order: list[int] = (np.arange(1, len(steps.kind) + 1) + earlier[:-1]).tolist()
    if problem.resizes:
        reason = factor_narrator(problem, steps, reasons, usage, order)
    else:
        reason = narrator(problem, steps, reasons, order, goal)
    made, brokers = [], problem.brokers
    columns = (*(column.tolist() for column in steps[:4]), log_dir_schedule.pairs)
    for i, (kind, _, source, target, (source_dir, target_dir)) in enumerate(zip(*columns, strict=True)):
        does = _kind(brokers, kind, source, target)
        made.append(
            ReplicaMove(
                order=order[i],
                kind=does,
                topic=topics[topic[i]],
                partition=number[i],
                source=ids[source] if source >= 0 and does is not ReplicaMoveKind.ADD else None,
                target=ids[source if does is ReplicaMoveKind.DROP else target],
                bytes=size[i] if does in (ReplicaMoveKind.REPLICA, ReplicaMoveKind.ADD) else 0,
                reason=reason(i),
                source_dir=source_dir,
                target_dir=target_dir,
            )
        )

    def between_dirs(move: DirMove, order: int) -> ReplicaMove:
        change, path = move.change, problem.snapshot.log_dirs.path
        return ReplicaMove(
            order=order,
            kind=ReplicaMoveKind.LOG_DIR,
            topic=topics[parts.topic[change.partition]],
            partition=int(parts.number[change.partition]),
            source=ids[change.broker],
            target=ids[change.broker],
            bytes=round(problem.arrays.size[change.partition]),
            reason=move.reason,
            source_dir=path[change.source],
            target_dir=path[change.target],
        )

    made += [between_dirs(move, move.place + 1 + at) for at, move in enumerate(log_dir_schedule.moves)]
    return tuple(sorted(made, key=lambda move: move.order))


def _in_preferred_order(
    problem: ReplicasProblem, path: PlanPath, spent: int
) -> tuple[PlanPath, tuple[ReplicaMove, ...], Problem | None]:
    """The path with every leader first in its list, where that is asked for, and the moves that do it."""
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    rows, leaders = parts.replicas.copy(), problem.first_leader
    rows[path.chosen], leaders[path.chosen] = path.rows, path.leaders
    wrong, left_out = limit_order_moves(problem, misordered(problem, rows, leaders), spent)
    if not len(wrong):
        return path, (), left_out
    moves = tuple(
        ReplicaMove(
            order=spent + 1 + at,
            kind=ReplicaMoveKind.ORDER,
            topic=parts.topics[parts.topic[p]],
            partition=int(parts.number[p]),
            source=ids[leaders[p]],
            target=ids[leaders[p]],
            bytes=0,
            reason=order_reason(parts.name_of(p), ids[leaders[p]], ids[rows[p, 0]]),
        )
        for at, p in enumerate(wrong.tolist())
    )
    rows[wrong] = put_first(rows[wrong], leaders[wrong])
    chosen = np.union1d(path.chosen, wrong).astype(np.int32)
    return replace(path, chosen=chosen, rows=rows[chosen], leaders=leaders[chosen]), moves, left_out


def _assignments(problem: ReplicasProblem, path: PlanPath) -> tuple[ReplicaAssignment, ...]:
    """The lists of all partitions that move, also of those whose replicas only change their log dir."""
    parts, ids, brokers = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist(), problem.brokers
    moved = np.array([move.change.partition for move in path.log_dir_schedule.moves], dtype=np.int64)
    chosen = np.union1d(path.chosen, moved)
    rows, leaders = parts.replicas[chosen], problem.first_leader[chosen]
    at = np.searchsorted(chosen, path.chosen)
    rows[at], leaders[at] = path.rows, path.leaders
    return tuple(
        ReplicaAssignment(
            topic=parts.topics[topic],
            partition=number,
            before=tuple([ids[b] for b in before if 0 <= b < brokers]),
            after=tuple([ids[b] for b in after if 0 <= b < brokers]),
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


def _dir_prediction(problem: ReplicasProblem, log_dir_schedule: LogDirSchedule) -> DirPrediction | None:
    """The measures of the log dirs; None if none counts, or without a goal for them."""
    if log_dir_schedule.data is None or not log_dir_schedule.data.is_goal:
        return None
    idle = problem.settings.min_utilization
    before, after = (
        dir_balance(problem.snapshot, held).measures(idle)
        for held in (log_dir_schedule.data.held, log_dir_schedule.held)
    )
    return None if before is None or after is None else DirPrediction(before, after)


def _bound(
    problem: ReplicasProblem, goal: UsageLimits, load: FloatArray, cost: ReplicaCost, goals_met: bool
) -> ReplicaBound:
    bound = replace(
        bound_of(problem, goal, load), log_dir_bytes=min(log_dir_bound(problem), cost.log_dir_bytes)
    )
    if goals_met or bound.bytes <= cost.bytes:
        return bound
    # Fewer bytes than the goals need: the bound does not apply, so none above the plan's cost is claimed.
    return replace(
        bound,
        bytes=cost.bytes,
        proof=f"not all goals are met; to meet them takes at least {bound.bytes} bytes: {bound.proof}",
    )
