"""Compiled: what a search has moved without need goes back to where it was."""

from trimtab.plan.replicas.placement import LEAVING, give_lead, holds, may_move, may_take_lead, move, value
from trimtab.plan.search.compiled import entry


@entry
def send_home(g, order, home_lead):  # type: ignore[no-untyped-def]
    """Undo every move and every change of leader that the goals do not need; returns how many.

    Parameters
    ----------
    order
        Partitions, biggest first: a big one that goes home saves more than the small ones that then cannot.
    home_lead
        Shape (partitions,): slot that led in the snapshot.
    """
    undone = 0
    for p in order:
        for s in range(g.place.shape[1]):
            home = g.home[p, s]
            here = g.place[p, s]
            if here < 0 or here == home or g.flags[p, s] & LEAVING or holds(g.place, p, home):
                continue
            if not may_move(g, p, s, home):
                continue
            role = 1 if g.lead[p] == s else 0
            after = value(g.use, g.band, here, -1, 0, p, role)[0]
            after += value(g.use, g.band, home, p, role, -1, 0)[0]
            if after <= g.worth[here, 0] + g.worth[home, 0]:
                move(g, p, s, home)
                undone += 1
    for p in order:
        s = home_lead[p]
        old = g.lead[p]
        if s < 0 or old < 0 or old == s or g.place[p, s] != g.home[p, s]:
            continue
        b = g.place[p, s]
        if not may_take_lead(g.seat, g.home, g.flags, p, b):
            continue
        here = g.place[p, old]
        after = value(g.use, g.band, here, p, 0, p, 1)[0] + value(g.use, g.band, b, p, 1, p, 0)[0]
        if after <= g.worth[here, 0] + g.worth[b, 0]:
            give_lead(g, p, s)
            undone += 1
    return undone
