"""The log dirs of one broker balanced: which replica lies where, for the fewest bytes copied between them.

What arrives from other brokers is put where it helps, which costs nothing; then replicas that stay move, and
where no single one helps, two change places. What the goals do not need goes back. Few replicas on few dirs
are tried in every combination.
"""

from typing import NamedTuple

import numpy as np

from trimtab.model.load import BoolArray, FloatArray, IntArray

ARRIVING = -1
"""Origin of a replica that comes from another broker."""

COMBINATIONS = 4096
"""The most placements that are all tried."""

EXCHANGED = 200
"""Replicas of a dir, the biggest, that exchanges are tried with."""

REFINED = 60
"""Replicas of a broker, the biggest, that are placed anew a few at a time."""

NEGLIGIBLE = 1e-26
"""Of a breach, a square: what rounding leaves, and less than the judge of a plan forgives."""

THETA_WEIGHT = 100.0


class BrokerDirs(NamedTuple):
    """The dirs of one broker that count; all of shape (dirs,).

    Attributes
    ----------
    fixed
        Bytes of what may not move.
    capacity
        Bytes.
    ceiling
        Most that each may be filled, a fraction: θ, or what it holds now where that is more.
    theta, high, low
        Fractions: what no dir should pass, and the band around the mean.
    """

    fixed: FloatArray
    capacity: FloatArray
    ceiling: FloatArray
    theta: FloatArray
    high: FloatArray
    low: FloatArray


def violation(dirs: BrokerDirs, usage: FloatArray) -> FloatArray:
    """Distance from the goals of the broker's dirs, 0 where all hold; the last axis of `usage` is dirs."""
    above = np.maximum(usage - dirs.theta, 0.0)
    out = np.maximum(usage - dirs.high, 0.0) + np.maximum(dirs.low - usage, 0.0)
    return np.asarray((THETA_WEIGHT * above**2 + out**2).sum(axis=-1))


def placed(dirs: BrokerDirs, size: FloatArray, origin: IntArray) -> IntArray:
    """Dir of every replica, shape (replicas,), as a place among the broker's dirs.

    Parameters
    ----------
    size
        Shape (replicas,), bytes, of those that may move.
    origin
        Shape (replicas,): where each lies, `ARRIVING` for those that come from elsewhere.
    """
    start = _arrived(dirs, size, origin)
    if len(dirs.capacity) ** len(size) <= COMBINATIONS:
        return best_of_all(dirs, size, origin)
    found = [_descended(dirs, size, origin, start, by_byte) for by_byte in (True, False)]
    best = min(found, key=lambda one: _rating(dirs, size, origin, one))
    return _refined(dirs, size, origin, best)


def usage_of(dirs: BrokerDirs, size: FloatArray, context: IntArray) -> FloatArray:
    """How full the dirs are, shape (dirs,)."""
    held = dirs.fixed + np.bincount(context, weights=size, minlength=len(dirs.capacity))
    return np.asarray(held / dirs.capacity)


def best_of_all(dirs: BrokerDirs, size: FloatArray, origin: IntArray) -> IntArray:
    """The best of all placements; for few replicas on few dirs."""
    number, replicas = len(dirs.capacity), len(size)
    every = np.indices((number,) * replicas).reshape(replicas, -1).T if replicas else np.zeros((1, 0), int)
    held = np.stack([((every == d) * size).sum(axis=1) for d in range(number)], axis=1)
    usage = (held + dirs.fixed) / dirs.capacity
    excess = np.maximum(usage - dirs.ceiling, 0.0).sum(axis=1)
    moved = (every != origin) & (origin != ARRIVING)
    far = violation(dirs, usage)
    order = np.lexsort(
        (
            moved.sum(axis=1),
            np.where(moved, size, 0.0).sum(axis=1),
            np.where(far > NEGLIGIBLE, far, 0.0),
            excess,
        )
    )
    return np.asarray(every[order[0]], dtype=np.int32)


def _refined(dirs: BrokerDirs, size: FloatArray, origin: IntArray, context: IntArray) -> IntArray:
    """The same, with a few replicas of like size at a time placed as well as they can be."""
    number = len(dirs.capacity)
    window = int(np.log(COMBINATIONS) / np.log(number) + 1e-9)
    order = np.argsort(-size, kind="stable")[:REFINED]
    if window < 2:
        return context
    rating = _rating(dirs, size, origin, context)
    for stride in (1, max(1, len(order) // window)):
        for first in range(0, max(1, len(order) - window * stride + 1), max(1, window // 2)):
            if rating[1] == 0 and rating[2] == 0:
                return context
            chosen = order[first : first + window * stride : stride]
            rest = np.ones(len(size), dtype=np.bool_)
            rest[chosen] = False
            fixed = dirs.fixed + np.bincount(context[rest], weights=size[rest], minlength=number)
            tried = context.copy()
            tried[chosen] = best_of_all(dirs._replace(fixed=fixed), size[chosen], origin[chosen])
            again = _rating(dirs, size, origin, tried)
            if again < rating:
                context, rating = tried, again
    return context


def _rating(
    dirs: BrokerDirs, size: FloatArray, origin: IntArray, context: IntArray
) -> tuple[float, float, float, int]:
    usage = usage_of(dirs, size, context)
    moved = (context != origin) & (origin != ARRIVING)
    far = float(violation(dirs, usage))
    excess = float(np.maximum(usage - dirs.ceiling, 0.0).sum())
    return excess, far if far > NEGLIGIBLE else 0.0, float(size[moved].sum()), int(moved.sum())


def _arrived(dirs: BrokerDirs, size: FloatArray, origin: IntArray) -> IntArray:
    """All where they are, and what arrives in the dir that is left emptiest, biggest first."""
    where = origin.copy()
    stays = origin != ARRIVING
    held = dirs.fixed + np.bincount(origin[stays], weights=size[stays], minlength=len(dirs.capacity))
    for i in np.argsort(-size, kind="stable").tolist():
        if not stays[i]:
            filled = (held + size[i]) / dirs.capacity
            d = int(np.lexsort((filled, filled > dirs.ceiling))[0])
            where[i] = d
            held[d] += size[i]
    return where


def _descended(
    dirs: BrokerDirs, size: FloatArray, origin: IntArray, start: IntArray, by_byte: bool
) -> IntArray:
    """Single moves, then exchanges, until the goals hold or nothing helps; then back what is not needed.

    Parameters
    ----------
    by_byte
        The best gain for its bytes first, else the best gain.
    """
    where = start.copy()
    usage = usage_of(dirs, size, where)
    for _ in range(4 * len(size) + 16):
        if violation(dirs, usage) <= NEGLIGIBLE:
            break
        chosen = _best_move(dirs, size, origin, where, usage, by_byte) or _best_exchange(
            dirs, size, where, usage
        )
        if not chosen:
            break
        for i, d in chosen:
            where[i] = d
        usage = usage_of(dirs, size, where)
    for i in np.argsort(-size, kind="stable").tolist():
        d, home = int(where[i]), int(origin[i])
        if home in (ARRIVING, d):
            continue
        tried = usage.copy()
        tried[d] -= size[i] / dirs.capacity[d]
        tried[home] += size[i] / dirs.capacity[home]
        far = max(float(violation(dirs, usage)), NEGLIGIBLE)
        if tried[home] <= dirs.ceiling[home] and float(violation(dirs, tried)) <= far:
            where[i], usage = home, tried
    return where


def _best_move(
    dirs: BrokerDirs,
    size: FloatArray,
    origin: IntArray,
    context: IntArray,
    usage: FloatArray,
    by_byte: bool,
) -> list[tuple[int, int]]:
    """The move of one replica that brings the dirs nearest to their goals; empty if none does."""
    one = _each(dirs, usage)
    left = _at(dirs, context, usage[context] - size / dirs.capacity[context]) - one[context]
    best, found = 0.0, []
    for d in range(len(usage)):
        filled = usage[d] + size / dirs.capacity[d]
        gain = -(left + _at(dirs, np.full_like(context, d), filled) - one[d])
        may = (context != d) & (size > 0) & (filled <= dirs.ceiling[d]) & (gain > NEGLIGIBLE)
        if not may.any():
            continue
        paid = np.where((origin != ARRIVING) & (context == origin), size, 0.0) + 1e-3 * size.mean()
        worth = np.where(may, gain / paid if by_byte else gain, 0.0)
        i = int(np.argmax(worth))
        if worth[i] > best:
            best, found = float(worth[i]), [(i, d)]
    return found


def _best_exchange(
    dirs: BrokerDirs, size: FloatArray, context: IntArray, usage: FloatArray
) -> list[tuple[int, int]]:
    """Two replicas that change places with the greatest gain; empty if none do."""
    one = _each(dirs, usage)
    best, found = NEGLIGIBLE, []
    order = np.argsort(-size, kind="stable")
    held = [order[context[order] == d][:EXCHANGED] for d in range(len(usage))]
    for d in range(len(usage)):
        for e in range(d + 1, len(usage)):
            more = size[held[e]][None, :] - size[held[d]][:, None]
            mine, theirs = usage[d] + more / dirs.capacity[d], usage[e] - more / dirs.capacity[e]
            after = _at(dirs, np.full(more.shape, d), mine) + _at(dirs, np.full(more.shape, e), theirs)
            may: BoolArray = (mine <= np.maximum(dirs.ceiling[d], usage[d])) & (
                theirs <= np.maximum(dirs.ceiling[e], usage[e])
            )
            gain = np.where(may, one[d] + one[e] - after, 0.0)
            if gain.size and gain.max() > best:
                i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
                best = float(gain[i, j])
                found = [(int(held[d][i]), e), (int(held[e][j]), d)]
    return found


def _each(dirs: BrokerDirs, usage: FloatArray) -> FloatArray:
    return _at(dirs, np.arange(len(usage), dtype=np.int32), usage)


def _at(dirs: BrokerDirs, place: IntArray, usage: FloatArray) -> FloatArray:
    """The share of the breach of a dir that is filled so far; shape of `usage`."""
    above = np.maximum(usage - dirs.theta[place], 0.0)
    out = np.maximum(usage - dirs.high[place], 0.0) + np.maximum(dirs.low[place] - usage, 0.0)
    return np.asarray(THETA_WEIGHT * above**2 + out**2)
