"""The cluster that is meant, by the options of a command and the settings, and the connection to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trimtab.files.settings import Settings
from trimtab.levels import System, systems
from trimtab.model.errors import SettingsError


def connection_of(system: System, settings: Settings, given: Mapping[str, Any]) -> Any:
    """A connection to a cluster of a system: its section, with what the options say before its own.

    Raises
    ------
    SettingsError
        If no cluster is named, or a value is wrong.
    """
    return system.connection()(settings, *(given[option.name] for option in system.all_options))


def addressed(given: Mapping[str, Any]) -> System | None:
    """The system whose address an option gives; None where none is given.

    Raises
    ------
    SettingsError
        If options name clusters of two systems.
    """
    named = [system for system in systems() if given[system.address.name] is not None]
    if len(named) > 1:
        flags = " and ".join(system.address.flag for system in named)
        raise SettingsError(f"{flags} name two clusters: look at one at a time")
    return named[0] if named else None


def system_meant(settings: Settings, given: Mapping[str, Any]) -> System:
    """The system that is meant: by an option, or else by the settings; the first where nothing tells.

    Raises
    ------
    SettingsError
        If the settings name clusters of several systems, and no option says which.
    """
    found = addressed(given)
    if found is not None:
        return found
    named = [s for s in systems() if settings.table(s.name).get(s.address.name) is not None]
    if len(named) > 1:
        told = " and ".join(f"a {s.title} cluster ({s.name}.{s.address.name})" for s in named)
        flags = " or ".join(s.address.flag for s in named)
        raise SettingsError(f"the settings name {told}: say which one with {flags}")
    return named[0] if named else systems()[0]
