"""The section `[replicas]` of the settings, and what its keys must be beside one another."""

import difflib

from trimtab.model.replicas.settings import GOALS, RESOURCES, ReplicasSettings
from trimtab_common.settings import RejectCallback, Section


def _check(settings: ReplicasSettings, refuse: RejectCallback) -> None:
    for host, capacity in settings.host_capacity.items():
        for resource, most in capacity.items():
            if resource not in RESOURCES:
                refuse("host_capacity", {host: dict(capacity)}, f"resources among {', '.join(RESOURCES)}")
            if not 0 < most < float("inf"):
                refuse("host_capacity", {host: dict(capacity)}, "capacities above 0")
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


PER_RESOURCE = ("theta", "epsilon", "host_theta", "host_epsilon")

SECTION = Section("replicas", ReplicasSettings, PER_RESOURCE, RESOURCES, _check)
