"""Tables of a lake opened by other engines, and exported as Delta tables."""

from __future__ import annotations

import datetime
import decimal
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import trimtab
from support.object_store import ObjectStore
from trimtab.balancers import BALANCERS
from trimtab.cli.app import main
from trimtab.files.store import Location, place_of
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.columns import arrow_schema
from trimtab.observe.lake.lake import Lake, microseconds
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest
from trimtab.observe.lake.open_tables import OpenTables, export_delta
from trimtab.observe.lake.parquet import write_rows
from trimtab_common.errors import TrimtabError

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
PAGE = Path(__file__).parents[4] / "docs" / "pipeline.md"


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place."""
    if request.param == "folder":
        return place_of(tmp_path / "lake")
    store: ObjectStore = request.getfixturevalue("s3")
    return place_of(f"{store.bucket()}/lake")


def value_of(kind: pa.DataType, number: int) -> Any:
    """Some value of a type."""
    if pa.types.is_struct(kind):
        return {kind.field(at).name: value_of(kind.field(at).type, number) for at in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(value_of(kind.key_type, number), value_of(kind.item_type, number))]
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, number)] * (number % 3)
    if pa.types.is_timestamp(kind):
        return NOON + number * MINUTE
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    if pa.types.is_decimal(kind):
        return decimal.Decimal(number) / 8
    return f"name-{number}" if pa.types.is_string(kind) else number


def rows_of(lake: Lake, table: str, minutes: range, mark: int = 0) -> pa.Table:
    """A row a minute, with something in every column; numbers and names tell who wrote it."""
    schema = arrow_schema(lake.balancer.tables[table])
    column = lake.balancer.time_column(table)
    return pa.Table.from_pylist(
        [
            {
                field.name: NOON + minute * MINUTE
                if field.name == column
                else value_of(field.type, minute + mark)
                for field in schema
            }
            for minute in minutes
        ],
        schema=schema,
    )


def entry_of(lake: Lake, table: str, name: str, minutes: range, mark: int = 0) -> ManifestEntry:
    """A part of a table, written."""
    write_rows(
        lake.tables / table / name / "rows.parquet", rows_of(lake, table, minutes, mark), rows_per_group=2
    )
    first, last = (microseconds(NOON + one * MINUTE) for one in (minutes[0], minutes[-1]))
    return ManifestEntry(f"{table}/{name}", first, last + 1, first, last)


def published(place: Location, level: str) -> Lake:
    """Every table of a balancer: minutes 0 to 5, of which the last two were computed anew, in other files."""
    lake = Lake(place, BALANCERS[level].pipeline())
    tables: dict[str, tuple[ManifestEntry, ...]] = {}
    for table in lake.balancer.tables:
        old, new = entry_of(lake, table, "a", range(6)), entry_of(lake, table, "b", range(4, 6), mark=60)
        tables[table] = (replace(old, end=new.begin), new)
    publish_manifest(lake.tables, Manifest(tables=tables))
    return lake


def expected(lake: Lake, table: str) -> pa.Table:
    """What a reader of a lake by `published` must find."""
    return pa.concat_tables([rows_of(lake, table, range(4)), rows_of(lake, table, range(4, 6), mark=60)])


@pytest.mark.parametrize("level", list(BALANCERS))
def test_every_table_opens_in_two_lines(place: Location, level: str) -> None:
    """By the recipes of the page, with the actual table names; recomputed rows appear once."""
    lake = published(place, level)
    recipes = re.findall(r"```python\n(imbalance = trimtab\.tables.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(recipes) == 2
    assert all(recipe.count("\n") == 2 for recipe in recipes)
    tables = trimtab.tables(str(place))
    assert list(tables) == list(lake.balancer.tables)
    for table in tables:
        names = {"trimtab": trimtab, "duckdb": duckdb, "polars": polars}
        for recipe in recipes:
            first, second = (
                recipe.replace("imbalance", table).replace('"lake"', repr(str(place))).splitlines()
            )
            if table != "imbalance":
                second = {
                    "duckdb": f"found = duckdb.sql('SELECT * FROM {table}').to_arrow_table()",
                    "polars": f"found = polars.from_arrow({table})",
                }[second.partition(".")[0]]
            exec(first, names)
            exec(second, names)
            if table != "imbalance":
                assert len(names["found"]) == 6
        assert tables[table].read_all() == expected(lake, table)


def test_parts_are_read_by_columns_and_time(place: Location) -> None:
    """As of the manifest that was open, also when another is published meanwhile."""
    lake = published(place, "replicas")
    tables = OpenTables(lake)
    publish_manifest(lake.tables, Manifest(version=1))
    found = tables.read("traffic", ["topic", "tick"], since=NOON + MINUTE, until=NOON + 5 * MINUTE).read_all()
    assert found.column_names == ["topic", "tick"]
    assert found["topic"].to_pylist() == ["name-1", "name-2", "name-3", "name-64"]
    assert OpenTables(lake)["traffic"].read_all().num_rows == 0
    assert OpenTables(lake)["traffic"].schema == tables["traffic"].schema
    with pytest.raises(TrimtabError, match="'trafic' is no table of balancer replicas: there are cleaned"):
        tables["trafic"]
    with pytest.raises(TrimtabError, match="table traffic has no column 'bytes'"):
        tables.read("traffic", ["bytes"])


def test_a_lake_without_tables_or_with_two_balancers_raises_an_error(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(TrimtabError, match="holds no tables: collect samples"):
        trimtab.tables(tmp_path)
    for level in BALANCERS:
        published(tmp_path, level)
    with pytest.raises(TrimtabError, match=f"holds tables of balancers {' and '.join(BALANCERS)}: say which"):
        trimtab.tables(tmp_path)
    assert "averages" in trimtab.tables(tmp_path, balancer="bundles")


def test_an_export_writes_changes_and_lists_consistent_versions(place: Location, tmp_path: Path) -> None:
    """All tables, then one whose end was recomputed, then nothing."""
    lake = published(place, "replicas")
    target = tmp_path / "delta"

    def exported() -> dict[str, int]:
        found = export_delta(OpenTables(lake), target)
        return {one.table: one.since for one in found if one.since is not None}

    assert set(exported()) == set(lake.balancer.tables)
    frame = polars.from_arrow(expected(lake, "imbalance"))
    assert isinstance(frame, polars.DataFrame)
    assert polars.read_delta(str(target / "imbalance")).sort("tick").equals(frame)
    assert exported() == {}
    manifest = lake.manifest()
    newest = entry_of(lake, "imbalance", "c", range(5, 8), mark=90)
    parts = (
        *manifest.tables["imbalance"][:1],
        replace(manifest.tables["imbalance"][1], end=newest.begin),
        newest,
    )
    publish_manifest(lake.tables, replace(manifest, tables={**manifest.tables, "imbalance": parts}))
    assert list(exported()) == ["imbalance"]
    rows = lambda found: sorted(map(repr, found.to_pylist()))  # noqa: E731
    delta = DeltaTable(str(target / "imbalance")).to_pyarrow_table()
    assert rows(delta) == rows(OpenTables(lake)["imbalance"].read_all())
    assert delta.num_rows == 8
    told = json.loads((target / "trimtab.json").read_text())
    assert (told["manifest"], told["tables"]["imbalance"], told["tables"]["rates"]) == (2, 1, 0)
    # A table that somebody else wrote to is not overwritten.
    write_deltalake(str(target / "quality"), expected(lake, "quality"), mode="append")
    with pytest.raises(ObserveError, match=r"quality: cannot be written as a Delta table .*not an export"):
        exported()


def test_an_export_writes_to_an_object_store(s3: ObjectStore, tmp_path: Path) -> None:
    """Its commits there are made by conditional writes."""
    lake = published(tmp_path / "lake", "bundles")
    target = place_of(f"{s3.bucket()}/delta")
    export_delta(OpenTables(lake), target)
    assert json.loads((target / "trimtab.json").read_text())["balancer"] == "bundles"
    again = export_delta(OpenTables(lake), target)
    assert {one.since for one in again} == {None}


def test_an_export_by_command_names_the_extra_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the extra it prints the written tables."""
    published(tmp_path / "lake", "replicas")
    words = ["pipeline", "export", f"--lake={tmp_path / 'lake'}", f"--delta={tmp_path / 'delta'}"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code
    assert "17 of 17 tables written" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code
    assert "(extra delta), which is not installed" in capsys.readouterr().err
