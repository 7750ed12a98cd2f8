"""Executions of the balancer `bundles` on the simulated admin API in virtual time, without sockets."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from simulate.pulsar_admin.cluster import AdminCluster
from simulate.pulsar_admin.server import AdminBrokers, Fault
from support.admin_transport import AdminTransport
from support.invariants import Checked
from support.journals import CODECS
from trimtab.act.bundles.executor import compare, steps_of
from trimtab.act.bundles.machine import BundlesMachine, new_execution
from trimtab.act.bundles.port import SWITCHES
from trimtab.act.bundles.state import BundlesExecutionState, UnloadLimits, UnloadSettings
from trimtab.act.control import Runner
from trimtab.act.journal import Journal
from trimtab.model.bundles.plan import BundlePlan
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.port import PulsarAdminPort

BROKERS = ("b1:8080", "b2:8080", "b3:8080")
NAMESPACE = "acme/shop"
SETTINGS = UnloadSettings(
    initial_backoff_seconds=0.1,
    limits=UnloadLimits(
        batch_pause_seconds=0.5, session_timeout_seconds=10.0, external_change_cooldown_seconds=75.0
    ),
)


class Bed:
    """A cluster of three brokers and one namespace, in virtual time, and a port to it.

    Parameters
    ----------
    bundles
        How many equal bundles the namespace has; all are owned by the first broker.
    topics
        Topics in each bundle at least, two sessions each.
    """

    def __init__(
        self,
        bundles: int = 4,
        topics: int = 2,
        brokers: tuple[str, ...] = BROKERS,
        seed: int = 0,
        began_at: float = 1_800_000_000.0,
        **settings: float,
    ) -> None:
        self.now = began_at
        self.sense: object = None
        self.cluster = AdminCluster(
            list(brokers),
            lambda: self.now,
            np.random.default_rng(seed),
            **settings,  # type: ignore[arg-type]
        )
        self.brokers = AdminBrokers(self.cluster, pass_time=self.sleep)
        self.token = self.cluster.token
        self.port = self.connect()
        self.cluster.add_namespace(NAMESPACE, bundles)
        self._add_topics(topics)
        for bundle in self.cluster.bundles_of(NAMESPACE):
            self.cluster.give(bundle.key, brokers[0])

    def connect(self, **given: str) -> PulsarAdminPort:
        """A port of its own."""
        urls = tuple(f"http://{broker}" for broker in self.cluster.brokers)
        connection = PulsarConnection(admin=urls, token=given.get("token", self.token))
        self.admin = PulsarAdmin(connection, AdminTransport(self.brokers, call_seconds=0.01))
        return PulsarAdminPort(self.admin, self.clock, threads=1)

    def _add_topics(self, topics: int) -> None:
        number = 0
        while any(len(self.cluster.topics_in(b)) < topics for b in self.cluster.bundles_of(NAMESPACE)):
            self.cluster.add_topic(f"persistent://{NAMESPACE}/t{number}")
            number += 1

    def clock(self) -> float:
        """Virtual time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.now += seconds

    @property
    def keys(self) -> list[str]:
        """The namespace's bundles, rising."""
        return [bundle.key for bundle in self.cluster.bundles_of(NAMESPACE)]

    @property
    def faults(self) -> list[Fault]:
        """What is to go wrong; add to it."""
        return self.brokers.faults

    def prepared(
        self, plan: BundlePlan, settings: UnloadSettings = SETTINGS, *, rebase: bool = False
    ) -> BundlesExecutionState:
        """The state of an execution of that plan, before its first event."""
        seen = self.port.observe([NAMESPACE], deep=True)
        comparison = compare(plan, seen)
        comparison.require_unchanged("moves have been overtaken", rebase=rebase)
        return new_execution(seen.cluster, steps_of(plan, comparison), settings, self.now)

    def run(
        self,
        state: BundlesExecutionState,
        folder: Path,
        watch: Callable[[BundlesExecutionState], None] | None = None,
    ) -> BundlesExecutionState:
        """Journal and run it to its end."""
        with Journal(folder / "journal.sqlite", CODECS) as journal:
            # Nothing here survives the machine, only the process: waiting for the disk would test nothing.
            journal._db.execute("PRAGMA synchronous=OFF")
            execution = journal.create(state, "simulated", "{}", "test", {})
            return self.runner(journal, execution, state, watch).run()

    def runner(
        self,
        journal: Journal,
        execution: int,
        state: BundlesExecutionState,
        watch: Callable[[BundlesExecutionState], None] | None = None,
    ) -> Runner[BundlesExecutionState]:
        """A runner with invariants checked after every event."""
        machine = BundlesMachine(self.port, self.clock, self.sense)
        return Runner(
            machine,
            journal,
            None,
            execution,
            state,
            clock=self.clock,
            sleep=self.sleep,
            watch=Checked(watch),
        )

    def verbs(self, *verbs: str) -> list[tuple[str, str]]:
        """(subject, detail) of what has been done in the cluster, of these kinds."""
        return [(deed.subject, deed.detail) for deed in self.cluster.history if deed.verb in verbs]

    def assert_given_back(self, before: dict[str, str] | None = None) -> None:
        """The switches are set as they were, nothing by default."""
        ours = {name: value for name, value in self.cluster.overrides.items() if name in SWITCHES}
        assert ours == (before or {})
