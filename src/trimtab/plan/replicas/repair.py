"""Compiled: necessary changes at any cost: replicas that must move, and replicas to be added or dropped.

Necessary moves: offline leaders, replicas that must leave, crowded racks and hosts. Replicas are added and
dropped for the best balance; otherwise only a leadership moves with its dropped replica.
"""

from trimtab.plan.replicas.board import (
    HOST,
    HOST_CAP,
    LEAVING,
    NOTHING,
    PINNED,
    RACK,
    RACK_CAP,
    READY,
    RECEIVES,
    STAYING,
    gain,
    give_lead,
    holds,
    initial_slot,
    may_take_lead,
    move,
    potential_increase,
)
from trimtab.plan.replicas.feasible import place_exactly
from trimtab.plan.search.board import THETA, USAGE
from trimtab.plan.search.compiled import entry, leaf

ANY_SPREAD = 1 << 30


@leaf
def _cheapest_leader(g, p, without):
    """Slot that may lead with the least harm, -1 if none; `without` is an excluded slot."""
    best = -1
    least = 0.0
    old = g.lead[p]
    for s in range(g.place.shape[1]):
        b = g.place[p, s]
        if b < 0 or s == without or s == old or not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):  # noqa: SIM109
            continue
        worse = potential_increase(g, b, 2 * p + 1, 2 * p)
        if best < 0 or worse < least:
            best, least = s, worse
    return best


@leaf
def spread(lock, rule, place, p, s, b):
    """Excess of the partition over the caps of racks (first) and hosts with slot `s` on broker `b`."""
    over = 0
    for t in range(place.shape[1]):
        one = b if t == s else place[p, t]
        if one < 0:
            continue
        in_rack = 0
        in_host = 0
        # Counted up to the slot itself: of more replicas than the cap allows, just those in excess count.
        for u in range(t + 1):
            other = b if u == s else place[p, u]
            if other >= 0:
                in_rack += lock[other, RACK] == lock[one, RACK]
                in_host += lock[other, HOST] == lock[one, HOST]
        # One number for both: racks first, as a partition has far fewer than 1,024 replicas.
        over += (in_rack > rule[p, RACK_CAP]) * 1024 + (in_host > rule[p, HOST_CAP])
    return over


@leaf
def destination(g, p, s, role, spread_limit):
    """Broker with the fewest spread breaches (below `spread_limit`), then the least harm; -1 if none."""
    best = -1
    least = 0.0
    fewest = spread_limit
    for b in range(len(g.broker_traits)):
        if g.broker_traits[b, RECEIVES] == 0 or holds(g.place, p, b):
            continue
        t = initial_slot(g.initial, p, b)
        if t >= 0 and g.flags[p, t] & LEAVING:
            # Another replica of the partition has just left it, off a dir that is offline.
            continue
        if role == 1 and not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
            continue
        # Violations precede harm: a replica that must move is put in a crowded rack rather than nowhere.
        over = spread(g.broker_traits, g.rule, g.place, p, s, b)
        if over > fewest or over >= spread_limit:
            continue
        worse = potential_increase(g, b, 2 * p + role, NOTHING)
        if best < 0 or over < fewest or worse < least:
            best, least, fewest = b, worse, over
    return best


@leaf
def _relocate(g, p, s, spread_limit):
    """Move the slot to its best destination; its leadership moves to another replica if no destination may
    lead.
    """
    if g.rule[p, PINNED] == s and g.lead[p] == s and not _copy_a_leader(g, p, s):
        return False
    role = 1 if g.lead[p] == s else 0
    if role == 1 and s > 0 and g.place[p, s] == g.initial[p, s]:
        # Not first in its list, so its role cannot move with the copy: the next leader keeps it.
        t = _cheapest_leader(g, p, s)
        if t >= 0 and g.place[p, t] == g.initial[p, t] and (g.flags[p, t] & LEAVING) == 0:
            b = destination(g, p, s, 0, spread_limit)
            if b < 0:
                return False
            give_lead(g, p, t)
            move(g, p, s, b)
            return True
    b = destination(g, p, s, role, spread_limit)
    if b < 0 and role == 1:
        t = _cheapest_leader(g, p, s)
        if t < 0:
            return False
        b = destination(g, p, s, 0, spread_limit)
        if b < 0:
            return False
        give_lead(g, p, t)
    if b < 0:
        return False
    move(g, p, s, b)
    return True


@leaf
def _copy_a_leader(g, p, without):
    """Let a copy lead, on a broker that may: best of a replica that must leave or is not in sync.

    If no such copy meets the spread rules, another replica that does precedes them: a crowding replica must
    be copied once more.
    """
    # Three preferences that respect the spread, then the same three without: a leader matters more than
    # racks.
    for turn in range(6):
        for s in range(g.width):
            here = g.place[p, s]
            if here < 0 or s == without or here != g.initial[p, s]:
                continue
            if turn % 3 == 0 and (g.flags[p, s] & LEAVING) == 0:
                continue
            if turn % 3 == 1 and g.flags[p, s] & READY:
                continue
            limit = ANY_SPREAD
            if turn < 3:
                limit = spread(g.broker_traits, g.rule, g.place, p, s, here) + 1
            b = destination(g, p, s, 1, limit)
            if b >= 0:
                move(g, p, s, b)
                give_lead(g, p, s)
                return True
    return False


@leaf
def _lawful(g, p):
    """True if the partition has a leader, and no replica where none may be."""
    if g.lead[p] < 0:
        return False
    for s in range(g.place.shape[1]):
        here = g.place[p, s]
        if here < 0:
            continue
        if (g.flags[p, s] & LEAVING) and here == g.initial[p, s]:
            return False
        if spread(g.broker_traits, g.rule, g.place, p, s, here) > 0:
            return False
    return True


@leaf
def _stays(g, p, s):
    """True if the slot's replica is at home and must stay there."""
    return (g.flags[p, s] & STAYING) != 0 and g.place[p, s] == g.initial[p, s]


@leaf
def _any_stays(g, p):
    """True if the partition has replicas that must stay, so that its topic is excluded."""
    for s in range(g.width):  # noqa: SIM110 - compiled code knows no generators
        if g.flags[p, s] & STAYING:
            return True
    return False


@entry
def repair(g, order):
    """Make the placement lawful where possible; other partitions do not change.

    Parameters
    ----------
    order
        Partitions in order of treatment (big ones first: they are the hardest to place).
    """
    for p in order:
        if not g.movable[p]:
            continue
        leader = g.place[p, g.lead[p]] if g.lead[p] >= 0 else -1
        # A leader first: without one there is no source for copies.
        if g.lead[p] < 0:
            s = _cheapest_leader(g, p, -1)
            if s >= 0:
                give_lead(g, p, s)
            else:
                _copy_a_leader(g, p, -1)
        for s in range(g.width):
            if g.place[p, s] >= 0 and g.flags[p, s] & LEAVING and g.place[p, s] == g.initial[p, s]:
                _relocate(g, p, s, ANY_SPREAD)
        # A replica that leaves a crowded rack may make room for the next, so the slots are walked again.
        for _ in range(g.width):
            for s in range(g.width):
                if g.place[p, s] >= 0 and not _stays(g, p, s):
                    over = spread(g.broker_traits, g.rule, g.place, p, s, g.place[p, s])
                    if over > 0:
                        _relocate(g, p, s, over)
        if not _lawful(g, p) and not _any_stays(g, p):
            # Single moves did not suffice: search all sets of brokers. If none is permitted, the partial
            # result stays.
            place_exactly(g, p, leader)


OFFLINE, LEAVING_BROKER, LAGGING, SOUND = range(4)
"""Ranks of replicas: the first is dropped first."""

UNKEPT = 1 << 20
"""More than any rank: no slot was found."""


@entry
def add_missing(g, order, first, passes):
    """Give every replica that waits on a vacancy a broker: fewest breaches of spread, then least harm.

    A partition that does not get all its replicas gets none. Then each added replica moves to a better broker
    as long as that helps.

    Parameters
    ----------
    order
        Partitions that miss replicas, in the order to be served.
    first
        Number of the first vacancy.
    passes
        Maximum number of passes over all added replicas.
    """
    for p in order:
        for s in range(g.width):
            if g.place[p, s] < first or (g.flags[p, s] & LEAVING) == 0 or not g.movable[p]:
                continue
            b = destination(g, p, s, 0, ANY_SPREAD)
            if b < 0:
                _give_back(g, p, first)
                break
            move(g, p, s, b)
    # The first replicas were placed without the load of the later ones.
    for _ in range(passes):
        moved = 0
        for p in order:
            for s in range(g.width):
                if g.initial[p, s] >= first and g.place[p, s] < first:
                    moved += _better_placed(g, p, s, first)
        if moved == 0:
            break


@leaf
def _give_back(g, p, first):
    """Send the partition's added replicas back to their vacancies."""
    for s in range(g.width):
        if g.initial[p, s] >= first and g.place[p, s] < first:
            move(g, p, s, g.initial[p, s])


@leaf
def _better_placed(g, p, s, first):
    """Move an added replica to the broker that gains most, none that breaks more rules; 1 if it moved."""
    here = g.place[p, s]
    now = spread(g.broker_traits, g.rule, g.place, p, s, here)
    best = -1
    most = 0.0
    for b in range(first):
        if g.broker_traits[b, RECEIVES] == 0 or holds(g.place, p, b):
            continue
        if spread(g.broker_traits, g.rule, g.place, p, s, b) > now:
            continue
        fall, guided = gain(g, here, b, 2 * p, NOTHING)
        if fall > 0.0 and guided > most:
            best, most = b, guided
    if best < 0:
        return 0
    move(g, p, s, best)
    return 1


@entry
def drop_spare(g, order, fewer, rank, home_lead, first, passes):
    """Drop replicas: those of the lowest rank, then those that crowd, then those whose removal balances best.

    The leader is dropped only if another in-sync replica takes over first, and one in-sync replica always
    stays.

    Parameters
    ----------
    order
        Partitions that hold too many, in the order to be served.
    fewer
        Shape (partitions,): how many too many.
    rank
        Shape (partitions, width): what a replica is worth, the least first to go.
    home_lead
        Shape (partitions,): slot that leads in the snapshot, -1 for none.
    first
        Number of the first vacancy.
    passes
        How often each partition's choice is made again, under the loads that those of the others leave.
    """
    for _ in range(1 + passes):
        for p in order:
            if not g.movable[p]:
                continue
            _keep_all(g, p, home_lead[p], first)
            if g.lead[p] < 0:
                # The leader is offline: another replica becomes leader before anything is dropped.
                t = _heir(g, p, -1, first)
                if t < 0:
                    continue
                give_lead(g, p, t)
            for number in range(fewer[p]):
                s, t = _spare(g, p, rank, first + number, first)
                if s < 0:
                    _keep_all(g, p, home_lead[p], first)
                    break
                if t >= 0:
                    give_lead(g, p, t)
                move(g, p, s, first + number)


@leaf
def _keep_all(g, p, lead, first):
    """Revert the partition to the snapshot."""
    for s in range(g.width):
        if g.place[p, s] >= first:
            move(g, p, s, g.initial[p, s])
    if lead >= 0 and g.lead[p] != lead:
        give_lead(g, p, lead)


@leaf
def _spare(g, p, rank, vacancy, first):
    """The replica to drop, and the slot that replaces it as leader if it leads; -1 for none."""
    best, heir = -1, -1
    lowest, crowding, least = UNKEPT, 0, 0.0
    for s in range(g.width):
        b = g.place[p, s]
        if b < 0 or b >= first or rank[p, s] > lowest or not _another_in_sync(g, p, s, first):
            continue
        t = -1
        if g.lead[p] == s:
            if rank[p, s] == SOUND and not _overloaded(g, b):
                # A leader transfer disturbs clients, so it is not made for a broker within its limits.
                continue
            t = _heir(g, p, s, first)
            if t < 0:
                continue
            worse = potential_increase(g, b, NOTHING, 2 * p + 1) + potential_increase(
                g, g.place[p, t], 2 * p + 1, 2 * p
            )
        else:
            worse = potential_increase(g, b, NOTHING, 2 * p)
        over = spread(g.broker_traits, g.rule, g.place, p, s, vacancy)
        if rank[p, s] < lowest or over < crowding or (over == crowding and worse < least):
            best, heir, lowest, crowding, least = s, t, rank[p, s], over, worse
    return best, heir


@leaf
def _another_in_sync(g, p, s, first):
    """True if the partition keeps a replica that is online and in sync without the slot's."""
    for t in range(g.width):
        if t != s and g.place[p, t] >= 0 and g.place[p, t] < first and g.flags[p, t] & READY:
            return True
    return False


@leaf
def _overloaded(g, b):
    """True if the broker is above θ."""
    for r in range(g.band.shape[2]):  # noqa: SIM110 - compiled code knows no generators
        if g.band[b, USAGE, r] > g.band[b, THETA, r]:
            return True
    return False


@leaf
def _heir(g, p, s, first):
    """The slot that may lead immediately instead of slot `s`, with the least harm; -1 if none."""
    best = -1
    least = 0.0
    for t in range(g.width):
        b = g.place[p, t]
        if t == s or b < 0 or b >= first or not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
            continue
        worse = potential_increase(g, b, 2 * p + 1, 2 * p)
        if best < 0 or worse < least:
            best, least = t, worse
    return best
