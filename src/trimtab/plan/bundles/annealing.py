"""Compiled: many random changes, taken by the rule of simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983).

The descent stops where no change of one or two bundles helps. In a small cluster with a few heavy bundles
that is soon, and the better ownership lies several changes away, each of which makes things worse at first.
"""

from trimtab.plan.bundles.board import may_move, move
from trimtab.plan.bundles.descent import may_exchange
from trimtab.plan.search.board import accepted, value
from trimtab.plan.search.compiled import entry, leaf

SINGLE = 0.5
"""Share of the changes tried that move one bundle; the rest are exchanges."""


@leaf
def _more(g, i, b, dear):
    """Weight of the further clients disturbed if the bundle goes to `b`."""
    if g.fixed.must[i]:
        return 0.0
    return dear[i] * ((b != g.fixed.initial[i]) * 1.0 - (g.place[i] != g.fixed.initial[i]) * 1.0)


@entry
def anneal(g, dear, heats, chances):
    """Try one random change per row of `chances`.

    Parameters
    ----------
    dear
        Shape (bundles,): what unloading the bundle weighs, in units of the potential.
    heats
        Shape (changes,): how much worse a change may make things, with odds 1 : e; it should fall.
    chances
        Shape (changes, 4): uniform in [0, 1).
    """
    bundles, brokers = len(g.place), len(g.potentials)
    for k in range(len(chances)):
        i = int(chances[k, 1] * bundles)
        here = g.place[i]
        if not g.movable[i] or here < 0:
            continue
        if chances[k, 0] < SINGLE:
            b = int(chances[k, 2] * brokers)
            if b == here:
                continue
            after = value(g.use, g.band, here, -1, i)[0] + value(g.use, g.band, b, i, -1)[0]
            rise = after - g.potentials[here, 0] - g.potentials[b, 0] + _more(g, i, b, dear)
            if accepted(rise, heats[k], chances[k, 3]) and may_move(g, i, b):
                move(g, i, b)
            continue
        j = int(chances[k, 2] * bundles)
        b = g.place[j]
        if not g.movable[j] or b < 0 or b == here:
            continue
        after = value(g.use, g.band, here, j, i)[0] + value(g.use, g.band, b, i, j)[0]
        rise = (
            after
            - g.potentials[here, 0]
            - g.potentials[b, 0]
            + _more(g, i, b, dear)
            + _more(g, j, here, dear)
        )
        if accepted(rise, heats[k], chances[k, 3]) and may_exchange(g, i, j):
            move(g, i, b)
            move(g, j, here)
