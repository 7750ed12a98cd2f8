"""Whatever the order of messages, deaths and orders, a simulated Pulsar keeps its promises."""

from typing import Any

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simulate.checkers.pulsar import always, at_rest
from simulated_clusters.leader import LeaderSettings, UnloadOrder, WorldSettings
from simulated_clusters.state import ClusterTopics, topics_at
from simulated_clusters.world import PulsarWorld, lookup, unload
from trimtab.model.bundles.snapshot import initial_boundaries
from trimtab.plan.pulsar.options import make_options

BROKERS = [f"broker-{number}:8080" for number in range(4)]
NAMESPACES = ("t/a", "t/b")
SHEDDERS = ["ThresholdShedder", "UniformLoadShedder", "AvgShedder", "TransferShedder"]


class AnyOrder(RuleBasedStateMachine):
    """Sequences that go on in any order, with brokers that die and come back in the middle of them."""

    world: PulsarWorld

    @initialize(
        seed=st.integers(0, 2**16),
        shedder=st.sampled_from(SHEDDERS),
        first=st.booleans(),
        algorithm=st.sampled_from(["range_equally_divide", "topic_count_equally_divide"]),
        variant=st.sampled_from(["pulsar-4.2", "pulsar-4.0", "article"]),
    )
    def begin(self, seed: int, shedder: str, first: bool, algorithm: str, variant: str) -> None:
        """Clients of two namespaces come up, of which some bundles are large enough to be split."""
        chance = np.random.default_rng(seed)
        options = make_options(
            {
                "defaultNamespaceBundleSplitAlgorithm": algorithm,
                "loadBalancerNamespaceBundleMaxTopics": 5,
                "loadBalancerNamespaceMaximumBundles": 6,
            },
            variant,
        )
        topics = ClusterTopics(
            {
                name: topics_at(
                    chance.integers(0, 1 << 32, 16, dtype=np.uint32), chance.exponential(4e6, (16, 4))
                )
                for name in NAMESPACES
            }
        )
        placer = "AvgShedder" if shedder == "AvgShedder" else "LeastLongTermMessageRate"
        self.world = PulsarWorld(
            topics,
            dict.fromkeys(NAMESPACES, initial_boundaries(2)),
            dict.fromkeys(BROKERS[:3], 1e8),
            WorldSettings(LeaderSettings(shedder, placer, options, first), seed=seed, session_seconds=1.0),
        )
        self.world.open()

    @rule(numbers=st.lists(st.integers(0, 2**16), min_size=1, max_size=12))
    def go_on(self, numbers: list[int]) -> None:
        """Any waiting sequences take a step each, due or not."""
        for number in numbers:
            self.world.step(number % self.world.pending())
            self.check()

    @rule(seconds=st.floats(0.001, 2))
    def wait(self, seconds: float) -> None:
        """Time goes by."""
        self.world.run_until(self.world.now + seconds)

    @rule()
    def report(self) -> None:
        """Everybody reports, and the leader acts on it."""
        self.world.round()

    @rule(broker=st.sampled_from(BROKERS))
    def kill(self, broker: str) -> None:
        """A broker dies."""
        self.world.kill(broker)

    @rule(broker=st.sampled_from(BROKERS))
    def start(self, broker: str) -> None:
        """A broker joins, or comes back before or after its old session has ended."""
        self.world.start(broker, 1e8)

    @rule(data=st.data())
    def order(self, data: Any) -> None:
        """An operator, or a leader that was deposed, has a bundle unloaded or split."""
        owned = sorted(self.world.store.owners)
        if owned:
            bundle = data.draw(st.sampled_from(owned))
            if data.draw(st.booleans()):
                self.world.split(bundle, unload_halves=data.draw(st.booleans()))
            else:
                self.world.unload(bundle)

    @rule(
        broker=st.sampled_from(BROKERS), namespace=st.sampled_from(NAMESPACES), at=st.integers(0, 2**32 - 1)
    )
    def lose(self, broker: str, namespace: str, at: int) -> None:
        """An order reaches a broker that may never have had the bundle; a stranger looks a topic up."""
        self.world.begin(
            unload(self.world, UnloadOrder(self.world.store.bundle_of(namespace, at).key, broker, None))
        )
        self.world.begin(lookup(self.world, namespace, at))

    @invariant()
    def check(self) -> None:
        """One owner at most, every topic in one bundle, no bundle lost."""
        if hasattr(self, "world"):
            assert always(self.world) == []

    def teardown(self) -> None:
        """Left alone with a living broker, every client finds its way."""
        if hasattr(self, "world"):
            self.world.start(BROKERS[0], 1e8)
            for _ in range(40):
                self.world.run_until(self.world.now + 20.0)
                if not at_rest(self.world):
                    break
            assert at_rest(self.world) == []


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, phases=[Phase.generate]
)
