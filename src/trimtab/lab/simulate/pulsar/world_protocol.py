"""The stage of a sequence: what it may see and do of the simulated world that it goes on in."""

from collections.abc import Generator
from typing import Protocol

from trimtab.lab.simulate.pulsar.store import BrokerSession, MetadataStore
from trimtab.lab.simulate.pulsar.topics import ClusterTopics
from trimtab.model.bundles.range import BundleRange
from trimtab.plan.pulsar.options import PulsarBrokerConfig

Steps = Generator[float, None, None]
"""A sequence: it yields the seconds until its next step."""


class PulsarWorldProtocol(Protocol):
    """Brokers, their store and their clients; `trimtab.lab.simulate.pulsar.world.PulsarWorld` is one.

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
        """Pulsar's options."""
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
