"""Compiled: leaderships given away or taken, which costs no bytes."""

import numpy as np

from trimtab.plan.replicas.board import give_lead, may_take_lead
from trimtab.plan.replicas.trade import burden, gain
from trimtab.plan.search.board import NEGLIGIBLE, count
from trimtab.plan.search.compiled import inner, leaf
from trimtab.plan.search.queue import STALE, drop_first, order, sink


@leaf
def _lead_gain(g, p, s):
    """Fall of potential with guidance if slot `s` took the lead; 0 where it may not or does no good."""
    old = g.lead[p]
    b = g.place[p, s]
    if old < 0 or old == s or b < 0 or not may_take_lead(g.broker_traits, g.initial, g.flags, p, b):
        return 0.0
    return max(gain(g, g.place[p, old], b, 2 * p + 1, 2 * p)[1], 0.0)


@leaf
def _best_lead_change(g, p, s):
    """Best (gain, slot that takes the lead) for a partition that sits on the broker in slot `s`."""
    best = 0.0
    slot = -1
    if not g.movable[p]:
        return best, slot
    if g.lead[p] == s:
        for t in range(g.place.shape[1]):
            found = _lead_gain(g, p, t)
            if found > best:
                best, slot = found, t
    else:
        found = _lead_gain(g, p, s)
        if found > 0.0:
            best, slot = found, s
    return best, slot


@leaf
def _list_leaderships(g, h, keys, items, targets):
    """Fill a queue with the changes of leader that help broker `h`; returns its size."""
    size = 0
    pressure = np.sqrt(burden(g, h))
    code = g.head[h]
    while code >= 0:
        best, slot = _best_lead_change(g, code // g.width, code % g.width)
        if best > 0.0:
            keys[size], items[size], targets[size] = best / pressure, code, slot
            size += 1
        code = g.links[code, 0]
    order(keys, items, targets, size)
    return size


@leaf
def _pull_leaderships(g, h, keys, items, targets, size):
    """Work the queue off while `h` is out of its band; returns how many leaders changed."""
    changed = 0
    while size > 0 and burden(g, h) > NEGLIGIBLE:
        p, s = items[0] // g.width, items[0] % g.width
        best, slot = _best_lead_change(g, p, s)
        pressure = np.sqrt(burden(g, h))
        if best > 0.0 and best < STALE * keys[0] * pressure:
            keys[0], targets[0] = best / pressure, slot
        else:
            if best > 0.0:
                give_lead(g, p, slot)
                changed += 1
            size = drop_first(keys, items, targets, size)
        sink(keys, items, targets, size, 0)
    return changed


@inner
def change_leaders(g, h):
    """Give away or take leaderships, best first, while broker `h` is out of its band; returns how many."""
    number = count(g.head, g.links, h)
    keys = np.empty(number)
    items = np.empty(number, np.int32)
    targets = np.empty(number, np.int32)
    size = _list_leaderships(g, h, keys, items, targets)
    return _pull_leaderships(g, h, keys, items, targets, size)
