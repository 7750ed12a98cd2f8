"""Search in small clusters: chooses one of all permitted sets of brokers for each partition, so that no
broker is above θ.

The descent changes one or two replicas at a time, and balances while it searches for space. If few big
replicas fill the disks, it may end where only a chain of moves helps. Here a partition changes to any other
of its choices in one step. Only θ, space for arriving copies, and bytes count. If no change helps, the weight
of violated limits rises (the breakout method, Morris 1993).
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.model.replicas.settings import DISK
from trimtab.plan.replicas.arrays import UNBOUNDED, Placement, crowding
from trimtab.plan.replicas.dirs import dir_data
from trimtab.plan.replicas.headroom import ceiling
from trimtab.plan.replicas.problem import ReplicasProblem
from trimtab.plan.search.compiled import entry, leaf
from trimtab.plan.search.limits import TOLERANCE

MAX_CHOICES = 60_000
"""Maximum number of choices of all partitions; larger clusters use the descent only."""

WORK = 4_000_000
"""Number of choices checked for each limit on bytes; about a fifth of a second."""

CHEAPER = 0.99
"""Once a placement is found, the next must copy less than this share of its bytes."""

BYTES_WEIGHT = 1e-6
"""Weight of all bytes against one unit of utilisation, so that the cheaper of two equal choices is taken."""


class ReplicaSetChoices(NamedTuple):
    """Sets of brokers that may hold the partitions, and who leads.

    Attributes
    ----------
    first
        Shape (partitions + 1,): number of each partition's first choice.
    broker
        Shape (choices, width): brokers, -1 in padding.
    lead
        Shape (choices,): column that leads, -1 for none.
    fresh
        Shape of `broker`: the broker holds none in the snapshot.
    """

    first: IntArray
    broker: IntArray
    lead: IntArray
    fresh: BoolArray


def feasible_below_theta(problem: ReplicasProblem) -> Placement | None:
    """A placement that meets all requests, with brokers below θ and space during the execution; None if none
    is found.

    Of several placements it is the one with the fewest copied bytes.
    """
    small = len(problem.arrays.initial) * problem.brokers <= MAX_CHOICES
    choices = _choices_of(problem) if small and problem.carriers.plain else None
    if choices is None:
        return None
    arrays, brokers = problem.arrays, problem.brokers
    size, disk = arrays.size, arrays.inverse[:, DISK : DISK + 1]
    theta = np.where(problem.counted, problem.goals.theta, np.inf)
    if problem.scoped:
        theta = np.maximum(theta, problem.first_usage)
    arrivals = np.where(disk > 0, np.nan_to_num(_free_bytes(problem)[:, None], posinf=1e300) * disk, np.inf)
    top = np.hstack([theta, arrivals])[:brokers] * TOLERANCE
    of = np.repeat(np.arange(len(size)), np.diff(choices.first))
    price = problem.copies(choices.broker, of.astype(np.int32)) * size[of]
    chosen = np.zeros(len(size), dtype=np.int32)
    inverse = np.ascontiguousarray(np.hstack([arrays.inverse, disk]))
    least = float(np.minimum.reduceat(price, choices.first[:-1]).sum()) * (1 + 1e-9)
    limit = np.inf if problem.settings.max_bytes is None else float(problem.settings.max_bytes)
    top = np.ascontiguousarray(top)
    # A limit of the necessary bytes excludes unnecessary copies for a request.
    for most in (min(least, limit), limit):
        if choose(choices, arrays.use, size, inverse, top, price, most, WORK, chosen):
            return _placed(problem, choices, chosen)
    return None


def _free_bytes(problem: ReplicasProblem) -> FloatArray:
    """Shape (brokers,): bytes that may arrive in one log dir before anything leaves."""
    held = problem.load(Placement(problem.arrays.initial, problem.first_lead))[:, DISK]
    counted, capacity = problem.counted[:, DISK], problem.snapshot.brokers.capacity[:, DISK]
    room = np.full(len(held), np.inf)
    room[counted] = np.maximum(
        ceiling(problem)[: len(held)][counted] * capacity[counted] - held[counted], 0.0
    )
    if (data := dir_data(problem)) is not None:
        free = data.ceiling - data.held
        for b, dirs in enumerate(data.of_broker):
            if dirs:
                room[b] = min(room[b], max((float(free[d]) for d in dirs if data.open[d]), default=0.0))
    return np.asarray(room)


def _choices_of(problem: ReplicasProblem) -> ReplicaSetChoices | None:
    """All choices; None if some partition has none, or all have too many."""
    arrays = problem.arrays
    asked = problem.needed.copy()
    for group, cap in ((arrays.rack, arrays.rack_cap), (arrays.host, arrays.host_cap)):
        asked |= crowding(arrays.initial, group, cap)
    first = [0]
    rows: list[tuple[list[int], int]] = []
    for p in range(len(arrays.initial)):
        found = _of_partition(problem, p, bool(asked[p]), MAX_CHOICES - len(rows))
        if not found:
            return None
        rows += found
        first.append(len(rows))
    width = arrays.initial.shape[1]
    broker = np.full((len(rows), width), -1, dtype=np.int32)
    lead = np.full(len(rows), -1, dtype=np.int32)
    for at, (held, leader) in enumerate(rows):
        broker[at, : len(held)] = held
        if leader >= 0:
            lead[at] = held.index(leader)
    home = np.repeat(arrays.initial, np.diff(first), axis=0)
    fresh = (broker >= 0) & ~(broker[:, :, None] == home[:, None, :]).any(axis=2)
    return ReplicaSetChoices(np.array(first, dtype=np.int32), broker, lead, np.ascontiguousarray(fresh))


def _of_partition(problem: ReplicasProblem, p: int, request: bool, most: int) -> list[tuple[list[int], int]]:
    """Sets of brokers with their leaders, those that copy least first; none if there are more than `most`."""
    arrays = problem.arrays
    slots = np.flatnonzero(arrays.initial[p] >= 0).tolist()
    home = arrays.initial[p, slots].tolist()
    leader = int(problem.first_leader[p])
    if not (arrays.movable[p] or (problem.free[p] and problem.initial_leader[p] >= 0)):
        return [(home, leader if leader in home else -1)]
    excluded = bool(problem.excluded[p])
    leaves = {home[i] for i, s in enumerate(slots) if arrays.leaving[p, s]}
    heirs = {
        home[i] for i, s in enumerate(slots) if arrays.initial_in_sync[p, s] and arrays.may_lead[home[i]]
    }
    heirs -= leaves
    keeps = leader if problem.initial_leader[p] >= 0 and leader not in leaves else -1
    service = problem.snapshot.brokers.in_service
    bound = {b for b in home if b not in leaves and not service[b]}
    if excluded:
        bound |= set(home) - leaves - ({leader} if problem.demoted[p] and not heirs else set())
    pinned = home[slots.index(int(arrays.pinned[p]))] if arrays.pinned[p] >= 0 else -1
    opened = np.flatnonzero(arrays.may_receive[: problem.brokers]).tolist()
    opens = set(opened)
    if problem.settings.add and not request:
        # Replicas that need not move are copied only to added brokers.
        ids = problem.snapshot.brokers.id
        opened = [b for b in opened if int(ids[b]) in problem.settings.add]
    others = [b for b in home if b not in leaves and b not in bound]
    others += [b for b in opened if b not in home]
    left = len(home) - len(bound)
    if comb(len(others), left) * len(home) > most:
        return []
    caps = [(arrays.rack, int(arrays.rack_cap[p])), (arrays.host, int(arrays.host_cap[p]))]
    found = []
    for more in combinations(others, left):
        held = [*bound, *more]
        if not excluded and any(cap < UNBOUNDED and _largest(group, held) > cap for group, cap in caps):
            continue
        if pinned >= 0 and pinned not in held and set(home) - {pinned} <= set(held) - opens:
            # Another replica must temporarily make space for a copy that leads before the leader can move.
            continue
        takes = {b for b in held if arrays.may_lead[b] and (b in heirs or b not in home)}
        if keeps in held:
            takes = {keeps} if excluded else takes | {keeps}
        found += [(held, b) for b in sorted(takes)]
    found.sort(key=lambda one: (len(set(one[0]) - set(home)), one[1] != leader))
    return found


def _largest(group: IntArray, held: list[int]) -> int:
    of: list[int] = group[held].tolist()
    return max(of.count(one) for one in of)


def _placed(problem: ReplicasProblem, choices: ReplicaSetChoices, chosen: IntArray) -> Placement:
    """The placement of chosen sets, those that stay in their slots."""
    place, lead = problem.arrays.initial.copy(), problem.initial_leader.copy()
    for p, choice in enumerate(chosen.tolist()):
        row = choices.broker[choice].tolist()
        leader = row[choices.lead[choice]] if choices.lead[choice] >= 0 else -1
        if not (problem.arrays.movable[p] or problem.free[p]):
            continue
        home = place[p].tolist()
        fresh = [b for b in row if b >= 0 and b not in home]
        for s, b in enumerate(home):
            if b >= 0 and b not in row:
                place[p, s] = fresh.pop(0)
        if leader >= 0:
            lead[p] = place[p].tolist().index(leader)
    return Placement(place, lead)


@leaf
def _change(c, use, size, inverse, usage, p, choice, sign):
    """Add a choice to the usage (`sign` 1), or take it away (-1)."""
    columns = usage.shape[1] - 1
    for s in range(c.broker.shape[1]):
        b = c.broker[choice, s]
        if b < 0 or b >= len(usage):
            continue
        role = 1 if c.lead[choice] == s else 0
        for r in range(columns):
            usage[b, r] += sign * use[p, role, r] * inverse[b, r]
        if c.fresh[choice, s]:
            usage[b, columns] += sign * size[p] * inverse[b, columns]


@leaf
def _potential_increase(c, use, size, inverse, usage, top, weight, p, choice):
    """Rise of the weighted excess over the tops, if the choice were added."""
    columns = usage.shape[1] - 1
    worse = 0.0
    for s in range(c.broker.shape[1]):
        b = c.broker[choice, s]
        if b < 0 or b >= len(usage):
            continue
        role = 1 if c.lead[choice] == s else 0
        for r in range(columns + 1):
            if r < columns:
                more = use[p, role, r] * inverse[b, r]
            else:
                more = size[p] * inverse[b, r] if c.fresh[choice, s] else 0.0
            over = usage[b, r] + more - top[b, r]
            if over > 0.0:
                worse += weight[b, r] * (over - max(usage[b, r] - top[b, r], 0.0))
    return worse


@leaf
def _concerned(c, usage, top, choice, dear):
    """True if a partition's choice affects a violated limit."""
    for s in range(c.broker.shape[1]):
        b = c.broker[choice, s]
        if b < 0 or b >= len(usage):
            continue
        if dear and c.fresh[choice, s]:
            return True
        for r in range(usage.shape[1]):
            if usage[b, r] > top[b, r]:
                return True
    return False


@entry
def choose(c, use, size, inverse, top, price, most, work, best):
    """Find choices that keep every broker below its top; returns whether there are any.

    Parameters
    ----------
    use
        Shape (partitions, 2, columns).
    inverse
        Shape (brokers, columns + 1): 1 / capacity; the last column is about what arrives.
    top
        Shape (brokers in question, columns + 1): utilisations.
    price
        Shape (choices,): bytes that each copies.
    most
        Limit of all copied bytes.
    work
        Limit of checked choices.
    best
        Shape (partitions,), written: the choices found that copy least.
    """
    partitions = len(size)
    usage = np.zeros(top.shape)
    weight = np.ones(top.shape)
    of_bytes = 1.0
    total, spent, least = 1.0, 0.0, 0.0
    at = np.empty(partitions, np.int64)
    cheapest = np.empty(partitions)
    for p in range(partitions):
        at[p] = c.first[p]
        for i in range(c.first[p], c.first[p + 1]):
            if price[i] < price[at[p]]:
                at[p] = i
        cheapest[p] = price[at[p]]
        spent += price[at[p]]
        least += cheapest[p]
        total += size[p] * c.broker.shape[1]
        _change(c, use, size, inverse, usage, p, at[p], 1.0)
    found, limit = np.inf, most
    while work > 0:
        work -= 1
        holds = True
        for b in range(len(top)):
            for r in range(top.shape[1]):
                holds = holds and not usage[b, r] > top[b, r]
        # A solution is found: only cheaper ones count from here on, and the weight of bytes is reset.
        if holds and spent <= limit and spent < found:
            found = spent
            for p in range(partitions):
                best[p] = at[p]
            if spent <= least:
                break
            most = CHEAPER * spent
            of_bytes = 1.0
        dear = spent > most
        gain, which, choice = -1e-12, -1, -1
        for p in range(partitions):
            if c.first[p + 1] - c.first[p] < 2 or not _concerned(c, usage, top, at[p], dear):
                continue
            _change(c, use, size, inverse, usage, p, at[p], -1.0)
            rest = spent - price[at[p]]
            now = _potential_increase(c, use, size, inverse, usage, top, weight, p, at[p])
            now += of_bytes * max(spent - most, 0.0) / total + BYTES_WEIGHT * spent / total
            for i in range(c.first[p], c.first[p + 1]):
                if price[i] - cheapest[p] > limit - least:
                    continue  # Too dear, even where all others copy as little as they can.
                after = rest + price[i]
                then = of_bytes * max(after - most, 0.0) / total + BYTES_WEIGHT * after / total
                if then - now < gain:
                    then += _potential_increase(c, use, size, inverse, usage, top, weight, p, i)
                    if then - now < gain:
                        gain, which, choice = then - now, p, i
            work -= c.first[p + 1] - c.first[p]
            _change(c, use, size, inverse, usage, p, at[p], 1.0)
        if which >= 0:
            _change(c, use, size, inverse, usage, which, at[which], -1.0)
            spent += price[choice] - price[at[which]]
            at[which] = choice
            _change(c, use, size, inverse, usage, which, choice, 1.0)
            continue
        # No change helps: the weight of exceeded limits rises until leaving this minimum pays.
        for b in range(len(top)):
            for r in range(top.shape[1]):
                if usage[b, r] > top[b, r]:
                    weight[b, r] += 1.0
        if dear:
            of_bytes += 1.0
    return found < np.inf
