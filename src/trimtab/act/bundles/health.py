"""Whether the cluster is fit for more: what holds an execution up, told from one look and the one before."""

from dataclasses import replace
from typing import Final

from trimtab.act.bundles.observation import OFF, SWITCHES, BundlesSeen
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import StepKind, StepState

BROKERS_OWN: Final = ("pulsar/", "sla-monitor/")
"""Tenants of the brokers themselves: heartbeats, and what they tell each other."""


def foreign_moves(state: BundlesState, seen: BundlesSeen) -> list[str]:
    """Bundles that went from one living broker to another, and not by our doing; for people, in order.

    Those of the brokers' own namespaces go where the leader is.
    """
    ours = {
        record.step.bundle
        for record in state.records
        if record.active or (record.state is StepState.PENDING and record.attempts > 0)
    }
    return [
        f"{bundle} from {before} to {seen.owners[bundle]}"
        for bundle, before in sorted(state.last_owner.items())
        if bundle not in ours
        and not bundle.startswith(BROKERS_OWN)
        and before in seen.alive
        and before in (state.brokers or ())
        and seen.owners.get(bundle, before) != before
    ]


def noticing(state: BundlesState, seen: BundlesSeen) -> BundlesState:
    """What others have moved since the last look, and who owns what now."""
    found = foreign_moves(state, seen)
    # Before the brokers' own balancing is off, it is its right to move what it likes.
    if found and (state.verified or state.foreign_at is not None):
        shown = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
        text = f"somebody else has moved {shown}"
        # Whoever did it may have switched the brokers' own balancing on again.
        state = replace(state, foreign_at=state.now, foreign=text, verified=False, held_since=None)
        state = state.noted(text)
    return replace(state, last_owner={**state.last_owner, **seen.owners})


def lost_brokers(state: BundlesState, seen: BundlesSeen) -> tuple[str, ...]:
    """Brokers gone or silent since the execution began, for less than the grace, in order."""
    if state.brokers is None:
        return ()
    return tuple(sorted(one for one in state.brokers - seen.alive if not given_up(state, one)))


def given_up(state: BundlesState, broker: str) -> bool:
    """Whether a broker has been gone for longer than the grace."""
    since = state.gone_since.get(broker)
    return since is not None and state.now - since >= state.settings.broker_grace_seconds


def steps_without_destination(state: BundlesState) -> dict[int, str]:
    """Step number -> the broker it needs, for steps not begun whose broker has been given up."""
    return {
        record.step.number: record.step.target
        for record in state.pending
        if record.step.kind is StepKind.UNLOAD
        and record.step.target is not None
        and given_up(state, record.step.target)
    }


def why_wait(state: BundlesState, seen: BundlesSeen) -> tuple[str, float] | None:
    """What forbids a new batch just now and how many seconds to bear it; None when nothing does."""
    settings = state.settings
    if seen.leader is None:
        return "the cluster has no leader", settings.unhealthy_wait_seconds
    lost = lost_brokers(state, seen)
    if lost:
        return f"broker {', '.join(lost)} is gone", float("inf")  # the grace ends it
    if state.foreign_at is not None and state.now - state.foreign_at < settings.pace.quiet_seconds:
        return state.foreign, settings.foreign_wait_seconds
    unwell = sorted((set(seen.unhealthy or ()) & seen.alive) - (state.unwell or frozenset()))
    if unwell:
        why = (seen.unhealthy or {})[unwell[0]]
        return f"broker {', '.join(unwell)} cannot serve a message ({why})", settings.unhealthy_wait_seconds
    return None


def taken_back(state: BundlesState, seen: BundlesSeen) -> str:
    """What somebody else has made of the switches that we hold; empty if they are as we left them."""
    if seen.overrides is None or not (state.verified or state.foreign_at is not None):
        return ""
    changed = [
        f"{switch} is {seen.overrides.get(switch, 'no longer set')}"
        for switch in SWITCHES
        if seen.overrides.get(switch) != OFF
    ]
    return " and ".join(changed)
