"""Compiled: replicas fetched to a broker from those that can spare them, best gain per byte first."""

import numpy as np

from trimtab.plan.replicas.candidates import LONG_LIST, STALE, count, nearest, pressure_at
from trimtab.plan.replicas.placement import (
    LOW,
    MOVABLE,
    NEGLIGIBLE,
    RECEIVES,
    USAGE,
    WEIGHT,
    WIDE,
    copies_more,
    helps,
    may_move,
    move,
    value,
)
from trimtab.plan.search.compiled import inner, leaf
from trimtab.plan.search.queue import drop_first, order, sink


@inner
def _donors(g, h):  # type: ignore[no-untyped-def]
    """The brokers that can best spare what `h` lacks."""
    brokers = len(g.worth)
    keys = np.empty(brokers)
    for b in range(brokers):
        keys[b] = np.inf
        if b == h:
            continue
        key = 0.0
        for r in range(WIDE):
            lack = max(g.band[h, LOW, r] - g.band[h, USAGE, r], 0.0)
            if lack > 0.0 and g.band[b, WEIGHT, r] > 0.0:
                key -= g.band[b, WEIGHT, r] * lack * (g.band[b, USAGE, r] - g.band[b, LOW, r])
        keys[b] = key
    return nearest(g, h, keys)


@leaf
def _pull_worth(g, p, s, h, floor):  # type: ignore[no-untyped-def]
    """Gain per byte of fetching a slot to `h`; 0 where it does no good or is not allowed."""
    here = g.place[p, s]
    role = 1 if g.lead[p] == s else 0
    v2, g2 = value(g.use, g.band, h, p, role, -1, 0)
    if v2 >= g.worth[h, 0] + g.worth[here, 0]:
        return 0.0
    v1, g1 = value(g.use, g.band, here, -1, 0, p, role)
    fall = g.worth[here, 0] + g.worth[h, 0] - v1 - v2
    gain = fall + g.worth[here, 1] + g.worth[h, 1] - g1 - g2
    if gain <= 0.0 or not helps(fall, g.worth[here, 0] + g.worth[h, 0]) or not may_move(g, p, s, h):
        return 0.0
    return gain / (floor + max(copies_more(g.home, g.place, p, s, h), 0) * g.size[p])


@leaf
def _list_arrivals(g, h, floor, donors, first, codes):  # type: ignore[no-untyped-def]
    """The donors' replicas that would help `h`, with the gain per byte (negative); returns how many."""
    width = g.place.shape[1]
    size = 0
    for b in donors:
        code = g.head[b]
        while code >= 0:
            p, s = code // width, code % width
            if g.rule[p, MOVABLE]:
                worth = _pull_worth(g, p, s, h, floor)
                if worth > 0.0:
                    first[size], codes[size] = -worth, code
                    size += 1
            code = g.links[code, 0]
    return size


@leaf
def _fetch(g, h, floor, keys, items, targets, size):  # type: ignore[no-untyped-def]
    """Work the queue off while `h` is out of its band; returns how many replicas moved."""
    width = g.place.shape[1]
    changed = 0
    order(keys, items, targets, size)
    while size > 0 and g.worth[h, 0] > NEGLIGIBLE:
        p, s = items[0] // width, items[0] % width
        pressure = pressure_at(g.worth, h)
        worth = _pull_worth(g, p, s, h, floor)
        if worth > 0.0 and worth < STALE * keys[0] * pressure:
            keys[0] = worth / pressure
        else:
            if worth > 0.0:
                move(g, p, s, h)
                changed += 1
            size = drop_first(keys, items, targets, size)
        sink(keys, items, targets, size, 0)
    return changed


@inner
def pull(g, h, floor):  # type: ignore[no-untyped-def]
    """Fetch replicas from brokers that can spare them while `h` is out of its band; returns how many."""
    if g.seat[h, RECEIVES] == 0:
        return 0
    donors = _donors(g, h)
    number = 0
    for b in donors:
        number += count(g.head, g.links, b)
    first = np.empty(number)
    codes = np.empty(number, np.int32)
    size = _list_arrivals(g, h, floor, donors, first, codes)
    ranked = np.argsort(first[:size], kind="mergesort")[: 2 * LONG_LIST]
    keys = -first[ranked] / pressure_at(g.worth, h)
    items = codes[ranked]
    targets = np.full(len(ranked), h, np.int32)
    return _fetch(g, h, floor, keys, items, targets, len(ranked))
