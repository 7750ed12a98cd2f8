"""A plan of the balancer `keys`: splits hot keys, adds necessary partitions, moves key groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf

import numpy as np

from trimtab.files.keys.settings import KeysSettings
from trimtab.model.goals import ROUNDING, goals_of, violations
from trimtab.model.keys import (
    RESOURCES,
    HotKey,
    KeysPlan,
    KeysSnapshot,
    PartitionDrain,
    Places,
    RouteAssignment,
    RoutingBound,
    RoutingCost,
    RoutingMove,
    RoutingMoveKind,
    RoutingReason,
    key_bytes,
)
from trimtab.model.load import Imbalance
from trimtab.model.plan import Prediction, Problem, Verdict, settings_document
from trimtab.plan.keys.rebalance import (
    INNER_MARGIN,
    SPLIT_KEY_BYTES,
    RoutingBoard,
    TableCapacity,
    another_partitioner,
    board_of,
    large_table,
    long_key,
    rebalance,
    serial_key,
    unmet_goal,
)


@dataclass
class PlanDraft:
    """A plan under construction: changes in order, problems, and the rate of moved records."""

    table_capacity: TableCapacity
    moves: list[RoutingMove] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    moved: float = 0.0

    def add(
        self,
        kind: RoutingMoveKind,
        name: str,
        before: Places,
        after: Places,
        rate: float,
        reason: RoutingReason,
    ) -> None:
        """Append a move with the next number."""
        self.moves.append(RoutingMove(len(self.moves) + 1, kind, name, before, after, rate, reason))


def plan_keys(snapshot: KeysSnapshot, settings: KeysSettings) -> KeysPlan:
    """Make a plan; without unevenness, hot keys and missing partitions it changes nothing.

    If records are outside the places of the table in force, nothing changes: see `another_partitioner`.
    Groups move only if a goal is missed, and then to nine tenths of ε. A split key stays split until its load
    is below `merge_below`. So the next plan does not revert this one.
    """
    draft = PlanDraft(TableCapacity.remaining(snapshot))
    doubt = another_partitioner(snapshot, settings)
    count = len(snapshot.partitions) if doubt else _partitions(snapshot, settings, draft)
    board = board_of(snapshot, count)
    before = snapshot.imbalance()
    if doubt:
        draft.problems.append(doubt)
    else:
        _split(snapshot, settings, board, draft)
    bound = _bound(snapshot, settings, board.mean, count)
    if not doubt and (draft.moves or _missed(snapshot, settings, before)):
        _move(snapshot, settings, board, draft)
    after = snapshot.imbalance(np.array(board.loads))
    for name, row in () if doubt else _missed(snapshot, settings, after):
        draft.problems.append(unmet_goal(snapshot, settings, after, name, row, board))
    moves = tuple(draft.moves)
    kinds = [move.kind for move in moves]
    return KeysPlan(
        balancer="keys",
        strategy="trim",
        seed=0,
        settings=settings_document(settings, RESOURCES),
        snapshot=snapshot.reference,
        verdict=_verdict(draft),
        moves=moves,
        predicted=Prediction(before.measures(), after.measures()),
        problems=tuple(draft.problems),
        topic=snapshot.topic,
        topic_id=snapshot.topic_id,
        consumers=snapshot.consumers,
        version=snapshot.version,
        base=snapshot.base,
        partitions=count,
        assignments=tuple(RouteAssignment(one.kind, one.name, one.before, one.after) for one in moves),
        cost=RoutingCost(
            kinds.count(RoutingMoveKind.GROUP),
            kinds.count(RoutingMoveKind.KEY),
            count - len(snapshot.partitions),
            draft.moved,
        ),
        bound=RoutingBound(
            min(bound, draft.moved),
            "what partitions get above (1 + ε) times the mean, or above θ, has to go elsewhere",
        ),
        drains=_drains(snapshot, board),
    )


def _partitions(snapshot: KeysSnapshot, settings: KeysSettings, draft: PlanDraft) -> int:
    """The number of partitions that the consumers' capacity requires.

    Partitions are added only above θ, and then as many as nine tenths of θ need. Otherwise a growing load
    would need one more at each reading. None is ever removed, so a falling load changes nothing.
    """
    count, one = len(snapshot.partitions), snapshot.consumer_capacity
    total = sum(part.records_per_second for part in snapshot.partitions)
    theta = settings.theta[0]
    if one is None or snapshot.capacity is None or total <= theta * snapshot.capacity * count:
        return count
    needed = ceil(total / (theta * one) - ROUNDING)
    told = (
        f"{total:,.0f} records/s arrive, a consumer at {theta:.0%} of {one:,.0f} records/s does "
        f"{theta * one:,.0f}: {needed} consumers are needed"
    )
    proof = {"records_per_second": total, "consumer_capacity": one, "theta": theta, "partitions": count}
    if needed <= count:
        # There are enough partitions, but some consumers have several.
        text = f"{told}, and {count} partitions are there for them: start more in group {snapshot.consumers}"
        draft.problems.append(Problem("add_consumers", text, needed, RESOURCES[0], dict(proof)))
        return count
    told += f", with a partition each, and there are {count}"
    roomy = ceil(total / (INNER_MARGIN * theta * one) - ROUNDING)
    wanted = min(roomy, max(count, settings.max_partitions))
    since, pause = snapshot.added_seconds, settings.cooldown_seconds
    if wanted > count and since is not None and since < pause:
        told += (
            f"; some were added {since:,.0f} s ago, and keys.cooldown_seconds is {pause:g}: observe the "
            f"topic and plan again in {pause - since:,.0f} s"
        )
        draft.problems.append(Problem("add_partitions", told, needed - count, RESOURCES[0], dict(proof)))
        return count
    if wanted > count:
        told += f"; adds partitions up to {wanted}"
        if wanted > needed:
            told += f", which leaves room to grow ({total / (wanted * one):.0%} of a consumer each)"
        reason = RoutingReason("capacity", RESOURCES[0], told)
        draft.add(RoutingMoveKind.ADD, snapshot.topic, (count,), (wanted,), 0.0, reason)
    if wanted < needed:
        remedy = f"; keys.max_partitions is {settings.max_partitions}: raise it, or make consumers faster"
        draft.problems.append(
            Problem("add_partitions", told + remedy, needed - wanted, RESOURCES[0], dict(proof))
        )
    return wanted


def _split(snapshot: KeysSnapshot, settings: KeysSettings, board: RoutingBoard, draft: PlanDraft) -> None:
    """Split keys that are too hot for one partition, and merge those that are no longer hot."""
    capacity, theta, epsilon = snapshot.capacity, settings.theta[0], settings.epsilon[0]
    carries = board.mean * (1 + epsilon)
    # In an idle topic one key may have all the load: its partition is idle too.
    if capacity is not None and board.mean < settings.min_utilization * capacity:
        carries = theta * capacity
    part = carries if capacity is None else settings.split_above * capacity
    join = settings.merge_below / settings.split_above * part
    most = min(settings.max_split_partitions or len(board.loads), len(board.loads))
    beyond_table: list[HotKey] = []
    for key in sorted(snapshot.keys, key=lambda one: (-one.records_per_second, one.key)):
        rate, now = key.records_per_second, key.partitions
        wanted = max(1, ceil(rate / part - ROUNDING), ceil(rate / carries - ROUNDING)) if rate > 0 else 1
        if snapshot.consumer_capacity is not None and rate > snapshot.consumer_capacity:
            draft.problems.append(serial_key(key, snapshot.consumer_capacity, min(wanted, most)))
        # A split key stays unchanged until it is cold or must be split further.
        if wanted <= len(now) and not (len(now) > 1 and rate < join):
            continue
        count = min(wanted, most)
        if count == len(now):
            continue
        if snapshot.hashed:
            told = f"key {key.key} is to be split, and keys were observed as hashes: a table has to name it; "
            draft.problems.append(
                Problem("hashed_keys", told + "observe the topic again without pipeline.keys.hash_keys")
            )
            continue
        home = (board.places[key.group],)
        after = home if count == 1 else _places(board, now, count, rate)
        if after == now:
            continue
        # A merged key gives up its entry in the table.
        size = len(key_bytes(key.key)) if len(after) > len(now) else 0
        if size > SPLIT_KEY_BYTES:
            draft.problems.append(long_key(key, size))
            continue
        if size and not draft.table_capacity.reserve_key(size, now, after):
            beyond_table.append(key)
            continue
        if now == home:
            board.rates[key.group] = max(0.0, board.rates[key.group] - rate)
        draft.moved += board.shift(now, after, rate)
        draft.add(
            RoutingMoveKind.KEY, key.key, now, after, rate, _key_reason(key, capacity, carries, len(after))
        )
    if beyond_table:
        draft.problems.append(
            large_table(f"{len(beyond_table)} keys are not split, the first", beyond_table[0])
        )


def _places(board: RoutingBoard, now: Places, count: int, rate: float) -> Places:
    """Partitions for a key, at most a given number, none of which becomes fuller than the fullest."""
    fullest = max(board.loads)
    for number in range(count, len(now), -1):
        after = board.least_loaded(number, now)
        part = rate / number
        if all(board.loads[one] + part <= fullest for one in after if one not in now):
            return after
    return now


def _key_reason(key: HotKey, capacity: float | None, carries: float, count: int) -> RoutingReason:
    of = (
        f"{key.records_per_second / capacity:.0%} of the capacity of a partition ({capacity:,.0f})"
        if capacity is not None
        else f"{key.records_per_second / carries:.2f} times the limit of a partition ({carries:,.0f})"
    )
    told = f"the key has {key.records_per_second:,.0f} records/s, {key.share:.1%} of all and {of}"
    each = f"{key.records_per_second / count:,.0f} records/s each"
    does = f"splits it over {count} partitions ({each})" if count > 1 else "returns it to one partition"
    return RoutingReason("hot_key", None, f"{told}; {does}")


def _move(snapshot: KeysSnapshot, settings: KeysSettings, board: RoutingBoard, draft: PlanDraft) -> None:
    capacity, mean = snapshot.capacity, board.mean
    ceiling = inf if capacity is None else settings.theta[0] * capacity
    if ceiling < mean:
        # No table can meet θ: partitions are as even as ε requires.
        ceiling = inf
    epsilon = settings.epsilon[0]
    if capacity is not None and mean < settings.min_utilization * capacity:
        # ε does not apply to idle partitions, but θ does.
        epsilon = inf
    most = min(settings.max_groups, draft.table_capacity.groups)
    shifts = rebalance(board, epsilon, ceiling, most)
    if len(shifts) == most < settings.max_groups:
        draft.problems.append(large_table(f"only {most} key groups move"))
    for one in shifts:
        goal = "theta" if one.source_load > ceiling else "epsilon"
        cause = f"room is needed in partition {one.source}"
        if one.source_load > mean:
            cause = (
                f"partition {one.source} receives {one.source_load:,.0f} records/s, "
                f"{one.source_load / mean - 1:.0%} more than the average"
            )
        told = (
            f"{cause}; moves key group {one.group} to partition {one.target}, which receives "
            f"{one.target_load:,.0f} records/s"
        )
        draft.moved += one.rate
        reason = RoutingReason(goal, RESOURCES[0], told)
        draft.add(RoutingMoveKind.GROUP, str(one.group), (one.source,), (one.target,), one.rate, reason)


def _missed(snapshot: KeysSnapshot, settings: KeysSettings, found: Imbalance) -> list[tuple[str, int]]:
    """Goals that are missed, each with the row of its worst partition."""
    goals = goals_of(settings, RESOURCES, snapshot.quality.nominal_capacity)
    above, off = violations(found.usage, found.deviation, found.mean, goals)
    missed = []
    if snapshot.capacity is not None and above.any():
        missed.append(("theta", int(found.usage[:, 0].argmax())))
    if off.any():
        missed.append(("epsilon", int(found.deviation[:, 0].argmax())))
    return missed


def _verdict(draft: PlanDraft) -> Verdict:
    kinds = {one.kind for one in draft.problems}
    if kinds & {"add_partitions", "add_consumers"}:
        return Verdict.INFEASIBLE
    if kinds & {"unmet_goal", "hashed_keys", "long_key", "large_table", "another_partitioner"}:
        return Verdict.IMPROVED if draft.moves else Verdict.INCOMPLETE
    return Verdict.BALANCED


def _bound(snapshot: KeysSnapshot, settings: KeysSettings, mean: float, count: int) -> float:
    capacity = snapshot.capacity
    if capacity is not None and mean < settings.min_utilization * capacity:
        limit = settings.theta[0] * capacity
    else:
        limit = mean * (1 + settings.epsilon[0])
        if capacity is not None and settings.theta[0] * capacity >= mean:
            limit = min(limit, settings.theta[0] * capacity)
    return sum(max(0.0, one.records_per_second - limit) for one in snapshot.partitions)


def _drains(snapshot: KeysSnapshot, board: RoutingBoard) -> tuple[PartitionDrain, ...]:
    """Each partition's backlog, and the time to process it: waiting records stay there."""
    found = []
    for number, after in enumerate(board.loads):
        known = number < len(snapshot.partitions)
        own = snapshot.partitions[number] if known else None
        capacity = snapshot.capacity
        before, backlog = (own.records_per_second, own.backlog) if own else (0.0, 0)
        times = [
            backlog / (capacity - rate) if capacity is not None and rate < capacity else None
            for rate in (before, after)
        ]
        found.append(PartitionDrain(number, backlog, before, max(0.0, after), times[0], times[1]))
    return tuple(found)
