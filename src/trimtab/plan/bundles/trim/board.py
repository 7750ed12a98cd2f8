"""Compiled: an ownership that changes one bundle at a time, and what each change is worth.

The potential of a broker is the sum over columns (views and resources) of weight · (excess over the band² +
lack below it²), a hundredfold for what lies over θ; a plan is found by making the potentials fall. A faint
pull towards the mean, the guidance, breaks ties between changes that are equally good for the goals; it never
decides whether one is accepted.

Leaves take the few arrays they need: handing the whole board to each of them multiplies the time to compile.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray
from trimtab.plan.bundles.trim.limits import Limits
from trimtab.plan.bundles.trim.problem import Arrays
from trimtab.plan.search.compiled import entry, leaf

GUIDANCE = 0.02
THETA_WEIGHT = 100.0
NEGLIGIBLE = 1e-18
"""A potential below this (a billionth of the mean, squared) is rounding, not load."""

USAGE, INVERSE, HIGH, LOW, THETA, CENTRE, WEIGHT = range(7)


class Board(NamedTuple):
    """Problem and ownership side by side; compiled code writes into `band`, `worth` and what follows them.

    Attributes
    ----------
    use, cost, home, movable, must, kind, allowed, barred, member, group, domain
        As in `Arrays`.
    band
        Shape (brokers, 7, columns): usage, 1 / capacity, then the limits.
    worth
        Shape (brokers, 2): potential and guidance.
    place
        Shape (bundles,): owner now, -1 for none.
    head, links
        What a broker owns, as doubly linked lists, so that a move is O(1): `head` of shape (brokers,),
        `links` of shape (bundles, 2): following and preceding bundle.
    held, near
        Shape (members, brokers) and (members, domains): bundles of each namespace of an anti-affinity group.
    """

    use: FloatArray
    cost: FloatArray
    home: IntArray
    movable: BoolArray
    must: BoolArray
    kind: IntArray
    allowed: BoolArray
    barred: IntArray
    member: IntArray
    group: IntArray
    domain: IntArray
    band: FloatArray
    worth: FloatArray
    place: IntArray
    head: IntArray
    links: IntArray
    held: IntArray
    near: IntArray


@leaf
def value(use, band, b, add, drop):  # type: ignore[no-untyped-def]
    """Potential and guidance of broker `b` if it gained one bundle and lost one (-1: none)."""
    potential = 0.0
    guidance = 0.0
    for r in range(use.shape[1]):
        weight = band[b, WEIGHT, r]
        level = band[b, USAGE, r]
        if add >= 0:
            level += use[add, r] * band[b, INVERSE, r]
        if drop >= 0:
            level -= use[drop, r] * band[b, INVERSE, r]
        off = max(level - band[b, HIGH, r], band[b, LOW, r] - level, 0.0)
        over = max(level - band[b, THETA, r], 0.0)
        away = level - band[b, CENTRE, r]
        potential += weight * (off * off + THETA_WEIGHT * over * over)
        guidance += weight * away * away
    return potential, GUIDANCE * guidance


@leaf
def helps(fall, was):  # type: ignore[no-untyped-def]
    """Whether a potential that falls by `fall` from `was` does so by more than rounding; else descents could
    cycle.
    """
    return fall > NEGLIGIBLE + 1e-9 * was


@leaf
def crowd(held, near, group, domain, m, b):  # type: ignore[no-untyped-def]
    """Other namespaces of the group of `m` in the domain of broker `b`, and on it."""
    on = 0
    around = 0
    for other in range(len(group)):
        if other != m and group[other] == group[m]:
            on += held[other, b] > 0
            around += near[other, domain[b]] > 0
    return around, on


@leaf
def may_be_on(g, i, b):  # type: ignore[no-untyped-def]
    """Whether broker `b` may be given the bundle: by policies, service and grace time; home always is."""
    if g.home[i] == b:
        return not g.must[i]
    if not g.allowed[g.kind[i], b]:
        return False
    for k in range(g.barred.shape[1]):  # noqa: SIM110 - compiled code knows no generators
        if g.barred[i, k] == b:
            return False
    return True


@leaf
def may_move(g, i, b):  # type: ignore[no-untyped-def]
    """Whether every rule allows the bundle to go from where it is to `b`.

    Anti-affinity: neither the domain nor the broker may have more other namespaces of the group than those it
    leaves; who leaves nobody may go anywhere (the forced ones are placed by their own rule first).
    """
    if not may_be_on(g, i, b):
        return False
    m = g.member[i]
    here = g.place[i]
    if m < 0 or here < 0 or b == g.home[i]:
        return True
    around, on = crowd(g.held, g.near, g.group, g.domain, m, b)
    around_here, on_here = crowd(g.held, g.near, g.group, g.domain, m, here)
    return around <= around_here and on <= on_here


@leaf
def refresh(g, b):  # type: ignore[no-untyped-def]
    """Compute potential and guidance of a broker again."""
    potential, guidance = value(g.use, g.band, b, -1, -1)
    g.worth[b, 0] = potential
    g.worth[b, 1] = guidance


@leaf
def move(g, i, b):  # type: ignore[no-untyped-def]
    """Let broker `b` own the bundle."""
    here = g.place[i]
    m = g.member[i]
    g.place[i] = b
    after, before = g.links[i, 0], g.links[i, 1]
    if here >= 0:
        for r in range(g.use.shape[1]):
            g.band[here, USAGE, r] -= g.use[i, r] * g.band[here, INVERSE, r]
        if before >= 0:
            g.links[before, 0] = after
        else:
            g.head[here] = after
        if after >= 0:
            g.links[after, 1] = before
        if m >= 0:
            g.held[m, here] -= 1
            g.near[m, g.domain[here]] -= 1
        refresh(g, here)
    for r in range(g.use.shape[1]):
        g.band[b, USAGE, r] += g.use[i, r] * g.band[b, INVERSE, r]
    first = g.head[b]
    g.links[i, 0] = first
    g.links[i, 1] = -1
    if first >= 0:
        g.links[first, 1] = i
    g.head[b] = i
    if m >= 0:
        g.held[m, b] += 1
        g.near[m, g.domain[b]] += 1
    refresh(g, b)


def new_board(arrays: Arrays, place: IntArray, usage: FloatArray, limits: Limits) -> Board:
    """A board of its own for an ownership; `usage` is that of the brokers under it."""
    brokers, columns = usage.shape
    members = len(arrays.group)
    head, links = _lists(place, brokers)
    held = np.zeros((members, brokers), dtype=np.int32)
    near = np.zeros((members, int(arrays.domain.max(initial=0)) + 1), dtype=np.int32)
    rows = np.flatnonzero((arrays.member >= 0) & (place >= 0))
    np.add.at(held, (arrays.member[rows], place[rows]), 1)
    np.add.at(near, (arrays.member[rows], arrays.domain[place[rows]]), 1)
    board = Board(
        *(arrays.use, arrays.cost, arrays.home, arrays.movable, arrays.must, arrays.kind, arrays.allowed),
        *(arrays.barred, arrays.member, arrays.group, arrays.domain),
        band=np.zeros((brokers, 7, columns)),
        worth=np.zeros((brokers, 2)),
        place=place.copy(),
        head=head,
        links=links,
        held=held,
        near=near,
    )
    board.band[:, INVERSE] = arrays.inverse
    set_limits(board, usage, limits)
    return board


def set_limits(board: Board, usage: FloatArray, limits: Limits) -> None:
    """Take other limits, and usage computed afresh, so that rounding does not pile up."""
    for row, values in (
        (USAGE, usage),
        (HIGH, limits.high),
        (LOW, limits.low),
        (THETA, limits.theta),
        (CENTRE, limits.centre),
        (WEIGHT, limits.weight),
    ):
        board.band[:, row] = values
    _refresh_all(board)


@entry
def _refresh_all(g):  # type: ignore[no-untyped-def]
    for b in range(len(g.worth)):
        refresh(g, b)


def _lists(place: IntArray, brokers: int) -> tuple[IntArray, IntArray]:
    """Linked lists of what each broker owns, in ascending order."""
    rows = np.flatnonzero(place >= 0).astype(np.int32)
    rows = rows[np.argsort(place[rows], kind="stable")]
    holder = place[rows]
    links = np.full((len(place), 2), -1, dtype=np.int32)
    head = np.full(brokers, -1, dtype=np.int32)
    same = holder[1:] == holder[:-1]
    links[rows[:-1][same], 0] = rows[1:][same]
    links[rows[1:][same], 1] = rows[:-1][same]
    if len(rows):
        starts = np.concatenate([[True], ~same])
        head[holder[starts]] = rows[starts]
    return head, links
