"""A simulated Pulsar in virtual time: brokers, their leader, and the clients of their bundles.

Chance is seeded and the clock is a number: the same settings give the same run. Clients are counted by
bundle: where a bundle is lost to its clients, a few of them look their topics up at different brokers, and
the rest follows when the first is connected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trimtab.model.bundle_policies import ClusterMetadata
from trimtab.model.bundle_range import BundleRange, bundles_between, parse_bundle
from trimtab.model.bundles import BrokerReport, ResourceUsage
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.split.decision import Split
from trimtab.simulate.pulsar_leader import Leader, LeaderSettings, Unload
from trimtab.simulate.pulsar_sequences import expire, lookup, split, unload
from trimtab.simulate.pulsar_stage import Steps
from trimtab.simulate.pulsar_store import MetadataStore, Session
from trimtab.simulate.pulsar_time import VirtualTime
from trimtab.simulate.pulsar_topics import Topics


@dataclass(frozen=True)
class WorldSettings:
    """How a simulated world goes.

    Attributes
    ----------
    leader
        By what rules its leader decides.
    seed
        Of all chance.
    round_seconds
        From one round of reports, shedding and splits to the next.
    session_seconds
        How long a dead broker's locks stand (`metadataStoreSessionTimeoutMillis`).
    hop_seconds, closing_seconds
        Means, exponentially distributed: of a message's travel, and of closing a bundle's topics.
    back_off_seconds, longest_back_off_seconds
        A client's first pause before it tries again, which doubles each time, and its longest; up to a tenth
        less by chance. Defaults are those of Pulsar's Java client.
    lookups
        How many clients of a bundle look their topics up at once; the others follow.
    """

    leader: LeaderSettings = field(default_factory=LeaderSettings)
    seed: int = 0
    round_seconds: float = 60.0
    session_seconds: float = 30.0
    hop_seconds: float = 0.005
    closing_seconds: float = 0.1
    back_off_seconds: float = 0.1
    longest_back_off_seconds: float = 60.0
    lookups: int = 2


@dataclass(frozen=True)
class Happening:
    """Something that came to pass.

    Attributes
    ----------
    at
        Virtual seconds.
    what
        `assigned`, `connected`, `closed`, `released`, `split`, `died`, `expired` or `elected`.
    bundle, broker
        Whom it is about; empty where it is not about any.
    topics
        Whose clients were connected or closed.
    seconds
        For `connected`: how long they had been without their broker.
    """

    at: float
    what: str
    bundle: str = ""
    broker: str = ""
    topics: int = 0
    seconds: float = 0.0


class PulsarWorld(VirtualTime):
    """Brokers, topics and clients.

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

    Attributes
    ----------
    living
        The session of each broker that is up.
    serving
        What each of these serves, in the order of acquisition: its own belief, apart from the locks.
    connected
        The broker that the clients of each bundle are connected to.
    waiting
        Since when the clients of each of the other bundles have been without.
    history
        What has come to pass.
    """

    def __init__(
        self,
        topics: Topics,
        boundaries: Mapping[str, tuple[int, ...]],
        capacities: Mapping[str, float],
        settings: WorldSettings | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings or WorldSettings()
        self.topics = topics
        self.store = MetadataStore(boundaries)
        self.capacities = dict(capacities)
        self.chance = np.random.default_rng(self.settings.seed)
        self.living: dict[str, Session] = {}
        self.serving: dict[Session, dict[str, BundleRange]] = {}
        self.connected: dict[str, Session] = {}
        self.waiting: dict[str, float] = {}
        self.history: list[Happening] = []
        self.leader = Leader(self.settings.leader, self.chance)
        self._lives = 0
        for broker in capacities:
            self.start(broker)
        self.begin(self._rounds())

    @property
    def options(self) -> Options:
        """Pulsar's options."""
        return self.settings.leader.options

    @property
    def metadata(self) -> ClusterMetadata:
        """What the leader reads in the store."""
        return ClusterMetadata(boundaries=self.store.boundaries)

    # Time and chance.

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
        self.history.append(Happening(self.now, what, bundle, broker, topics, seconds))

    # Brokers.

    def start(self, broker: str, capacity: float | None = None) -> None:
        """A broker comes up, empty; one that runs already goes on as it is."""
        if broker in self.living:
            return
        self.capacities[broker] = self.capacities[broker] if capacity is None else capacity
        self._lives += 1
        session = Session(broker, self._lives)
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
            self._disconnect(bundle, session)
        self.begin(expire(self, session, self.settings.session_seconds))

    def end_session(self, session: Session) -> None:
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

    def lives(self, session: Session) -> bool:
        """Whether a broker is still in this life of its."""
        return self.living.get(session.broker) == session

    def any_broker(self) -> Session | None:
        """The broker that a client happens to ask."""
        names = tuple(self.living)
        return self.living[names[int(self.chance.integers(len(names)))]] if names else None

    def report(self, session: Session) -> BrokerReport:
        """What a broker would report now; one that has died, that it does nothing."""
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

    # The leader.

    def choose(self, bundle: str) -> str | None:
        """Where the leader wants a bundle."""
        return self.leader.choose(bundle, self.metadata)

    def round(self) -> None:
        """Everybody reports; the leader sheds and has bundles split, if there is one."""
        leader = self.store.leader
        if leader is None or not self.lives(leader):
            return
        # What a dead broker reported last stands until its session ends.
        reports = {
            session.broker: self.report(session)
            if self.lives(session) or session.broker not in self.leader.view.reports
            else self.leader.view.reports[session.broker]
            for session in self.store.sessions
            if self.lives(session) or session.broker not in self.living
        }
        self.leader.take_in(self.now, reports, tuple(self.serving[leader]))
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
            self.leader = Leader(self.settings.leader, self.chance)
            self.leader.take_in(
                self.now,
                {one.broker: self.report(one) for one in self.store.sessions if self.lives(one)},
                tuple(self.serving[session]),
            )

    # Bundles and their clients.

    def serves(self, session: Session, bundle: str) -> bool:
        """Whether a broker lives and serves a bundle."""
        return self.lives(session) and bundle in self.serving[session]

    def place(self, bundle: BundleRange, broker: str) -> None:
        """Give a bundle to a broker that serves it from the beginning, with its clients."""
        session = self.living[broker]
        if not self.store.lock(bundle.key, session):
            raise ValueError(f"bundle {bundle.key} has an owner already")
        self.begin_serving(bundle, session)
        self.connected[bundle.key] = session

    def open(self, namespace: str | None = None) -> None:
        """The clients of every bundle that has no owner come up and look their topics up."""
        for name in self.store.boundaries if namespace is None else (namespace,):
            for bundle in bundles_between(name, self.store.boundaries[name]):
                if bundle.key not in self.connected and bundle.key not in self.waiting:
                    self._wait(bundle)

    def begin_serving(self, bundle: BundleRange, session: Session) -> None:
        """A broker that has just taken a bundle's lock begins to serve it."""
        self.serving[session][bundle.key] = bundle
        self.note("assigned", bundle.key, session.broker)

    def end_serving(self, bundle: BundleRange, session: Session) -> None:
        """A bundle's broker closes it, with its clients."""
        del self.serving[session][bundle.key]
        self._disconnect(bundle, session)

    def replace_by_halves(
        self, bundle: BundleRange, halves: tuple[BundleRange, ...], session: Session
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

    def connect(self, bundle: BundleRange, session: Session) -> None:
        """The clients of a bundle have found its owner."""
        if self.connected.get(bundle.key) != session:
            self.connected[bundle.key] = session
            since = self.waiting.pop(bundle.key, self.now)
            topics = self.topics.stats(bundle).topics
            self.note("connected", bundle.key, session.broker, topics, self.now - since)

    def _disconnect(self, bundle: BundleRange, session: Session) -> None:
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

    def unload(self, bundle: str) -> None:
        """An operator unloads a bundle from whoever owns it."""
        owner = self.store.owners.get(bundle)
        if owner is not None:
            self.begin(unload(self, Unload(bundle, owner.broker, None)))

    def split(self, bundle: str, *, unload_halves: bool = True) -> None:
        """An operator has a bundle split by whoever owns it."""
        owner = self.store.owners.get(bundle)
        if owner is not None and parse_bundle(bundle).can_split:
            self.begin(split(self, Split(bundle, owner.broker, "Admin", unload=unload_halves)))
