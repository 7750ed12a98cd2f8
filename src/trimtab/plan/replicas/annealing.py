"""Compiled: many random changes, taken by the rule of simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983).

The descent stops where no change of one or two replicas helps. In a small cluster with a few heavy partitions
that is soon, and the better placement lies several changes away, each of which makes things worse at first.
"""

from trimtab.plan.replicas.board import copies_more, give_lead, may_move, may_take_lead, move, row_of
from trimtab.plan.replicas.trade import NOTHING, outcome
from trimtab.plan.search.board import accepted
from trimtab.plan.search.compiled import entry, leaf

LEADERSHIP, REPLICA = 0.35, 0.3
"""Shares of the changes tried that pass a leadership on or move one replica; the rest are exchanges."""


@leaf
def _try_leadership(g, p, s, heat, chance):
    old = g.lead[p]
    b = g.place[p, s]
    if old < 0 or old == s or b < 0 or not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
        return
    before, after = outcome(g, g.place[p, old], b, 2 * p + 1, 2 * p)
    if accepted(after - before, heat, chance):
        give_lead(g, p, s)


@leaf
def _try_replica(g, p, s, b, price, heat, chance):
    here = g.place[p, s]
    if here < 0 or here == b:
        return
    before, after = outcome(g, here, b, row_of(g.lead, p, s), NOTHING)
    rise = after - before + price[p] * copies_more(g.initial, g.place, p, s, b)
    if accepted(rise, heat, chance) and may_move(g, p, s, b):
        move(g, p, s, b)


@leaf
def _try_exchange(g, p, s, q, t, price, heat, chance):
    a, b = g.place[p, s], g.place[q, t]
    if p == q or a < 0 or b < 0 or a == b or not g.movable[q]:
        return
    before, after = outcome(g, a, b, row_of(g.lead, p, s), row_of(g.lead, q, t))
    copied = price[p] * copies_more(g.initial, g.place, p, s, b)
    copied += price[q] * copies_more(g.initial, g.place, q, t, a)
    rise = after - before + copied
    if accepted(rise, heat, chance) and may_move(g, p, s, b) and may_move(g, q, t, a):
        move(g, p, s, b)
        move(g, q, t, a)


@entry
def anneal(g, price, heats, chances):
    """Try one random change per row of `chances`.

    Parameters
    ----------
    price
        Shape (partitions,): what one more copy of the partition weighs, in units of the potential.
    heats
        Shape (changes,): how much worse a change may make things, with odds 1 : e; it should fall.
    chances
        Shape (changes, 6): uniform in [0, 1).
    """
    partitions, width = g.place.shape
    brokers = len(g.broker_traits)
    for i in range(len(chances)):
        kind, chance, heat = chances[i, 0], chances[i, 5], heats[i]
        p = int(chances[i, 1] * partitions)
        s = int(chances[i, 2] * width)
        if not g.movable[p]:
            continue
        if kind < LEADERSHIP:
            _try_leadership(g, p, s, heat, chance)
        elif kind < LEADERSHIP + REPLICA:
            _try_replica(g, p, s, int(chances[i, 3] * brokers), price, heat, chance)
        else:
            q, t = int(chances[i, 3] * partitions), int(chances[i, 4] * width)
            _try_exchange(g, p, s, q, t, price, heat, chance)
