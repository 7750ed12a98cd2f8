"""Checks for the end of an execution of bundles, told from the cluster and its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from simulate.pulsar_admin.cluster import SWITCHES, SYSTEM, AdminCluster
from trimtab.act.bundles.state import BundleStepKind, BundleStepState

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
