"""The connection to a store of Paxos groups: the `[paxos]` table of trimtab.toml, checked and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from trimtab.connect.connection import Connection, connection_of
from trimtab.files.settings import Settings
from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class PaxosConnection(Connection):
    """Everything a client needs to reach the nodes of one store.

    Parameters
    ----------
    node
        Configuration of any of its nodes: it names all addresses, the groups, and the file of the ideal map.
    secret
        Shown to the nodes.
    timeout_seconds
        How long one node's answers may take.
    """

    section: ClassVar[str] = "paxos"

    node: Path
    secret: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        super().__post_init__()
        if not 0 < self.timeout_seconds < float("inf"):
            raise SettingsError(f"paxos.timeout_seconds is {self.timeout_seconds}: it must be above 0")


def paxos_connection(settings: Settings, node: str | None = None) -> PaxosConnection:
    """The connection that the `[paxos]` table describes; errors as in `connection_of`.

    Parameters
    ----------
    node
        As `--paxos` takes it; it goes before that of the table.
    """
    return connection_of(
        settings,
        PaxosConnection,
        options={"node": node},
        secret="secret",
        first=("node", "name the configuration of any node with --paxos node.json"),
    )
