"""Brokers of a simulated Pulsar: who is up, what each serves and reports, and how long things take."""

from collections.abc import Mapping

import numpy as np

from trimtab.lab.simulate.pulsar.settings import WorldEvent, WorldSettings
from trimtab.lab.simulate.pulsar.store import BrokerSession, MetadataStore
from trimtab.lab.simulate.pulsar.time import VirtualTime
from trimtab.lab.simulate.pulsar.topics import ClusterTopics
from trimtab.model.bundles.range import BundleRange
from trimtab.model.bundles.reports import BrokerReport, ResourceUsage
from trimtab.plan.pulsar.options import PulsarBrokerConfig


class SimulatedBrokers(VirtualTime):
    """Those that are up, and what all of them see alike.

    Attributes
    ----------
    living
        The session of each broker that is up.
    serving
        What each of these serves, in the order of acquisition: its own belief, apart from the locks.
    history
        What has come to pass.
    """

    def __init__(
        self,
        topics: ClusterTopics,
        boundaries: Mapping[str, tuple[int, ...]],
        capacities: Mapping[str, float],
        settings: WorldSettings,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.topics = topics
        self.store = MetadataStore(boundaries)
        self.capacities = dict(capacities)
        self.chance = np.random.default_rng(settings.seed)
        self.living: dict[str, BrokerSession] = {}
        self.serving: dict[BrokerSession, dict[str, BundleRange]] = {}
        self.history: list[WorldEvent] = []

    @property
    def options(self) -> PulsarBrokerConfig:
        """Pulsar's options."""
        return self.settings.leader.options

    def hop(self) -> float:
        """Seconds that a message takes."""
        return float(self.chance.exponential(self.settings.hop_seconds))

    def closing(self) -> float:
        """Seconds that it takes to close the topics of a bundle."""
        return float(self.chance.exponential(self.settings.closing_seconds))

    def back_off(self, failures: int) -> float:
        """Seconds after which a client tries again that has failed so often."""
        # The power is bounded, so that a client that waits for years does not overflow.
        pause = self.settings.back_off_seconds * 2.0 ** min(failures - 1, 60)
        longest = self.settings.longest_back_off_seconds
        return min(pause, longest) * float(self.chance.uniform(0.9, 1.0))

    def note(
        self, what: str, bundle: str = "", broker: str = "", topics: int = 0, seconds: float = 0.0
    ) -> None:
        """Write down what has come to pass."""
        self.history.append(WorldEvent(self.now, what, bundle, broker, topics, seconds))

    def is_alive(self, session: BrokerSession) -> bool:
        """True if a broker has not died since."""
        return self.living.get(session.broker) == session

    def any_broker(self) -> BrokerSession | None:
        """The broker that a client happens to ask."""
        names = tuple(self.living)
        return self.living[names[int(self.chance.integers(len(names)))]] if names else None

    def serves(self, session: BrokerSession, bundle: str) -> bool:
        """True if a broker lives and serves a bundle."""
        return self.is_alive(session) and bundle in self.serving[session]

    def report(self, session: BrokerSession) -> BrokerReport:
        """The report of a broker now; one that has died reports that it does nothing."""
        held = self.serving.get(session, {})
        stats = {key: self.topics.stats(bundle) for key, bundle in held.items()}
        bytes_in = sum(one.msg_throughput_in for one in stats.values())
        bytes_out = sum(one.msg_throughput_out for one in stats.values())
        capacity = self.capacities[session.broker]
        return BrokerReport(
            cpu=ResourceUsage((bytes_in + bytes_out) / capacity * 50, 100.0),
            bandwidth_in=ResourceUsage(bytes_in, capacity),
            bandwidth_out=ResourceUsage(bytes_out, capacity),
            msg_throughput_in=bytes_in,
            msg_throughput_out=bytes_out,
            msg_rate_in=sum(one.msg_rate_in for one in stats.values()),
            msg_rate_out=sum(one.msg_rate_out for one in stats.values()),
            bundles=tuple(stats),
            last_stats=stats,
        )

    def usage(self) -> dict[str, float]:
        """The share of its most used resource, of each living broker."""
        weights = self.options.weights
        return {
            broker: self.report(session).weighted_usage(weights) for broker, session in self.living.items()
        }
