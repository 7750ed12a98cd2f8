"""Compiled: the descent, and what goes home after it.

Take the broker that is furthest out; shed or fill it; go on until all hold or nothing helps. For each broker
in turn: leaderships out or in (no bytes), then replicas out, then replicas in, best gain per byte first and
each gain computed again when its turn comes; when none of these helps, the best exchange of two replicas.
"""

import numpy as np

from trimtab.plan.replicas.board import (
    LEAVING,
    copies_more,
    give_lead,
    holds,
    may_move,
    may_take_lead,
    move,
    row_of,
)
from trimtab.plan.replicas.leaderships import change_leaders
from trimtab.plan.replicas.partners import fit_opposites
from trimtab.plan.replicas.relief import pull, shed
from trimtab.plan.replicas.trade import NOTHING, burden, gain, outcome
from trimtab.plan.search.board import NEGLIGIBLE, VISITS, next_broker, sample
from trimtab.plan.search.compiled import entry, inner, leaf


@leaf
def _best_pair(g, h, b, floor, own, others, least):
    """The exchange of `h` and `b` that is worth most per byte, more than `least`: (worth, code, code)."""
    best, best_mine, best_other = least, -1, -1
    for x in own:
        p, s = x // g.width, x % g.width
        rp = row_of(g.lead, p, s)
        for y in others:
            q, t = y // g.width, y % g.width
            rq = row_of(g.lead, q, t)
            if p == q:
                continue
            fall = gain(g, h, b, rp, rq)[0]
            if fall == 0.0:
                continue
            copied = max(copies_more(g.initial, g.place, p, s, b), 0) * g.size[p]
            copied += max(copies_more(g.initial, g.place, q, t, h), 0) * g.size[q]
            worth = fall / (2 * floor + copied)
            if worth > best and may_move(g, p, s, b) and may_move(g, q, t, h):
                best, best_mine, best_other = worth, x, y
    return best, best_mine, best_other


@inner
def exchange(g, h, floor):
    """Make the best exchange of a replica of `h` against one of another broker; returns whether it did."""
    mine = sample(g.head, g.links, g.movable, g.width, h)
    best = 0.0
    best_mine = -1
    best_other = -1
    for b in fit_opposites(g, h):
        worth, x, y = _best_pair(g, h, b, floor, mine, sample(g.head, g.links, g.movable, g.width, b), best)
        if x >= 0:
            best, best_mine, best_other = worth, x, y
    if best_mine < 0:
        return False
    q, t = best_other // g.width, best_other % g.width
    b = g.place[q, t]
    move(g, best_mine // g.width, best_mine % g.width, b)
    move(g, q, t, h)
    return True


@entry
def balance(g, floor, rounds):
    """Make the potentials fall until all are negligible or no change of one or two replicas helps.

    Parameters
    ----------
    floor
        Bytes that a move is deemed to cost besides its copy, so that fewer moves win among equals.
    rounds
        How often brokers that found no help are tried again after others have changed.
    """
    brokers = len(g.broker_traits)
    stuck = np.zeros(brokers, np.bool_)
    burdens = np.empty((brokers, 1))
    tries = np.array([rounds, 0])
    for _ in range(VISITS * brokers + 1000):
        for b in range(brokers):
            burdens[b, 0] = burden(g, b)
        h = next_broker(burdens, stuck, tries)
        if h < 0:
            break
        changed = change_leaders(g, h)
        if burden(g, h) > NEGLIGIBLE:
            changed += shed(g, h, floor)
        if burden(g, h) > NEGLIGIBLE:
            changed += pull(g, h, floor)
        if changed == 0:
            changed = 1 if exchange(g, h, floor) else 0
        stuck[h] = changed == 0
        tries[1] += changed


@entry
def revert_partition(g, order, home_lead):
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
            home = g.initial[p, s]
            here = g.place[p, s]
            if here < 0 or here == home or g.flags[p, s] & LEAVING or holds(g.place, p, home):
                continue
            if not may_move(g, p, s, home):
                continue
            row = row_of(g.lead, p, s)
            before, after = outcome(g, here, home, row, NOTHING)
            if after <= before:
                move(g, p, s, home)
                undone += 1
    for p in order:
        s = home_lead[p]
        old = g.lead[p]
        if s < 0 or old < 0 or old == s or g.place[p, s] != g.initial[p, s]:
            continue
        b = g.place[p, s]
        if not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
            continue
        before, after = outcome(g, g.place[p, old], b, 2 * p + 1, 2 * p)
        if after <= before:
            give_lead(g, p, s)
            undone += 1
    return undone
