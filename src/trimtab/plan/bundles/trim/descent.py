"""Compiled: the descent, and what goes before and after it.

Take the broker that is furthest out; shed or fill it; go on until all hold or nothing helps. When neither
helps, the best exchange of two bundles.
"""

import numpy as np

from trimtab.plan.bundles.trim.board import (
    CENTRE,
    NEGLIGIBLE,
    USAGE,
    WEIGHT,
    crowd,
    helps,
    may_be_on,
    may_move,
    move,
    value,
)
from trimtab.plan.bundles.trim.relief import price, pull, shed
from trimtab.plan.search.compiled import entry, inner, leaf

VISITS = 40
"""Most visits a broker on average: a descent in ever smaller steps is not worth its time."""

BREADTH, PARTNERS = 64, 8
"""Exchanges looked at: so many bundles of each side, so many brokers on the other side."""


@entry
def place_homeless(g, order):  # type: ignore[no-untyped-def]
    """Give every bundle that must have a broker the one that bears it best; returns how many found none.

    Parameters
    ----------
    order
        Bundles that have to be given one, biggest first.
    """
    left = 0
    for i in order:
        m = g.member[i]
        best = np.inf
        target = -1
        fewest_around, fewest_on = 1 << 30, 1 << 30
        for b in range(len(g.worth)):
            if not may_be_on(g, i, b):
                continue
            potential, guidance = value(g.use, g.band, b, i, -1)
            rise = potential + guidance - g.worth[b, 0] - g.worth[b, 1]
            around, on = 0, 0
            if m >= 0:
                around, on = crowd(g.held, g.near, g.group, g.domain, m, b)
            fewer = around < fewest_around or (around == fewest_around and on < fewest_on)
            if fewer or (around == fewest_around and on == fewest_on and rise < best):
                best, target = rise, b
                fewest_around, fewest_on = around, on
        if target < 0:
            left += 1
        else:
            move(g, i, target)
    return left


@inner
def _sample(g, b):  # type: ignore[no-untyped-def]
    """Up to `BREADTH` movable bundles of a broker, evenly taken from its list."""
    number = 0
    i = g.head[b]
    while i >= 0:
        number += g.movable[i]
        i = g.links[i, 0]
    stride = max(1, number // BREADTH)
    chosen = np.empty(min(number, BREADTH), np.int32)
    size = 0
    seen = 0
    i = g.head[b]
    while i >= 0 and size < len(chosen):
        if g.movable[i]:
            if seen % stride == 0:
                chosen[size] = i
                size += 1
            seen += 1
        i = g.links[i, 0]
    return chosen[:size]


@inner
def _opposites(g, h):  # type: ignore[no-untyped-def]
    """Brokers in order of how far they lie on the other side of the mean than `h`."""
    keys = np.empty(len(g.worth))
    for b in range(len(keys)):
        key = 0.0
        for r in range(g.use.shape[1]):
            mine = g.band[h, USAGE, r] - g.band[h, CENTRE, r]
            key += g.band[h, WEIGHT, r] * mine * (g.band[b, USAGE, r] - g.band[b, CENTRE, r])
        keys[b] = np.inf if b == h else key
    return np.argsort(keys, kind="mergesort")[: min(PARTNERS, len(keys) - 1)]


@leaf
def may_exchange(g, i, j):  # type: ignore[no-untyped-def]
    """Whether two bundles may take each other's place.

    Of namespaces of anti-affinity groups, whose counts change under them, only one may take part.
    """
    if g.member[i] >= 0 and g.member[j] >= 0:
        return False
    return may_move(g, i, g.place[j]) and may_move(g, j, g.place[i])


@inner
def exchange(g, h, floor):  # type: ignore[no-untyped-def]
    """Make the best exchange of a bundle of `h` against one of another broker; returns whether there is
    one.
    """
    mine = _sample(g, h)
    best, best_mine, best_other = 0.0, -1, -1
    for b in _opposites(g, h):
        both = g.worth[h, 0] + g.worth[b, 0]
        others = _sample(g, b)
        for i in mine:
            for j in others:
                after = value(g.use, g.band, h, j, i)[0]
                if after >= both:
                    continue
                fall = both - after - value(g.use, g.band, b, i, j)[0]
                if not helps(fall, both):
                    continue
                worth = fall / (price(g, i, b, floor) + price(g, j, h, floor))
                if worth > best and may_exchange(g, i, j):
                    best, best_mine, best_other = worth, i, j
    if best_mine < 0:
        return False
    b = g.place[best_other]
    move(g, best_mine, b)
    move(g, best_other, h)
    return True


@entry
def level(g, floor, rounds):  # type: ignore[no-untyped-def]
    """Make the potentials fall until all are negligible or no change of one or two bundles helps.

    Parameters
    ----------
    floor
        Clients that a move is deemed to cost besides those it disturbs, so that fewer moves win among equals.
    rounds
        How often brokers that found no help are tried again after others have changed.
    """
    brokers = len(g.worth)
    stuck = np.zeros(brokers, np.bool_)
    changed_since = 0
    for _ in range(VISITS * brokers + 1000):
        h = -1
        worst = NEGLIGIBLE
        for b in range(brokers):
            if not stuck[b] and g.worth[b, 0] > worst:
                h, worst = b, g.worth[b, 0]
        if h < 0:
            if changed_since == 0 or rounds <= 0:
                break
            rounds -= 1
            changed_since = 0
            stuck[:] = False
            continue
        changed = shed(g, h, floor)
        if g.worth[h, 0] > NEGLIGIBLE:
            changed += pull(g, h, floor)
        if changed == 0:
            changed = 1 if exchange(g, h, floor) else 0
        if changed == 0:
            stuck[h] = True
        changed_since += changed


@entry
def send_home(g, order):  # type: ignore[no-untyped-def]
    """Undo every move that the goals do not need; returns how many.

    Parameters
    ----------
    order
        Bundles, those with most clients first: one that goes home saves more than the small ones that then
        cannot.
    """
    undone = 0
    for i in order:
        here, home = g.place[i], g.home[i]
        if here == home or home < 0 or here < 0 or not may_move(g, i, home):
            continue
        after = value(g.use, g.band, here, -1, i)[0] + value(g.use, g.band, home, i, -1)[0]
        if after <= g.worth[here, 0] + g.worth[home, 0]:
            move(g, i, home)
            undone += 1
    return undone


@entry
def cheapen(g, order):  # type: ignore[no-untyped-def]
    """Where a cheaper bundle of the same broker does as well, move that instead; returns how often.

    Parameters
    ----------
    order
        Bundles, those with most clients first.
    """
    swapped = 0
    for i in order:
        here, home = g.place[i], g.home[i]
        if here == home or home < 0 or here < 0 or g.must[i] or g.member[i] >= 0:
            continue
        both = g.worth[here, 0] + g.worth[home, 0]
        best, instead = g.cost[i], -1
        j = g.head[home]
        while j >= 0:
            if g.movable[j] and g.home[j] == home and g.cost[j] < best and g.member[j] < 0:
                after = value(g.use, g.band, here, j, i)[0]
                if after <= both:
                    after += value(g.use, g.band, home, i, j)[0]
                    if after <= both and may_be_on(g, j, here):
                        best, instead = g.cost[j], j
            j = g.links[j, 0]
        if instead >= 0:
            move(g, i, home)
            move(g, instead, here)
            swapped += 1
    return swapped
