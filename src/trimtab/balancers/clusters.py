"""Clusters by name: `[clusters.NAME]` in the settings, or an address in place of a name."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from trimtab.balancers import System, systems
from trimtab_common.errors import SettingsError, did_you_mean
from trimtab_common.settings import CLUSTERS

if TYPE_CHECKING:
    from trimtab.systems.connection import ClusterTable
    from trimtab_common.settings import Settings, Table

ENVIRONMENT_VARIABLE: Final = "TRIMTAB_CLUSTER"
"""Default of `--cluster`."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that the settings or an address name.

    Attributes
    ----------
    system
        What it is a cluster of.
    name
        Its name in the settings; None for an address.
    id
        Its id in snapshots, where the settings give it.
    table
        The keys of its connection.
    """

    system: System
    name: str | None
    id: str | None
    table: ClusterTable

    def connection(self) -> Any:
        """A connection to it.

        Raises
        ------
        SettingsError
            If a key is unknown or a value does not fit.
        """
        return self.system.connection()(self.table)


def examples() -> str:
    """An address of each system, for messages and help."""
    return ", ".join(system.address.example for system in systems())


def is_address(text: str) -> bool:
    """Whether a text is written as an address, and not as a name."""
    return ":" in text


def system_by_scheme(address: str) -> System | None:
    """The system whose addresses begin so; None for an address of no system, and for what is none."""
    return next((one for one in systems() if address.startswith(one.address.schemes)), None)


def system_of_address(address: str, subject: str) -> System:
    """The system of an address.

    Raises
    ------
    SettingsError
        If its beginning is none of a system.
    """
    system = system_by_scheme(address)
    if system is None:
        raise SettingsError(f"{subject} is {_safe(address)!r}: write it like {examples()}")
    return system


def clusters_of(settings: Settings) -> dict[str, Cluster]:
    """The clusters of the settings, by name.

    Raises
    ------
    SettingsError
        If one has no address, or an address of no system.
    """
    return {name: _configured(settings, name) for name in settings.values(CLUSTERS)}


def cluster_named(settings: Settings, choice: str, subject: str = "--cluster") -> Cluster:
    """The cluster of a name or an address.

    Raises
    ------
    SettingsError
        If the settings have no such cluster, or the address is of no system.
    """
    if is_address(choice):
        return _addressed(settings, choice, subject)
    known = list(settings.values(CLUSTERS))
    if choice not in known:
        hint = f"the settings name {', '.join(known)}" if known else "the settings have no [clusters.NAME]"
        hint = did_you_mean(choice, known, f"{hint}; or write an address: {examples()}")
        raise SettingsError(f"{subject} is {choice!r}: {hint}")
    return _configured(settings, choice)


def only_cluster(settings: Settings, system: System, subject: str = "--cluster") -> Cluster:
    """The cluster of a system that the settings name.

    Raises
    ------
    SettingsError
        If they name none, or several.
    """
    found = [one for one in clusters_of(settings).values() if one.system == system]
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(one.name) for one in found)
    raise SettingsError(
        f"the settings name {len(found)} {system.title} clusters ({names}): choose one with {subject}"
        if found
        else f"no {system.title} cluster is named: give {subject} {system.address.example}, or add "
        f'[clusters.NAME] with address = "{system.address.example}" to trimtab.toml'
    )


def connection_of(settings: Settings, system: System, choice: tuple[str, str] | None) -> Any:
    """A connection to a cluster of a system: the chosen one, or the only one of the settings.

    Parameters
    ----------
    choice
        The name or address of the cluster, and the option or variable that gives it; None for none.

    Raises
    ------
    SettingsError
        If the choice is a cluster of another system, none is named, or a value is wrong.
    """
    if choice is None:
        return only_cluster(settings, system).connection()
    found = cluster_named(settings, *choice)
    if found.system != system:
        raise SettingsError(
            f"{choice[1]} {choice[0]} is a {found.system.title} cluster, and a {system.title} cluster is "
            f"needed: write it like {system.address.example}"
        )
    return found.connection()


def connection_keys(system: System) -> tuple[type[Any], tuple[str, ...]]:
    """The dataclass of a connection, and its further keys: the file of each secret."""
    kind = get_type_hints(system.connection())["return"]
    return kind, tuple(f"{field.name}_file" for field in fields(kind) if not field.repr)


def _addressed(settings: Settings, address: str, subject: str) -> Cluster:
    from trimtab.systems.connection import ClusterTable
    from trimtab_common.settings import SettingValue

    system = system_of_address(address, subject)
    # An address is typed in the working folder, and the settings may lie in another one.
    value = SettingValue(system.address.value(address), subject)
    table = ClusterTable(subject, {system.address.key: value}, Path.cwd(), settings.environment)
    return Cluster(system, None, None, table)


def _configured(settings: Settings, name: str) -> Cluster:
    from trimtab.systems.connection import ClusterTable
    from trimtab_common.settings import Section, SettingValue, convert

    label, table = f"{CLUSTERS}.{name}", settings.values(CLUSTERS)[name]
    if isinstance(table, SettingValue):
        raise SettingsError(f"{table.origin}: {label} is a value, expected a table; write [{label}]")
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"[{label}]: {name!r} is not a name: use letters, digits, dots, dashes and underscores"
        )
    values: Table = dict(table)
    if "address" not in values:
        raise SettingsError(f"{label}.address is missing: write it like {examples()}")
    given = values.pop("address")
    address = convert(given, str, f"{label}.address", settings.folder)
    system = system_of_address(address, f"{label}.address")
    identity = values.pop("id", None)
    found = None if identity is None else convert(identity, str, f"{label}.id", settings.folder)
    if (key := system.address.key) in values:
        raise SettingsError(f"{label}.{key} is not a setting: write {label}.address")
    kind, further = connection_keys(system)
    Section(label, kind, further=("address", "id", *further)).check_keys(values, settings.folder)
    origin = given.origin if isinstance(given, SettingValue) else label
    values[key] = SettingValue(system.address.value(address), origin)
    return Cluster(system, name, found, ClusterTable(label, values, settings.folder, settings.environment))


def _safe(address: str) -> str:
    """An address without what may be a password."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}...@{rest.rpartition('@')[2]}" if "@" in rest else address
