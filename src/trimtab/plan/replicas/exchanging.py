"""Compiled: two replicas that change places, for where no single one may or helps."""

import numpy as np

from trimtab.plan.replicas.placement import (
    CENTRE,
    MOVABLE,
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

BREADTH, PARTNERS = 64, 8
"""Exchanges looked at: so many replicas of each side, so many brokers on the other side."""


@inner
def _sample(g, b):  # type: ignore[no-untyped-def]
    """Up to `BREADTH` movable replicas of a broker, evenly taken from its list."""
    width = g.place.shape[1]
    number = 0
    code = g.head[b]
    while code >= 0:
        number += g.rule[code // width, MOVABLE]
        code = g.links[code, 0]
    stride = max(1, number // BREADTH)
    chosen = np.empty(min(number, BREADTH), np.int32)
    size = 0
    seen = 0
    code = g.head[b]
    while code >= 0 and size < len(chosen):
        if g.rule[code // width, MOVABLE]:
            if seen % stride == 0:
                chosen[size] = code
                size += 1
            seen += 1
        code = g.links[code, 0]
    return chosen[:size]


@inner
def _opposites(g, h):  # type: ignore[no-untyped-def]
    """Brokers in order of how far they lie on the other side of the mean than `h`."""
    brokers = len(g.worth)
    keys = np.empty(brokers)
    for b in range(brokers):
        key = 0.0
        for r in range(WIDE):
            mine = g.band[h, USAGE, r] - g.band[h, CENTRE, r]
            key += g.band[h, WEIGHT, r] * mine * (g.band[b, USAGE, r] - g.band[b, CENTRE, r])
        keys[b] = np.inf if b == h else key
    return np.argsort(keys, kind="mergesort")[: min(PARTNERS, brokers - 1)]


@leaf
def _best_pair(g, h, b, floor, mine, others, least):  # type: ignore[no-untyped-def]
    """The exchange between `h` and `b` that is worth most per byte and more than `least`: (worth, code,
    code).
    """
    width = g.place.shape[1]
    both = g.worth[h, 0] + g.worth[b, 0]
    best, best_mine, best_other = least, -1, -1
    for x in mine:
        p, s = x // width, x % width
        rp = 1 if g.lead[p] == s else 0
        for y in others:
            q, t = y // width, y % width
            rq = 1 if g.lead[q] == t else 0
            v1 = value(g.use, g.band, h, q, rq, p, rp)[0]
            if p == q or v1 >= both:
                continue
            fall = both - v1 - value(g.use, g.band, b, p, rp, q, rq)[0]
            if not helps(fall, both):
                continue
            copied = max(copies_more(g.home, g.place, p, s, b), 0) * g.size[p]
            copied += max(copies_more(g.home, g.place, q, t, h), 0) * g.size[q]
            worth = fall / (2 * floor + copied)
            if worth > best and may_move(g, p, s, b) and may_move(g, q, t, h):
                best, best_mine, best_other = worth, x, y
    return best, best_mine, best_other


@inner
def exchange(g, h, floor):  # type: ignore[no-untyped-def]
    """Make the best exchange of a replica of `h` against one of another broker; returns whether there is
    one.
    """
    width = g.place.shape[1]
    mine = _sample(g, h)
    best = 0.0
    best_mine = -1
    best_other = -1
    for b in _opposites(g, h):
        worth, x, y = _best_pair(g, h, b, floor, mine, _sample(g, b), best)
        if x >= 0:
            best, best_mine, best_other = worth, x, y
    if best_mine < 0:
        return False
    q, t = best_other // width, best_other % width
    b = g.place[q, t]
    move(g, best_mine // width, best_mine % width, b)
    move(g, q, t, h)
    return True
