"""Compiled: replicas sent away from a broker, or fetched to it, best gain per byte first."""

import numpy as np

from trimtab.plan.replicas.board import RACK, RECEIVES, copies_more, initial_slot, may_move, move, row_of
from trimtab.plan.replicas.partners import fit_donors, fit_takers
from trimtab.plan.replicas.trade import NOTHING, burden, gain, known, relief, side
from trimtab.plan.search.board import NEGLIGIBLE, count, helps
from trimtab.plan.search.compiled import inner, leaf
from trimtab.plan.search.queue import LONG_LIST, STALE, drop_first, order, sink

CANDIDATES = 12
"""Brokers looked at on the other side, per group (same rack, any other)."""

ENOUGH = 10 * LONG_LIST
"""Replicas to choose from for a broker that lacks load; once so many would help, no further giver is read."""


@inner
def _nearest(g, h, keys):
    """The brokers of smallest key: so many of `h`'s rack, then so many of any other; infinite keys never."""
    chosen = np.full(2 * CANDIDATES, -1, np.int32)
    near = 0
    far = CANDIDATES
    for b in np.argsort(keys, kind="mergesort"):
        if keys[b] == np.inf or (near == CANDIDATES and far == 2 * CANDIDATES):
            break
        if g.broker_traits[b, RACK] != g.broker_traits[h, RACK]:
            if far < 2 * CANDIDATES:
                chosen[far] = b
                far += 1
        elif near < CANDIDATES:
            chosen[near] = b
            near += 1
    return chosen[chosen >= 0]


@leaf
def _best_destination(g, p, s, destinations, floor):
    """Best (gain per byte, broker) for a slot."""
    best = 0.0
    target = -1
    here = g.place[p, s]
    row = row_of(g.lead, p, s)
    v1, g1 = side(g, here, NOTHING, row)
    for b in destinations:
        found = known(g, here, b, row, NOTHING, v1, g1)[1]
        if found <= 0.0:
            continue
        worth = found / (floor + max(copies_more(g.initial, g.place, p, s, b), 0) * g.size[p])
        if worth > best and may_move(g, p, s, b):
            best, target = worth, b
    return best, target


@leaf
def _list_replicas(g, h, floor, first, codes, probe):
    """The replicas whose departure would help `h`, with the help per byte (negative), and their mean load."""
    size = 0
    code = g.head[h]
    while code >= 0:
        p, s = code // g.width, code % g.width
        if g.movable[p]:
            row = row_of(g.lead, p, s)
            fall = relief(g, h, row)
            if helps(fall, burden(g, h)):
                copied = g.size[p] if initial_slot(g.initial, p, h) >= 0 else 0.0
                first[size] = -fall / (floor + copied)
                codes[size] = code
                size += 1
                for r in range(len(probe)):
                    probe[r] += g.use[row, r]
        code = g.links[code, 0]
    for r in range(len(probe)):
        probe[r] /= max(size, 1)
    return size


@leaf
def _list_departures(g, h, floor, ranked, codes, destinations, keys, items, targets):
    """Fill a queue with the best destination of each replica in `ranked`; returns its size."""
    size = 0
    pressure = np.sqrt(burden(g, h))
    for i in ranked:
        worth, b = _best_destination(g, codes[i] // g.width, codes[i] % g.width, destinations, floor)
        if b >= 0:
            keys[size], items[size], targets[size] = worth / pressure, codes[i], b
            size += 1
    order(keys, items, targets, size)
    return size


@leaf
def _pull_gain(g, p, s, h, floor):
    """Gain per byte of fetching a slot to `h`; 0 where it does no good or is not allowed."""
    found = gain(g, h, g.place[p, s], NOTHING, row_of(g.lead, p, s))[1]
    if found <= 0.0 or not may_move(g, p, s, h):
        return 0.0
    return found / (floor + max(copies_more(g.initial, g.place, p, s, h), 0) * g.size[p])


@leaf
def _work_off(g, h, floor, destinations, keys, items, targets, size):
    """Work the queue off while `h` is out of its band; returns how many replicas moved.

    Without destinations they are fetched to `h`.
    """
    changed = 0
    while size > 0 and burden(g, h) > NEGLIGIBLE:
        p, s = items[0] // g.width, items[0] % g.width
        pressure = np.sqrt(burden(g, h))
        if len(destinations):
            worth, b = _best_destination(g, p, s, destinations, floor)
        else:
            worth = _pull_gain(g, p, s, h, floor)
            b = h if worth > 0.0 else -1
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
def shed(g, h, floor):
    """Send replicas of `h` away, best gain per byte first, while it is out of its band; returns how many."""
    number = count(g.head, g.links, h)
    first = np.empty(number)
    codes = np.empty(number, np.int32)
    probe = np.zeros(g.band.shape[2])
    size = _list_replicas(g, h, floor, first, codes, probe)
    if size == 0:
        return 0
    destinations = _nearest(g, h, fit_takers(g, h, probe))
    ranked = np.argsort(first[:size], kind="mergesort")[:LONG_LIST]
    keys = np.empty(len(ranked))
    items = np.empty(len(ranked), np.int32)
    targets = np.empty(len(ranked), np.int32)
    size = _list_departures(g, h, floor, ranked, codes, destinations, keys, items, targets)
    return _work_off(g, h, floor, destinations, keys, items, targets, size)


@leaf
def _list_arrivals(g, h, floor, givers, first, codes):
    """The givers' replicas that would help `h`, with the gain per byte (negative); returns how many."""
    size = 0
    for b in givers:
        if size >= ENOUGH:
            break
        code = g.head[b]
        while code >= 0:
            p, s = code // g.width, code % g.width
            if g.movable[p]:
                worth = _pull_gain(g, p, s, h, floor)
                if worth > 0.0:
                    first[size], codes[size] = -worth, code
                    size += 1
            code = g.links[code, 0]
    return size


@inner
def pull(g, h, floor):
    """Fetch replicas from brokers that can spare them while `h` is out of its band; returns how many."""
    if g.broker_traits[h, RECEIVES] == 0:
        return 0
    givers = _nearest(g, h, fit_donors(g, h))
    number = 0
    for b in givers:
        number += count(g.head, g.links, b)
    first = np.empty(number)
    codes = np.empty(number, np.int32)
    size = _list_arrivals(g, h, floor, givers, first, codes)
    ranked = np.argsort(first[:size], kind="mergesort")[: 2 * LONG_LIST]
    keys = -first[ranked] / np.sqrt(burden(g, h))
    items = codes[ranked]
    targets = np.full(len(ranked), h, np.int32)
    order(keys, items, targets, len(ranked))
    return _work_off(g, h, floor, targets[:0], keys, items, targets, len(ranked))
