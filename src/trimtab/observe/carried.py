"""The rows that running means go on from: each cluster's newest rows of a table before some instant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.observe.lake import microseconds, read_entries
from trimtab.observe.ranges import merged

if TYPE_CHECKING:
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest
    from trimtab.observe.ranges import Ranges


def newest_before(lake: Lake, manifest: Manifest, table: str, made: Ranges) -> Ranges:
    """The instants at which a table has its newest row before `made`, a cluster each.

    Read from the newest entry backward, and only until every cluster is found that has samples from there on:
    in a stream that is the entry of the micro-batch before.

    Parameters
    ----------
    lake, manifest
        The tables.
    table
        Which one; it has the columns `cluster` and `tick`.
    made
        One range.

    Returns
    -------
    Ranges
        A microsecond wide each; they may hold older rows of other clusters too.
    """
    begin, end = made[0][0], made[-1][1]
    entries = [entry for entry in manifest.tables.get(table, ()) if entry.first < begin]
    if not entries:
        return []
    cleaned = manifest.tables.get("cleaned", ())
    samples = read_entries(lake.tables, "tick", cleaned, ["cluster"], begin, end)
    missing = set(samples["cluster"].unique().to_pylist()) if samples.num_rows else set()
    ticks = []
    for entry in sorted(entries, key=lambda entry: entry.begin, reverse=True):
        if not missing:
            break
        rows = read_entries(lake.tables, "tick", (entry,), ["cluster", "tick"], None, begin)
        if not rows.num_rows:
            continue
        for row in rows.group_by("cluster").aggregate([("tick", "max")]).to_pylist():
            if row["cluster"] in missing:
                missing.discard(row["cluster"])
                ticks.append(microseconds(row["tick_max"]))
    return merged((tick, tick + 1) for tick in ticks)
