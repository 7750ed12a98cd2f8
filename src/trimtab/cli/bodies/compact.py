"""Small files of tables joined into large ones; starts no Spark."""

from __future__ import annotations

from pathlib import Path

from trimtab.cli.bodies.saying import say
from trimtab.cli.options import lake_path
from trimtab.levels import LEVELS
from trimtab.observe.compact import compacted, differences, sweep
from trimtab.observe.lake import Lake
from trimtab.observe.manifest import publish_manifest


def compact(lake: Path | None) -> None:
    """`trimtab pipeline compact`."""
    compacted_tables = swept = 0
    for level in LEVELS.values():
        where = Lake(lake_path(lake), level.pipeline())
        if where.level.place and not where.tables.is_dir():
            continue
        with where.writing():
            before = where.manifest()
            after = compacted(where, before)
            changed = differences(before, after)
            for one in changed:
                say(f"{level.name}: {one.table}: {one.before} folders became {one.after}")
            if changed:
                after = publish_manifest(where.tables, after)
            compacted_tables += len(changed)
            swept += sweep(where, after)
    say(f"{compacted_tables} tables compacted, {swept} old folders removed")
