"""Bundles and topics of a snapshot file: to the model and back, and what must hold of them.

All checks are made on whole columns: a million topics take seconds, not minutes.
"""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trimtab.files.columns import LEFT_OUT, Columns, ListColumn, LongArray, TextColumn
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.bundles.range import FULL_UPPER, BundleRange, bundles_between, parse_bundle
from trimtab.model.bundles.snapshot import (
    NO_OWNER,
    RESOURCES,
    BundleBrokers,
    Bundles,
    BundlesSnapshot,
    BundleTopics,
)
from trimtab_common.errors import InputError


def checked_bundles(
    source: SnapshotSource, brokers: BundleBrokers, views: int, boundaries: dict[str, tuple[int, ...]]
) -> tuple[Bundles, list[BundleRange]]:
    """The bundles, and the range of each, both by ascending key.

    Parameters
    ----------
    views
        How many loads each must have.
    boundaries
        Of namespaces: bundles of one of these must be those that its boundaries make.

    Raises
    ------
    InputError
        If a bundle stands twice, has no bundle's name, overlaps another, or is owned by no known broker.
    """
    columns = source.columns["bundles"]
    keys: list[str] = columns["bundle"].values
    source.check_unique("bundles", keys)
    ranges = []
    for row, key in enumerate(keys):
        try:
            ranges.append(parse_bundle(key))
        except InputError as fault:
            place = f"{source.file('bundles')}: {source.at('bundles', row, 'bundle')}"
            raise InputError(f"{place}: {fault}") from None
    index: dict[str | None, int] = {name: number for number, name in enumerate(brokers.name)}
    index[None] = NO_OWNER
    owners: list[str | None] = columns["owner"].values
    for row, owner in enumerate(owners):
        if owner not in index:
            expected = "the name of a broker in this file, or null"
            remedy = "add the broker (in_service false if it is gone) or correct the owner"
            raise source.error("bundles", row, "owner", owner, expected, remedy=remedy)
    loads: ListColumn = columns["load"]
    wrong = np.flatnonzero(loads.count != views)
    if len(wrong):
        row = int(wrong[0])
        expected = f"{views}, one for each of `views`"
        raise source.length_error("bundles", row, "load", int(loads.count[row]), expected)
    source.check_loads("bundles", "load", RESOURCES)
    _check_overlaps(source, ranges, boundaries)
    order = sorted(range(len(ranges)), key=keys.__getitem__)
    load = loads.values.reshape(len(ranges), views, len(RESOURCES))[order]
    held = Bundles(
        key=tuple(keys[row] for row in order),
        owner=np.array([index[owners[row]] for row in order], dtype=np.int32),
        load=np.ascontiguousarray(load.transpose(1, 0, 2)),
        sessions=columns["sessions"][order],
        topics=columns["topics"][order],
        movable=columns["movable"][order],
    )
    return held, [ranges[row] for row in order]


def bundle_columns(snapshot: BundlesSnapshot) -> Columns:
    """Columns of bundles for a file; the inverse of `checked_bundles`."""
    bundles = snapshot.bundles
    number, views = len(bundles), len(snapshot.views)
    load = np.ascontiguousarray(bundles.load.transpose(1, 0, 2)).reshape(-1, len(RESOURCES))
    assert NO_OWNER == LEFT_OUT  # so that nobody is null
    return {
        "bundle": TextColumn(bundles.key),
        "owner": TextColumn(coded=(snapshot.brokers.name, bundles.owner.astype(np.int64))),
        "movable": bundles.movable,
        "sessions": bundles.sessions,
        "topics": bundles.topics,
        "load": ListColumn(np.full(number, views, dtype=np.int64), load),
    }


def checked_topics(source: SnapshotSource, bundles: Bundles, ranges: list[BundleRange]) -> BundleTopics:
    """The topics, by bundle and hash.

    Raises
    ------
    InputError
        If a topic stands twice, or is in no bundle of the file or outside of the one that it names.
    """
    columns = source.columns["topics"]
    names, keys, hashes = columns["topic"].values, columns["bundle"].values, columns["hash"]
    index = {key: row for row, key in enumerate(bundles.key)}
    for row, key in enumerate(keys):
        if key not in index:
            raise source.error("topics", row, "bundle", key, "the name of a bundle in this file")
    of = np.fromiter((index[key] for key in keys), dtype=np.int32, count=len(keys))
    source.check_loads("topics", "load", RESOURCES)
    low = np.array([one.low for one in ranges], dtype=np.int64)
    high = np.array([one.high + (one.high == FULL_UPPER) for one in ranges], dtype=np.int64)
    if len(of):
        outside: NDArray[np.bool_] = (hashes < low[of]) | (hashes >= high[of])
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise source.error("topics", row, "hash", int(hashes[row]), f"one that {keys[row]} holds")
    source.check_unique("topics", names)
    order = (
        sorted(range(len(of)), key=lambda row: (of[row], hashes[row], names[row]))
        if _has_ties(of, hashes)
        else np.lexsort((hashes, of)).tolist()
    )
    return BundleTopics(
        name=tuple(names[row] for row in order),
        bundle=of[order],
        hash=hashes[order],
        load=np.ascontiguousarray(columns["load"][order]),
        sessions=columns["sessions"][order],
    )


def topic_columns(snapshot: BundlesSnapshot) -> Columns:
    """Columns of topics for a file; the inverse of `checked_topics`."""
    topics = snapshot.topics
    return {
        "topic": TextColumn(topics.name),
        "bundle": TextColumn(coded=(snapshot.bundles.key, topics.bundle.astype(np.int64))),
        "hash": topics.hash,
        "sessions": topics.sessions,
        "load": topics.load,
    }


def _check_overlaps(
    source: SnapshotSource, ranges: list[BundleRange], boundaries: dict[str, tuple[int, ...]]
) -> None:
    """Refuse bundles with a topic in common, and those that their namespace's boundaries do not make."""
    for one, other in pairwise(sorted(ranges)):
        if one.overlaps(other):
            raise InputError(
                f"{source.file('bundles')}: bundles {one.key} and {other.key} overlap: a topic is in one "
                "bundle only; drop the one from before the split"
            )
    of = {name: set(bundles_between(name, cuts)) for name, cuts in boundaries.items()}
    for row, bundle in enumerate(ranges):
        if bundle.namespace in of and bundle not in of[bundle.namespace]:
            expected = f"one that the boundaries of {bundle.namespace} make"
            raise source.error("bundles", row, "bundle", bundle.key, expected)


def _has_ties(bundle: NDArray[np.int32], hashes: LongArray) -> bool:
    """True if two topics of a bundle have one hash: then their names decide the order."""
    order = np.lexsort((hashes, bundle))
    return bool(((np.diff(bundle[order]) == 0) & (np.diff(hashes[order]) == 0)).any())
