"""Compiled: the descent, and what goes before and after it.

Take the broker that is furthest out; shed or fill it; go on until all hold or nothing helps. When neither
helps, the best exchange of two bundles.
"""

import numpy as np

from trimtab.plan.bundles.board import crowd, may_be_on, may_move, move
from trimtab.plan.bundles.relief import price, pull, shed
from trimtab.plan.search.board import NEGLIGIBLE, VISITS, helps, next_broker, opposites, sample, value
from trimtab.plan.search.compiled import entry, inner, leaf


@entry
def place_homeless(g, order):
    """Give each bundle of `order`, biggest first, to whom it harms least; returns how many find nobody."""
    left = 0
    for i in order:
        m = g.fixed.member[i]
        best = np.inf
        target = -1
        fewest_around, fewest_on = 1 << 30, 1 << 30
        for b in range(len(g.potentials)):
            if not may_be_on(g, i, b):
                continue
            potential, guidance = value(g.use, g.band, b, i, -1)
            rise = potential + guidance - g.potentials[b, 0] - g.potentials[b, 1]
            around, on = 0, 0
            if m >= 0:
                around, on = crowd(g.held, g.near, g.fixed.group, g.fixed.domain, m, b)
            fewer = around < fewest_around or (around == fewest_around and on < fewest_on)
            if fewer or (around == fewest_around and on == fewest_on and rise < best):
                best, target = rise, b
                fewest_around, fewest_on = around, on
        if target < 0:
            left += 1
        else:
            move(g, i, target)
    return left


@leaf
def may_exchange(g, i, j):
    """True if two bundles may take each other's place.

    Of namespaces of anti-affinity groups, whose counts change under them, only one may take part.
    """
    if g.fixed.member[i] >= 0 and g.fixed.member[j] >= 0:
        return False
    return may_move(g, i, g.place[j]) and may_move(g, j, g.place[i])


@inner
def exchange(g, h, floor):
    """Make the best exchange of a bundle of `h` against one of another broker; returns whether it did."""
    mine = sample(g.head, g.links, g.movable, g.width, h)
    best, best_mine, best_other = 0.0, -1, -1
    for b in opposites(g.band, h):
        both = g.potentials[h, 0] + g.potentials[b, 0]
        others = sample(g.head, g.links, g.movable, g.width, b)
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
def balance(g, floor, rounds):
    """Make the potentials fall until all are negligible or no change of one or two bundles helps.

    Parameters
    ----------
    floor
        Clients that a move is deemed to cost besides those it disturbs, so that fewer moves win among equals.
    rounds
        How often brokers that found no help are tried again after others have changed.
    """
    brokers = len(g.potentials)
    stuck = np.zeros(brokers, np.bool_)
    tries = np.array([rounds, 0])
    for _ in range(VISITS * brokers + 1000):
        h = next_broker(g.potentials, stuck, tries)
        if h < 0:
            break
        changed = shed(g, h, floor)
        if g.potentials[h, 0] > NEGLIGIBLE:
            changed += pull(g, h, floor)
        if changed == 0:
            changed = 1 if exchange(g, h, floor) else 0
        stuck[h] = changed == 0
        tries[1] += changed


@entry
def revert_bundle(g, order):
    """Undo every move that the goals do not need; returns how many.

    Parameters
    ----------
    order
        Bundles, those with most clients first: one that goes home saves more than the small ones that then
        cannot.
    """
    undone = 0
    for i in order:
        here, home = g.place[i], g.fixed.initial[i]
        if here == home or home < 0 or here < 0 or not may_move(g, i, home):
            continue
        after = value(g.use, g.band, here, -1, i)[0] + value(g.use, g.band, home, i, -1)[0]
        if after <= g.potentials[here, 0] + g.potentials[home, 0]:
            move(g, i, home)
            undone += 1
    return undone


@entry
def cheapen(g, order):
    """Move a cheaper bundle of the same broker instead where it does as well; returns how often.

    `order` as for `revert_bundle`.
    """
    swapped = 0
    for i in order:
        here, home = g.place[i], g.fixed.initial[i]
        if here == home or home < 0 or here < 0 or g.fixed.must[i] or g.fixed.member[i] >= 0:
            continue
        both = g.potentials[here, 0] + g.potentials[home, 0]
        best, instead = g.fixed.cost[i], -1
        j = g.head[home]
        while j >= 0:
            if (
                g.movable[j]
                and g.fixed.initial[j] == home
                and g.fixed.cost[j] < best
                and g.fixed.member[j] < 0
            ):
                after = value(g.use, g.band, here, j, i)[0]
                if after <= both:
                    after += value(g.use, g.band, home, i, j)[0]
                    if after <= both and may_be_on(g, j, here):
                        best, instead = g.fixed.cost[j], j
            j = g.links[j, 0]
        if instead >= 0:
            move(g, i, home)
            move(g, instead, here)
            swapped += 1
    return swapped
