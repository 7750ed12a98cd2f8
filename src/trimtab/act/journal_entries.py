"""Executions as a journal lists them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.act.journal_file import JournalFile
from trimtab.model.errors import ActError


@dataclass(frozen=True)
class Entry:
    """One execution as the journal lists it.

    Attributes
    ----------
    level
        Whose state machine carries it out.
    owner
        Who ran it last: `user@host, process 4711`.
    facts
        What was said at the start (plan file, strategy, predictions), for receipts.
    """

    id: int
    cluster_id: str
    cluster: str
    created_at: float
    ended_at: float | None
    status: str
    owner: str
    facts: Mapping[str, Any]
    level: str = "replicas"


def read_entries(file: JournalFile, of_cluster: str | None = None) -> list[Entry]:
    """All executions, newest first."""
    rows = file.execute(
        "SELECT id, cluster_id, cluster, created_at, ended_at, status, owner, facts, "
        "coalesce(json_extract(head, '$.level'), 'replicas') "
        "FROM executions WHERE ? IS NULL OR cluster_id = ? ORDER BY id DESC",
        (of_cluster, of_cluster),
    )
    return [
        Entry(id, cluster_id, cluster, created_at, ended_at, status, owner, json.loads(facts), level)
        for id, cluster_id, cluster, created_at, ended_at, status, owner, facts, level in rows
    ]


def read_entry(file: JournalFile, execution: int) -> Entry:
    """The execution of that id.

    Raises
    ------
    ActError
        If there is none of that id.
    """
    for entry in read_entries(file):
        if entry.id == execution:
            return entry
    known = ", ".join(str(entry.id) for entry in read_entries(file)[:5]) or "none"
    raise ActError(
        f"there is no execution {execution} in {file.path} (the newest: {known}): "
        "see `trimtab execution list`"
    )
