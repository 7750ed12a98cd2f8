"""From the placement that a strategy ends with to the plan that tells it."""

from dataclasses import dataclass, replace

import numpy as np

from trimtab.model.imbalance import imbalance
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.plan import Prediction, Problem, settings_document
from trimtab.model.replicas.beside import beside_of
from trimtab.model.replicas.log_dirs import dir_balance
from trimtab.model.replicas.plan import Assignment, Bound, Cost, DirPrediction, Move, MoveKind, Plan
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.snapshot import BrokerState
from trimtab.plan.replicas.beside import predicted_hosts, predicted_numbers
from trimtab.plan.replicas.bounds import bound_of
from trimtab.plan.replicas.budget import Cut
from trimtab.plan.replicas.dir_bounds import log_dir_bound
from trimtab.plan.replicas.dir_way import DirMove, DirWay, dir_way
from trimtab.plan.replicas.explain import narrator
from trimtab.plan.replicas.factor_reasons import factor_narrator
from trimtab.plan.replicas.headroom import held_back, sent_home, too_full
from trimtab.plan.replicas.moves import LEADER_STEP, Steps, path_to
from trimtab.plan.replicas.placement import Placement
from trimtab.plan.replicas.preferred_order import misordered, put_first, reason_of, within_limit
from trimtab.plan.replicas.problem import ProblemData
from trimtab.plan.replicas.reasons import reasons_of
from trimtab.plan.replicas.schedule import schedule, urgency
from trimtab.plan.replicas.topic_reasons import topic_reasons
from trimtab.plan.replicas.topic_verdicts import predicted_topics, topic_pair
from trimtab.plan.replicas.topics import topic_table
from trimtab.plan.replicas.unlawful import NOTHING_KEPT, Kept
from trimtab.plan.replicas.verdicts import judge
from trimtab.plan.search.limits import Limits
from trimtab.plan.search.reasons import Reasons, blank_reasons
from trimtab.plan.search.verdicts import with_problem


@dataclass(frozen=True, eq=False)
class Path:
    """The way to a placement: steps in order, and the load at its end; partitions in `held` found no room."""

    placement: Placement
    steps: Steps
    chosen: IntArray
    rows: IntArray
    leaders: IntArray
    replicas: IntArray
    replica_leader: IntArray
    load: FloatArray
    goal: Limits
    ceiling: FloatArray
    held: IntArray
    way: DirWay


def plan_of(
    problem: ProblemData,
    strategy: str,
    placement: Placement,
    cut: Cut | None = None,
    dear: Problem | None = None,
    path: Path | None = None,
) -> Plan:
    """Steps, reasons, cost, predictions and verdict of a placement.

    Partitions of which a copy would fill a disk above θ on the way stay where they are.

    Parameters
    ----------
    cut
        What limits on bytes and moves left out.
    dear
        Says that copies cost too much for what they gain, and are left out.
    path
        The way to the placement, if it is known already.
    """
    snapshot, settings = problem.snapshot, problem.settings
    brokers, load_before = snapshot.brokers, snapshot.broker_load()
    usage = _first_usage(problem)
    path = path or path_of(problem, placement)
    before = imbalance(load_before, brokers.capacity, brokers.in_service, RESOURCES)
    after = imbalance(path.load, brokers.capacity, brokers.in_service, RESOURCES)
    reasons = _reasons(problem, path, usage)
    moves = _moves(problem, path.steps, reasons, path.way, usage)
    path, orders, left_out = _in_preferred_order(problem, path, len(moves))
    moves += orders
    cost = cost_of(moves)
    limited = None if cut is None else cut.problem
    left = (dear, limited, path.way.cut, held_back(problem, path.held))
    cuts = tuple(one for one in left if one is not None)
    kept = Kept(NOTHING_KEPT.by_limits if cut is None else cut.partitions, path.held)
    first = beside_of(snapshot, settings, load_before, problem.arrays.home, problem.first_leader)
    last = beside_of(snapshot, settings, path.load, path.replicas, path.replica_leader)
    beside = tuple(zip(first, last, strict=True))
    topics = topic_pair(problem, path.replicas, path.replica_leader)
    measured = (before, after)
    ends = path.placement, path.replica_leader, path.load
    judgement = judge(problem, *ends, measured, path.way, bool(moves), cuts, beside, topics, kept)
    if left_out is not None:
        judgement = with_problem(judgement, left_out)
    return Plan(
        level="replicas",
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
        log_dirs=_dir_prediction(problem, path.way),
        hosts=predicted_hosts(beside),
        numbers=predicted_numbers(beside),
        topics=predicted_topics(topics),
    )


def _first_usage(problem: ProblemData) -> FloatArray:
    """Shape (rows, columns): utilisations of the snapshot."""
    if problem.bearers.plain:
        return problem.first_usage
    first = Placement(problem.arrays.home, problem.first_lead)
    return problem.usage(first)


def path_of(problem: ProblemData, placement: Placement) -> Path:
    """The way to a placement, or to as much of it as no disk is too full for."""
    snapshot, usage = problem.snapshot, _first_usage(problem)
    held = np.zeros(0, dtype=np.int32)
    while True:
        steps, chosen, rows, leaders = path_to(problem, placement)
        replicas, leader = snapshot.partitions.replicas.copy(), problem.first_leader
        replicas[chosen], leader[chosen] = rows, leaders
        load = snapshot.broker_load(replicas, leader)
        borne = problem.bearers.load(load, replicas, leader)
        goal = problem.limits(borne)
        ceiling = _ceiling(problem, usage, borne * problem.bearers.inverse)
        steps = _in_order(problem, steps, goal, usage, ceiling)
        full = np.setdiff1d(too_full(problem, steps), held)
        if not len(full):
            way = dir_way(problem, steps)
            full = np.setdiff1d(way.full, held)
        if not len(full):
            of = replicas, leader, load
            return Path(placement, steps, chosen, rows, leaders, *of, goal, ceiling, held, way)
        held = np.union1d(held, full).astype(np.int32)
        placement = sent_home(problem, placement, full)


def cost_of(moves: tuple[Move, ...]) -> Cost:
    """The sum of the moves."""
    kinds = [move.kind for move in moves]
    between_dirs = sum(move.bytes for move in moves if move.kind is MoveKind.LOG_DIR)
    return Cost(
        bytes=sum(move.bytes for move in moves) - between_dirs,
        replica_moves=kinds.count(MoveKind.REPLICA),
        leader_moves=kinds.count(MoveKind.LEADER),
        log_dir_moves=kinds.count(MoveKind.LOG_DIR),
        log_dir_bytes=between_dirs,
        order_moves=kinds.count(MoveKind.ORDER),
        added_replicas=kinds.count(MoveKind.ADD),
        dropped_replicas=kinds.count(MoveKind.DROP),
    )


def _ceiling(problem: ProblemData, before: FloatArray, after: FloatArray) -> FloatArray:
    """The most that brokers should bear on the way: θ (or capacity), or start or end if that is higher."""
    asked = "theta" in problem.settings.goals
    top = np.array(problem.settings.theta if asked else [1.0] * len(RESOURCES))
    brokers, width = problem.counted.shape
    most = np.maximum(before, after)[:brokers, :width] * (1 + 1e-12)
    return problem.bearers.ceiling(np.asarray(np.maximum(most, top)), before, after)


def _in_order(
    problem: ProblemData, steps: Steps, goal: Limits, usage: FloatArray, ceiling: FloatArray
) -> Steps:
    """The steps in the order of execution."""
    leaving = ~problem.snapshot.brokers.in_service[np.maximum(steps.source, 0)]
    if problem.resizes:
        # What is dropped makes room for what is added.
        leaving = steps.target >= problem.brokers
    resources = problem.counted.shape[1]
    distance = np.maximum(usage - goal.high, 0.0)[:, :resources].sum(axis=1)
    priority = urgency(steps, leaving, distance)
    order = schedule(problem.wide, usage.copy(), ceiling, *steps, priority)
    return Steps(*(np.ascontiguousarray(column[order]) for column in steps))


def _reasons(problem: ProblemData, path: Path, usage: FloatArray) -> Reasons:
    steps, goal, ceiling = path.steps, path.goal, path.ceiling
    arrays, brokers = problem.arrays, problem.snapshot.brokers
    reasons = blank_reasons(len(steps.kind), rules=4)
    draining = ~brokers.in_service & (brokers.state != BrokerState.DEAD)
    held = np.bincount(arrays.home[arrays.home >= 0], minlength=len(brokers)).astype(np.float64)
    place, demoted = arrays.home.copy(), problem.demoted.copy()
    reasons_of(problem.wide, goal, steps, usage.copy(), ceiling, draining, demoted, place, held, reasons)
    if problem.topics is not None:
        end = topic_table(problem.topics, path.replicas, path.replica_leader)
        table = end._replace(tally=problem.topics.tally(arrays.home, problem.first_leader))
        topic_reasons(table, problem.topics.row, goal, steps, reasons)
    return reasons


def _kind(problem: ProblemData, kind: int, source: int, target: int) -> MoveKind:
    """A step's kind as a move: from a vacancy a replica is added, to a vacancy one is dropped."""
    if kind == LEADER_STEP:
        return MoveKind.LEADER
    if source >= problem.brokers:
        return MoveKind.ADD
    return MoveKind.DROP if target >= problem.brokers else MoveKind.REPLICA


def _moves(
    problem: ProblemData, steps: Steps, reasons: Reasons, way: DirWay, usage: FloatArray
) -> tuple[Move, ...]:
    """The steps, and between them the moves from dir to dir."""
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    topics, topic, number = parts.topics, parts.topic.tolist(), parts.number.tolist()
    size = np.rint(problem.arrays.size).astype(np.int64).tolist()
    earlier = np.cumsum(
        np.bincount([move.place for move in way.moves], minlength=len(steps.kind) + 1)
        if way.moves
        else np.zeros(len(steps.kind) + 1, dtype=np.int64)
    )
    order: list[int] = (np.arange(1, len(steps.kind) + 1) + earlier[:-1]).tolist()
    if problem.resizes:
        reason = factor_narrator(problem, steps, reasons, usage, order)
    else:
        reason = narrator(problem, steps, reasons, order)
    made = []
    columns = (*(column.tolist() for column in steps[:4]), way.pairs)
    for i, (kind, p, source, target, (source_dir, target_dir)) in enumerate(zip(*columns, strict=True)):
        does = _kind(problem, kind, source, target)
        made.append(
            Move(
                order=order[i],
                kind=does,
                topic=topics[topic[p]],
                partition=number[p],
                source=ids[source] if source >= 0 and does is not MoveKind.ADD else None,
                target=ids[source if does is MoveKind.DROP else target],
                bytes=size[p] if does in (MoveKind.REPLICA, MoveKind.ADD) else 0,
                reason=reason(i),
                source_dir=source_dir,
                target_dir=target_dir,
            )
        )

    def between_dirs(move: DirMove, order: int) -> Move:
        change, path = move.change, problem.snapshot.log_dirs.path
        return Move(
            order=order,
            kind=MoveKind.LOG_DIR,
            topic=topics[topic[change.partition]],
            partition=number[change.partition],
            source=ids[change.broker],
            target=ids[change.broker],
            bytes=size[change.partition],
            reason=move.reason,
            source_dir=path[change.source],
            target_dir=path[change.target],
        )

    made += [between_dirs(move, move.place + 1 + at) for at, move in enumerate(way.moves)]
    return tuple(sorted(made, key=lambda move: move.order))


def _in_preferred_order(
    problem: ProblemData, path: Path, spent: int
) -> tuple[Path, tuple[Move, ...], Problem | None]:
    """The path with every leader first in its list, where that is asked for, and the moves that do it."""
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    rows, leaders = parts.replicas.copy(), problem.first_leader
    rows[path.chosen], leaders[path.chosen] = path.rows, path.leaders
    wrong, left_out = within_limit(problem, misordered(problem, rows, leaders), spent)
    if not len(wrong):
        return path, (), left_out
    moves = tuple(
        Move(
            order=spent + 1 + at,
            kind=MoveKind.ORDER,
            topic=parts.topics[parts.topic[p]],
            partition=int(parts.number[p]),
            source=ids[leaders[p]],
            target=ids[leaders[p]],
            bytes=0,
            reason=reason_of(ids[leaders[p]], ids[rows[p, 0]]),
        )
        for at, p in enumerate(wrong.tolist())
    )
    rows[wrong] = put_first(rows[wrong], leaders[wrong])
    chosen = np.union1d(path.chosen, wrong).astype(np.int32)
    return replace(path, chosen=chosen, rows=rows[chosen], leaders=leaders[chosen]), moves, left_out


def _assignments(problem: ProblemData, path: Path) -> tuple[Assignment, ...]:
    """The lists of all partitions that move, also of those whose replicas only change their log dir."""
    parts, ids = problem.snapshot.partitions, problem.snapshot.brokers.id.tolist()
    moved = np.array([move.change.partition for move in path.way.moves], dtype=np.int64)
    chosen = np.union1d(path.chosen, moved)
    rows, leaders = parts.replicas[chosen], problem.first_leader[chosen]
    at = np.searchsorted(chosen, path.chosen)
    rows[at], leaders[at] = path.rows, path.leaders
    return tuple(
        Assignment(
            topic=parts.topics[topic],
            partition=number,
            before=tuple(ids[b] for b in before if 0 <= b < problem.brokers),
            after=tuple(ids[b] for b in after if 0 <= b < problem.brokers),
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


def _dir_prediction(problem: ProblemData, way: DirWay) -> DirPrediction | None:
    """The measures of the log dirs; None where none counts, or nobody asks for them."""
    if way.data is None or not way.data.asked:
        return None
    idle = problem.settings.idle_usage
    before, after = (dir_balance(problem.snapshot, held).measures(idle) for held in (way.data.held, way.held))
    return None if before is None or after is None else DirPrediction(before, after)


def _bound(problem: ProblemData, goal: Limits, load: FloatArray, cost: Cost, goals_met: bool) -> Bound:
    bound = replace(
        bound_of(problem, goal, load), log_dir_bytes=min(log_dir_bound(problem), cost.log_dir_bytes)
    )
    if goals_met or bound.bytes <= cost.bytes:
        return bound
    # Fewer bytes than the goals would take: no bound on this plan, so none above its cost is claimed.
    return replace(
        bound,
        bytes=cost.bytes,
        proof=f"not all goals are met; to meet them takes at least {bound.bytes} bytes: {bound.proof}",
    )
