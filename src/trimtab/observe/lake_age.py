"""The newest of what a lake holds on a balancer: raw samples, tables, a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.files.store import written_at
from trimtab.observe.parquet import finished_files

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake


@dataclass(frozen=True, slots=True)
class LakeAge:
    """Instants, seconds since 1970; None where there is nothing.

    Attributes
    ----------
    samples_at
        When the newest file of raw samples was finished.
    tables_until
        The end of what the published tables cover.
    clusters
        Those with a snapshot.
    """

    samples_at: float | None
    tables_until: float | None
    clusters: tuple[str, ...]


def lake_age(lake: Lake) -> LakeAge:
    """The newest of each; looks at names and the manifest, and reads no samples.

    Raises
    ------
    ObserveError
        If the manifest cannot be read.
    """
    days = sorted((one for one in lake.raw.glob("date=*") if one.is_dir()), reverse=True)
    files = (path for day in days[:1] for path in finished_files(day))
    ends = [entry.end for entries in lake.manifest().tables.values() for entry in entries]
    return LakeAge(
        samples_at=max((written_at(path) for path in files), default=None),
        tables_until=max(ends) / 1e6 if ends else None,
        clusters=tuple(lake.clusters()),
    )
