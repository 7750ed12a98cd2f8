"""Compiled: a placement that changes one replica or one leadership at a time, and what each change is worth.

The potential of a broker is the sum over resources of weight · (excess over the band² + lack below it²), a
hundredfold for what lies over θ; a plan is found by making the potentials fall. A faint pull towards the
mean, the guidance, breaks ties between changes that are equally good for the goals; it never decides whether
one is accepted.

Leaves take the few arrays they need: handing the whole board to each of them multiplies the time to compile.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import RESOURCES, FloatArray, IntArray
from trimtab.plan.replicas.limits import Limits
from trimtab.plan.replicas.problem import Arrays
from trimtab.plan.search.compiled import entry, leaf

GUIDANCE = 0.02
THETA_WEIGHT = 100.0
NEGLIGIBLE = 1e-18
"""A potential below this (a billionth of the mean, squared) is rounding, not load."""

WIDE = len(RESOURCES)
USAGE, INVERSE, HIGH, LOW, THETA, CENTRE, WEIGHT = range(7)
RECEIVES, LEADS, RACK, HOST = range(4)
READY, LEAVING = 1, 2
MOVABLE, RACK_CAP, HOST_CAP, PINNED = range(4)


class Board(NamedTuple):
    """Problem and placement side by side; compiled code writes into the second half.

    Attributes
    ----------
    use
        Shape (partitions, 2, resources): load of a follower and of the leader.
    size
        Shape (partitions,): bytes of a copy.
    seat
        Shape (brokers, 4): may receive, may lead, rack, host.
    home
        Shape (partitions, width): broker of each slot in the snapshot, -1 in padding.
    flags
        Shape of `home`: bits `READY` (in sync and online) and `LEAVING`.
    rule
        Shape (partitions, 4): movable, most replicas a rack, most replicas a host, slot that must stay.
    band
        Shape (brokers, 7, resources): usage, 1 / capacity, then the limits.
    worth
        Shape (brokers, 2): potential and guidance.
    place
        Shape of `home`: broker of each slot now.
    lead
        Shape (partitions,): slot that leads, -1 for none.
    head, links
        Who sits on a broker, as doubly linked lists of codes (partition · width + slot), so that a move is
        O(1): `head` of shape (brokers,), `links` of shape (partitions · width, 2): following and preceding
        code.
    """

    use: FloatArray
    size: FloatArray
    seat: IntArray
    home: IntArray
    flags: IntArray
    rule: IntArray
    band: FloatArray
    worth: FloatArray
    place: IntArray
    lead: IntArray
    head: IntArray
    links: IntArray


@leaf
def value(use, band, b, add, add_role, drop, drop_role):  # type: ignore[no-untyped-def]
    """Potential and guidance of broker `b` if it gained one replica (`add`, -1: none) and lost one
    (`drop`).
    """
    potential = 0.0
    guidance = 0.0
    for r in range(WIDE):
        weight = band[b, WEIGHT, r]
        level = band[b, USAGE, r]
        if add >= 0:
            level += use[add, add_role, r] * band[b, INVERSE, r]
        if drop >= 0:
            level -= use[drop, drop_role, r] * band[b, INVERSE, r]
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
def holds(place, p, b):  # type: ignore[no-untyped-def]
    """Whether broker `b` holds a replica of the partition."""
    for s in range(place.shape[1]):  # noqa: SIM110 - compiled code knows no generators
        if place[p, s] == b:
            return True
    return False


@leaf
def fits_groups(seat, rule, place, p, s, b):  # type: ignore[no-untyped-def]
    """Whether the slot may go to `b` without worsening rack or host spread."""
    here = place[p, s]
    in_rack = 0
    in_host = 0
    for t in range(place.shape[1]):
        other = place[p, t]
        if other < 0 or t == s:
            continue
        if seat[other, RACK] == seat[b, RACK]:
            in_rack += 1
        if seat[other, HOST] == seat[b, HOST]:
            in_host += 1
    if in_rack >= rule[p, RACK_CAP] and seat[here, RACK] != seat[b, RACK]:
        return False
    return not (in_host >= rule[p, HOST_CAP] and seat[here, HOST] != seat[b, HOST])


@leaf
def home_slot(home, p, b):  # type: ignore[no-untyped-def]
    """Slot that broker `b` holds in the snapshot, -1 if none."""
    for s in range(home.shape[1]):
        if home[p, s] == b:
            return s
    return -1


@leaf
def may_take_lead(seat, home, flags, p, b):  # type: ignore[no-untyped-def]
    """Whether leadership may go to `b`: by its state, and in sync (as every fresh copy is)."""
    if seat[b, LEADS] == 0:
        return False
    s = home_slot(home, p, b)
    return s < 0 or (flags[p, s] & READY) != 0


@leaf
def may_move(g, p, s, b):  # type: ignore[no-untyped-def]
    """Whether every hard rule allows the slot's replica, with its role, to go to `b`."""
    if g.rule[p, PINNED] == s or holds(g.place, p, b):
        return False
    t = home_slot(g.home, p, b)
    if t < 0:
        if g.seat[b, RECEIVES] == 0:
            return False
    elif g.flags[p, t] & LEAVING:
        return False
    if g.lead[p] == s and (g.seat[b, LEADS] == 0 or (t >= 0 and (g.flags[p, t] & READY) == 0)):
        return False
    return fits_groups(g.seat, g.rule, g.place, p, s, b)


@leaf
def copies_more(home, place, p, s, b):  # type: ignore[no-untyped-def]
    """Copies that the plan has more if the slot's replica goes to `b`: 1, 0, or -1 when it goes back home."""
    return (home_slot(home, p, b) < 0) * 1 - (home_slot(home, p, place[p, s]) < 0) * 1


@leaf
def refresh(g, b):  # type: ignore[no-untyped-def]
    """Compute potential and guidance of a broker again."""
    potential, guidance = value(g.use, g.band, b, -1, 0, -1, 0)
    g.worth[b, 0] = potential
    g.worth[b, 1] = guidance


@leaf
def move(g, p, s, b):  # type: ignore[no-untyped-def]
    """Put the slot's replica, with its role, on broker `b`."""
    here = g.place[p, s]
    role = 1 if g.lead[p] == s else 0
    for r in range(WIDE):
        g.band[here, USAGE, r] -= g.use[p, role, r] * g.band[here, INVERSE, r]
        g.band[b, USAGE, r] += g.use[p, role, r] * g.band[b, INVERSE, r]
    g.place[p, s] = b
    code = p * g.place.shape[1] + s
    after, before = g.links[code, 0], g.links[code, 1]
    if before >= 0:
        g.links[before, 0] = after
    else:
        g.head[here] = after
    if after >= 0:
        g.links[after, 1] = before
    first = g.head[b]
    g.links[code, 0] = first
    g.links[code, 1] = -1
    if first >= 0:
        g.links[first, 1] = code
    g.head[b] = code
    refresh(g, here)
    refresh(g, b)


@leaf
def give_lead(g, p, s):  # type: ignore[no-untyped-def]
    """Let the slot lead."""
    old = g.lead[p]
    there = g.place[p, s]
    for r in range(WIDE):
        more = g.use[p, 1, r] - g.use[p, 0, r]
        g.band[there, USAGE, r] += more * g.band[there, INVERSE, r]
        if old >= 0:
            here = g.place[p, old]
            g.band[here, USAGE, r] -= more * g.band[here, INVERSE, r]
    g.lead[p] = s
    if old >= 0:
        refresh(g, g.place[p, old])
    refresh(g, there)


def new_board(arrays: Arrays, place: IntArray, lead: IntArray, usage: FloatArray, limits: Limits) -> Board:
    """A board of its own for a placement; `usage` is that of the brokers under it."""
    partitions, width = place.shape
    brokers = len(usage)
    head, links = _lists(place, brokers)
    flags = READY * arrays.home_ready + LEAVING * arrays.leaving
    seat = np.stack([arrays.may_receive, arrays.may_lead, arrays.rack, arrays.host], axis=1)
    board = Board(
        use=arrays.use,
        size=arrays.size,
        seat=np.ascontiguousarray(seat, dtype=np.int32),
        home=arrays.home,
        flags=np.ascontiguousarray(flags.reshape(partitions, width), dtype=np.int32),
        rule=np.ascontiguousarray(
            np.stack([arrays.movable, arrays.rack_cap, arrays.host_cap, arrays.pinned], axis=1),
            dtype=np.int32,
        ),
        band=np.zeros((brokers, 7, WIDE)),
        worth=np.zeros((brokers, 2)),
        place=place.copy(),
        lead=lead.copy(),
        head=head,
        links=links,
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
    """Linked lists of who sits where, each in ascending order of codes."""
    flat = place.ravel()
    codes = np.flatnonzero(flat >= 0).astype(np.int32)
    codes = codes[np.argsort(flat[codes], kind="stable")]
    holder = flat[codes]
    links = np.full((flat.size, 2), -1, dtype=np.int32)
    head = np.full(brokers, -1, dtype=np.int32)
    same = holder[1:] == holder[:-1]
    links[codes[:-1][same], 0] = codes[1:][same]
    links[codes[1:][same], 1] = codes[:-1][same]
    if len(codes):
        starts = np.concatenate([[True], ~same])
        head[holder[starts]] = codes[starts]
    return head, links


@entry
def move_once(g, p, s, b):  # type: ignore[no-untyped-def]
    """`move`, for callers that are not compiled."""
    move(g, p, s, b)


@entry
def give_lead_once(g, p, s):  # type: ignore[no-untyped-def]
    """`give_lead`, for callers that are not compiled."""
    give_lead(g, p, s)
