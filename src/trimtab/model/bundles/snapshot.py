"""Bundles as ranges of hashes, and the hash of a topic's name that falls into one.

Pulsar's `ConsistentHashingTopicBundleAssigner`, `NamespaceBundleFactory` and `PoliciesUtil.getBundles` (4.0
and 4.2 alike).

The snapshot of the balancer `bundles`: which broker owns which bundle, with which load, lately and soon.

Struct of arrays: brokers, bundles and topics are indices, so that a million topics fit in memory and in
cache.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray  # noqa: TC002

from trimtab.model.bundles.policies import BundlePolicies
from trimtab.model.documents import Quality, SnapshotReference
from trimtab.model.load import BoolArray, FloatArray, Imbalance, IntArray, imbalance
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

    def overlaps(self, other: BundleRange) -> bool:
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


RESOURCES: Final = ("cpu", "bandwidth_in", "bandwidth_out", "message_rate")
"""The resources that are balanced, in the order of every load array of this balancer.

Memory is not among them: heap and direct memory of a broker follow its garbage collector and its caches, not
the bundles it owns (Pulsar 4 gives both weight 0 for that reason).
"""

UNITS: Final = {
    "cpu": "cores",
    "bandwidth_in": "bytes per second",
    "bandwidth_out": "bytes per second",
    "message_rate": "messages per second, in and out",
}

NO_OWNER: Final = -1
"""Index that stands for no broker: a bundle that nobody has looked up yet, or whose owner died."""


CLAIMS: Final = "x_bundles_at_several_brokers"
"""The fact in `Quality.extra` that names bundles which several brokers report, each with these brokers."""


@dataclass(frozen=True, eq=False)
class BundleBrokers:
    """All brokers, in ascending order of name.

    Attributes
    ----------
    name
        Length (brokers,), Pulsar's broker ids, `host:port` of the web service.
    in_service
        Shape (brokers,): up, and not to be emptied; imbalance is measured over these, and only they may be
        given bundles.
    capacity
        Shape (brokers, resources), in `UNITS`; infinite where it is not limited and not balanced.
    base
        Shape (brokers, resources): load that no bundle carries along (an idle broker's CPU).
    """

    name: tuple[str, ...]
    in_service: BoolArray
    capacity: FloatArray
    base: FloatArray

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class Bundles:
    """All bundles, in ascending order of key.

    Attributes
    ----------
    key
        Length (bundles,), `tenant/namespace/0xLOW_0xHIGH`.
    owner
        Shape (bundles,), index into `BundleBrokers`, or `NO_OWNER`.
    load
        Shape (views, bundles, resources), in `UNITS`.
    sessions
        Shape (bundles,): producers and consumers, all of which an unload disconnects for a moment.
    topics
        Shape (bundles,): how many, as the broker counts them (system topics too).
    movable
        Shape (bundles,): False for bundles of brokers' own and of the system's namespaces.
    """

    key: tuple[str, ...]
    owner: IntArray
    load: FloatArray
    sessions: NDArray[np.int64]
    topics: NDArray[np.int64]
    movable: BoolArray

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, eq=False)
class BundleTopics:
    """Topics that carry traffic, ordered by (bundle, hash); those of the newest view only.

    Attributes
    ----------
    name
        Length (topics,), full names: `persistent://tenant/namespace/topic-partition-0`.
    bundle
        Shape (topics,), index into `Bundles`.
    hash
        Shape (topics,), where in the namespace's hash range it lies.
    load
        Shape (topics, resources), in `UNITS`.
    sessions
        Shape (topics,).
    """

    name: tuple[str, ...]
    bundle: IntArray
    hash: NDArray[np.int64]
    load: FloatArray
    sessions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.name)


NO_TOPICS: Final = BundleTopics(
    (),
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.int64),
    np.zeros((0, len(RESOURCES))),
    np.zeros(0, dtype=np.int64),
)
"""Where loads of topics are not known."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A bundle that left a broker a while ago, whoever moved it."""

    bundle: str
    broker: str
    at: float


@dataclass(frozen=True, eq=False)
class BundlesSnapshot:
    """Everything a planner of the balancer `bundles` may know.

    Attributes
    ----------
    taken_at
        Seconds since 1970, as in `reference`.
    views
        What the first axis of `Bundles.load` stands for: `window -k` for recent windows (the newest is
        `window 0`, always the first view), `forecast +s` for what is expected s seconds on. A plan has to
        hold in all of them.
    departures
        Lately, oldest first.
    boundaries
        Of every namespace: all boundaries of its bundles, rising.
    policies
        What operators have laid down about namespaces and brokers.
    load_manager
        `modular` or `extensible`.
    usage
        Where brokers' usage comes from: `measured` (each broker's own reports) or `declared` (message traffic
        over declared capacities, where one host carries all brokers).
    """

    reference: SnapshotReference
    quality: Quality
    taken_at: float
    views: tuple[str, ...]
    brokers: BundleBrokers
    bundles: Bundles
    topics: BundleTopics
    departures: tuple[Departure, ...] = ()
    boundaries: dict[str, tuple[int, ...]] = field(default_factory=dict)
    policies: BundlePolicies = field(default_factory=BundlePolicies)
    load_manager: str = "modular"
    usage: str = "measured"

    @property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """Bundles that several brokers report as theirs, each with these brokers; they may not be moved."""
        told = dict(self.quality.extra).get(CLAIMS)
        if not isinstance(told, dict):
            return {}
        return {str(key): tuple(map(str, one)) for key, one in told.items() if isinstance(one, list | tuple)}

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`: Pulsar's ids of the brokers."""
        return self.brokers.name

    @property
    def by_view(self) -> dict[str, Imbalance]:
        """Measures of the ownership as it is, by view."""
        return {name: self.imbalance(view=view) for view, name in enumerate(self.views)}

    def broker_load(self, owner: IntArray | None = None) -> FloatArray:
        """Shape (views, brokers, resources), in `UNITS`: loads under an ownership, by default as it is."""
        held = self.bundles.owner if owner is None else owner
        owned = held != NO_OWNER
        views, _, resources = self.bundles.load.shape
        load = np.repeat(self.brokers.base[None], views, axis=0)
        for view in range(views):
            for resource in range(resources):
                load[view, :, resource] += np.bincount(
                    held[owned],
                    weights=self.bundles.load[view, owned, resource],
                    minlength=len(self.brokers),
                )
        return load

    def imbalance(self, owner: IntArray | None = None, view: int = 0) -> Imbalance:
        """Equations 1 to 5 of an ownership in one view, over the brokers in service."""
        return imbalance(
            self.broker_load(owner)[view], self.brokers.capacity, self.brokers.in_service, RESOURCES
        )
