"""The connection to a store of Paxos groups: the `[paxos]` table of trimtab.toml, checked and frozen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimtab_common.errors import SettingsError
from trimtab_common.settings import Section, Settings, SettingValue, bind


@dataclass(frozen=True)
class PaxosConnection:
    """Connection to the nodes of one store.

    Parameters
    ----------
    node
        Configuration file of any node. It has all addresses, the groups, the location of the preferred map,
        and TLS and the secret.
    timeout_seconds
        Time-out of one node's responses.
    """

    node: Path
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        if not 0 < self.timeout_seconds < float("inf"):
            raise SettingsError(f"paxos.timeout_seconds is {self.timeout_seconds}: it must be above 0")


def paxos_connection(settings: Settings, node: str | None = None) -> PaxosConnection:
    """The connection that the `[paxos]` table describes.

    Parameters
    ----------
    node
        As `--paxos` takes it; it goes before that of the table.

    Raises
    ------
    SettingsError
        For an unknown key, a wrong type, or where no node is named.
    """
    table = settings.values("paxos")
    if node is not None:
        # Given on the command line, it is relative to where that was typed.
        table = {**table, "node": SettingValue(str(Path(node).absolute()), "option for node")}
    Section("paxos", PaxosConnection).check_keys(table, settings.folder)
    if "node" not in table:
        raise SettingsError(
            "paxos.node is missing: name the configuration of any node with --paxos node.json, or in the "
            "[paxos] table of trimtab.toml"
        )
    return bind(PaxosConnection, table, "paxos", settings.folder)
