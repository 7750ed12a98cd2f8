"""Tables of a lake as Delta tables, for engines that read those; written by delta-rs, without Spark."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trimtab.extras import missing_extra_named
from trimtab.files.store import make_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.lake import instant

if TYPE_CHECKING:
    from trimtab.files.store import Location
    from trimtab.observe.open_tables import OpenTables

FORMAT = "trimtab/delta/1"
ERROR_TEXTS = "trimtab.json"
"""Written last: which version of each Delta table belongs with which of the others."""

ENTRIES = "trimtab.entries"
"""Of a commit: the files of the lake that the Delta table then held, and what of each."""


@dataclass(frozen=True)
class ExportedTable:
    """One table.

    Attributes
    ----------
    table
        Its name.
    version
        Of the Delta table.
    since
        Rows from here on were written anew, microseconds since 1970; None: none had changed.
    """

    table: str
    version: int
    since: int | None


@missing_extra_named()
def export_delta(tables: OpenTables, target: Location) -> list[ExportedTable]:
    """Bring Delta tables below `target` up to date with the tables of one manifest.

    Only rows from the first instant on are written at which a table's files differ from those of the last
    export; where nothing differs, nothing is written.

    Returns
    -------
    list of Exported
        One for each table of the balancer, also those without rows.

    Raises
    ------
    ObserveError
        If a Delta table cannot be written, or was written by somebody else.
    """
    from deltalake.exceptions import DeltaError

    exported = []
    make_folder(target)
    for name in tables:
        place = target / name
        try:
            exported.append(_export(tables, name, str(place)))
        except (DeltaError, OSError) as error:
            reason = str(error).strip().splitlines()[0][:300]
            raise ObserveError(
                f"{place}: cannot be written as a Delta table ({reason}); see that the place can be written "
                "and holds no tables of others, then export again: what is done is not done twice"
            ) from None
    told = {
        "format": FORMAT,
        "lake": str(tables.lake.path),
        "balancer": tables.lake.balancer.name,
        "manifest": tables.manifest.version,
        "tables": {one.table: one.version for one in exported},
    }
    (target / ERROR_TEXTS).write_bytes(json.dumps(told, indent=1).encode())
    return exported


def _export(tables: OpenTables, name: str, place: str) -> ExportedTable:
    from deltalake import CommitProperties, DeltaTable, write_deltalake

    options = _options(place)
    entries = tables.manifest.tables.get(name, ())
    now = CommitProperties(custom_metadata={ENTRIES: json.dumps([asdict(one) for one in entries])})
    since, predicate = 0, None
    if DeltaTable.is_deltatable(place, storage_options=options):
        found = DeltaTable(place, storage_options=options)
        before = found.history(1)[0].get(ENTRIES)
        if before is None:
            raise OSError("its last commit is not an export of trimtab's")
        first = first_difference(json.loads(before), [asdict(one) for one in entries])
        if first is None:
            return ExportedTable(name, found.version(), None)
        since = first
        column = tables.lake.balancer.time_column(name)
        predicate = f"{column} >= '{instant(since):%Y-%m-%dT%H:%M:%S.%fZ}'"
    write_deltalake(
        place,
        tables.read(name, since=instant(since)),
        mode="overwrite",
        predicate=predicate,
        commit_properties=now,
        storage_options=options,
    )
    return ExportedTable(name, DeltaTable(place, storage_options=options).version(), since)


def first_difference(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> int | None:
    """The first instant, microseconds, from which on rows may differ; None where all are the same."""
    apart = [one for one in before if one not in now] + [one for one in now if one not in before]
    return min((max(one["begin"], one["first"], 0) for one in apart), default=None)


def _options(place: str) -> dict[str, str]:
    """What the environment says of the store, as far as delta-rs does not ask for it itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    if not place.startswith("s3://") or not endpoint:
        return {}
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
