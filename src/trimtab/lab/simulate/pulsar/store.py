"""The metadata store of a simulated Pulsar: sessions, ephemeral locks, boundaries with versions."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.model.bundles.range import BundleRange


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
        """A broker comes up."""
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

    def locked_by(self, session: BrokerSession) -> tuple[str, ...]:
        """The bundles whose locks a session holds."""
        return tuple(self._held.get(session, ()))

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
