"""Compiled: what a change between two brokers is worth, the one place that says so.

Every change is a trade: broker `a` hands a row of load to broker `b`, and may get one for it. A replica that
moves is a row without return; a leadership is the leader's row for the follower's of the same partition; an
exchange is two replicas' rows. What a trade is worth is the fall of the potentials of those who bear it.
"""

from trimtab.plan.search.board import helps, value
from trimtab.plan.search.compiled import leaf

NOTHING = -1
"""The row of a side that gains or loses none."""


@leaf
def side(g, b, add, drop):
    """Potential and guidance of broker `b` if it gained one row and lost one."""
    return value(g.use, g.band, b, add, drop)


@leaf
def burden(g, b):
    """The potential that rests on a broker: what a descent is to bring down there."""
    return g.worth[b, 0]


@leaf
def relief(g, a, row):
    """Fall of the potential that rests on broker `a` if the row went elsewhere."""
    return g.worth[a, 0] - side(g, a, NOTHING, row)[0]


@leaf
def harm(g, b, add, drop):
    """Rise of potential with guidance at broker `b` if it gained one row and lost one, from anywhere."""
    potential, guidance = side(g, b, add, drop)
    return potential + guidance - g.worth[b, 0] - g.worth[b, 1]


@leaf
def known(g, a, b, gives, gets, v1, g1):
    """`gain` where the potential and guidance of `a` after the trade (`side`) are known already."""
    was = g.worth[a, 0] + g.worth[b, 0]
    if v1 >= was:
        return 0.0, 0.0
    v2, g2 = side(g, b, gives, gets)
    fall = was - v1 - v2
    if not helps(fall, was):
        return 0.0, 0.0
    return fall, fall + g.worth[a, 1] + g.worth[b, 1] - g1 - g2


@leaf
def gain(g, a, b, gives, gets):
    """Fall of the potentials by a trade, and the same with guidance; both 0 where there is none.

    Parameters
    ----------
    gives, gets
        Rows of `use` that `a` hands to `b`, and is handed for it (`NOTHING`: none).
    """
    v1, g1 = side(g, a, gets, gives)
    return known(g, a, b, gives, gets, v1, g1)


@leaf
def outcome(g, a, b, gives, gets):
    """The potentials on which a trade bears, before and after it."""
    after = side(g, a, gets, gives)[0] + side(g, b, gives, gets)[0]
    return g.worth[a, 0] + g.worth[b, 0], after
