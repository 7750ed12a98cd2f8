"""Clients of a simulated Pulsar, counted by bundle: connected to its broker, or waiting for one.

Where a bundle is lost to its clients, a few of them look their topics up at different brokers, and the rest
follows when the first is connected.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from trimtab.lab.simulate.pulsar.brokers import SimulatedBrokers
from trimtab.lab.simulate.pulsar.sequences import lookup
from trimtab.lab.simulate.pulsar.settings import WorldSettings
from trimtab.lab.simulate.pulsar.store import BrokerSession
from trimtab.lab.simulate.pulsar.topics import ClusterTopics
from trimtab.model.bundles.range import BundleRange, bundles_between


class SimulatedClients(SimulatedBrokers, ABC):
    """Brokers with the clients of their bundles.

    Attributes
    ----------
    connected
        The broker that the clients of each bundle are connected to.
    waiting
        Since when the clients of each of the other bundles have been without.
    """

    def __init__(
        self,
        topics: ClusterTopics,
        boundaries: Mapping[str, tuple[int, ...]],
        capacities: Mapping[str, float],
        settings: WorldSettings,
    ) -> None:
        super().__init__(topics, boundaries, capacities, settings)
        self.connected: dict[str, BrokerSession] = {}
        self.waiting: dict[str, float] = {}

    @abstractmethod
    def choose(self, bundle: str) -> str | None:
        """The broker that the leader wants a bundle on."""

    @abstractmethod
    def end_session(self, session: BrokerSession) -> None:
        """The store takes a dead broker's locks away."""

    def open(self, namespace: str | None = None) -> None:
        """The clients of every bundle that has no owner come up and look their topics up."""
        for name in self.store.boundaries if namespace is None else (namespace,):
            for bundle in bundles_between(name, self.store.boundaries[name]):
                if bundle.key not in self.connected and bundle.key not in self.waiting:
                    self._wait(bundle)

    def begin_serving(self, bundle: BundleRange, session: BrokerSession) -> None:
        """A broker that has just taken a bundle's lock begins to serve it."""
        self.serving[session][bundle.key] = bundle
        self.note("assigned", bundle.key, session.broker)

    def end_serving(self, bundle: BundleRange, session: BrokerSession) -> None:
        """A bundle's broker closes it, with its clients."""
        del self.serving[session][bundle.key]
        self.disconnect(bundle, session)

    def replace_by_halves(
        self, bundle: BundleRange, halves: tuple[BundleRange, ...], session: BrokerSession
    ) -> None:
        """A bundle's broker serves its halves instead; the clients stay where they are."""
        del self.serving[session][bundle.key]
        self.note("split", bundle.key, session.broker, self.topics.stats(bundle).topics)
        owner = self.connected.pop(bundle.key, None)
        since = self.waiting.pop(bundle.key, None)
        for half in halves:
            self.begin_serving(half, session)
            if owner is not None:
                self.connected[half.key] = owner
            elif since is not None:
                self._wait(half, since)

    def connect(self, bundle: BundleRange, session: BrokerSession) -> None:
        """The clients of a bundle have found its owner."""
        if self.connected.get(bundle.key) != session:
            self.connected[bundle.key] = session
            since = self.waiting.pop(bundle.key, self.now)
            topics = self.topics.stats(bundle).topics
            self.note("connected", bundle.key, session.broker, topics, self.now - since)

    def disconnect(self, bundle: BundleRange, session: BrokerSession) -> None:
        """The clients of a bundle lose the broker that they were connected to."""
        if self.connected.get(bundle.key) == session:
            del self.connected[bundle.key]
            self.note("closed", bundle.key, session.broker, self.topics.stats(bundle).topics)
            self._wait(bundle)

    def _wait(self, bundle: BundleRange, since: float | None = None) -> None:
        hashes = self.topics.hashes(bundle)
        if hashes:
            self.waiting[bundle.key] = self.now if since is None else since
            asking = min(self.settings.lookups, len(hashes))
            for number in self.chance.integers(len(hashes), size=asking).tolist():
                self.begin(lookup(self, bundle.namespace, hashes[number]))
