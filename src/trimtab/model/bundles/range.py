"""Bundles as ranges of hashes, and the hash of a topic's name that falls into one.

Pulsar's `ConsistentHashingTopicBundleAssigner`, `NamespaceBundleFactory` and `PoliciesUtil.getBundles` (4.0
and 4.2 alike).
"""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trimtab_common.errors import InputError

FULL_LOWER: Final = 0
FULL_UPPER: Final = 0xFFFFFFFF
"""The last boundary of every namespace; the bundle that ends there holds this hash too."""

_KEY = re.compile(r"(?P<namespace>[^/]+/[^/]+(?:/[^/]+)?)/0x(?P<low>[0-9a-f]{8})_0x(?P<high>[0-9a-f]{8})")


@dataclass(frozen=True, order=True)
class BundleRange:
    """A bundle: the topics of a namespace whose hashes lie in a range.

    Attributes
    ----------
    namespace
        `tenant/namespace`; heartbeat namespaces may have three parts.
    low, high
        The range of hashes: `low <= hash < high`, and `high` itself where it is `FULL_UPPER`.
    """

    namespace: str
    low: int
    high: int

    @property
    def key(self) -> str:
        """Pulsar's name of it: `tenant/namespace/0x%08x_0x%08x`."""
        return f"{self.namespace}/0x{self.low:08x}_0x{self.high:08x}"

    @property
    def can_split(self) -> bool:
        """True if a boundary fits between its ends (`NamespaceBundleFactory.canSplitBundle`)."""
        return self.high - self.low > 1

    def holds(self, topic_hash: int) -> bool:
        """True if topics of this hash are in it."""
        return self.low <= topic_hash < self.high or topic_hash == self.high == FULL_UPPER

    def overlaps(self, other: "BundleRange") -> bool:
        """True if some topic would be in both."""
        return self.namespace == other.namespace and self.low < other.high and other.low < self.high


def overlapping(ranges: Iterable[BundleRange]) -> Iterator[tuple[BundleRange, BundleRange]]:
    """Pairs of bundles that hold the same topics, each with the innermost that begins no later first.

    Around a split the second is part of the first. Where it reaches beyond, the two can never have been
    bundles of one namespace at a time.
    """
    around: list[BundleRange] = []
    for one in sorted(ranges, key=lambda bundle: (bundle.namespace, bundle.low, -bundle.high)):
        while around and (around[-1].namespace != one.namespace or around[-1].high <= one.low):
            around.pop()
        if around:
            yield around[-1], one
        around.append(one)


def parse_bundle(key: str) -> BundleRange:
    """The bundle that a key names.

    Raises
    ------
    InputError
        If it is not `tenant/namespace/0x%08x_0x%08x` in lower case, or its range is empty.
    """
    found = _KEY.fullmatch(key)
    if found is None:
        raise InputError(
            f'bundle "{key}" is not a bundle\'s name, expected tenant/namespace/0x00000000_0x40000000 with '
            "eight lower-case hexadecimal digits each; correct it"
        )
    low, high = int(found["low"], 16), int(found["high"], 16)
    if low >= high:
        raise InputError(f'bundle "{key}" holds no hash, expected the lower boundary first; correct it')
    return BundleRange(found["namespace"], low, high)


def namespace_of(bundle: str) -> str:
    """`tenant/namespace` of a bundle's key (`LoadManagerShared.getNamespaceNameFromBundleName`)."""
    return bundle.rpartition("/")[0]


def topic_hash(topic: str) -> int:
    """Guava's crc32 of the full name in UTF-8, unsigned.

    Parameters
    ----------
    topic
        `persistent://tenant/namespace/topic`, with `-partition-i` where it is a partition.
    """
    return zlib.crc32(topic.encode())


def topic_hashes(topics: Collection[str]) -> NDArray[np.uint32]:
    """Shape (topics,): `topic_hash` of each."""
    return np.fromiter(map(zlib.crc32, map(str.encode, topics)), dtype=np.uint32, count=len(topics))


def initial_boundaries(bundles: int) -> tuple[int, ...]:
    """Boundaries of a new namespace (`PoliciesUtil.getBundles`): multiples of 2^32/n, the last 0xffffffff.

    Parameters
    ----------
    bundles
        How many, at least 1; Pulsar's default is 4.

    Raises
    ------
    InputError
        If it is out of the range that Pulsar takes.
    """
    if not 1 <= bundles <= FULL_UPPER:
        raise InputError(f"{bundles} bundles asked for, expected 1 to {FULL_UPPER}; correct it")
    # Integer division first, as Pulsar: what is left over goes to the last bundle.
    width = (FULL_UPPER + 1) // bundles
    return (*(width * number for number in range(bundles)), FULL_UPPER)


def bundles_between(namespace: str, boundaries: Sequence[int]) -> tuple[BundleRange, ...]:
    """The bundles of a namespace, by ascending range."""
    return tuple(BundleRange(namespace, low, high) for low, high in pairwise(boundaries))


def bundle_positions(boundaries: Sequence[int], hashes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The bundle that each hash falls into (`NamespaceBundles.findBundle`, a binary search).

    Parameters
    ----------
    boundaries
        Ascending, from 0 to 0xffffffff, one more than there are bundles.
    hashes
        Shape (topics,).

    Returns
    -------
    NDArray[np.int64]
        Shape (topics,), from 0 to bundles-1; the hash 0xffffffff is in the last bundle.
    """
    found = np.searchsorted(np.asarray(boundaries, dtype=np.uint32), hashes, side="right") - 1
    return np.minimum(found, len(boundaries) - 2)
