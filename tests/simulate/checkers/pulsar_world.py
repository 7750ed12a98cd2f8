"""Checks of a simulated Pulsar: what must be true at every instant, and once it has come to rest.

Each checker returns what is wrong, in sentences; empty is good.
"""

from itertools import pairwise

from trimtab.lab.simulate.pulsar.world import PulsarWorld
from trimtab.model.bundles.range import FULL_LOWER, FULL_UPPER, bundles_between

Violations = list[str]


def at_most_one_owner(world: PulsarWorld) -> Violations:
    """Who serves a bundle holds its lock, and no topic is served twice: not even by a bundle and its half."""
    wrong = []
    ranges: dict[str, list[tuple[int, int, str, str]]] = {}
    for session, bundles in world.serving.items():
        for key, bundle in bundles.items():
            if world.store.owners.get(key) != session:
                wrong.append(f"{session.broker} serves {key}, whose lock {world.store.owners.get(key)} holds")
            ranges.setdefault(bundle.namespace, []).append((bundle.low, bundle.high, key, session.broker))
    for found in ranges.values():
        for (_, high, key, broker), (low, _, other, second) in pairwise(sorted(found)):
            if low < high:
                wrong.append(f"{key} on {broker} and {other} on {second} hold the same topics")
    return wrong


def every_topic_in_one_bundle(world: PulsarWorld) -> Violations:
    """The bundles of a namespace cover all hashes without gap or overlap, and their topics are all topics."""
    wrong = []
    for namespace, boundaries in world.store.boundaries.items():
        ends = (boundaries[0], boundaries[-1])
        if ends != (FULL_LOWER, FULL_UPPER) or any(low >= high for low, high in pairwise(boundaries)):
            wrong.append(f"{namespace} has the boundaries {boundaries}")
            continue
        held = sum(world.topics.stats(bundle).topics for bundle in bundles_between(namespace, boundaries))
        topics = len(world.topics.namespaces[namespace].hashes)
        if held != topics:
            wrong.append(f"{namespace} has {topics} topics, its bundles hold {held}")
    return wrong


def only_bundles_are_served(world: PulsarWorld) -> Violations:
    """Nobody serves a bundle that its namespace does not have (any more)."""
    return [
        f"{session.broker} serves {key}, which is no bundle"
        for session, bundles in world.serving.items()
        for key, bundle in bundles.items()
        if not world.store.has(bundle)
    ]


def clients_are_with_owners(world: PulsarWorld) -> Violations:
    """Connected clients are with the broker that serves their bundle, and no other client is thought so."""
    return [
        f"clients of {key} are with {session.broker}, which does not serve it"
        for key, session in world.connected.items()
        if not world.serves(session, key) or key in world.waiting
    ]


def none_lost(world: PulsarWorld) -> Violations:
    """Clients of every bundle with topics are connected, or wait while somebody looks for its owner."""
    return [
        f"nobody looks for the owner of {bundle.key}"
        for namespace, boundaries in world.store.boundaries.items()
        for bundle in bundles_between(namespace, boundaries)
        if world.topics.stats(bundle).topics
        and bundle.key not in world.connected
        and bundle.key not in world.waiting
    ]


def always(world: PulsarWorld) -> Violations:
    """Check of what must be true at every instant, once clients have come up."""
    return [
        *at_most_one_owner(world),
        *every_topic_in_one_bundle(world),
        *only_bundles_are_served(world),
        *clients_are_with_owners(world),
        *none_lost(world),
    ]


def at_rest(world: PulsarWorld) -> Violations:
    """Besides, of a world with a living broker that nothing has happened to for a while.

    All clients are connected, and every lock is of a bundle that is served.
    """
    wrong = [f"clients of {bundle} still wait" for bundle in world.waiting]
    wrong += [
        f"{session.broker} holds the lock of {bundle} and does not serve it"
        for bundle, session in world.store.owners.items()
        if not world.serves(session, bundle)
    ]
    return always(world) + wrong
