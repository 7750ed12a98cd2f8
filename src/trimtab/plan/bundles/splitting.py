"""Bundles and topics that are too big for their brokers, and splits at the boundaries of topics.

The argument for too big holds for every plan: the owner of the bundle carries all of it, and nothing else but
the broker's own base load is counted against it.

Loads of topics are known in the newest view; in the others a topic is assumed to have the same share of its
bundle.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.plan import BundleMoveKind, BundlePlan
from trimtab.model.bundles.snapshot import (
    NO_OWNER,
    RESOURCES,
    BundleRange,
    Bundles,
    BundlesSnapshot,
    BundleTopics,
    Departure,
    bundles_between,
    parse_bundle,
)
from trimtab.model.load import FloatArray, IntArray
from trimtab.plan.bundles.problem import BundlesProblem

TARGET_SHARE = 0.6
"""A part should use at most this share of a broker's available capacity, so that others fit too."""


@dataclass(frozen=True)
class SplitPoint:
    """A split of a bundle at given boundaries.

    Attributes
    ----------
    bundle
        Its key.
    boundaries
        Strictly inside, rising.
    """

    bundle: str
    boundaries: tuple[int, ...]

    @property
    def parts(self) -> tuple[BundleRange, ...]:
        """The bundles after the split."""
        whole = parse_bundle(self.bundle)
        return bundles_between(whole.namespace, (whole.low, *self.boundaries, whole.high))


def topics_of(snapshot: BundlesSnapshot, row: int) -> slice:
    """Places in `snapshot.topics` of those of a bundle."""
    first, last = np.searchsorted(snapshot.topics.bundle, [row, row + 1])
    return slice(int(first), int(last))


def shares_of(snapshot: BundlesSnapshot, row: int) -> FloatArray:
    """Share of the bundle's load that each of its topics has, shape (topics, columns)."""
    load = snapshot.topics.load[topics_of(snapshot, row)]
    total = load.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(total > 0, load / total, 1.0 / max(len(load), 1))
    return np.tile(share, (1, len(snapshot.views)))


def best_cut(snapshot: BundlesSnapshot, row: int, room: FloatArray, most_parts: int) -> SplitPoint | None:
    """The split of a bundle with the smallest maximum part, in as few parts as necessary.

    None if the topics that carry traffic all have one hash, or fewer than two parts are allowed.

    Parameters
    ----------
    room
        Shape (columns,): available capacity of a broker, infinite without a goal.
    most_parts
        Maximum number of parts; also limited by the number of different hashes of topics.
    """
    where = topics_of(snapshot, row)
    hashes = snapshot.topics.hash[where]
    load = snapshot.bundles.load[:, row].reshape(1, -1) * shares_of(snapshot, row)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(np.isfinite(room) & (load > 0), load / np.maximum(room, 1e-300), 0.0)
    distinct, index = np.unique(hashes, return_inverse=True)
    if len(distinct) < 2 or most_parts < 2:
        return None
    grouped = np.zeros((len(distinct), size.shape[1]))
    np.add.at(grouped, index, size)
    wanted = int(np.ceil(min(grouped.sum(axis=0).max() / TARGET_SHARE, 1e6)))
    parts = max(2, min(wanted, most_parts, len(distinct)))
    ends = _most_even(grouped, parts)
    whole = parse_bundle(snapshot.bundles.key[row])
    boundaries = []
    for end in ends:
        before, after = int(distinct[end]), int(distinct[end + 1])
        boundary = before + (after - before + 1) // 2
        if whole.low < boundary < whole.high:
            boundaries.append(boundary)
    return SplitPoint(whole.key, tuple(boundaries)) if boundaries else None


def _most_even(size: FloatArray, parts: int) -> list[int]:
    """Index of the last topic of every part but the last, so that the biggest part is smallest.

    The smallest limit under which filling parts one after the other needs no more than `parts`, by bisection.
    """
    low, high = float(size.max()), float(size.sum(axis=0).max())
    ends = _filled(size, high)
    for _ in range(50):
        middle = (low + high) / 2
        found = _filled(size, middle)
        if len(found) < parts:
            high, ends = middle, found
        else:
            low = middle
    if not ends:
        # Everything fits: cut in the middle, so that there are two parts.
        passed = np.cumsum(size.max(axis=1))
        ends = [int(np.argmin(np.abs(passed[:-1] - passed[-1] / 2)))]
    return ends


def _filled(size: FloatArray, limit: float) -> list[int]:
    ends: list[int] = []
    part = np.zeros(size.shape[1])
    for row, one in enumerate(size):
        part = part + one
        if part.max() > limit * (1 + 1e-12) and row > (ends[-1] + 1 if ends else 0):
            ends.append(row - 1)
            part = one.copy()
    return ends


def after_cut(snapshot: BundlesSnapshot, cut: SplitPoint) -> BundlesSnapshot:
    """The snapshot as if the bundle had been split already; its parts are with its owner.

    Sessions and topics without details are distributed in proportion to known ones, or to the width of the
    parts.
    """
    bundles, topics = snapshot.bundles, snapshot.topics
    row = bundles.key.index(cut.bundle)
    where = topics_of(snapshot, row)
    parts = cut.parts
    part_of = np.searchsorted(np.array(cut.boundaries), topics.hash[where], side="right")
    shares = shares_of(snapshot, row)
    share = np.zeros((len(parts), shares.shape[1]))
    np.add.at(share, part_of, shares)
    views = len(snapshot.views)
    load = bundles.load[:, row, None, :] * share.reshape(len(parts), views, len(RESOURCES)).transpose(1, 0, 2)
    width = np.array([part.high - part.low for part in parts], dtype=np.float64)
    known = np.bincount(part_of, minlength=len(parts))
    clients = np.bincount(part_of, weights=topics.sessions[where], minlength=len(parts))
    sessions = _dealt(int(bundles.sessions[row]), clients if clients.sum() > 0 else width)
    count = known + _dealt(max(int(bundles.topics[row]) - int(known.sum()), 0), width)
    keys = [*bundles.key[:row], *bundles.key[row + 1 :], *(part.key for part in parts)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    place = {keys[old]: new for new, old in enumerate(order)}

    def joined(old: NDArray[Any], new: NDArray[Any], axis: int = 0) -> NDArray[Any]:
        both = np.concatenate([np.delete(old, row, axis=axis), new], axis=axis)
        return np.ascontiguousarray(np.take(both, order, axis=axis))

    of = np.array([place.get(key, -1) for key in bundles.key], dtype=np.int32)[topics.bundle]
    of[where] = np.array([place[part.key] for part in parts], dtype=np.int32)[part_of]
    by_place = np.lexsort((topics.hash, of))
    numbers = np.full(len(parts), bundles.owner[row], dtype=np.int32)
    boundaries = dict(snapshot.boundaries)
    namespace = parts[0].namespace
    if namespace in boundaries:
        boundaries[namespace] = tuple(sorted({*boundaries[namespace], *cut.boundaries}))
    left = [
        Departure(part.key, one.broker, one.at)
        for one in snapshot.departures
        if one.bundle == cut.bundle
        for part in parts
    ]
    return replace(
        snapshot,
        bundles=Bundles(
            key=tuple(keys[old] for old in order),
            owner=joined(bundles.owner, numbers),
            load=joined(bundles.load, load, axis=1),
            sessions=joined(bundles.sessions, sessions),
            topics=joined(bundles.topics, count),
            movable=joined(bundles.movable, np.full(len(parts), bundles.movable[row])),
        ),
        topics=BundleTopics(
            name=tuple(topics.name[index] for index in by_place.tolist()),
            bundle=of[by_place],
            hash=topics.hash[by_place],
            load=topics.load[by_place],
            sessions=topics.sessions[by_place],
        ),
        departures=tuple(sorted((*snapshot.departures, *left), key=lambda one: one.at)),
        boundaries=boundaries,
    )


def _dealt(total: int, weight: NDArray[Any]) -> NDArray[np.int64]:
    """Distribute a whole number by weight: shares rounded down, the remainder to the largest fractions."""
    share = total * weight / weight.sum()
    dealt: NDArray[np.int64] = np.floor(share).astype(np.int64)
    rest = np.argsort(dealt - share, kind="stable")[: total - int(dealt.sum())]
    dealt[rest] += 1
    return dealt


def bundles_of_namespace(snapshot: BundlesSnapshot, namespace: str) -> int:
    """The number of bundles of a namespace: by its boundaries, where they are known."""
    cuts = snapshot.boundaries.get(namespace)
    if cuts is not None:
        return len(cuts) - 1
    return sum(key.rpartition("/")[0] == namespace for key in snapshot.bundles.key)


def carried_out(snapshot: BundlesSnapshot, plan: BundlePlan) -> BundlesSnapshot:
    """The snapshot with bundles split and owned as at the end of a plan made from it; loads go with them."""
    for move in plan.moves:
        if move.kind is BundleMoveKind.SPLIT:
            snapshot = after_cut(snapshot, SplitPoint(move.bundle, move.boundaries))
    broker = {name: row for row, name in enumerate(snapshot.brokers.name)}
    after = {one.bundle: NO_OWNER if one.after is None else broker[one.after] for one in plan.assignments}
    owner = [
        after.get(key, held)
        for key, held in zip(snapshot.bundles.key, snapshot.bundles.owner.tolist(), strict=True)
    ]
    bundles = replace(snapshot.bundles, owner=np.array(owner, dtype=np.int32))
    return replace(snapshot, bundles=bundles)


ROUNDING = 1e-9


@dataclass(frozen=True)
class UnplaceableLoad:
    """The excess of a bundle that fits on no broker.

    Attributes
    ----------
    row
        Of the bundle.
    broker, column
        The best broker for it, and the column that exceeds its limit most there.
    usage, limit
        What that broker's utilisation would be with nothing else on it, and what it may be.
    times
        Load as a multiple of the largest available capacity, in the worst column.
    """

    row: int
    broker: int
    column: int
    usage: float
    limit: float
    times: float


def free_capacity(problem: BundlesProblem, top: FloatArray) -> FloatArray:
    """Available capacity of each broker without other load, shape (brokers, columns), in `UNITS`.

    Parameters
    ----------
    top
        Shape (brokers, columns): highest utilisation allowed; infinite where nothing is asked.
    """
    base = np.tile(problem.snapshot.brokers.base, (1, len(problem.snapshot.views)))
    capacity = problem.capacity
    with np.errstate(invalid="ignore"):
        room = np.where(problem.counted & np.isfinite(top), top * capacity - base, np.inf)
    return np.asarray(np.maximum(room, 0.0))


def too_big(problem: BundlesProblem, top: FloatArray) -> list[UnplaceableLoad]:
    """The bundles that fit on no broker that they may be on, the biggest first."""
    arrays = problem.arrays
    room = free_capacity(problem, top)
    owned = (arrays.initial >= 0) | arrays.must
    suspect = owned & (arrays.use > room.min(axis=0, initial=np.inf) * (1 + ROUNDING)).any(axis=1)
    found = []
    for row in np.flatnonzero(suspect).tolist():
        excess = excess_of(problem, top, room, row, arrays.use[row])
        if excess is not None:
            found.append(excess)
    return sorted(found, key=lambda one: (-one.times, one.row))


def excess_of(
    problem: BundlesProblem, top: FloatArray, room: FloatArray, row: int, use: FloatArray
) -> UnplaceableLoad | None:
    """The excess of a load over every broker that bundle `row` may be on; None if it fits on one."""
    brokers = _brokers_for(problem, row)
    if not len(brokers):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        times = np.where(use > 0, use / room[brokers], 0.0)
    worst = times.max(axis=1)
    best = int(worst.argmin())
    if not worst[best] > 1 + ROUNDING:
        return None
    broker, column = int(brokers[best]), int(times[best].argmax())
    inverse = problem.arrays.inverse[broker, column]
    base = problem.snapshot.brokers.base[broker, column % problem.snapshot.brokers.base.shape[1]]
    return UnplaceableLoad(
        row,
        broker,
        column,
        float((use[column] + base) * inverse),
        float(top[broker, column]),
        float(worst[best]),
    )


def _brokers_for(problem: BundlesProblem, row: int) -> IntArray:
    """The brokers in service that the bundle may be on; its own too, whatever the policies say by now."""
    arrays = problem.arrays
    allowed = arrays.allowed[arrays.kind[row]].copy()
    home = arrays.initial[row]
    if home >= 0 and problem.snapshot.brokers.in_service[home]:
        allowed[home] = True
    return np.flatnonzero(allowed).astype(np.int32)
