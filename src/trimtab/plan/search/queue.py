"""Compiled: a queue of changes by worth, biggest first, kept as a heap in three arrays."""

from trimtab.plan.search.compiled import leaf

LONG_LIST = 400
"""Items of a broker that are tried against all destinations; the others wait for their turn."""

STALE = 0.8
"""A gain that has fallen below this share of what it was goes back into the queue."""


@leaf
def sink(keys, items, targets, size, i):
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
def order(keys, items, targets, size):
    """Make a heap of the first `size` entries."""
    for i in range(size // 2 - 1, -1, -1):
        sink(keys, items, targets, size, i)


@leaf
def drop_first(keys, items, targets, size):
    """Take the biggest entry out; returns the new size. The caller lets the new first entry sink."""
    size -= 1
    keys[0], items[0], targets[0] = keys[size], items[size], targets[size]
    return size
