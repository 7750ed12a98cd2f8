"""Compiled: the descent.

Take the broker that is furthest out; shed or fill it; go on until all hold or nothing helps. For each broker
in turn: leaderships out or in (no bytes), then replicas out, then replicas in, best gain per byte first and
each gain computed again when its turn comes; when none of these helps, the best exchange of two replicas.
"""

import numpy as np

from trimtab.plan.replicas.compiled import entry, inner, leaf
from trimtab.plan.replicas.placement import (
    CENTRE,
    HIGH,
    INVERSE,
    LEAVING,
    LOW,
    MOVABLE,
    NEGLIGIBLE,
    RACK,
    RECEIVES,
    USAGE,
    WEIGHT,
    WIDE,
    copies_more,
    give_lead,
    helps,
    holds,
    home_slot,
    may_move,
    may_take_lead,
    move,
    value,
)
from trimtab.plan.replicas.queue import drop_first, order, sink

CANDIDATES = 12
"""Destinations looked at per group (same rack, any other)."""

LONG_LIST = 400
"""Replicas of a broker that are tried against all destinations; the others wait for their turn."""

STALE = 0.8
"""A gain that has fallen below this share of what it was goes back into the queue."""

BREADTH, PARTNERS = 64, 8
"""Exchanges looked at: so many replicas of each side, so many brokers on the other side."""

VISITS = 40
"""Most visits a broker on average: a descent in ever smaller steps is not worth its time."""


@leaf
def _lead_gain(g, p, s):  # type: ignore[no-untyped-def]
    """Fall of potential with guidance if slot `s` took the lead; 0 where it may not, or where it does no
    good.
    """
    old = g.lead[p]
    b = g.place[p, s]
    if old < 0 or old == s or b < 0 or not may_take_lead(g.seat, g.home, g.flags, p, b):
        return 0.0
    here = g.place[p, old]
    v1, g1 = value(g.use, g.band, here, p, 0, p, 1)
    v2, g2 = value(g.use, g.band, b, p, 1, p, 0)
    fall = g.worth[here, 0] + g.worth[b, 0] - v1 - v2
    if not helps(fall, g.worth[here, 0] + g.worth[b, 0]):
        return 0.0
    return max(fall + g.worth[here, 1] + g.worth[b, 1] - g1 - g2, 0.0)


@leaf
def _best_lead_change(g, p, s):  # type: ignore[no-untyped-def]
    """Best (gain, slot that takes the lead) for a partition that sits on the broker in slot `s`."""
    best = 0.0
    slot = -1
    if g.rule[p, MOVABLE] == 0:
        return best, slot
    if g.lead[p] == s:
        for t in range(g.place.shape[1]):
            gain = _lead_gain(g, p, t)
            if gain > best:
                best, slot = gain, t
    else:
        gain = _lead_gain(g, p, s)
        if gain > 0.0:
            best, slot = gain, s
    return best, slot


@leaf
def _pressure(worth, h):  # type: ignore[no-untyped-def]
    """Root of the potential: what all gains at `h` shrink with as it nears its band, so that queues stay in
    order.
    """
    return np.sqrt(worth[h, 0])


@leaf
def _count(head, links, b):  # type: ignore[no-untyped-def]
    number = 0
    code = head[b]
    while code >= 0:
        number += 1
        code = links[code, 0]
    return number


@leaf
def _list_leaderships(g, h, keys, items, targets):  # type: ignore[no-untyped-def]
    """Fill a queue with the changes of leader that help broker `h`; returns its size."""
    width = g.place.shape[1]
    size = 0
    code = g.head[h]
    while code >= 0:
        gain, slot = _best_lead_change(g, code // width, code % width)
        if gain > 0.0:
            keys[size], items[size], targets[size] = gain / _pressure(g.worth, h), code, slot
            size += 1
        code = g.links[code, 0]
    order(keys, items, targets, size)
    return size


@leaf
def _take_leaderships(g, h, keys, items, targets, size):  # type: ignore[no-untyped-def]
    """Work the queue off while `h` is out of its band; returns how many leaders changed."""
    width = g.place.shape[1]
    changed = 0
    while size > 0 and g.worth[h, 0] > NEGLIGIBLE:
        p, s = items[0] // width, items[0] % width
        gain, slot = _best_lead_change(g, p, s)
        pressure = _pressure(g.worth, h)
        if gain > 0.0 and gain < STALE * keys[0] * pressure:
            keys[0], targets[0] = gain / pressure, slot
        else:
            if gain > 0.0:
                give_lead(g, p, slot)
                changed += 1
            size = drop_first(keys, items, targets, size)
        sink(keys, items, targets, size, 0)
    return changed


@inner
def _leaderships(g, h):  # type: ignore[no-untyped-def]
    """Give away or take leaderships, best first, while broker `h` is out of its band; returns how many."""
    number = _count(g.head, g.links, h)
    keys = np.empty(number)
    items = np.empty(number, np.int32)
    targets = np.empty(number, np.int32)
    size = _list_leaderships(g, h, keys, items, targets)
    return _take_leaderships(g, h, keys, items, targets, size)


@inner
def _nearest(g, h, keys):  # type: ignore[no-untyped-def]
    """The brokers of smallest key: so many of `h`'s rack, so many of any other; infinite keys never."""
    chosen = np.empty(2 * CANDIDATES, np.int32)
    size = 0
    near = 0
    far = 0
    for b in np.argsort(keys, kind="mergesort"):
        if keys[b] == np.inf or (near == CANDIDATES and far == CANDIDATES):
            break
        if g.seat[b, RACK] == g.seat[h, RACK]:
            if near == CANDIDATES:
                continue
            near += 1
        else:
            if far == CANDIDATES:
                continue
            far += 1
        chosen[size] = b
        size += 1
    return chosen[:size]


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
    return _nearest(g, h, keys)


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
            keys[size], items[size], targets[size] = worth / _pressure(g.worth, h), codes[i], b
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
        pressure = _pressure(g.worth, h)
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
def _shed(g, h, floor):  # type: ignore[no-untyped-def]
    """Send replicas of `h` away, best gain per byte first, while it is out of its band; returns how many."""
    number = _count(g.head, g.links, h)
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
    return _nearest(g, h, keys)


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
        pressure = _pressure(g.worth, h)
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
def _pull(g, h, floor):  # type: ignore[no-untyped-def]
    """Fetch replicas from brokers that can spare them while `h` is out of its band; returns how many."""
    if g.seat[h, RECEIVES] == 0:
        return 0
    donors = _donors(g, h)
    number = 0
    for b in donors:
        number += _count(g.head, g.links, b)
    first = np.empty(number)
    codes = np.empty(number, np.int32)
    size = _list_arrivals(g, h, floor, donors, first, codes)
    ranked = np.argsort(first[:size], kind="mergesort")[: 2 * LONG_LIST]
    keys = -first[ranked] / _pressure(g.worth, h)
    items = codes[ranked]
    targets = np.full(len(ranked), h, np.int32)
    return _fetch(g, h, floor, keys, items, targets, len(ranked))


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
def _exchange(g, h, floor):  # type: ignore[no-untyped-def]
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


@entry
def level(g, floor, rounds):  # type: ignore[no-untyped-def]
    """Make the potentials fall until all are negligible or no change of one or two replicas helps.

    Parameters
    ----------
    floor
        Bytes that a move is deemed to cost besides its copy, so that fewer moves win among equals.
    rounds
        How often brokers that found no help are tried again after others have changed.

    Returns
    -------
    int
        How many brokers are still out of their band.
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
        changed = _leaderships(g, h)
        if g.worth[h, 0] > NEGLIGIBLE:
            changed += _shed(g, h, floor)
        if g.worth[h, 0] > NEGLIGIBLE:
            changed += _pull(g, h, floor)
        if changed == 0:
            changed = 1 if _exchange(g, h, floor) else 0
        if changed == 0:
            stuck[h] = True
        changed_since += changed
    left = 0
    for b in range(brokers):
        left += g.worth[b, 0] > NEGLIGIBLE
    return left


@entry
def send_home(g, order, home_lead):  # type: ignore[no-untyped-def]
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
            home = g.home[p, s]
            here = g.place[p, s]
            if here < 0 or here == home or g.flags[p, s] & LEAVING or holds(g.place, p, home):
                continue
            if not may_move(g, p, s, home):
                continue
            role = 1 if g.lead[p] == s else 0
            after = value(g.use, g.band, here, -1, 0, p, role)[0]
            after += value(g.use, g.band, home, p, role, -1, 0)[0]
            if after <= g.worth[here, 0] + g.worth[home, 0]:
                move(g, p, s, home)
                undone += 1
    for p in order:
        s = home_lead[p]
        old = g.lead[p]
        if s < 0 or old < 0 or old == s or g.place[p, s] != g.home[p, s]:
            continue
        b = g.place[p, s]
        if not may_take_lead(g.seat, g.home, g.flags, p, b):
            continue
        here = g.place[p, old]
        after = value(g.use, g.band, here, p, 0, p, 1)[0] + value(g.use, g.band, b, p, 1, p, 0)[0]
        if after <= g.worth[here, 0] + g.worth[b, 0]:
            give_lead(g, p, s)
            undone += 1
    return undone
