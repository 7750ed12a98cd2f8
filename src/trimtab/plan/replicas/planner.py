"""The strategies of the level `replicas`, by name: callables from snapshot and settings to plan."""

from importlib import import_module
from typing import Final, Protocol

from trimtab.model.errors import PlanError
from trimtab.model.replicas.plan import Plan
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot


class Planner(Protocol):
    """A strategy of the level `replicas`: same snapshot, settings and seed, same plan."""

    def __call__(self, snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
        """The moves, or why there are none."""
        ...


STRATEGIES: Final = {
    "trim": ("trimtab.plan.replicas.trim", "plan"),
    "role_aware": ("trimtab.plan.replicas.role_aware", "plan"),
}
"""Strategies by name: module and function, imported when asked for."""


def planner(name: str) -> Planner:
    """The strategy of that name.

    Raises
    ------
    PlanError
        If there is none.
    """
    if name not in STRATEGIES:
        raise PlanError(f"strategy {name!r} is not known; choose one of {', '.join(sorted(STRATEGIES))}")
    module, function = STRATEGIES[name]
    found: Planner = getattr(import_module(module), function)
    return found


def plan_replicas(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """Plan by the strategy that the settings name."""
    return planner(settings.strategy)(snapshot, settings)
