"""Compiled: replicas sent away from a broker, best gain per byte first."""

import numpy as np

from trimtab.plan.replicas.candidates import LONG_LIST, STALE, count, nearest, pressure_at
from trimtab.plan.replicas.placement import (
    CENTRE,
    HIGH,
    INVERSE,
    LOW,
    MOVABLE,
    NEGLIGIBLE,
    RECEIVES,
    USAGE,
    WEIGHT,
    WIDE,
    copies_more,
    helps,
    home_slot,
    may_move,
    move,
    value,
)
from trimtab.plan.search.compiled import inner, leaf
from trimtab.plan.search.queue import drop_first, order, sink


@inner
def _destinations(g, h, probe):  # type: ignore[no-untyped-def]
    """The brokers that would bear a probe load best."""
    brokers = len(g.worth)
    keys = np.empty(brokers)
    for b in range(brokers):
        keys[b] = np.inf
        if b == h or g.seat[b, RECEIVES] == 0:
            continue
        key = 0.0
        for r in range(WIDE):
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
    return nearest(g, h, keys)


@leaf
def _best_destination(g, p, s, destinations, floor):  # type: ignore[no-untyped-def]
    """Best (gain per byte, broker) for a slot."""
    best = 0.0
    target = -1
    here = g.place[p, s]
    role = 1 if g.lead[p] == s else 0
    v1, g1 = value(g.use, g.band, here, -1, 0, p, role)
    fall_here = g.worth[here, 0] - v1
    gain_here = fall_here + g.worth[here, 1] - g1
    for b in destinations:
        v2, g2 = value(g.use, g.band, b, p, role, -1, 0)
        fall = fall_here + g.worth[b, 0] - v2
        gain = gain_here + g.worth[b, 0] + g.worth[b, 1] - v2 - g2
        if gain <= 0.0 or not helps(fall, g.worth[here, 0] + g.worth[b, 0]):
            continue
        worth = gain / (floor + max(copies_more(g.home, g.place, p, s, b), 0) * g.size[p])
        if worth > best and may_move(g, p, s, b):
            best, target = worth, b
    return best, target


@leaf
def _list_replicas(g, h, floor, first, codes, probe):  # type: ignore[no-untyped-def]
    """The replicas whose departure would help `h`, with the help per byte (negative), and their mean load."""
    width = g.place.shape[1]
    size = 0
    code = g.head[h]
    while code >= 0:
        p, s = code // width, code % width
        if g.rule[p, MOVABLE]:
            role = 1 if g.lead[p] == s else 0
            fall = g.worth[h, 0] - value(g.use, g.band, h, -1, 0, p, role)[0]
            if helps(fall, g.worth[h, 0]):
                copied = g.size[p] if home_slot(g.home, p, h) >= 0 else 0.0
                first[size] = -fall / (floor + copied)
                codes[size] = code
                size += 1
                for r in range(WIDE):
                    probe[r] += g.use[p, role, r]
        code = g.links[code, 0]
    for r in range(WIDE):
        probe[r] /= max(size, 1)
    return size


@leaf
def _list_departures(g, h, floor, ranked, codes, destinations, keys, items, targets):  # type: ignore[no-untyped-def]
    """Fill a queue with the best destination of each replica in `ranked`; returns its size."""
    width = g.place.shape[1]
    size = 0
    for i in ranked:
        worth, b = _best_destination(g, codes[i] // width, codes[i] % width, destinations, floor)
        if b >= 0:
            keys[size], items[size], targets[size] = worth / pressure_at(g.worth, h), codes[i], b
            size += 1
    order(keys, items, targets, size)
    return size


@leaf
def _send_away(g, h, floor, destinations, keys, items, targets, size):  # type: ignore[no-untyped-def]
    """Work the queue off while `h` is out of its band; returns how many replicas moved."""
    width = g.place.shape[1]
    changed = 0
    while size > 0 and g.worth[h, 0] > NEGLIGIBLE:
        p, s = items[0] // width, items[0] % width
        pressure = pressure_at(g.worth, h)
        worth, b = _best_destination(g, p, s, destinations, floor)
        if b >= 0 and worth < STALE * keys[0] * pressure:
            keys[0], targets[0] = worth / pressure, b
        else:
            if b >= 0:
                move(g, p, s, b)
                changed += 1
            size = drop_first(keys, items, targets, size)
        sink(keys, items, targets, size, 0)
    return changed


@inner
def shed(g, h, floor):  # type: ignore[no-untyped-def]
    """Send replicas of `h` away, best gain per byte first, while it is out of its band; returns how many."""
    number = count(g.head, g.links, h)
    first = np.empty(number)
    codes = np.empty(number, np.int32)
    probe = np.zeros(WIDE)
    size = _list_replicas(g, h, floor, first, codes, probe)
    if size == 0:
        return 0
    destinations = _destinations(g, h, probe)
    ranked = np.argsort(first[:size], kind="mergesort")[:LONG_LIST]
    keys = np.empty(len(ranked))
    items = np.empty(len(ranked), np.int32)
    targets = np.empty(len(ranked), np.int32)
    size = _list_departures(g, h, floor, ranked, codes, destinations, keys, items, targets)
    return _send_away(g, h, floor, destinations, keys, items, targets, size)
