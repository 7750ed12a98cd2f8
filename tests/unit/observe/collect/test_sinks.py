"""Samples land whole or not at all."""

import datetime
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from trimtab.model.errors import ObserveError
from trimtab.observe.collect.sinks import (
    ABANDONED_SECONDS,
    LakeSink,
    RowBatch,
    RowBatchBuilder,
    arrow_schema,
    to_table,
)
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import COLUMNS
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.systems.kafka.topic_sink import TopicSink

TICK = datetime.datetime(2025, 11, 21, 12, 0, 30, tzinfo=datetime.UTC)
READ_AT = TICK + datetime.timedelta(milliseconds=250)


def two_kinds() -> list[RowBatch]:
    """A replica and a partition."""
    replica = RowBatchBuilder(
        "replica", "topic", "partition", "size_bytes", "is_future", broker=3, sampled_at=READ_AT
    )
    replica.add("t", 0, 2**40, False)
    partition = RowBatchBuilder("partition", "topic", "partition", "leader", "replicas", sampled_at=READ_AT)
    partition.add("t", 0, None, [3, 1])
    return [replica.batch(), partition.batch()]


def test_a_row_has_the_columns_of_the_schema_and_nulls_elsewhere(tmp_path: Path) -> None:
    """Both kinds lie in one file of the day, typed as documented."""
    LakeSink(tmp_path / "raw", COLUMNS).write(two_kinds(), "orders", TICK)
    (file,) = Lake(tmp_path, REPLICAS).raw_files()
    assert file.parent.name == "date=2025-11-21"
    table = pyarrow.parquet.ParquetFile(file).read()
    assert table.schema.equals(arrow_schema(COLUMNS))
    assert table.column_names == [name for name, _ in COLUMNS]
    replica, partition = table.to_pylist()
    received = replica.pop("received_at")
    assert received > TICK
    assert {name: value for name, value in replica.items() if value is not None} == {
        "cluster": "orders",
        "tick": TICK,
        "kind": "replica",
        "broker": 3,
        "topic": "t",
        "partition": 0,
        "is_future": False,
        "sampled_at": READ_AT,
        "size_bytes": 2**40,
    }
    assert partition["replicas"] == [3, 1]
    assert partition["leader"] is None
    assert partition["broker"] is None


def test_two_collectors_of_one_cluster_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """The second file of the same tick gets a name of its own; the pipeline drops the duplicate rows."""
    landing = LakeSink(tmp_path, COLUMNS)
    for _ in range(2):
        landing.write(two_kinds(), "a/strange: name", TICK)
    names = sorted(path.name for path in tmp_path.glob("*/*"))
    assert len(names) == 2
    assert all(name.startswith("20251121T120030000Z-a-strange--name-") for name in names)


WRITER = """
import sys, pathlib, datetime, pyarrow.parquet
from trimtab.observe.collect.sinks import RowBatchBuilder
from trimtab.systems.kafka.topic_sink import TopicSink
from trimtab.observe.replicas.pipeline import COLUMNS
from trimtab.observe.collect.sinks import LakeSink
writer = RowBatchBuilder("replica", "topic", "partition", "size_bytes")
for number in range(200_000):
    writer.add("topic-" + str(number * 7919), number, number)
sink, batch = LakeSink(pathlib.Path(sys.argv[1]), COLUMNS), writer.batch()
print("ready", flush=True)
for second in range(10_000):
    sink.write([batch], "c", datetime.datetime.fromtimestamp(1_795_262_400 + second, datetime.UTC))
"""


def test_a_collector_killed_while_writing_leaves_nothing_that_readers_trip_over(tmp_path: Path) -> None:
    """Kill -9 in the middle of a write: visible files are whole, the torn one is hidden, and goes later."""
    torn: list[Path] = []
    for _ in range(20):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            deadline = time.monotonic() + 60
            # Waits for a write to have begun, then pulls the plug.
            while not any(_size(path) for path in tmp_path.glob("*/.*.parquet.*")):
                assert time.monotonic() < deadline
            child.send_signal(signal.SIGKILL)
        torn = list(tmp_path.glob("*/.*.parquet.*"))
        if torn:
            break
    assert torn, "no kill hit a write"
    for path in tmp_path.glob("*/[!.]*.parquet"):
        assert pyarrow.parquet.ParquetFile(path).metadata.num_rows == 200_000
    seen = pyarrow.dataset.dataset(tmp_path, format="parquet").count_rows()
    assert seen == 200_000 * len(list(tmp_path.glob("*/[!.]*.parquet")))

    LakeSink(tmp_path, COLUMNS)
    assert torn[0].exists(), "it may belong to a collector that is alive"
    long_ago = time.time() - ABANDONED_SECONDS - 1
    os.utime(torn[0], (long_ago, long_ago))
    LakeSink(tmp_path, COLUMNS)
    assert not torn[0].exists()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        # Renamed since it was listed.
        return 0


def test_a_lake_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    """A file in place of the folder: nothing is written, and the error states the remedy."""
    (tmp_path / "raw").write_text("in the way")
    with pytest.raises(ObserveError, match=r"cannot be written into .*--lake"):
        LakeSink(tmp_path / "raw", COLUMNS).write(two_kinds(), "c", TICK)


def test_no_rows_make_an_empty_table_of_the_same_schema() -> None:
    """A tick without anything can still be read."""
    assert to_table([], "c", TICK, TICK, COLUMNS).schema.equals(arrow_schema(COLUMNS))


class FakeFuture:
    """What a producer gives for a record."""

    def __init__(self, exception: Exception | None) -> None:
        self.exception = exception
        self.is_done = True


class FakeProducer:
    """Keeps records; refuses those of one topic partition on request."""

    def __init__(self, failing: bytes = b"-") -> None:
        self.records: list[tuple[str, bytes, bytes]] = []
        self.failing = failing

    def send(self, topic: str, key: bytes, value: bytes) -> FakeFuture:
        self.records.append((topic, key, value))
        return FakeFuture(RuntimeError("too large") if key.startswith(self.failing) else None)

    def flush(self, timeout: float) -> None:
        return


def test_a_topic_gets_one_json_record_per_row() -> None:
    """Records carry the columns that the row fills, keyed so that an entity stays in one partition."""
    client = FakeProducer()
    TopicSink(client, "samples", 5.0).write(two_kinds(), "orders", TICK)
    (topic, key, value), (_, second, _) = client.records
    assert (topic, key, second) == ("samples", b"orders/replica/3/t/0", b"orders/partition/t/0")
    row = json.loads(value)
    assert row.pop("received_at") > "2025-11-21T12:00:30"
    assert row == {
        "cluster": "orders",
        "tick": "2025-11-21T12:00:30.000000Z",
        "kind": "replica",
        "broker": 3,
        "topic": "t",
        "partition": 0,
        "is_future": False,
        "sampled_at": "2025-11-21T12:00:30.250000Z",
        "size_bytes": 2**40,
    }


def test_records_that_a_topic_does_not_take_are_an_error() -> None:
    """A tick that is only half there is reported as lost, never as landed."""
    landing = TopicSink(FakeProducer(b"orders/partition"), "samples", 5.0)
    with pytest.raises(ObserveError, match=r"1 of 2 samples were not taken by topic 'samples' \(too large\)"):
        landing.write(two_kinds(), "orders", TICK)


def test_the_arrow_types_are_those_of_the_documented_columns() -> None:
    """Counters are whole numbers, instants are UTC with microseconds."""
    schema = arrow_schema(COLUMNS)
    assert schema.field("tick").type == pa.timestamp("us", tz="UTC")
    assert schema.field("size_bytes").type == pa.int64()
    assert schema.field("replicas").type.value_type == pa.int32()
