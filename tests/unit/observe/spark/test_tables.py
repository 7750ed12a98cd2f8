"""Reading a table by what a manifest names, and filters whose bounds change with every micro-batch."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.errors import PySparkException

from support.small_lake import NOON, STEP, broker_rows, publish
from trimtab.observe.lake.lake import microseconds
from trimtab.observe.spark import tables as spark_tables
from trimtab.observe.spark.expressions import conform, is_in_ranges, is_inside
from trimtab.observe.spark.tables import (
    PreparedFrames,
    SparkTables,
    unreadable_files,
    write_gathered,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

    from trimtab.observe.lake.manifest import Ranges

pytestmark = pytest.mark.spark

START = microseconds(NOON)
RANGES: list[Ranges] = [
    [],
    [(START, START + 1)],
    [(START + 1, START + 3), (START + 5, START + 6)],
    [(START - 5, START + 20)],
]


@pytest.fixture
def compiling(spark: SparkSession) -> Iterator[SparkSession]:
    """The session of the tests, with the compiling that a long-lived one does."""
    names = ("spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode")
    before = {name: spark.conf.get(name) for name in names}
    for name, value in zip(names, ("true", "CODEGEN_ONLY"), strict=True):
        spark.conf.set(name, value)
    yield spark
    for name, earlier in before.items():
        assert earlier is not None
        spark.conf.set(name, earlier)


@pytest.mark.parametrize("ranges", RANGES)
def test_rows_from_memory_and_rows_from_files_pass_the_same_filter(
    compiling: SparkSession, ranges: Ranges
) -> None:
    """Both filters keep the same rows, at the edges too."""
    rows = compiling.range(-10, 10).selectExpr(f"timestamp_micros(id + {START}) as tick", "id")
    kept = {row.id for row in rows.where(is_inside("tick", ranges)).collect()}
    assert kept == {row.id for row in rows.where(is_in_ranges("tick", ranges)).collect()}
    assert kept == {at - START for begin, end in ranges for at in range(begin, end) if -10 <= at - START < 10}


def test_a_micro_batch_reuses_the_code_of_the_previous_one(
    compiling: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bounds of rows made here are no part of the code: it is the same for any micro-batch."""
    rows = compiling.range(-10, 10).selectExpr(f"timestamp_micros(id + {START}) as tick", "id")

    def code(kept: Column) -> str:
        rows.where(kept).explain(mode="codegen")
        return capsys.readouterr().out.split("Generated code:")[1]

    one, other = ([(START + at, START + at + 1)] for at in (3, 4))
    assert code(is_inside("tick", one)) == code(is_inside("tick", other))
    assert code(is_in_ranges("tick", one)) != code(is_in_ranges("tick", other))


@pytest.mark.parametrize(
    ("first", "last"), [(0, 5), (1, 1), (1, 2), (2, 4), (4, 9)], ids=lambda at: f"tick {at}"
)
def test_rows_outside_the_requested_range_are_excluded(
    spark: SparkSession, tmp_path: Path, first: int, last: int
) -> None:
    """Entries that lie inside, across an edge, and outside: each row in the range once, no other."""
    parts = [[0, 1, 2], [3], [4, 5]]
    rows = [[row for at in part for row in broker_rows(NOON + at * STEP, {at: "alive"})] for part in parts]
    lake = publish(tmp_path, {"brokers": rows})
    step = STEP.total_seconds() * 1e6
    asked = [(START + round(first * step), START + round(last * step) + 1)]
    found = SparkTables(spark, lake, lake.manifest()).read("brokers", asked).select("broker").collect()
    assert sorted(row.broker for row in found) == [at for at in range(6) if first <= at <= last]


def test_a_prepared_frame_reads_the_rows_of_each_micro_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The frame is built once; whole files, parts of files and tables without rows are each read as now."""
    first = [row for at in range(3) for row in broker_rows(NOON + at * STEP, {at: "alive"})]
    lake = publish(tmp_path / "lake", {"brokers": [first, broker_rows(NOON + 3 * STEP, {3: "alive"})]})
    tables, step, built = SparkTables(spark, lake, lake.manifest()), STEP // timedelta(microseconds=1), []
    frames = PreparedFrames(tmp_path / "scratch")

    def build(inputs: dict[str, DataFrame]) -> DataFrame:
        built.append(inputs)
        one, before = inputs["brokers"], inputs["brokers_before"]
        return one.unionByName(before).select("broker").join(inputs["windows"], on="broker", how="left_anti")

    for low, high in ((3, 4), (0, 4), (1, 2), (2, 4), (9, 12)):
        inputs: dict[str, tuple[str, Ranges]] = {
            "brokers": ("brokers", [(START + low * step, START + high * step)]),
            "brokers_before": ("brokers", [(START, START + 1)]),
            "windows": ("windows", [(START, START + 9 * step)]),
        }
        found = frames.rows(tables, "some", inputs, build)["broker"].to_pylist()
        assert sorted(found) == sorted([0, *(at for at in range(low, high) if at < 4)])
    assert len(built) == 1


def test_gathered_rows_are_written_like_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Same rows, same columns, same first and last instant; only rows in the range are written."""
    rows = [[row for at in range(4) for row in broker_rows(NOON + at * STEP, {at: "alive"})]]
    lake, step = publish(tmp_path, {"brokers": rows}), STEP // timedelta(microseconds=1)
    frame = SparkTables(spark, lake, lake.manifest()).read("brokers", [(START, START + 9 * step)])
    inside: Ranges = [(START, START + step), (START + 2 * step, START + 3 * step)]
    here = write_gathered(frame.toArrow(), lake, "brokers", inside)
    there = write_table(frame.where(is_in_ranges("tick", inside)).coalesce(1), lake, "brokers")
    assert (here.rows, here.span) == (there.rows, there.span) == (2, (START, START + 2 * step))
    one, other = (
        pyarrow.dataset.dataset(lake.tables / made.path).to_table().sort_by("broker")
        for made in (here, there)
    )
    assert one.equals(other)
    assert write_gathered(frame.toArrow(), lake, "brokers", [(0, 1)]).span is None


def test_columns_are_made_with_few_messages_to_the_jvm(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A micro-batch creates thousands of them, and for each the JVM would search all of its jars."""
    from py4j.clientserver import JavaClient
    from pyspark.sql import functions as F

    frame, sent, send = spark.range(1), [], JavaClient.send_command

    def counted(self: object, command: str, *more: object, **named: object) -> object:
        # When Python tells what it has thrown away is chance.
        sent.extend([command] * (not command.startswith("m")))
        return send(self, command, *more, **named)

    F.col("id")
    monkeypatch.setattr(JavaClient, "send_command", counted)
    F.col("id")
    assert len(sent) == 1
    sent.clear()
    made = conform(frame, (("id", "int"),) * 40)
    # A list is handed over word by word.
    assert len(sent) < 60
    assert made.dtypes == [("id", "int")] * 40


def test_files_that_cannot_be_read_are_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged pages, another type of a column, and a file that is gone; a cancelled query is no such file."""
    table = pyarrow.table({"tick": pyarrow.array(range(5000)), "size": pyarrow.array(range(5000))})
    paths = [tmp_path / f"{name}.parquet" for name in ("sound", "damaged", "text", "gone")]
    for path in paths[:2]:
        pyarrow.parquet.write_table(table, path)
    content = paths[1].read_bytes()
    paths[1].write_bytes(content[:4] + bytes(2000) + content[2004:])
    text = table.set_column(1, "size", table["size"].cast("string"))
    pyarrow.parquet.write_table(text, paths[2])
    columns, lines = (("tick", "bigint"), ("size", "bigint")), list[str]()
    spark.conf.set("spark.comet.enabled", "true")
    try:
        assert unreadable_files(spark, paths, columns, lines.append) == paths[1:]
        assert spark.conf.get("spark.comet.enabled") == "true", "as the user has set it"
    finally:
        spark.conf.unset("spark.comet.enabled")
    assert [line.partition(":")[0] for line in lines] == [f"left out {path}" for path in paths[1:]]
    assert unreadable_files(spark, paths[:1], columns, lines.append) == []
    assert spark.conf.get("spark.comet.enabled", None) is None

    def cancelled(*_: object) -> None:
        raise PySparkException("[SPARK_JOB_CANCELLED] Job 1 cancelled")

    monkeypatch.setattr(spark_tables, "read_raw", cancelled)
    with pytest.raises(PySparkException, match="CANCELLED"):
        unreadable_files(spark, paths, columns, lines.append)
