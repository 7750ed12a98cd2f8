"""A Pulsar cluster as its admin API shows it: brokers, owners, boundaries, switches; small, and in memory.

It does what measured clusters did (Pulsar 4.0.7 and 4.2.4, both load managers): the destination of an unload
is a one-shot hint under the modular load manager, a lookup assigns, a dead broker is believed in until its
session ends, and yes is also said where nothing was done. How the brokers decide by themselves is not its
matter (`simulated_clusters.world`): bundles go where they are sent, or to any broker that is up.

Time is whatever clock it is given; what is due is done when the next request comes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trimtab.model.bundles.snapshot import BundleRange, bundles_between, initial_boundaries, topic_hash

SWITCHES = ("loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled")
DEFAULTS = {
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "loadBalancerBrokerOverloadedThresholdPercentage": "85",
}
"""Settings that can be changed while brokers run, with what the brokers' own files say."""

MODULAR = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
SYSTEM = "pulsar/system"


@dataclass(frozen=True)
class Deed:
    """Something that happened to the cluster, and by whom: `admin` (the API), `clients`, or a name."""

    at: float
    actor: str
    verb: str
    subject: str
    detail: str = ""


@dataclass
class AdminBroker:
    """One broker.

    Attributes
    ----------
    believed_until
        When its session ends once it is dead.
    cpu
        Usage and limit in percent of a core, as it reports them.
    alter, alter_topics
        What becomes of its load report, and of the statistics of its topics, before they are told.
    """

    up: bool = True
    healthy: bool = True
    believed_until: float = float("inf")
    cpu: tuple[float, float] = (20.0, 200.0)
    alter: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    alter_topics: Callable[[dict[str, Any]], dict[str, Any]] | None = None


@dataclass
class AdminNamespace:
    """One namespace: boundaries, properties, its topics with their sessions, its anti-affinity group."""

    boundaries: list[int]
    properties: dict[str, str] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    group: str | None = None


class AdminCluster:
    """The cluster.

    Parameters
    ----------
    brokers
        Their ids, `host:port`.
    clock
        Seconds, rising.
    generator
        Draws the broker that a lookup assigns a bundle to.
    session_seconds
        How long a dead broker is believed in.
    reconnect_seconds
        After how long clients look an unloaded bundle up.
    lost_hint_fraction
        Share of destinations that are lost on the way, so that the bundle goes to any broker.
    """

    def __init__(
        self,
        brokers: list[str],
        clock: Callable[[], float],
        generator: np.random.Generator,
        *,
        name: str = "simulated",
        extensible: bool = False,
        session_seconds: float = 10.0,
        reconnect_seconds: float = 0.2,
        lost_hint_fraction: float = 0.0,
        token: str | None = None,
    ) -> None:
        self.name = name
        self.extensible = extensible
        self.token = token
        self.brokers = {one: AdminBroker() for one in brokers}
        self.namespaces = {SYSTEM: AdminNamespace(list(initial_boundaries(4)))}
        self.owners: dict[str, str] = {}
        self.rates: dict[str, tuple[float, float]] = {}
        self.isolation: dict[str, Any] = {}
        self.hints: dict[str, str] = {}
        self.overrides: dict[str, str] = {}
        self.files: dict[str, dict[str, str]] = {one: dict(DEFAULTS) for one in brokers}
        self.history: list[Deed] = []
        self.session_seconds = session_seconds
        self.reconnect_seconds = reconnect_seconds
        self.lost_hint_fraction = lost_hint_fraction
        self._leader = brokers[0]
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._clock = clock
        self._generator = generator

    @property
    def now(self) -> float:
        """The clock's time."""
        return self._clock()

    def settle(self) -> None:
        """Do what is due by now: sessions that end, clients that come back."""
        for broker, one in self.brokers.items():
            if one.believed_until <= self.now:
                one.believed_until = float("inf")
                self._forget(broker)
        due = [entry for entry in self._due if entry[0] <= self.now]
        self._due = [entry for entry in self._due if entry[0] > self.now]
        for _, act in sorted(due, key=lambda entry: entry[0]):
            act()

    def registered(self) -> list[str]:
        """Brokers that are believed in, the dead among them until their sessions end."""
        return [b for b, one in self.brokers.items() if one.up or one.believed_until < float("inf")]

    @property
    def leader(self) -> str | None:
        """Who decides; None when nobody is registered. A dead one leads until its session ends."""
        registered = self.registered()
        if self._leader not in registered:
            self._leader = registered[0] if registered else ""
        return self._leader or None

    def note(self, actor: str, verb: str, subject: str, detail: str = "") -> None:
        """Write a deed into the history."""
        self.history.append(Deed(self.now, actor, verb, subject, detail))

    # what people set up, and what goes wrong

    def add_namespace(self, namespace: str, bundles: int = 4) -> None:
        """A namespace with so many equal bundles, which nobody owns yet."""
        self.namespaces[namespace] = AdminNamespace(list(initial_boundaries(bundles)))

    def add_topic(self, topic: str, sessions: int = 2) -> None:
        """A topic with so many producers and consumers; its bundle is looked up by them."""
        namespace = "/".join(topic.split("//")[1].split("/")[:2])
        self.namespaces[namespace].topics[topic] = sessions

    def give(self, bundle: str, broker: str) -> None:
        """Make a broker own a bundle."""
        self.owners[bundle] = broker

    def kill(self, broker: str) -> None:
        """A broker dies; its session goes on for a while."""
        self.brokers[broker].up = False
        self.brokers[broker].believed_until = self.now + self.session_seconds
        self.note("world", "kill", broker)

    def revive(self, broker: str) -> None:
        """A dead broker comes back, owning nothing."""
        if not self.brokers[broker].up:
            self._forget(broker)
            self.brokers[broker] = AdminBroker()
            self.note("world", "revive", broker)

    def _forget(self, broker: str) -> None:
        """A session is over: its bundles have no owner, and their clients look them up."""
        for bundle in [b for b, owner in self.owners.items() if owner == broker]:
            del self.owners[bundle]
            self._clients_come_back(bundle)

    # bundles

    def bundles_of(self, namespace: str) -> tuple[BundleRange, ...]:
        """All bundles of a namespace."""
        return bundles_between(namespace, self.namespaces[namespace].boundaries)

    def topics_in(self, bundle: BundleRange) -> dict[str, int]:
        """Topics of a bundle with their sessions."""
        topics = self.namespaces[bundle.namespace].topics
        return {name: sessions for name, sessions in topics.items() if bundle.holds(topic_hash(name))}

    def sessions_of(self, bundle: BundleRange) -> int:
        """The number of clients of a bundle."""
        return sum(self.topics_in(bundle).values())

    def bundle_of(self, namespace: str, key: str) -> BundleRange | None:
        """The bundle of that range, if it is one now."""
        return next((one for one in self.bundles_of(namespace) if one.key == key), None)

    def assign(self, bundle: str, actor: str) -> str | None:
        """Give a bundle without an owner to the broker that was hinted at, or to any that is up."""
        if bundle in self.owners:
            return self.owners[bundle]
        up = sorted(b for b, one in self.brokers.items() if one.up)
        if not up:
            return None
        hinted = self.hints.pop(bundle, None)
        lost = self._generator.random() < self.lost_hint_fraction
        if hinted is None or lost or hinted not in self.registered():
            hinted = str(self._generator.choice(up))
        if hinted not in up:
            return None  # clients are sent to a dead broker until its session ends
        self.owners[bundle] = hinted
        self.note(actor, "assign", bundle, hinted)
        return hinted

    def release(self, bundle: str, actor: str) -> None:
        """The owner lets go of a bundle; its clients come back in a moment."""
        owner = self.owners.pop(bundle, None)
        self.note(actor, "unload", bundle, owner or "")
        self._clients_come_back(bundle)

    def hand_over(self, bundle: str, target: str, actor: str) -> None:
        """The extensible load manager moves a bundle without a gap in its ownership."""
        self.note(actor, "unload", bundle, self.owners.get(bundle, ""))
        if self._generator.random() < self.lost_hint_fraction:
            target = str(self._generator.choice(sorted(b for b, one in self.brokers.items() if one.up)))
        self.owners[bundle] = target
        self.note(actor, "assign", bundle, target)

    def cut(self, bundle: BundleRange, boundaries: list[int], actor: str) -> None:
        """Split a bundle; its parts stay with its owner."""
        space = self.namespaces[bundle.namespace]
        space.boundaries = sorted({*space.boundaries, *boundaries})
        owner = self.owners.pop(bundle.key, None)
        for part in self.bundles_of(bundle.namespace):
            if bundle.low <= part.low and part.high <= bundle.high:
                if owner is None:
                    self._clients_come_back(part.key)
                else:
                    self.owners[part.key] = owner
        self.note(actor, "split", bundle.key, ",".join(f"0x{one:08x}" for one in boundaries))

    def switch(self, broker: str, name: str) -> str:
        """A setting as a broker goes by it."""
        return self.overrides.get(name, self.files[broker].get(name, ""))

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something later."""
        self._due.append((self.now + seconds, act))

    def _clients_come_back(self, bundle: str) -> None:
        namespace = bundle.rpartition("/")[0]
        found = self.bundle_of(namespace, bundle) if namespace in self.namespaces else None
        if found is not None and self.sessions_of(found) > 0:
            self.after(self.reconnect_seconds, lambda: self._looked_up_by_clients(bundle))

    def _looked_up_by_clients(self, bundle: str) -> None:
        namespace = bundle.rpartition("/")[0]
        if namespace not in self.namespaces or self.bundle_of(namespace, bundle) is None:
            return
        if self.assign(bundle, "clients") is None:
            self.after(1.0, lambda: self._looked_up_by_clients(bundle))
