"""The cluster, the lake and the settings that a command is about, as its options and the settings say."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.balancers import System, systems
from trimtab.balancers.balancer import OptionValues
from trimtab.balancers.clusters import (
    ENVIRONMENT_VARIABLE,
    Cluster,
    cluster_named,
    clusters_of,
    connection_of,
    is_address,
    system_by_scheme,
)
from trimtab.balancers.settings import read_settings
from trimtab.files.machine import state_folder
from trimtab.files.store import Location
from trimtab_common.errors import SettingsError
from trimtab_common.settings import CLUSTERS, Override, Overrides, Settings

if TYPE_CHECKING:
    from trimtab.executions import ExecutionContext, ExecutionEvent


@dataclass(frozen=True)
class CommandContext:
    """A cluster, a lake and settings, as given on the command line.

    Attributes
    ----------
    lake
        The lake's folder.
    settings, overrides
        The settings file, None for the usual one, and the words of `--set`.
    cluster
        The value of `--cluster`: a name, an address, or the id of a cluster of the lake.
    option_values
        Values of the options that balancers add, by name.
    """

    lake: Location
    settings: Path | None
    overrides: Overrides
    cluster: str | None = None
    option_values: OptionValues = field(default_factory=dict)

    def read(self, *overrides: str | Override) -> Settings:
        """The settings in force, with further settings that options stand for."""
        return read_settings(self.settings, (*self.overrides, *overrides), os.environ)

    @property
    def choice(self) -> tuple[str, str] | None:
        """The cluster that is chosen, and by what: the option, else the environment; None for none."""
        if self.cluster is not None:
            return self.cluster, "--cluster"
        found = os.environ.get(ENVIRONMENT_VARIABLE)
        return (found, ENVIRONMENT_VARIABLE) if found else None

    def chosen(self, settings: Settings) -> Cluster | None:
        """The cluster that is chosen; None where none is.

        Raises
        ------
        SettingsError
            If the settings have no such cluster, or an address is of no system.
        """
        return None if self.choice is None else cluster_named(settings, *self.choice)

    def only(self, settings: Settings) -> Cluster:
        """The cluster that is chosen, or the only one of the settings.

        Raises
        ------
        SettingsError
            If none is chosen and the settings name none, or several.
        """
        found = self.chosen(settings)
        if found is not None:
            return found
        known = clusters_of(settings)
        if len(known) == 1:
            return next(iter(known.values()))
        raise SettingsError(
            f"the settings name {len(known)} clusters: choose one with --cluster {' or '.join(known)}"
            if known
            else f"no cluster is named: give --cluster {' or '.join(s.address.example for s in systems())}, "
            "or add [clusters.NAME] with its address to trimtab.toml"
        )

    def connection(self, system: System, settings: Settings) -> Any:
        """A connection to the cluster of a system that is chosen, or the only one of the settings.

        Raises
        ------
        SettingsError
            If a cluster of another system is chosen, none is named, or a value is wrong.
        """
        return connection_of(settings, system, self.choice)

    def execution_context(
        self, settings: Settings, notify: Callable[[ExecutionEvent], None]
    ) -> ExecutionContext:
        """The place of executions: the state folder, the lake, and the clusters of the settings."""
        from trimtab.executions import ExecutionContext

        return ExecutionContext(
            state_folder=state_folder(),
            lake=self.lake,
            settings=settings,
            connect=partial(self.connection, settings=settings),
            notify=notify,
        )

    def names_an_address(self) -> bool:
        """Whether the chosen cluster is an address, not a name or the id of a cluster of the lake."""
        if self.choice is None:
            return False
        name = self.choice[0]
        return system_by_scheme(name) is not None or bool(re.match(r"[a-z+]+://", name))

    def lake_cluster(self) -> str | None:
        """The id of the cluster of the lake that is chosen; None where none is.

        Raises
        ------
        SettingsError
            If an address is given, or a name whose id the settings do not give.
        """
        return lake_cluster(self.choice, self.settings, self.overrides)


def lake_cluster(choice: tuple[str, str] | None, settings: Path | None, overrides: Overrides) -> str | None:
    """The id of a cluster in the lake: that of a name in the settings, or as it is given.

    Raises
    ------
    SettingsError
        If an address is given, or a name whose id the settings do not give.
    """
    if choice is None:
        return None
    name, subject = choice
    if system_by_scheme(name) is not None:
        raise SettingsError(
            f"{subject} is {name}: samples of a lake are named by the id of their cluster; give that id, or "
            "a name of [clusters.NAME] with its id"
        )
    if is_address(name):
        return name
    found = read_settings(settings, overrides, os.environ)
    if name not in found.values(CLUSTERS):
        return name
    cluster = cluster_named(found, name, subject)
    if cluster.id is None:
        raise SettingsError(
            f"{subject} is {name}: to find its samples in a lake, add its id to [clusters.{name}] "
            '(id = "..."; `trimtab status` shows the ids of a lake), or give the id itself'
        )
    return cluster.id
