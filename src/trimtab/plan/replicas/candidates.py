"""Compiled: which brokers and replicas the descent looks at, and in which order."""

import numpy as np

from trimtab.plan.replicas.placement import RACK
from trimtab.plan.search.compiled import inner, leaf

CANDIDATES = 12
"""Destinations looked at per group (same rack, any other)."""

LONG_LIST = 400
"""Replicas of a broker that are tried against all destinations; the others wait for their turn."""

STALE = 0.8
"""A gain that has fallen below this share of what it was goes back into the queue."""


@leaf
def pressure_at(worth, h):  # type: ignore[no-untyped-def]
    """Root of the potential: what all gains at `h` shrink with as it nears its band, so that queues stay in
    order.
    """
    return np.sqrt(worth[h, 0])


@leaf
def count(head, links, b):  # type: ignore[no-untyped-def]
    """How many replicas a broker holds."""
    number = 0
    code = head[b]
    while code >= 0:
        number += 1
        code = links[code, 0]
    return number


@inner
def nearest(g, h, keys):  # type: ignore[no-untyped-def]
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
