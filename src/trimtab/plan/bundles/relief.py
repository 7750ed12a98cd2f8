"""Compiled: bundles sent away from a broker, or fetched to it, best gain per disturbed client first."""

import numpy as np

from trimtab.plan.bundles.board import may_move, move
from trimtab.plan.search.board import (
    LONG_LIST,
    NEGLIGIBLE,
    STALE,
    count,
    donors,
    drop_first,
    helps,
    order_queue,
    pressure_at,
    sink,
    takers,
    value,
)
from trimtab.plan.search.compiled import inner, leaf

CANDIDATES = 24
"""Brokers looked at on the other side."""


@leaf
def price(g, i, b, floor):
    """Clients disturbed, and `floor` for the move itself, if the bundle goes to `b`; nothing on its way home.

    A bundle that was moved already, or has to move anyway, costs no more by going elsewhere.
    """
    moved = g.place[i] != g.fixed.initial[i] or g.fixed.must[i]
    return floor if moved or b == g.fixed.initial[i] else floor + g.fixed.cost[i]


@leaf
def _best(g, i, targets, floor):
    """Best (gain per client, broker) for a bundle among some destinations."""
    best = 0.0
    target = -1
    here = g.place[i]
    v1, g1 = value(g.use, g.band, here, -1, i)
    fall_here = g.potentials[here, 0] - v1
    gain_here = fall_here + g.potentials[here, 1] - g1
    for b in targets:
        if b == here:
            continue
        v2, g2 = value(g.use, g.band, b, i, -1)
        fall = fall_here + g.potentials[b, 0] - v2
        gain = gain_here + g.potentials[b, 0] + g.potentials[b, 1] - v2 - g2
        if gain <= 0.0 or not helps(fall, g.potentials[here, 0] + g.potentials[b, 0]):
            continue
        worth = gain / price(g, i, b, floor)
        if worth > best and may_move(g, i, b):
            best, target = worth, b
    return best, target


@inner
def _nearest(keys):
    """The brokers of smallest key; infinite keys never."""
    ranked = np.argsort(keys, kind="mergesort")[:CANDIDATES]
    size = 0
    for b in ranked:
        if keys[b] < np.inf:
            size += 1
    return ranked[:size].astype(np.int32)


@inner
def _work_off(g, h, bundles, targets, floor):
    """Move bundles to their best destinations while `h` is out of its band; returns how many moved."""
    keys = np.empty(len(bundles))
    items = np.empty(len(bundles), np.int32)
    goals = np.empty(len(bundles), np.int32)
    size = 0
    for i in bundles:
        worth, b = _best(g, i, targets, floor)
        if b >= 0:
            keys[size], items[size], goals[size] = worth / pressure_at(g.potentials, h), i, b
            size += 1
    order_queue(keys, items, goals, size)
    changed = 0
    while size > 0 and g.potentials[h, 0] > NEGLIGIBLE:
        i = items[0]
        pressure = pressure_at(g.potentials, h)
        worth, b = _best(g, i, targets, floor)
        if b >= 0 and worth < STALE * keys[0] * pressure:
            keys[0], goals[0] = worth / pressure, b
        else:
            if b >= 0:
                move(g, i, b)
                changed += 1
            size = drop_first(keys, items, goals, size)
        sink(keys, items, goals, size, 0)
    return changed


@inner
def shed(g, h, floor):
    """Send bundles of `h` away while it is out of its band; returns how many."""
    number = count(g.head, g.links, h)
    gains = np.empty(number)
    found = np.empty(number, np.int32)
    probe = np.zeros(g.use.shape[1])
    size = 0
    i = g.head[h]
    while i >= 0:
        if g.movable[i]:
            fall = g.potentials[h, 0] - value(g.use, g.band, h, -1, i)[0]
            if helps(fall, g.potentials[h, 0]):
                gains[size], found[size] = -fall / price(g, i, -2, floor), i
                size += 1
                for r in range(len(probe)):
                    probe[r] += g.use[i, r]
        i = g.links[i, 0]
    if size == 0:
        return 0
    for r in range(len(probe)):
        probe[r] /= size
    ranked = np.argsort(gains[:size], kind="mergesort")[:LONG_LIST]
    return _work_off(g, h, found[ranked], _nearest(takers(g.band, h, probe, g.open)), floor)


@inner
def pull(g, h, floor):
    """Fetch bundles from brokers that can spare them while `h` is out of its band; returns how many."""
    if not g.open[h]:
        return 0
    givers = _nearest(donors(g.band, h))
    number = 0
    for b in givers:
        number += count(g.head, g.links, b)
    here = np.full(1, h, np.int32)
    gains = np.empty(number)
    found = np.empty(number, np.int32)
    size = 0
    for b in givers:
        i = g.head[b]
        while i >= 0:
            if g.movable[i]:
                worth = _best(g, i, here, floor)[0]
                if worth > 0.0:
                    gains[size], found[size] = -worth, i
                    size += 1
            i = g.links[i, 0]
    ranked = np.argsort(gains[:size], kind="mergesort")[: 2 * LONG_LIST]
    return _work_off(g, h, found[ranked], here, floor)
