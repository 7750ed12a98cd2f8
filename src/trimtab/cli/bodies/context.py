"""The cluster, the lake and the settings that a command is about, as its options and the settings say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.balancers import System, systems
from trimtab.balancers.settings import read_settings
from trimtab.files.store import Location
from trimtab_common.errors import SettingsError
from trimtab_common.settings import Override, Overrides, Settings


@dataclass(frozen=True)
class CommandContext:
    """A cluster, a lake and settings, as given on the command line.

    Attributes
    ----------
    lake
        The lake's folder.
    settings, overrides
        The settings file, None for the usual one, and the words of `--set`.
    option_values
        Values of the options that name a cluster, and of those that levels add, by name.
    """

    lake: Location
    settings: Path | None
    overrides: Overrides
    option_values: Mapping[str, Any]

    def read(self, *overrides: str | Override) -> Settings:
        """The settings in force, with further settings that options stand for."""
        return read_settings(self.settings, (*self.overrides, *overrides), os.environ)

    def connection(self, system: System, settings: Settings) -> Any:
        """A connection to a cluster of a system: its section, with what the options say before its own.

        Raises
        ------
        SettingsError
            If no cluster is named, or a value is wrong.
        """
        return system.connection()(
            settings, *(self.option_values[option.name] for option in system.all_options)
        )

    def addressed(self) -> System | None:
        """The system whose address an option gives; None where none is given.

        Raises
        ------
        SettingsError
            If options name clusters of two systems.
        """
        named = [system for system in systems() if self.option_values[system.address.name] is not None]
        if len(named) > 1:
            flags = " and ".join(system.address.flag for system in named)
            raise SettingsError(f"{flags} name two clusters: look at one at a time")
        return named[0] if named else None

    def system(self, settings: Settings) -> System:
        """The system that is meant: by an option, or else by the settings; the first where nothing tells.

        Raises
        ------
        SettingsError
            If the settings name clusters of several systems, and no option says which.
        """
        found = self.addressed()
        if found is not None:
            return found
        address = {s.name: str(s.address.setting) for s in systems()}
        named = [
            s for s in systems() if settings.table(s.name).get(address[s.name].partition(".")[2]) is not None
        ]
        if len(named) > 1:
            told = " and ".join(f"a {s.title} cluster ({address[s.name]})" for s in named)
            flags = " or ".join(s.address.flag for s in named)
            raise SettingsError(f"the settings name {told}: say which one with {flags}")
        return named[0] if named else systems()[0]
