"""A simulated Pulsar cluster in virtual time: brokers, clients, and the steps of lookups, unloads, splits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from itertools import count

import numpy as np

from simulated_clusters.leader import SimulatedLeader, UnloadOrder, WorldEvent, WorldSettings
from simulated_clusters.state import (
    BrokerSession,
    ClusterTopics,
    MetadataStore,
    PulsarWorldProtocol,
    Steps,
    VirtualTime,
    cut,
)
from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.reports import BrokerReport, ResourceUsage
from trimtab.model.bundles.snapshot import BundleRange, bundles_between, parse_bundle
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.splits import BundleSplit, split_positions

SPLIT_ATTEMPTS = 7
"""A split is tried so often if others write the namespace's boundaries (`BUNDLE_SPLIT_RETRY_LIMIT`)."""


def lookup(world: PulsarWorldProtocol, namespace: str, topic_hash: int) -> Steps:
    """A client finds the owner of its topic, and is the cause of there being one.

    It asks any broker; that one redirects to the owner, or asks the leader for a broker, which takes the
    ephemeral lock. Whoever comes second finds the lock taken and is redirected to its holder. Whatever fails
    on the way is tried again a little later.
    """
    for failures in count(1):
        yield world.hop()
        asked = world.any_broker()
        if asked is not None:
            bundle = world.store.bundle_of(namespace, topic_hash)
            owner = world.store.owners.get(bundle.key)
            if owner is None:
                owner = yield from _assigned(world, asked, bundle)
            if owner is not None:
                yield world.hop()
                if world.serves(owner, bundle.key):
                    world.connect(bundle, owner)
                    return
        yield world.back_off(failures)


def _assigned(
    world: PulsarWorldProtocol, request: BrokerSession, bundle: BundleRange
) -> Generator[float, None, BrokerSession | None]:
    """Who owns a bundle after the leader has chosen a broker for it; None if something went wrong."""
    leader = world.store.leader
    yield world.hop()
    if leader is None or not world.is_alive(leader) or not world.is_alive(request):
        return None
    chosen = world.choose(bundle.key)
    yield world.hop()
    target = None if chosen is None else world.living.get(chosen)
    # Somebody else may have been faster, and may have split it since.
    if target is None or not world.store.has(bundle):
        return None
    if world.store.lock(bundle.key, target):
        world.begin_serving(bundle, target)
    return world.store.owners.get(bundle.key)


def unload(world: PulsarWorldProtocol, order: UnloadOrder) -> Steps:
    """A bundle's owner closes its clients, and then releases its lock.

    An order that comes when the bundle is gone (moved, split, or its broker has died) does nothing.
    """
    yield world.hop()
    owner = world.living.get(order.owner)
    if owner is None or not world.serves(owner, order.bundle):
        return
    bundle = parse_bundle(order.bundle)
    # It serves no more before it releases: the next owner may begin at once.
    world.end_serving(bundle, owner)
    yield world.closing()
    if world.is_alive(owner):
        world.store.release(order.bundle, owner)
        world.note("released", order.bundle, order.owner)


def split(world: PulsarWorldProtocol, order: BundleSplit) -> Steps:
    """A bundle's owner finds out where to cut, takes the locks of the halves, and writes the boundaries.

    From then on it serves the halves instead, whose clients stay connected, and releases the lock of what was
    cut; the halves are unloaded if the leader wants it. If others have written the namespace's boundaries
    meanwhile, they are read again. Whatever stops it leaves no lock of a half.

    References
    ----------
    Pulsar 4.0, `NamespaceService.splitAndOwnBundle`.
    """
    yield world.hop()
    owner = world.living.get(order.broker)
    if owner is None or not world.serves(owner, order.bundle):
        return
    bundle = parse_bundle(order.bundle)
    positions = split_positions(bundle, world.options, world.topics.flows(bundle))
    if not positions:
        return
    for _ in range(SPLIT_ATTEMPTS):
        version = world.store.versions[bundle.namespace]
        try:
            boundaries = cut(world.store.boundaries[bundle.namespace], bundle, positions)
        except PlanError:
            return
        halves = bundles_between(bundle.namespace, (bundle.low, *sorted(positions), bundle.high))
        yield world.hop()
        # Another split of the same bundle may be on its way, whose locks must not be given back here.
        taken = [half.key for half in halves if world.store.lock(half.key, owner)]
        yield world.hop()
        if len(taken) < len(halves) or not world.serves(owner, order.bundle):
            _give_back(world, taken, owner)
            return
        if world.store.write_boundaries(bundle.namespace, boundaries, version):
            world.replace_by_halves(bundle, halves, owner)
            yield world.hop()
            world.store.release(order.bundle, owner)
            if order.unload:
                for half in halves:
                    world.begin(unload(world, UnloadOrder(half.key, owner.broker, None)))
            return
        _give_back(world, taken, owner)


def _give_back(world: PulsarWorldProtocol, bundles: Sequence[str], owner: BrokerSession) -> None:
    for bundle in bundles:
        world.store.release(bundle, owner)


def expire(world: PulsarWorldProtocol, session: BrokerSession, seconds: float) -> Steps:
    """A dead broker's session ends after a while: its locks are free, and there is a leader again."""
    yield seconds
    world.end_session(session)


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
        """Pulsar's options of this cluster."""
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


class PulsarWorld(SimulatedClients):
    """Brokers that come and go, their leader, and what operators do.

    Parameters
    ----------
    topics
        What there is to be served.
    boundaries
        Of each namespace.
    capacities
        Of each broker: bytes per second that are 100 % of its bandwidth in, and out. CPU is 100 % at both.
    settings
        How it goes.
    """

    def __init__(
        self,
        topics: ClusterTopics,
        boundaries: Mapping[str, tuple[int, ...]],
        capacities: Mapping[str, float],
        settings: WorldSettings | None = None,
    ) -> None:
        super().__init__(topics, boundaries, capacities, settings or WorldSettings())
        self.leader = SimulatedLeader(self.settings.leader, self.chance)
        self._peers = 0
        for broker in capacities:
            self.start(broker)
        self.begin(self._rounds())

    @property
    def metadata(self) -> ClusterMetadata:
        """The leader's reading of the store."""
        return ClusterMetadata(boundaries=self.store.boundaries)

    def start(self, broker: str, capacity: float | None = None) -> None:
        """A broker comes up, empty; one that runs already goes on as it is."""
        if broker in self.living:
            return
        self.capacities[broker] = self.capacities[broker] if capacity is None else capacity
        self._peers += 1
        session = BrokerSession(broker, self._peers)
        self.store.register(session)
        self.living[broker] = session
        self.serving[session] = {}
        if self.store.leader is None:
            self._elect()
        self.leader.joined(broker, self.report(session))

    def kill(self, broker: str) -> None:
        """A broker dies: its clients notice at once, the others when its session ends."""
        session = self.living.pop(broker, None)
        if session is None:
            return
        self.note("died", broker=broker)
        for bundle in self.serving.pop(session).values():
            self.disconnect(bundle, session)
        self.begin(expire(self, session, self.settings.session_seconds))

    def end_session(self, session: BrokerSession) -> None:
        """The store takes a dead broker's locks away."""
        led = self.store.leader == session
        released = self.store.expire(session)
        self.note("expired", broker=session.broker)
        for bundle in released:
            self.note("released", bundle, session.broker)
        # A broker of that name may be up again, in another session.
        if session.broker not in self.living:
            self.leader.left(session.broker)
        if led:
            self._elect()

    def choose(self, bundle: str) -> str | None:
        """The broker that the leader wants a bundle on."""
        return self.leader.choose(bundle, self.metadata)

    def round(self) -> None:
        """Everybody reports; the leader sheds and has bundles split, if there is one."""
        leader = self.store.leader
        if leader is None or not self.is_alive(leader):
            return
        # What a dead broker reported last stands until its session ends.
        reports = {
            session.broker: self.report(session)
            if self.is_alive(session) or session.broker not in self.leader.view.reports
            else self.leader.view.reports[session.broker]
            for session in self.store.sessions
            if self.is_alive(session) or session.broker not in self.living
        }
        self.leader.absorb_reports(self.now, reports, tuple(self.serving[leader]))
        for order in self.leader.shed(self.metadata):
            self.begin(unload(self, order))
        for too_large in self.leader.splits(self.metadata):
            self.begin(split(self, too_large))

    def _rounds(self) -> Steps:
        while True:
            yield self.settings.round_seconds
            self.round()

    def _elect(self) -> None:
        session = self.any_broker()
        self.store.leader = session
        if session is not None:
            self.note("elected", broker=session.broker)
            self.leader = SimulatedLeader(self.settings.leader, self.chance)
            self.leader.absorb_reports(
                self.now,
                {one.broker: self.report(one) for one in self.store.sessions if self.is_alive(one)},
                tuple(self.serving[session]),
            )

    def place(self, bundle: BundleRange, broker: str) -> None:
        """Give a bundle to a broker that serves it from the beginning, with its clients."""
        session = self.living[broker]
        if not self.store.lock(bundle.key, session):
            raise ValueError(f"bundle {bundle.key} has an owner already")
        self.begin_serving(bundle, session)
        self.connected[bundle.key] = session

    def unload(self, bundle: str) -> None:
        """An operator unloads a bundle from whoever owns it."""
        owner = self.store.owners.get(bundle)
        if owner is not None:
            self.begin(unload(self, UnloadOrder(bundle, owner.broker, None)))

    def split(self, bundle: str, *, unload_halves: bool = True) -> None:
        """An operator has a bundle split by whoever owns it."""
        owner = self.store.owners.get(bundle)
        if owner is not None and parse_bundle(bundle).can_split:
            self.begin(split(self, BundleSplit(bundle, owner.broker, "Admin", unload=unload_halves)))
