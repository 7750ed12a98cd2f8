"""The state of a simulated Pulsar: metadata store, topics and bundles, and virtual time."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trimtab.model.bundles.reports import BundleStats
from trimtab.model.bundles.snapshot import FULL_UPPER, BundleRange, bundles_between, topic_hashes
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.splits import TopicTraffic


@dataclass(frozen=True, order=True)
class BrokerSession:
    """One life of a broker; what it holds in the store goes when it expires.

    Attributes
    ----------
    broker
        Its name.
    number
        Tells the lives of a broker that was started again apart.
    """

    broker: str
    number: int


class MetadataStore:
    """The store that all brokers see alike; every method is one atomic operation.

    Parameters
    ----------
    boundaries
        Of each namespace, all boundaries, rising.

    Attributes
    ----------
    boundaries, versions
        Of each namespace, and how often its boundaries were written.
    owners
        The session that holds the lock of each bundle.
    leader
        Who was elected; may have died already, as long as its session stands.
    """

    def __init__(self, boundaries: Mapping[str, tuple[int, ...]]) -> None:
        self.boundaries = dict(boundaries)
        self.versions = dict.fromkeys(boundaries, 0)
        self.owners: dict[str, BrokerSession] = {}
        self.leader: BrokerSession | None = None
        self._held: dict[BrokerSession, dict[str, None]] = {}

    @property
    def sessions(self) -> tuple[BrokerSession, ...]:
        """Those that stand, oldest first."""
        return tuple(self._held)

    def register(self, session: BrokerSession) -> None:
        """Register the session of a started broker."""
        self._held[session] = {}

    def expire(self, session: BrokerSession) -> tuple[str, ...]:
        """A session is over: everything ephemeral goes with it. Tells which bundles it owned."""
        released = tuple(self._held.pop(session, ()))
        for bundle in released:
            del self.owners[bundle]
        if self.leader == session:
            self.leader = None
        return released

    def lock(self, bundle: str, session: BrokerSession) -> bool:
        """Take a bundle's lock; False if anybody has it, or the session is over."""
        if bundle in self.owners or session not in self._held:
            return False
        self.owners[bundle] = session
        self._held[session][bundle] = None
        return True

    def release(self, bundle: str, session: BrokerSession) -> None:
        """Give a lock back, if it is this session's."""
        if self.owners.get(bundle) == session:
            del self.owners[bundle]
            del self._held[session][bundle]

    def bundle_of(self, namespace: str, topic_hash: int) -> BundleRange:
        """The bundle that a topic is in now."""
        boundaries = self.boundaries[namespace]
        at = min(bisect_right(boundaries, topic_hash), len(boundaries) - 1)
        return BundleRange(namespace, boundaries[at - 1], boundaries[at])

    def has(self, bundle: BundleRange) -> bool:
        """True if the namespace has just this bundle now."""
        boundaries = self.boundaries[bundle.namespace]
        at = bisect_left(boundaries, bundle.low)
        return boundaries[at : at + 2] == (bundle.low, bundle.high)

    def write_boundaries(self, namespace: str, boundaries: tuple[int, ...], version: int) -> bool:
        """Replace a namespace's boundaries, unless somebody has since they were read."""
        if self.versions[namespace] != version:
            return False
        self.boundaries[namespace] = boundaries
        self.versions[namespace] += 1
        return True


def cut(boundaries: Sequence[int], bundle: BundleRange, positions: Sequence[int]) -> tuple[int, ...]:
    """The boundaries of the namespace once one of its bundles is cut at those positions.

    Parameters
    ----------
    boundaries
        All boundaries of the namespace, rising: n + 1 of them for n bundles.
    bundle
        The one to cut; its ends are neighbours in `boundaries`.
    positions
        Where to cut it, in any order, each strictly between its ends.

    Raises
    ------
    PlanError
        If there is no such bundle any more (somebody else has split it), a position does not lie inside it,
        or one is given twice.

    References
    ----------
    NamespaceBundleFactory.splitBundles.
    """
    known = list(boundaries)
    at = known.index(bundle.low) if bundle.low in known else len(known)
    if known[at + 1 : at + 2] != [bundle.high]:
        listed = ", ".join(f"0x{boundary:08x}" for boundary in known)
        raise PlanError(
            f"bundle {bundle.key} is not one of its namespace, whose boundaries are {listed}; read them again"
        )
    for position in positions:
        if not bundle.low < position < bundle.high:
            raise PlanError(
                f"bundle {bundle.key} cannot be cut at 0x{position:08x}: a cut lies strictly between its "
                "ends; choose another position"
            )
    ordered = sorted(positions)
    if len(set(ordered)) < len(ordered):
        listed = ", ".join(f"0x{position:08x}" for position in ordered)
        raise PlanError(f"bundle {bundle.key} would be cut twice at one position ({listed}); give each once")
    return (*known[: at + 1], *ordered, *known[at + 1 :])


FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NamespaceTopics:
    """The topics of one namespace, by rising hash.

    Attributes
    ----------
    hashes
        Shape (topics,), rising.
    traffic
        Shape (topics, 4), `trimtab.model.bundles.reports.TRAFFIC`: bytes and messages per second.
    """

    hashes: NDArray[np.uint32]
    traffic: FloatArray

    def rows_in_bundle(self, bundle: BundleRange) -> slice:
        """The rows of the topics that a bundle holds."""
        low = int(np.searchsorted(self.hashes, np.uint32(bundle.low)))
        if bundle.high == FULL_UPPER:
            return slice(low, len(self.hashes))
        return slice(low, int(np.searchsorted(self.hashes, np.uint32(bundle.high))))


def topics_named(names: Sequence[str], traffic: FloatArray) -> NamespaceTopics:
    """Topics where their full names fall.

    Parameters
    ----------
    names
        `persistent://tenant/namespace/topic`.
    traffic
        Shape (topics, 4), of each name.
    """
    return topics_at(topic_hashes(names), traffic)


def topics_at(hashes: NDArray[np.uint32], traffic: FloatArray) -> NamespaceTopics:
    """Topics of given hashes, in any order."""
    order = np.argsort(hashes, kind="stable")
    return NamespaceTopics(hashes[order], traffic[order])


def one_topic_a_bundle(namespace: str, boundaries: Sequence[int], traffic: FloatArray) -> NamespaceTopics:
    """One topic in the middle of every bundle, for worlds in which each bundle's load is laid down.

    Parameters
    ----------
    traffic
        Shape (bundles, 4), of each bundle's topic.
    """
    bundles = bundles_between(namespace, boundaries)
    middles = [bundle.low + (bundle.high - bundle.low) // 2 for bundle in bundles]
    return topics_at(np.array(middles, dtype=np.uint32), traffic)


@dataclass(frozen=True, eq=False)
class ClusterTopics:
    """All topics of a cluster; every topic has a producer and a consumer.

    Attributes
    ----------
    namespaces
        By name.
    """

    namespaces: Mapping[str, NamespaceTopics]
    _known: dict[BundleRange, BundleStats] = field(default_factory=dict)

    def stats(self, bundle: BundleRange) -> BundleStats:
        """The load of a bundle."""
        if bundle not in self._known:
            own = self.namespaces[bundle.namespace]
            rows = own.rows_in_bundle(bundle)
            bytes_in, bytes_out, rate_in, rate_out = own.traffic[rows].sum(axis=0).tolist()
            count = rows.stop - rows.start
            self._known[bundle] = BundleStats(rate_in, rate_out, bytes_in, bytes_out, count, count, count)
        return self._known[bundle]

    def hashes(self, bundle: BundleRange) -> list[int]:
        """The hashes of a bundle's topics, rising."""
        own = self.namespaces[bundle.namespace]
        found: list[int] = own.hashes[own.rows_in_bundle(bundle)].tolist()
        return found

    def flows(self, bundle: BundleRange) -> list[TopicTraffic]:
        """The load of each topic of a bundle, by rising hash."""
        own = self.namespaces[bundle.namespace]
        rows = own.rows_in_bundle(bundle)
        return [
            TopicTraffic(position, rate_in + rate_out, bytes_in + bytes_out)
            for position, (bytes_in, bytes_out, rate_in, rate_out) in zip(
                own.hashes[rows].tolist(), own.traffic[rows].tolist(), strict=True
            )
        ]


Steps = Generator[float, None, None]
"""A sequence: it yields the seconds until its next step."""


class PulsarWorldProtocol(Protocol):
    """Brokers, their store and their clients; `simulated_clusters.world.PulsarWorld` is one.

    Attributes
    ----------
    store, topics
        What all brokers see alike.
    living
        The session of each broker that is up.
    """

    store: MetadataStore
    topics: ClusterTopics
    living: dict[str, BrokerSession]

    @property
    def options(self) -> PulsarBrokerConfig:
        """Pulsar's options of this cluster."""
        ...

    def begin(self, steps: Steps) -> None:
        """Let another sequence begin now."""
        ...

    def hop(self) -> float:
        """Seconds that a message takes."""
        ...

    def closing(self) -> float:
        """Seconds that it takes to close the topics of a bundle."""
        ...

    def back_off(self, failures: int) -> float:
        """Seconds after which a client tries again that has failed so often."""
        ...

    def note(self, what: str, bundle: str = "", broker: str = "") -> None:
        """Write down what has come to pass."""
        ...

    def any_broker(self) -> BrokerSession | None:
        """The broker that a client happens to ask."""
        ...

    def is_alive(self, session: BrokerSession) -> bool:
        """True if a broker has not died since."""
        ...

    def end_session(self, session: BrokerSession) -> None:
        """The store takes a dead broker's locks away."""
        ...

    def choose(self, bundle: str) -> str | None:
        """The broker that the leader wants a bundle on."""
        ...

    def serves(self, session: BrokerSession, bundle: str) -> bool:
        """True if a broker lives and serves a bundle."""
        ...

    def begin_serving(self, bundle: BundleRange, session: BrokerSession) -> None:
        """A broker that has just taken a bundle's lock begins to serve it."""
        ...

    def end_serving(self, bundle: BundleRange, session: BrokerSession) -> None:
        """A bundle's broker closes it, with its clients."""
        ...

    def replace_by_halves(
        self, bundle: BundleRange, halves: tuple[BundleRange, ...], session: BrokerSession
    ) -> None:
        """A bundle's broker serves its halves instead; the clients stay where they are."""
        ...

    def connect(self, bundle: BundleRange, session: BrokerSession) -> None:
        """The clients of a bundle have found its owner."""
        ...


class VirtualTime:
    """A clock that is a number, and the sequences that wait for it.

    Attributes
    ----------
    now
        Virtual seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Steps]] = []
        self._number = 0

    def begin(self, steps: Steps) -> None:
        """Let a sequence begin now."""
        self._advance(steps)

    def pending(self) -> int:
        """The number of sequences that wait for their next step."""
        return len(self._queue)

    def run_until(self, at: float) -> None:
        """Let everything happen that is due by then."""
        while self._queue and self._queue[0][0] <= at:
            due, _, steps = heapq.heappop(self._queue)
            # What was put off by `step` may be due in the past.
            self.now = max(self.now, due)
            self._advance(steps)
        self.now = max(self.now, at)

    def step(self, number: int) -> None:
        """Let any waiting sequence go on, whenever it is due: messages may take as long as they like.

        Parameters
        ----------
        number
            From 0 to `pending() - 1`.
        """
        due, _, steps = self._queue.pop(number)
        heapq.heapify(self._queue)
        self.now = max(self.now, due)
        self._advance(steps)

    def _advance(self, steps: Steps) -> None:
        pause = next(steps, None)
        if pause is not None:
            self._number += 1
            heapq.heappush(self._queue, (self.now + pause, self._number, steps))
