"""A simulated Pulsar in virtual time: brokers, their leader, and the clients of their bundles.

Chance is seeded and the clock is a number: the same settings give the same run.
"""

from collections.abc import Mapping

from trimtab.lab.simulate.pulsar.clients import SimulatedClients
from trimtab.lab.simulate.pulsar.leader import SimulatedLeader, UnloadOrder
from trimtab.lab.simulate.pulsar.sequences import expire, split, unload
from trimtab.lab.simulate.pulsar.settings import WorldSettings
from trimtab.lab.simulate.pulsar.store import BrokerSession
from trimtab.lab.simulate.pulsar.topics import ClusterTopics
from trimtab.lab.simulate.pulsar.world_protocol import Steps
from trimtab.model.bundles.policies import ClusterMetadata
from trimtab.model.bundles.range import BundleRange, parse_bundle
from trimtab.plan.pulsar.split.modular import BundleSplit


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
