"""Compiled: an ownership that changes one bundle at a time, and the rules for owners.

`trimtab.plan.search.board` computes the value of a change.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.bundles.problem import BundlesArrays
from trimtab.plan.search.board import blank_band, carry, lists, set_limits
from trimtab.plan.search.compiled import leaf
from trimtab.plan.search.limits import UsageLimits


class BundlesBoard(NamedTuple):
    """Problem and ownership; compiled code writes into `band` and the fields after it.

    Attributes
    ----------
    fixed
        Constants of the problem.
    open
        Shape (brokers,): policies allow some bundle there.
    use, movable, width, band, potentials, head, links
        As in `trimtab.plan.search.board`; a bundle stands alone.
    place
        Shape (bundles,): owner now, -1 for none.
    held, near
        Shape (members, brokers) and (members, domains): bundles of each namespace of an anti-affinity group.
    """

    fixed: BundlesArrays
    open: BoolArray
    use: FloatArray
    movable: BoolArray
    width: int
    band: FloatArray
    potentials: FloatArray
    place: IntArray
    head: IntArray
    links: IntArray
    held: IntArray
    near: IntArray


@leaf
def crowd(held, near, group, domain, m, b):
    """Other namespaces of the group of `m` in the domain of broker `b`, and on it."""
    on = 0
    around = 0
    for other in range(len(group)):
        if other != m and group[other] == group[m]:
            on += held[other, b] > 0
            around += near[other, domain[b]] > 0
    return around, on


@leaf
def may_be_on(g, i, b):
    """True if broker `b` may be given the bundle: by policies, service and grace time; always for its owner
    in the snapshot.
    """
    if g.fixed.initial[i] == b:
        return not g.fixed.must[i]
    if not g.fixed.allowed[g.fixed.kind[i], b]:
        return False
    for k in range(g.fixed.barred.shape[1]):  # noqa: SIM110 - compiled code knows no generators
        if g.fixed.barred[i, k] == b:
            return False
    return True


@leaf
def may_move(g, i, b):
    """True if every rule allows the bundle to move from its current broker to `b`.

    Anti-affinity: neither the domain nor the broker may have more other namespaces of the group than the
    source has. A bundle without a source may move anywhere (bundles that must move are placed by a rule of
    their own first).
    """
    if not may_be_on(g, i, b):
        return False
    # Only namespaces of anti-affinity groups have a member number; for all others the rules end here.
    m = g.fixed.member[i]
    here = g.place[i]
    if m < 0 or here < 0 or b == g.fixed.initial[i]:
        return True
    # Compared with the source, not with a limit: an ownership that violates anti-affinity can then improve
    # step by step.
    around, on = crowd(g.held, g.near, g.fixed.group, g.fixed.domain, m, b)
    around_here, on_here = crowd(g.held, g.near, g.fixed.group, g.fixed.domain, m, here)
    return around <= around_here and on <= on_here


@leaf
def move(g, i, b):
    """Let broker `b` own the bundle."""
    here = g.place[i]
    m = g.fixed.member[i]
    g.place[i] = b
    carry(g, i, i, here, b)
    if m >= 0:
        if here >= 0:
            g.held[m, here] -= 1
            g.near[m, g.fixed.domain[here]] -= 1
        g.held[m, b] += 1
        g.near[m, g.fixed.domain[b]] += 1


def new_board(arrays: BundlesArrays, place: IntArray, usage: FloatArray, limits: UsageLimits) -> BundlesBoard:
    """Make a board for an ownership; `usage` is the utilisation of the brokers under it."""
    brokers, members = len(usage), len(arrays.group)
    head, links = lists(place, brokers)
    held = np.zeros((members, brokers), dtype=np.int32)
    near = np.zeros((members, int(arrays.domain.max(initial=0)) + 1), dtype=np.int32)
    rows = np.flatnonzero((arrays.member >= 0) & (place >= 0))
    np.add.at(held, (arrays.member[rows], place[rows]), 1)
    np.add.at(near, (arrays.member[rows], arrays.domain[place[rows]]), 1)
    board = BundlesBoard(
        fixed=arrays,
        open=np.asarray(arrays.allowed.any(axis=0)),
        use=arrays.use,
        movable=arrays.movable,
        width=1,
        band=blank_band(arrays.inverse),
        potentials=np.zeros((brokers, 2)),
        place=place.copy(),
        head=head,
        links=links,
        held=held,
        near=near,
    )
    set_limits(board, usage, limits)
    return board
