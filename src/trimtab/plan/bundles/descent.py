"""Compiled: the search for an even ownership: unowned bundles, the descent, reverts, random changes.

The descent sheds or fills the broker that is furthest outside its band, best gain per disturbed client first.
It ends when all goals hold or no change helps. When neither shedding nor filling helps, two bundles are
exchanged.

The descent stops where no change of one or two bundles helps. In a small cluster with a few heavy bundles
that is soon, and the better ownership lies several changes away, each of which makes things worse at first.
Such ownerships are found by simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983).
"""

import numpy as np

from trimtab.plan.bundles.board import crowd, may_be_on, may_move, move
from trimtab.plan.search.board import (
    LONG_LIST,
    NEGLIGIBLE,
    STALE,
    VISITS,
    accepted,
    count,
    donors,
    drop_first,
    helps,
    next_broker,
    opposites,
    order_queue,
    pressure_at,
    sample,
    sink,
    takers,
    value,
)
from trimtab.plan.search.compiled import entry, inner, leaf

CANDIDATES = 24
"""Number of brokers that are examined on the other side."""


@leaf
def price(g, i, b, floor):
    """Cost of moving the bundle to `b`: disturbed clients, plus `floor` for the move; zero for a return to
    its owner in the snapshot.

    A bundle that was already moved, or must move, costs no more for another destination.
    """
    moved = g.place[i] != g.fixed.initial[i] or g.fixed.must[i]
    return floor if moved or b == g.fixed.initial[i] else floor + g.fixed.cost[i]


@leaf
def _best_target(g, i, targets, floor):
    """Best (gain per client, broker) for a bundle among some destinations."""
    best = 0.0
    target = -1
    here = g.place[i]
    v1, g1 = value(g.use, g.band, here, -1, i)
    # The giving side is the same for all targets and is valued once.
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
        worth, b = _best_target(g, i, targets, floor)
        if b >= 0:
            keys[size], items[size], goals[size] = worth / pressure_at(g.potentials, h), i, b
            size += 1
    order_queue(keys, items, goals, size)
    changed = 0
    while size > 0 and g.potentials[h, 0] > NEGLIGIBLE:
        i = items[0]
        pressure = pressure_at(g.potentials, h)
        worth, b = _best_target(g, i, targets, floor)
        # Gains are computed again when an entry is taken, not after each change. An entry whose gain has
        # fallen much is queued again, so that better ones precede it.
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
    # One ranking of the destinations for all bundles, by their mean load: a ranking for each bundle would
    # cost more than it gains.
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
                worth = _best_target(g, i, here, floor)[0]
                if worth > 0.0:
                    gains[size], found[size] = -worth, i
                    size += 1
            i = g.links[i, 0]
    ranked = np.argsort(gains[:size], kind="mergesort")[: 2 * LONG_LIST]
    return _work_off(g, h, found[ranked], here, floor)


@entry
def place_homeless(g, order):
    """Assign each bundle of `order`, biggest first, to the broker with the least harm; returns the number
    without a broker.
    """
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
            # Anti-affinity precedes load: the descent can move badly placed bundles later, and respects these
            # counts.
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
                # The other side cannot fall below 0, so it need not be valued.
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
        Fixed cost of a move in clients, in addition to disturbed clients, so that fewer moves win among
        equals.
    rounds
        Number of times that stuck brokers are tried again after others have changed.
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
        # Pairs are many: they are examined only if no single move helps.
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
        Bundles, those with most clients first: reverting a large one saves more than the small ones that it
        blocks.
    """
    undone = 0
    for i in order:
        here, home = g.place[i], g.fixed.initial[i]
        if here == home or home < 0 or here < 0 or not may_move(g, i, home):
            continue
        after = value(g.use, g.band, here, -1, i)[0] + value(g.use, g.band, home, i, -1)[0]
        # A tie is reverted as well: it spares the clients of the bundle.
        if after <= g.potentials[here, 0] + g.potentials[home, 0]:
            move(g, i, home)
            undone += 1
    return undone


@entry
def cheapen(g, order):
    """Move a cheaper bundle of the same broker instead if the result is as good; returns the number of
    replacements.

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
                # The giving side first: most pairs fail there, and the other need not be valued.
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


SINGLE = 0.5
"""Share of the changes tried that move one bundle; the rest are exchanges."""


@leaf
def _price_rise(g, i, b, dear):
    """Weight of the further clients disturbed if the bundle goes to `b`."""
    if g.fixed.must[i]:
        return 0.0
    return dear[i] * ((b != g.fixed.initial[i]) * 1.0 - (g.place[i] != g.fixed.initial[i]) * 1.0)


@entry
def anneal(g, dear, heats, chances):
    """Try one random change per row of `chances`.

    Parameters
    ----------
    dear
        Shape (bundles,): weight of unloading the bundle, in units of the potential.
    heats
        Shape (changes,): how much worse a change may make things, with odds 1 : e; it should fall.
    chances
        Shape (changes, 4): uniform in [0, 1).
    """
    bundles, brokers = len(g.place), len(g.potentials)
    for k in range(len(chances)):
        i = int(chances[k, 1] * bundles)
        here = g.place[i]
        if not g.movable[i] or here < 0:
            continue
        if chances[k, 0] < SINGLE:
            b = int(chances[k, 2] * brokers)
            if b == here:
                continue
            after = value(g.use, g.band, here, -1, i)[0] + value(g.use, g.band, b, i, -1)[0]
            rise = after - g.potentials[here, 0] - g.potentials[b, 0] + _price_rise(g, i, b, dear)
            if accepted(rise, heats[k], chances[k, 3]) and may_move(g, i, b):
                move(g, i, b)
            continue
        j = int(chances[k, 2] * bundles)
        b = g.place[j]
        if not g.movable[j] or b < 0 or b == here:
            continue
        after = value(g.use, g.band, here, j, i)[0] + value(g.use, g.band, b, i, j)[0]
        rise = (
            after
            - g.potentials[here, 0]
            - g.potentials[b, 0]
            + _price_rise(g, i, b, dear)
            + _price_rise(g, j, here, dear)
        )
        if accepted(rise, heats[k], chances[k, 3]) and may_exchange(g, i, j):
            move(g, i, b)
            move(g, j, here)
