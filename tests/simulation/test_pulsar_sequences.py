"""The article's three sequences, each step by step, in both orders."""

import numpy as np
import pytest

from simulate.checkers.pulsar import always, at_rest, only_bundles_are_served
from simulated_clusters.leader import LeaderSettings, WorldSettings
from simulated_clusters.state import ClusterTopics, one_topic_a_bundle, topics_at
from simulated_clusters.world import PulsarWorld, lookup
from trimtab.model.bundles.snapshot import BundleRange, initial_boundaries
from trimtab.plan.pulsar.options import make_options

NAMESPACE = "t/n"
QUARTERS = initial_boundaries(4)
FIRST = BundleRange(NAMESPACE, 0, 1 << 30)


def world_of(brokers: int = 3, *, seed: int = 0, **leader: object) -> PulsarWorld:
    """A namespace of four bundles with a topic each, and brokers that have none of them yet."""
    traffic = np.tile([1e6, 1e6, 100.0, 100.0], (4, 1))
    topics = ClusterTopics({NAMESPACE: one_topic_a_bundle(NAMESPACE, QUARTERS, traffic)})
    capacities = {f"broker-{number}:8080": 1e8 for number in range(brokers)}
    settings = WorldSettings(LeaderSettings(**leader), seed=seed)  # type: ignore[arg-type]
    return PulsarWorld(topics, {NAMESPACE: QUARTERS}, capacities, settings)


def told(world: PulsarWorld, bundle: BundleRange) -> list[str]:
    """What has come to pass of a bundle."""
    return [one.what for one in world.history if one.bundle == bundle.key]


@pytest.mark.parametrize("seed", range(5))
def test_a_lookup_assigns_the_bundle_and_redirects_all_others(seed: int) -> None:
    """Two clients look up a topic at different brokers: one lock is acquired, and both are sent to its
    holder.
    """
    world = world_of(seed=seed)
    world.open()
    world.run_until(5.0)
    assert at_rest(world) == []
    assert told(world, FIRST) == ["assigned", "connected"]
    # Four bundles over three brokers, by the rule of the fewest bundles of a namespace.
    assert sorted(len(bundles) for bundles in world.serving.values()) == [1, 1, 2]


def test_a_lookup_of_a_bundle_in_transfer_waits_until_it_has_arrived() -> None:
    """While its owner closes a bundle, the lock stands and clients try again; then the bundle is assigned."""
    world = world_of()
    world.place(FIRST, "broker-1:8080")
    world.unload(FIRST.key)
    while world.serves(world.living["broker-1:8080"], FIRST.key):
        world.step(0)
    assert world.store.owners[FIRST.key].broker == "broker-1:8080"
    assert FIRST.key in world.waiting
    world.run_until(5.0)
    assert told(world, FIRST) == ["assigned", "closed", "released", "assigned", "connected"]
    assert not world.waiting


def test_the_owner_splits_and_its_halves_are_placed_again() -> None:
    """The owner cuts in the middle and serves both halves, before it unloads them for the next lookups."""
    world = world_of()
    world.place(FIRST, "broker-1:8080")
    world.open()
    world.run_until(1.0)
    world.split(FIRST.key)
    world.run_until(9.0)
    assert world.store.boundaries[NAMESPACE] == (0, 1 << 29, *QUARTERS[1:])
    lower, upper = BundleRange(NAMESPACE, 0, 1 << 29), BundleRange(NAMESPACE, 1 << 29, 1 << 30)
    # The only topic is in the upper half: nobody looks the lower one up, so that it has no owner.
    assert told(world, upper)[:3] == ["assigned", "closed", "released"]
    assert upper.key in world.store.owners
    assert lower.key not in world.store.owners and FIRST.key not in world.store.owners
    assert at_rest(world) == []


def test_halves_stay_with_their_clients_if_they_need_not_be_unloaded() -> None:
    """`loadBalancerAutoUnloadSplitBundlesEnabled=false`: a split that no client notices."""
    world = world_of()
    world.place(FIRST, "broker-1:8080")
    world.split(FIRST.key, unload_halves=False)
    world.run_until(5.0)
    assert [bundle.low for bundle in world.serving[world.living["broker-1:8080"]].values()] == [0, 1 << 29]
    assert "closed" not in [one.what for one in world.history]


def test_two_splits_of_a_namespace_at_once_both_come_about() -> None:
    """The second to write the boundaries finds them changed, reads them again, and keeps both cuts."""
    world = world_of()
    second = BundleRange(NAMESPACE, 1 << 30, 1 << 31)
    world.place(FIRST, "broker-1:8080")
    world.place(second, "broker-2:8080")
    world.open()
    world.split(FIRST.key)
    world.split(second.key)
    world.run_until(9.0)
    assert world.store.boundaries[NAMESPACE] == (0, 1 << 29, 1 << 30, 3 << 29, *QUARTERS[2:])
    assert at_rest(world) == []


def test_the_same_bundle_is_split_once_however_often_it_is_ordered() -> None:
    """A second order while the first is carried out does nothing, and takes nothing from the first."""
    world = world_of()
    world.place(FIRST, "broker-1:8080")
    world.open()
    for _ in range(3):
        world.split(FIRST.key, unload_halves=False)
    world.run_until(9.0)
    assert len(world.store.boundaries[NAMESPACE]) == 6
    assert at_rest(world) == []


def test_a_broker_locks_no_bundle_that_was_split_during_its_assignment() -> None:
    """The leader's answer is overtaken: another owner has had the bundle, split it, and released its lock."""
    world = world_of()
    steps = lookup(world, NAMESPACE, 1 << 29)
    for _ in range(3):  # to any broker, to the leader, to the broker chosen
        next(steps)
    world.place(FIRST, "broker-1:8080")
    world.split(FIRST.key, unload_halves=False)
    world.run_until(5.0)
    assert FIRST.key not in world.store.owners
    next(steps)
    assert FIRST.key not in world.store.owners
    assert only_bundles_are_served(world) == []


def test_topics_of_one_hash_cannot_be_divided_by_count() -> None:
    """Where the algorithm finds nothing between the bundle's ends, it stays whole, with its lock."""
    options = make_options({"defaultNamespaceBundleSplitAlgorithm": "topic_count_equally_divide"})
    topics = topics_at(np.zeros(4, dtype=np.uint32), np.ones((4, 4)))
    world = PulsarWorld(
        ClusterTopics({NAMESPACE: topics}),
        {NAMESPACE: QUARTERS},
        {"broker-0:8080": 1e8, "broker-1:8080": 1e8},
        WorldSettings(LeaderSettings(options=options)),
    )
    world.place(FIRST, "broker-1:8080")
    world.split(FIRST.key)
    world.run_until(5.0)
    assert world.store.boundaries[NAMESPACE] == QUARTERS
    assert list(world.store.owners) == [FIRST.key]


def test_a_broker_that_dies_in_a_split_leaves_the_bundle_whole_or_cut_never_half() -> None:
    """At any progress of the owner, the next lookup finds a new owner for every topic, and no
    lock is left.
    """
    ends = set()
    for steps in range(12):
        world = world_of(seed=3)
        world.place(FIRST, "broker-1:8080")
        world.open()
        world.run_until(1.0)
        world.split(FIRST.key)
        for _ in range(steps):
            world.step(0)
            assert always(world) == []
        world.kill("broker-1:8080")
        world.run_until(200.0)
        assert at_rest(world) == []
        ends.add(len(world.store.boundaries[NAMESPACE]))
    assert ends == {5, 6}


def test_a_broker_that_returns_before_its_session_ends_waits_for_its_own_locks() -> None:
    """The locks of its previous session exist: clients that are sent to it find that it does
    not serve them.
    """
    world = world_of()
    world.place(FIRST, "broker-1:8080")
    old = world.living["broker-1:8080"]
    world.kill("broker-1:8080")
    world.start("broker-1:8080")
    world.run_until(20.0)
    assert world.store.owners[FIRST.key] == old and FIRST.key in world.waiting
    world.run_until(100.0)
    assert FIRST.key in world.connected


def test_the_same_seed_gives_the_same_run() -> None:
    """All random numbers derive from the seed."""
    runs = []
    for _ in range(2):
        world = world_of(seed=11)
        world.open()
        world.kill("broker-0:8080")
        world.run_until(100.0)
        runs.append(world.history)
    assert runs[0] == runs[1]


def test_checkers_detect_violations() -> None:
    """Two owners, a gap, an invalid bundle, clients at the wrong broker, a topic that no client looks up."""
    world = world_of()
    world.open()
    world.run_until(5.0)
    first, second = (world.living[f"broker-{number}:8080"] for number in range(2))
    owner = world.store.owners[FIRST.key]
    thief = second if owner == first else first
    world.serving[thief][FIRST.key] = FIRST
    wrong = always(world)
    assert any("whose lock" in line for line in wrong) and any("the same topics" in line for line in wrong)
    del world.serving[thief][FIRST.key]
    half = BundleRange(NAMESPACE, 0, 1 << 29)
    world.serving[owner][half.key] = half
    assert any("is no bundle" in line for line in always(world))
    del world.serving[owner][half.key]
    world.connected[FIRST.key] = thief
    assert any("does not serve" in line for line in always(world))
    del world.connected[FIRST.key]
    assert always(world) == [f"nobody looks for the owner of {FIRST.key}"]
    world.store.boundaries[NAMESPACE] = QUARTERS[1:]
    assert any("has the boundaries" in line for line in always(world))
