"""Compiled: a queue of changes by worth, biggest first, kept as a heap in three arrays."""

import numpy as np

from trimtab.plan.search.compiled import leaf


@leaf
def sink(keys, items, targets, size, i):  # type: ignore[no-untyped-def]
    """Let entry `i` sink to where it belongs."""
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


@leaf
def order(keys, items, targets, size):  # type: ignore[no-untyped-def]
    """Make a heap of the first `size` entries."""
    for i in range(size // 2 - 1, -1, -1):
        sink(keys, items, targets, size, i)


@leaf
def drop_first(keys, items, targets, size):  # type: ignore[no-untyped-def]
    """Take the biggest entry out; returns the new size. The caller lets the new first entry sink."""
    size -= 1
    keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
    return size


@leaf
def smallest(keys, count):  # type: ignore[no-untyped-def]
    """Indices of the `count` smallest keys, ascending, ties by index."""
    return np.argsort(keys, kind="mergesort")[:count]
