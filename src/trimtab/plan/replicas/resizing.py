"""Compiled: replicas added where they level best, and those dropped whose going levels best.

Nothing else moves, but for a leadership that its own replica's going takes along.
"""

from trimtab.plan.replicas.board import LEAVING, READY, RECEIVES, give_lead, holds, may_take_lead, move
from trimtab.plan.replicas.repair import ANY_SPREAD, destination, spread
from trimtab.plan.replicas.trade import NOTHING, gain, potential_increase
from trimtab.plan.search.board import THETA, USAGE
from trimtab.plan.search.compiled import entry, leaf

OFFLINE, LEAVING_BROKER, LAGGING, SOUND = range(4)
"""What a replica is worth: the first is dropped first."""

UNKEPT = 1 << 20
"""More than any rank: no slot was found."""


@entry
def add_missing(g, order, first, passes):
    """Give every replica that waits on a vacancy a broker: fewest breaches of spread, then least harm.

    A partition that does not get all its replicas gets none. Then each that was added goes to a better
    broker, if there is one, as long as that helps.

    Parameters
    ----------
    order
        Partitions that miss replicas, in the order to be served.
    first
        Number of the first vacancy.
    passes
        How often all are looked at again, at most.
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
    """Give up replicas: those of the lowest rank, then those that crowd, then those whose going levels best.

    The leader's own only goes if another that is in sync takes over first, and one in sync always stays.

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
                # Whoever led is offline: somebody else does before anything goes.
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
    """Put the partition where the snapshot has it."""
    for s in range(g.width):
        if g.place[p, s] >= first:
            move(g, p, s, g.initial[p, s])
    if lead >= 0 and g.lead[p] != lead:
        give_lead(g, p, lead)


@leaf
def _spare(g, p, rank, vacancy, first):
    """The replica to give up, and the slot that leads in its stead if it leads; -1 for none."""
    best, heir = -1, -1
    lowest, crowding, least = UNKEPT, 0, 0.0
    for s in range(g.width):
        b = g.place[p, s]
        if b < 0 or b >= first or rank[p, s] > lowest or not _another_in_sync(g, p, s, first):
            continue
        t = -1
        if g.lead[p] == s:
            if rank[p, s] == SOUND and not _overloaded(g, b):
                # A hand-over disturbs clients: not for a broker that bears what it has.
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
    """The slot that may lead at once instead of slot `s`, with the least harm; -1 if none."""
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
