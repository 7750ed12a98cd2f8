"""The section `[replicas]`: one number or a table per resource for θ and ε, and the ranges of all keys."""

import dataclasses
import difflib
from pathlib import Path

from trimtab.files.limit_settings import PER_RESOURCE, bound_limits, check_limits, refusal_of
from trimtab.files.settings_binding import Table, bind
from trimtab.model import settings as model_settings
from trimtab.model.load import RESOURCES
from trimtab.model.settings import ReplicasSettings

KNOWN_GOALS: tuple[str, ...] = getattr(model_settings, "GOALS", model_settings.DEFAULT_GOALS)


def replicas_settings(table: Table, folder: Path) -> ReplicasSettings:
    """Bind the section; its values have the right types then, but may be out of range.

    Raises
    ------
    SettingsError
        If a key is unknown or a value has the wrong type.
    """
    rest = {name: given for name, given in table.items() if name not in PER_RESOURCE}
    settings = bind(ReplicasSettings, rest, "replicas", folder)
    limits = bound_limits(table, "replicas", ReplicasSettings(), RESOURCES, folder)
    return dataclasses.replace(settings, **limits)  # type: ignore[arg-type]


def checked_replicas(settings: ReplicasSettings, table: Table) -> ReplicasSettings:
    """Return the settings if every value is in its range.

    Raises
    ------
    SettingsError
        If one is not.
    """
    refuse = refusal_of(table, "replicas")
    check_limits(settings, refuse)
    for name in ("seed", "max_bytes", "max_moves", "time_budget_seconds"):
        value = getattr(settings, name)
        if value is not None and not 0 <= value < 2**63:
            refuse(name, value, "0 or more")
    for name in ("excluded_brokers_for_leaders", "excluded_brokers_for_replicas"):
        if any(not 0 <= broker < 2**31 for broker in getattr(settings, name)):
            refuse(name, list(getattr(settings, name)), "broker ids, 0 or more")
    for goal in settings.goals:
        if goal not in KNOWN_GOALS:
            close = difflib.get_close_matches(goal, KNOWN_GOALS, n=1)
            hint = f", perhaps {close[0]}" if close else ""
            refuse("goals", list(settings.goals), f"some of {', '.join(KNOWN_GOALS)}{hint}")
    if len(set(settings.goals)) < len(settings.goals):
        refuse("goals", list(settings.goals), "each goal once")
    if not all(settings.excluded_topics):
        refuse("excluded_topics", list(settings.excluded_topics), "names or patterns that are not empty")
    return settings
