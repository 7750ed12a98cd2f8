"""Where running means go on from."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from hand_written_tables import lake_with
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.steps.step import newest_before

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)


def rows(cluster: str, *minutes: int) -> list[dict[str, Any]]:
    """A row a minute."""
    return [{"cluster": cluster, "tick": NOON + datetime.timedelta(minutes=one)} for one in minutes]


def at(minute: int) -> int:
    """Microseconds of a minute."""
    return microseconds(NOON + datetime.timedelta(minutes=minute))


def test_each_cluster_continues_from_its_own_newest_row(tmp_path: Path) -> None:
    """One cluster lags behind the other, one has nothing new and is not read, one is new."""
    lake = lake_with(
        tmp_path,
        {
            "averages": rows("a", 0, 1, 2, 3) + rows("b", 0, 1) + rows("idle", 0, 1, 2),
            "cleaned": rows("a", 0, 1, 2, 3, 4) + rows("b", 0, 1, 4) + rows("idle", 0, 1) + rows("new", 4),
        },
        BUNDLES,
    )
    found = newest_before(lake, lake.manifest(), "averages", [(at(4), at(5))])
    assert found == [(at(1), at(1) + 1), (at(3), at(3) + 1)]


def test_a_table_without_earlier_rows_starts_empty(tmp_path: Path) -> None:
    """The first step, and a batch over everything."""
    lake = lake_with(tmp_path, {"averages": rows("a", 4), "cleaned": rows("a", 4)}, BUNDLES)
    assert newest_before(lake, lake.manifest(), "averages", [(at(4), at(5))]) == []
