"""Maintenance that settings ask for, as states and goals that every planner knows."""

from dataclasses import asdict, replace

from trimtab.model.errors import PlanError, require_known_names
from trimtab.model.replicas.load_forecast import with_load
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicaBrokerState, ReplicasSnapshot
from trimtab.model.replicas.topics import matched

SCOPED_GOALS = ("rack", "host", "theta")
"""The goals that remain of a plan which makes only the moves that a request needs."""


def with_overrides(
    snapshot: ReplicasSnapshot, settings: ReplicasSettings
) -> tuple[ReplicasSnapshot, ReplicasSettings]:
    """The snapshot with the states and the load asked for, and the settings with the goals that are left.

    Raises
    ------
    PlanError
        If a broker or a host is not in the snapshot, or a broker to be filled is dead.
    """
    brokers, at = snapshot.brokers, snapshot.reference.taken_at
    _reject_unknown(snapshot, settings)
    state = dict(zip(brokers.id.tolist(), brokers.state.tolist(), strict=True))
    for name in ("drain", "demote", "add"):
        for broker in getattr(settings, name):
            remedy = "start it, and plan from a snapshot taken since" if name == "add" else "correct it"
            if broker not in state:
                there = ", ".join(map(str, state))
                raise PlanError(
                    f"{name}: broker {broker} is not in the snapshot of {at}, which knows {there}; {remedy}"
                )
            if name == "add" and state[broker] == ReplicaBrokerState.DEAD:
                raise PlanError(f"add: broker {broker} is dead in the snapshot of {at}; {remedy}")
    for host in settings.host_capacity:
        if host not in brokers.host:
            there = ", ".join(sorted(set(brokers.host)))
            raise PlanError(
                f"host_capacity: no broker of the snapshot of {at} is on host {host}, but on {there}; "
                "correct it"
            )
    for pattern in settings.min_leaders_per_topic:
        if not matched(snapshot.partitions.topics, (pattern,)).any():
            raise PlanError(
                f"min_leaders_per_topic: no topic of the snapshot of {at} is {pattern}; correct it"
            )
    if settings.is_scoped:
        asked = settings.fix_offline_replicas or not settings.intra_broker_only
        kept = [goal for goal in settings.goals if asked and goal in SCOPED_GOALS]
        settings = replace(settings, goals=(*kept, *(("log_dirs",) if settings.intra_broker_only else ())))
    return with_load(snapshot.with_overrides(asdict(settings)), settings.load), settings


def _reject_unknown(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> None:
    """Refuse names that the snapshot does not have: an exclusion that excludes nothing has no effect."""
    topics, brokers = snapshot.partitions.topics, snapshot.brokers.id.tolist()
    at = snapshot.reference.taken_at
    for name in ("excluded_topics", "balanced_topics"):
        require_known_names(f"replicas.{name}", getattr(settings, name), "topic", topics, at)
    for name in ("excluded_brokers_for_leaders", "excluded_brokers_for_replicas"):
        require_known_names(f"replicas.{name}", getattr(settings, name), "broker", brokers, at)
