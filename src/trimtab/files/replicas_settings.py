"""The section `[replicas]`: one number or a table per resource for θ and ε, and the ranges of all keys."""

import dataclasses
import difflib
from pathlib import Path
from typing import NoReturn

from trimtab.files.document import shown
from trimtab.files.settings_binding import Given, Table, bind, convert, origin_of, unknown_key
from trimtab.model import settings as model_settings
from trimtab.model.errors import SettingsError
from trimtab.model.load import RESOURCES
from trimtab.model.settings import ReplicasSettings

PER_RESOURCE = ("theta", "epsilon")
"""Keys that take one number for all resources, or a table."""

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
    limits = {name: _limits(name, table[name], folder) for name in PER_RESOURCE if name in table}
    return dataclasses.replace(settings, **limits)  # type: ignore[arg-type]


def checked_replicas(settings: ReplicasSettings, table: Table) -> ReplicasSettings:
    """Return the settings if every value is in its range.

    Raises
    ------
    SettingsError
        If one is not.
    """

    def refuse(name: str, found: object, expected: str) -> NoReturn:
        origin = origin_of(table[name])
        raise SettingsError(
            f"{origin}: replicas.{name} is {shown(found)}, expected {expected}; correct it there"
        )

    for name, limit in (("theta", "above 0, at most 1"), ("epsilon", "above 0, below 1")):
        for value in getattr(settings, name):
            if not (0 < value < 1 or (name == "theta" and value == 1)):
                refuse(name, value, f"a fraction {limit}")
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


def _limits(name: str, given: Given | Table, folder: Path) -> tuple[float, ...]:
    default: tuple[float, ...] = getattr(ReplicasSettings(), name)
    dotted = f"replicas.{name}"
    if isinstance(given, Given) and isinstance(given.plain, dict):
        given = {key: Given(value, given.origin) for key, value in given.plain.items()}
    if isinstance(given, Given):
        return (float(convert(given, float, dotted, folder)),) * len(RESOURCES)
    for key in given:
        if key not in RESOURCES:
            raise unknown_key(f"{dotted}.{key}", given[key], RESOURCES)
    return tuple(
        float(convert(given[key], float, f"{dotted}.{key}", folder)) if key in given else usual
        for key, usual in zip(RESOURCES, default, strict=True)
    )
