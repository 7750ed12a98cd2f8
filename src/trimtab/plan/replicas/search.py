"""Compiled: the descent. Take the broker that is furthest out; shed or fill it; go on until all hold or nothing helps.

For each broker in turn: leaderships out or in (no bytes), then replicas out, then replicas in, best gain per byte first
and each gain computed again when its turn comes, and when none of these helps, exchanges of two replicas.
"""

import numpy as np
from numba import njit

from trimtab.plan.replicas.placement import (
    NEGLIGIBLE,
    copy_bytes,
    give_lead,
    holds,
    may_move,
    may_take_lead,
    move,
    role_of,
    value,
)

CANDIDATES = 12
"""Destinations looked at per group (same rack, anywhere)."""

LONG_LIST = 600
"""Replicas of a broker that are tried against all destinations; the others wait for their turn."""

STALE = 0.8
"""A gain that has fallen below this share of what it was goes back into the queue."""


@njit(cache=True, nogil=True)
def _sift_down(keys, items, targets, size, i):  # type: ignore[no-untyped-def]
    while True:
        child = 2 * i + 1
        if child >= size:
            return
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if keys[child] <= keys[i]:
            return
        keys[i], keys[child] = keys[child], keys[i]
        items[i], items[child] = items[child], items[i]
        targets[i], targets[child] = targets[child], targets[i]
        i = child


@njit(cache=True, nogil=True)
def _heapify(keys, items, targets, size):  # type: ignore[no-untyped-def]
    for i in range(size // 2 - 1, -1, -1):
        _sift_down(keys, items, targets, size, i)


@njit(cache=True, nogil=True)
def _lead_gain(a, limits, state, p, s):  # type: ignore[no-untyped-def]
    """Fall of (potential, with guidance) if slot `s` took the lead; (0, 0) where it may not."""
    old = state.lead[p]
    b = state.place[p, s]
    if old < 0 or old == s or b < 0 or not a.movable[p] or not may_take_lead(a, p, b):
        return 0.0, 0.0
    here = state.place[p, old]
    v0, g0 = value(a, limits, state.usage, here, -1, 0, -1, 0)
    v1, g1 = value(a, limits, state.usage, here, p, 0, p, 1)
    v2, g2 = value(a, limits, state.usage, b, -1, 0, -1, 0)
    v3, g3 = value(a, limits, state.usage, b, p, 1, p, 0)
    fall = v0 + v2 - v1 - v3
    return fall, fall + g0 + g2 - g1 - g3


@njit(cache=True, nogil=True)
def _move_gain(a, limits, state, p, s, b):  # type: ignore[no-untyped-def]
    """Fall of (potential, with guidance) if the slot went to `b`; rules are not looked at."""
    here = state.place[p, s]
    role = role_of(state, p, s)
    v0, g0 = value(a, limits, state.usage, here, -1, 0, -1, 0)
    v1, g1 = value(a, limits, state.usage, here, -1, 0, p, role)
    v2, g2 = value(a, limits, state.usage, b, -1, 0, -1, 0)
    v3, g3 = value(a, limits, state.usage, b, p, role, -1, 0)
    fall = v0 + v2 - v1 - v3
    return fall, fall + g0 + g2 - g1 - g3


@njit(cache=True, nogil=True)
def _per_byte(gain, copied, floor):  # type: ignore[no-untyped-def]
    """Worth of a gain: moving home earns bytes, so it counts as free."""
    return gain / (floor + max(copied, 0.0))


@njit(cache=True, nogil=True)
def _leaderships(a, limits, state, h):  # type: ignore[no-untyped-def]
    """Give away or take leaderships, best first, while broker `h` is out of its band."""
    width = state.place.shape[1]
    number = 0
    code = state.head[h]
    while code >= 0:
        number += 1
        code = state.following[code]
    keys = np.empty(number)
    items = np.empty(number, np.int32)
    targets = np.empty(number, np.int32)
    size = 0
    code = state.head[h]
    while code >= 0:
        p, s = code // width, code % width
        gain, slot = _best_lead_change(a, limits, state, p, s)
        if gain > 0.0:
            keys[size], items[size], targets[size] = gain, code, slot
            size += 1
        code = state.following[code]
    _heapify(keys, items, targets, size)
    changed = 0
    while size > 0 and state.potential[h] > NEGLIGIBLE:
        p, s = items[0] // width, items[0] % width
        gain, slot = _best_lead_change(a, limits, state, p, s)
        if gain <= 0.0:
            size -= 1
            keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
        elif gain < STALE * keys[0]:
            keys[0], targets[0] = gain, slot
        else:
            give_lead(a, limits, state, p, slot)
            changed += 1
            size -= 1
            keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
        _sift_down(keys, items, targets, size, 0)
    return changed


@njit(cache=True, nogil=True)
def _best_lead_change(a, limits, state, p, s):  # type: ignore[no-untyped-def]
    """Best (gain, slot that takes the lead) for the partition that sits on the broker in slot `s`."""
    best = 0.0
    slot = -1
    if state.lead[p] == s:
        for t in range(state.place.shape[1]):
            fall, worth = _lead_gain(a, limits, state, p, t)
            if fall > NEGLIGIBLE and worth > best:
                best, slot = worth, t
    else:
        fall, worth = _lead_gain(a, limits, state, p, s)
        if fall > NEGLIGIBLE and worth > 0.0:
            best, slot = worth, s
    return best, slot


@njit(cache=True, nogil=True)
def _destinations(a, limits, state, h, probe):  # type: ignore[no-untyped-def]
    """The brokers that would bear a probe load best: some of `h`'s rack, some of any."""
    brokers = len(state.potential)
    keys = np.empty(brokers)
    for b in range(brokers):
        keys[b] = np.inf
        if b == h or not a.may_receive[b]:
            continue
        key = 0.0
        for r in range(state.usage.shape[1]):
            weight = limits.weight[b, r]
            if weight == 0.0:
                continue
            level = state.usage[b, r] + probe[r] * a.inverse[b, r]
            over = max(level - limits.high[b, r], 0.0)
            old = max(state.usage[b, r] - limits.high[b, r], 0.0)
            under = max(limits.low[b, r] - level, 0.0)
            lack = max(limits.low[b, r] - state.usage[b, r], 0.0)
            off = level - limits.centre[b, r]
            was = state.usage[b, r] - limits.centre[b, r]
            key += weight * (
                over * over - old * old + under * under - lack * lack + 0.1 * (off * off - was * was)
            )
        keys[b] = key
    order = np.argsort(keys, kind="mergesort")
    chosen = np.empty(2 * CANDIDATES, np.int32)
    size = 0
    near = 0
    far = 0
    for b in order:
        if keys[b] == np.inf:
            break
        if a.rack[b] == a.rack[h]:
            if near < CANDIDATES:
                near += 1
                chosen[size] = b
                size += 1
        elif far < CANDIDATES:
            far += 1
            chosen[size] = b
            size += 1
        if near == CANDIDATES and far == CANDIDATES:
            break
    return chosen[:size]


@njit(cache=True, nogil=True)
def _best_destination(a, limits, state, p, s, destinations, floor):  # type: ignore[no-untyped-def]
    """Best (worth per byte, broker) for a slot."""
    best = 0.0
    target = -1
    for b in destinations:
        if not may_move(a, state, p, s, b):
            continue
        fall, gain = _move_gain(a, limits, state, p, s, b)
        if fall <= NEGLIGIBLE or gain <= 0.0:
            continue
        worth = _per_byte(gain, copy_bytes(a, state, p, s, b), floor)
        if worth > best:
            best, target = worth, b
    return best, target


@njit(cache=True, nogil=True)
def _shed(a, limits, state, h, floor):  # type: ignore[no-untyped-def]
    """Send replicas of `h` away, best gain per byte first, while it is out of its band."""
    width = state.place.shape[1]
    number = 0
    code = state.head[h]
    while code >= 0:
        number += 1
        code = state.following[code]
    first = np.empty(number)
    codes = np.empty(number, np.int32)
    probe = np.zeros(state.usage.shape[1])
    base = state.potential[h]
    size = 0
    code = state.head[h]
    while code >= 0:
        p, s = code // width, code % width
        if a.movable[p]:
            role = role_of(state, p, s)
            fall = base - value(a, limits, state.usage, h, -1, 0, p, role)[0]
            if fall > NEGLIGIBLE:
                first[size] = -fall / (floor + a.size[p])
                codes[size] = code
                size += 1
                for r in range(len(probe)):
                    probe[r] += a.use[role, p, r]
        code = state.following[code]
    if size == 0:
        return 0
    for r in range(len(probe)):
        probe[r] /= size
    order = np.argsort(first[:size], kind="mergesort")[:LONG_LIST]
    destinations = _destinations(a, limits, state, h, probe)
    keys = np.empty(len(order))
    items = np.empty(len(order), np.int32)
    targets = np.empty(len(order), np.int32)
    size = 0
    for i in order:
        p, s = codes[i] // width, codes[i] % width
        worth, b = _best_destination(a, limits, state, p, s, destinations, floor)
        if b >= 0:
            keys[size], items[size], targets[size] = worth, codes[i], b
            size += 1
    _heapify(keys, items, targets, size)
    changed = 0
    while size > 0 and state.potential[h] > NEGLIGIBLE:
        p, s = items[0] // width, items[0] % width
        worth, b = _best_destination(a, limits, state, p, s, destinations, floor)
        if b < 0:
            size -= 1
            keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
        elif worth < STALE * keys[0]:
            keys[0], targets[0] = worth, b
        else:
            move(a, limits, state, p, s, b)
            changed += 1
            size -= 1
            keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
        _sift_down(keys, items, targets, size, 0)
    return changed


@njit(cache=True, nogil=True)
def _donors(a, limits, state, h):  # type: ignore[no-untyped-def]
    """The brokers that can best spare what `h` lacks: some of its rack, some of any."""
    brokers = len(state.potential)
    keys = np.empty(brokers)
    for b in range(brokers):
        keys[b] = np.inf
        if b == h:
            continue
        key = 0.0
        for r in range(state.usage.shape[1]):
            weight = limits.weight[b, r]
            if weight == 0.0 or limits.weight[h, r] == 0.0:
                continue
            lack = max(limits.low[h, r] - state.usage[h, r], 0.0)
            key -= weight * lack * (state.usage[b, r] - limits.low[b, r])
        keys[b] = key
    order = np.argsort(keys, kind="mergesort")
    chosen = np.empty(2 * CANDIDATES, np.int32)
    size = 0
    near = 0
    far = 0
    for b in order:
        if keys[b] == np.inf:
            break
        if a.rack[b] == a.rack[h]:
            if near < CANDIDATES:
                near += 1
                chosen[size] = b
                size += 1
        elif far < CANDIDATES:
            far += 1
            chosen[size] = b
            size += 1
    return chosen[:size]


@njit(cache=True, nogil=True)
def _pull_worth(a, limits, state, p, s, h, floor):  # type: ignore[no-untyped-def]
    if not may_move(a, state, p, s, h):
        return 0.0
    fall, gain = _move_gain(a, limits, state, p, s, h)
    if fall <= NEGLIGIBLE or gain <= 0.0:
        return 0.0
    return _per_byte(gain, copy_bytes(a, state, p, s, h), floor)


@njit(cache=True, nogil=True)
def _pull(a, limits, state, h, floor):  # type: ignore[no-untyped-def]
    """Fetch replicas from brokers that can spare them while `h` is out of its band."""
    if not a.may_receive[h]:
        return 0
    width = state.place.shape[1]
    donors = _donors(a, limits, state, h)
    number = 0
    for b in donors:
        code = state.head[b]
        while code >= 0:
            number += 1
            code = state.following[code]
    keys = np.empty(number)
    items = np.empty(number, np.int32)
    targets = np.empty(number, np.int32)
    size = 0
    for b in donors:
        code = state.head[b]
        while code >= 0:
            p, s = code // width, code % width
            if a.movable[p]:
                worth = _pull_worth(a, limits, state, p, s, h, floor)
                if worth > 0.0:
                    keys[size], items[size], targets[size] = worth, code, h
                    size += 1
            code = state.following[code]
    _heapify(keys, items, targets, size)
    changed = 0
    while size > 0 and state.potential[h] > NEGLIGIBLE:
        p, s = items[0] // width, items[0] % width
        worth = _pull_worth(a, limits, state, p, s, h, floor)
        if worth > 0.0 and worth < STALE * keys[0]:
            keys[0] = worth
        else:
            if worth > 0.0:
                move(a, limits, state, p, s, h)
                changed += 1
            size -= 1
            keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
        _sift_down(keys, items, targets, size, 0)
    return changed


@njit(cache=True, nogil=True)
def _may_swap(a, state, p, s, q, t):  # type: ignore[no-untyped-def]
    """Whether slot (p, s) and slot (q, t) may exchange their brokers."""
    return may_move(a, state, p, s, state.place[q, t]) and may_move(a, state, q, t, state.place[p, s])


@njit(cache=True, nogil=True)
def _exchange(a, limits, state, h, floor, breadth, partners):  # type: ignore[no-untyped-def]
    """The best exchange of one replica of `h` against one of another broker, if any makes the potential fall."""
    width = state.place.shape[1]
    brokers = len(state.potential)
    mine = _sample(a, state, h, breadth)
    if len(mine) == 0:
        return 0
    keys = np.empty(brokers)
    for b in range(brokers):
        # Opposite to h is good: the product of the two distances from the mean, most negative first.
        key = 0.0
        for r in range(state.usage.shape[1]):
            key += (
                limits.weight[h, r]
                * (state.usage[h, r] - limits.centre[h, r])
                * (state.usage[b, r] - limits.centre[b, r])
            )
        keys[b] = np.inf if b == h else key
    order = np.argsort(keys, kind="mergesort")
    best = 0.0
    best_mine = -1
    best_other = -1
    tried = 0
    for b in order:
        if tried >= partners or b == h:
            break
        tried += 1
        v0, g0 = value(a, limits, state.usage, h, -1, 0, -1, 0)
        w0, k0 = value(a, limits, state.usage, b, -1, 0, -1, 0)
        others = _sample(a, state, b, breadth)
        for x in mine:
            p, s = x // width, x % width
            for y in others:
                q, t = y // width, y % width
                if p == q:
                    continue
                rp = role_of(state, p, s)
                rq = role_of(state, q, t)
                v1, g1 = value(a, limits, state.usage, h, q, rq, p, rp)
                if v1 >= v0 + w0:
                    continue
                w1, k1 = value(a, limits, state.usage, b, p, rp, q, rq)
                fall = v0 + w0 - v1 - w1
                if fall <= NEGLIGIBLE:
                    continue
                copied = copy_bytes(a, state, p, s, b) + copy_bytes(a, state, q, t, h)
                worth = _per_byte(fall, copied, floor)
                if worth > best and _may_swap(a, state, p, s, q, t):
                    best, best_mine, best_other = worth, x, y
    if best_mine < 0:
        return 0
    p, s = best_mine // width, best_mine % width
    q, t = best_other // width, best_other % width
    b = state.place[q, t]
    move(a, limits, state, p, s, b)
    move(a, limits, state, q, t, h)
    return 1


@njit(cache=True, nogil=True)
def _sample(a, state, b, breadth):  # type: ignore[no-untyped-def]
    """Up to `breadth` movable replicas of a broker, evenly taken from its list."""
    width = state.place.shape[1]
    number = 0
    code = state.head[b]
    while code >= 0:
        if a.movable[code // width]:
            number += 1
        code = state.following[code]
    stride = max(1, number // breadth)
    chosen = np.empty(min(number, breadth + 1), np.int32)
    size = 0
    seen = 0
    code = state.head[b]
    while code >= 0:
        if a.movable[code // width]:
            if seen % stride == 0 and size < len(chosen):
                chosen[size] = code
                size += 1
            seen += 1
        code = state.following[code]
    return chosen[:size]


@njit(cache=True, nogil=True)
def level(a, limits, state, floor, rounds):  # type: ignore[no-untyped-def]
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
    brokers = len(state.potential)
    stuck = np.zeros(brokers, np.bool_)
    breadth, partners = 64, 8
    changed_since = 0
    while True:
        h = -1
        worst = NEGLIGIBLE
        for b in range(brokers):
            if not stuck[b] and state.potential[b] > worst:
                h, worst = b, state.potential[b]
        if h < 0:
            if changed_since == 0 or rounds <= 0:
                break
            rounds -= 1
            changed_since = 0
            stuck[:] = False
            continue
        changed = _leaderships(a, limits, state, h)
        if state.potential[h] > NEGLIGIBLE:
            changed += _shed(a, limits, state, h, floor)
        if state.potential[h] > NEGLIGIBLE:
            changed += _pull(a, limits, state, h, floor)
        if changed == 0:
            changed = _exchange(a, limits, state, h, floor, breadth, partners)
        if changed == 0:
            stuck[h] = True
        else:
            changed_since += changed
    left = 0
    for b in range(brokers):
        left += state.potential[b] > NEGLIGIBLE
    return left


@njit(cache=True, nogil=True)
def send_home(a, limits, state, order):  # type: ignore[no-untyped-def]
    """Undo every move and leadership that the goals do not need, in the given order of partitions.

    Returns
    -------
    int
        How many were undone.
    """
    width = state.place.shape[1]
    undone = 0
    for p in order:
        for s in range(width):
            home = a.home[p, s]
            here = state.place[p, s]
            if here < 0 or here == home or a.leaving[p, s] or holds(state, p, home):
                continue
            if not may_move(a, state, p, s, home):
                continue
            fall, _ = _move_gain(a, limits, state, p, s, home)
            if fall >= 0.0:
                move(a, limits, state, p, s, home)
                undone += 1
    return undone


@njit(cache=True, nogil=True)
def leads_home(a, limits, state, order, home_lead):  # type: ignore[no-untyped-def]
    """Give leaderships back where the goals do not need the change; returns how many."""
    undone = 0
    for p in order:
        s = home_lead[p]
        if s < 0 or state.lead[p] == s or state.lead[p] < 0 or state.place[p, s] != a.home[p, s]:
            continue
        b = state.place[p, s]
        if not may_take_lead(a, p, b):
            continue
        old = state.lead[p]
        here = state.place[p, old]
        before = state.potential[here] + state.potential[b]
        after = (
            value(a, limits, state.usage, here, p, 0, p, 1)[0]
            + value(a, limits, state.usage, b, p, 1, p, 0)[0]
        )
        if after <= before:
            give_lead(a, limits, state, p, s)
            undone += 1
    return undone
