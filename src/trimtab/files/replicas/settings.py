"""The section `[replicas]` of the settings, and the ranges of its keys."""

import difflib

from trimtab.model.replicas.settings import GOALS, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import LOADS
from trimtab_common.settings import (
    RejectCallback,
    Section,
    check_fractions,
    check_idle_usage,
    check_not_negative,
)


def _check(settings: ReplicasSettings, refuse: RejectCallback) -> None:
    check_fractions(settings, refuse)
    check_idle_usage(settings, refuse)
    check_not_negative(
        settings, ("seed", "max_bytes", "max_moves", "time_budget_seconds", "recent_move_hours"), refuse
    )
    for host, capacity in settings.host_capacity.items():
        for resource, most in capacity.items():
            if resource not in RESOURCES:
                refuse("host_capacity", {host: dict(capacity)}, f"resources among {', '.join(RESOURCES)}")
            if not 0 < most < float("inf"):
                refuse("host_capacity", {host: dict(capacity)}, "capacities above 0")
    if not 0 < settings.count_epsilon < 1:
        refuse("count_epsilon", settings.count_epsilon, "a fraction above 0, below 1")
    for name in ("excluded_brokers_for_leaders", "excluded_brokers_for_replicas", "drain", "demote", "add"):
        if any(not 0 <= broker < 2**31 for broker in getattr(settings, name)):
            refuse(name, list(getattr(settings, name)), "broker ids, 0 or more")
    if not 1 <= settings.recent_move_cost_factor <= 1000:
        refuse("recent_move_cost_factor", settings.recent_move_cost_factor, "1 to 1000")
    if not 0 <= settings.min_gain_per_copy <= 100:
        refuse("min_gain_per_copy", settings.min_gain_per_copy, "0 to 100")
    if settings.load not in LOADS:
        refuse("load", settings.load, f"one of {', '.join(LOADS)}")
    for goal in settings.goals:
        if goal not in GOALS:
            close = difflib.get_close_matches(goal, GOALS, n=1)
            hint = f", perhaps {close[0]}" if close else ""
            refuse("goals", list(settings.goals), f"some of {', '.join(GOALS)}{hint}")
    if len(set(settings.goals)) < len(settings.goals):
        refuse("goals", list(settings.goals), "each goal once")
    _check_topics(settings, refuse)
    asked = [*settings.drain, *settings.demote, *settings.add]
    for name in ("add", "demote", "drain"):
        if any(asked.count(broker) > 1 for broker in getattr(settings, name)):
            refuse(name, list(getattr(settings, name)), "each broker once, in one of drain, demote and add")
    for name in ("intra_broker_only", "replication_factor"):
        if settings.rebalance and getattr(settings, name):
            refuse("rebalance", True, f"false beside {name}: a plan for the one, then a plan for the other")
    factors = dict(settings.replication_factor)
    if not all(0 < factor < 2**15 for factor in factors.values()) or not all(factors):
        refuse("replication_factor", factors, "numbers of replicas above 0, by topic or pattern")
    together = [
        name
        for name in ("drain", "demote", "add", "fix_offline_replicas", "intra_broker_only")
        if getattr(settings, name)
    ]
    if factors and together:
        expected = (
            f"none beside {together[0]}: a plan for the one, and once it is applied a plan for the other"
        )
        refuse("replication_factor", factors, expected)
    if not all(settings.excluded_topics):
        refuse("excluded_topics", list(settings.excluded_topics), "names or patterns that are not empty")


def _check_topics(settings: ReplicasSettings, refuse: RejectCallback) -> None:
    """Refuse goals per topic that lack what they are about, and the other way round."""
    table, goal = dict(settings.min_leaders_per_topic), "min_leaders_per_topic"
    if any(not pattern or number < 1 for pattern, number in table.items()):
        refuse(goal, table, "names or patterns of topics, and 1 or more for each")
    if goal in settings.goals and not table:
        refuse("goals", list(settings.goals), f"a table replicas.{goal} for the goal of that name")
    if table and goal not in settings.goals:
        refuse(
            goal, table, f"the goal {goal} among replicas.goals, which now are {', '.join(settings.goals)}"
        )
    if not settings.balanced_topics or not all(settings.balanced_topics):
        refuse("balanced_topics", list(settings.balanced_topics), "names or patterns that are not empty")


PER_RESOURCE = ("theta", "epsilon", "host_theta", "host_epsilon")

SECTION = Section("replicas", ReplicasSettings, PER_RESOURCE, RESOURCES, _check)
