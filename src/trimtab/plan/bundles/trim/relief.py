"""Compiled: bundles sent away from a broker, or fetched to it, best gain per disturbed client first."""

import numpy as np

from trimtab.plan.bundles.trim.board import (
    CENTRE,
    HIGH,
    INVERSE,
    LOW,
    NEGLIGIBLE,
    USAGE,
    WEIGHT,
    helps,
    may_move,
    move,
    value,
)
from trimtab.plan.search.compiled import inner, leaf
from trimtab.plan.search.queue import drop_first, order, sink

CANDIDATES = 24
"""Brokers looked at on the other side."""

LONG_LIST = 400
"""Bundles of a broker that are tried against all destinations; the others wait for their turn."""

STALE = 0.8
"""A gain that has fallen below this share of what it was goes back into the queue."""


@leaf
def price(g, i, b, floor):  # type: ignore[no-untyped-def]
    """Clients disturbed, and `floor` for the move itself, if the bundle goes to `b`; nothing on its way home.

    A bundle that was moved already, or has to move anyway, costs no more by going elsewhere.
    """
    moved = g.place[i] != g.home[i] or g.must[i]
    return floor if moved or b == g.home[i] else floor + g.cost[i]


@leaf
def _best(g, i, targets, floor):  # type: ignore[no-untyped-def]
    """Best (gain per client, broker) for a bundle among some destinations."""
    best = 0.0
    target = -1
    here = g.place[i]
    v1, g1 = value(g.use, g.band, here, -1, i)
    fall_here = g.worth[here, 0] - v1
    gain_here = fall_here + g.worth[here, 1] - g1
    for b in targets:
        if b == here:
            continue
        v2, g2 = value(g.use, g.band, b, i, -1)
        fall = fall_here + g.worth[b, 0] - v2
        gain = gain_here + g.worth[b, 0] + g.worth[b, 1] - v2 - g2
        if gain <= 0.0 or not helps(fall, g.worth[here, 0] + g.worth[b, 0]):
            continue
        worth = gain / price(g, i, b, floor)
        if worth > best and may_move(g, i, b):
            best, target = worth, b
    return best, target


@inner
def _nearest(keys):  # type: ignore[no-untyped-def]
    """The brokers of smallest key; infinite keys never."""
    ranked = np.argsort(keys, kind="mergesort")[:CANDIDATES]
    size = 0
    for b in ranked:
        if keys[b] < np.inf:
            size += 1
    return ranked[:size].astype(np.int32)


@inner
def _takers(g, h, probe):  # type: ignore[no-untyped-def]
    """The brokers that would bear a probe load best."""
    keys = np.full(len(g.worth), np.inf)
    for b in range(len(keys)):
        if b == h or not g.allowed[:, b].any():
            continue
        key = 0.0
        for r in range(len(probe)):
            was = g.band[b, USAGE, r]
            level = was + probe[r] * g.band[b, INVERSE, r]
            off = max(level - g.band[b, HIGH, r], g.band[b, LOW, r] - level, 0.0)
            off_before = max(was - g.band[b, HIGH, r], g.band[b, LOW, r] - was, 0.0)
            away = level - g.band[b, CENTRE, r]
            away_before = was - g.band[b, CENTRE, r]
            key += g.band[b, WEIGHT, r] * (
                off * off - off_before * off_before + 0.1 * (away * away - away_before * away_before)
            )
        keys[b] = key
    return _nearest(keys)


@inner
def _donors(g, h):  # type: ignore[no-untyped-def]
    """The brokers that can best spare what `h` lacks."""
    keys = np.full(len(g.worth), np.inf)
    for b in range(len(keys)):
        if b == h:
            continue
        key = 0.0
        for r in range(g.use.shape[1]):
            lack = max(g.band[h, LOW, r] - g.band[h, USAGE, r], 0.0)
            if lack > 0.0 and g.band[b, WEIGHT, r] > 0.0:
                key -= g.band[b, WEIGHT, r] * lack * (g.band[b, USAGE, r] - g.band[b, LOW, r])
        keys[b] = key
    return _nearest(keys)


@inner
def _work_off(g, h, bundles, targets, floor):  # type: ignore[no-untyped-def]
    """Move bundles to their best destinations while `h` is out of its band; returns how many moved."""
    keys = np.empty(len(bundles))
    items = np.empty(len(bundles), np.int32)
    goals = np.empty(len(bundles), np.int32)
    size = 0
    for i in bundles:
        worth, b = _best(g, i, targets, floor)
        if b >= 0:
            keys[size], items[size], goals[size] = worth / np.sqrt(g.worth[h, 0]), i, b
            size += 1
    order(keys, items, goals, size)
    changed = 0
    while size > 0 and g.worth[h, 0] > NEGLIGIBLE:
        i = items[0]
        # All gains at `h` shrink with the root of its potential, so that the queue stays in order.
        pressure = np.sqrt(g.worth[h, 0])
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
def shed(g, h, floor):  # type: ignore[no-untyped-def]
    """Send bundles of `h` away while it is out of its band; returns how many."""
    number = 0
    i = g.head[h]
    while i >= 0:
        number += 1
        i = g.links[i, 0]
    gains = np.empty(number)
    found = np.empty(number, np.int32)
    probe = np.zeros(g.use.shape[1])
    size = 0
    i = g.head[h]
    while i >= 0:
        if g.movable[i]:
            fall = g.worth[h, 0] - value(g.use, g.band, h, -1, i)[0]
            if helps(fall, g.worth[h, 0]):
                gains[size], found[size] = -fall / price(g, i, -2, floor), i
                size += 1
                probe += g.use[i]
        i = g.links[i, 0]
    if size == 0:
        return 0
    ranked = np.argsort(gains[:size], kind="mergesort")[:LONG_LIST]
    return _work_off(g, h, found[ranked], _takers(g, h, probe / size), floor)


@inner
def pull(g, h, floor):  # type: ignore[no-untyped-def]
    """Fetch bundles from brokers that can spare them while `h` is out of its band; returns how many."""
    if not g.allowed[:, h].any():
        return 0
    donors = _donors(g, h)
    number = 0
    for b in donors:
        i = g.head[b]
        while i >= 0:
            number += 1
            i = g.links[i, 0]
    here = np.full(1, h, np.int32)
    gains = np.empty(number)
    found = np.empty(number, np.int32)
    size = 0
    for b in donors:
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
