"""Checkers of executions on a simulated admin API of Pulsar, and of simulated Pulsar in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from simulate.pulsar_admin.cluster import SWITCHES, SYSTEM, AdminCluster
from simulated_clusters.world import PulsarWorld
from trimtab.act.bundles.state import BundleStepKind, BundleStepState
from trimtab.model.bundles.snapshot import FULL_LOWER, FULL_UPPER, bundles_between

if TYPE_CHECKING:
    from trimtab.act.bundles.state import BundlesExecutionState


OURS: Final = "admin"
"""Who the history says has come by the admin API; everybody else in it is somebody else."""


def balancing_given_back(cluster: AdminCluster, before: Mapping[str, str]) -> list[str]:
    """The switches are as before us, or as somebody else has set them since."""
    expected = {name: before[name] for name in SWITCHES if name in before}
    for deed in cluster.history:
        if deed.verb in ("set", "unset") and deed.actor != OURS and deed.subject in SWITCHES:
            expected.pop(deed.subject, None)
            if deed.verb == "set":
                expected[deed.subject] = deed.detail
    found = {name: cluster.overrides[name] for name in SWITCHES if name in cluster.overrides}
    return [] if found == expected else [f"switches are {found}, not {expected}"]


def balancing_off_while_unloading(cluster: AdminCluster, before: Mapping[str, str]) -> list[str]:
    """Nothing is unloaded or split by us before the switches are off, unless somebody else set them since."""
    values = {name: before.get(name) for name in SWITCHES}
    theirs: set[str] = set()
    wrong = []
    for deed in cluster.history:
        if deed.verb in ("set", "unset") and deed.subject in values:
            values[deed.subject] = deed.detail if deed.verb == "set" else None
            (theirs.discard if deed.actor == OURS else theirs.add)(deed.subject)
        elif deed.verb in ("unload", "split") and deed.actor == OURS:
            on = [name for name, value in values.items() if value != "false" and name not in theirs]
            wrong += [f"{deed.verb} of {deed.subject} at {deed.at:.1f} while {name} was on" for name in on]
    return wrong


def no_bundle_half_split(cluster: AdminCluster, state: BundlesExecutionState) -> list[str]:
    """A split is there as a whole or not at all; one that failed half way says so."""
    wrong = []
    for record in state.records:
        step = record.step
        if step.kind is not BundleStepKind.SPLIT or step.namespace not in cluster.namespaces:
            continue
        there = set(step.boundaries) & set(cluster.namespaces[step.namespace].boundaries)
        if record.state is BundleStepState.DONE and len(there) < len(step.boundaries):
            wrong.append(f"{step} is done, but only {sorted(there)} are cut")
        told = record.state is BundleStepState.DONE or (
            record.state is BundleStepState.FAILED and record.cut > 0
        )
        if not told and there and len(there) < len(step.boundaries):
            wrong.append(f"{step} is {record.state} and cut at {sorted(there)} only")
    return wrong


def owners_as_planned(cluster: AdminCluster, state: BundlesExecutionState) -> list[str]:
    """A bundle whose unload is done was given to its destination; any other step says why it was not."""
    wrong = []
    for record in state.records:
        step = record.step
        if not record.ended and not record.reason and record.attempts:
            wrong.append(f"{step} is {record.state} after {record.attempts} attempts without a reason")
        if step.kind is not BundleStepKind.UNLOAD or record.state is not BundleStepState.DONE:
            continue
        if record.started_at is None:
            continue  # was so already
        taken = [d for d in cluster.history if d.verb == "assign" and d.subject == step.bundle]
        if step.target not in {deed.detail for deed in taken}:
            wrong.append(f"{step} is done, but {step.target} never took it: {taken}")
    return wrong


def nobody_left_without_owner(cluster: AdminCluster) -> list[str]:
    """Every bundle with clients is served by a broker that is up."""
    return [
        f"{bundle.key} has {cluster.sessions_of(bundle)} clients and is with {cluster.owners.get(bundle.key)}"
        for namespace in cluster.namespaces
        for bundle in cluster.bundles_of(namespace)
        if cluster.sessions_of(bundle)
        and not (bundle.key in cluster.owners and cluster.brokers[cluster.owners[bundle.key]].up)
    ]


def no_claim_left(cluster: AdminCluster) -> list[str]:
    """Nobody claims to act any more."""
    left = [name for name in cluster.namespaces[SYSTEM].properties if name.startswith("trimtab.lease.")]
    return [f"the claim {name} is left" for name in left]


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
