"""Faults while tables are made: a sentence each, and nothing published by halves."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.object_store import ObjectStore
from synthetic_telemetry import SyntheticCluster, land_by_tick
from trimtab.files.store import make_folder
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import Manifest, ManifestEntry
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.spark.session import store_options
from trimtab.observe.spark.tables import write_gathered, write_table
from trimtab.observe.steps import step
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream
from trimtab_common.errors import TrimtabError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SETTINGS = ReplicasPipelineSettings(window_seconds=20, slide_seconds=10, lateness_seconds=60, gap_seconds=25)
BEFORE = Manifest(
    tables={"rates": (ManifestEntry("rates/before", 0, 10, 0, 9),)}, settings=SETTINGS.of_tables()
)


@pytest.fixture
def folder(tmp_path: Path) -> Lake:
    """A lake with two ticks of samples, and tables from before."""
    return prepared(Lake(tmp_path / "lake", REPLICAS))


def prepared(lake: Lake) -> Lake:
    """The lake, after two ticks were collected into it and something published."""
    land_by_tick(SyntheticCluster(brokers=3, partitions=4).raw(2), lake.raw)
    with lake.writing() as seat:
        seat.publish(BEFORE)
    return lake


def at_table(monkeypatch: pytest.MonkeyPatch, table: str, fault: Callable[[], object]) -> None:
    """Let something happen just before a table is written, by Spark or from here."""
    for write in (write_table, write_gathered):

        def after_fault(
            rows: object, lake: Lake, name: str, *more: object, write: Callable[..., object] = write
        ) -> object:
            if name == table:
                fault()
            return write(rows, lake, name, *more)

        monkeypatch.setattr(step, write.__name__, after_fault)


def told(spark: SparkSession, lake: Lake) -> str:
    """The one sentence that a batch over a lake ends with."""
    with pytest.raises(TrimtabError) as error:
        run_batch(spark, lake, SETTINGS)
    text = str(error.value)
    assert "\n" not in text and "\tat " not in text and "Traceback" not in text
    return text


@pytest.fixture
def room(spark: SparkSession) -> Iterator[Callable[[int], None]]:
    """The largest file, bytes, that Spark's Java may write; as much as before at the end."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc.pid
    before = resource.prlimit(java, resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.prlimit(java, resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    resource.prlimit(java, resource.RLIMIT_FSIZE, before)


@pytest.mark.long
def test_no_disk_space_for_files_of_spark(
    spark: SparkSession, folder: Lake, room: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some tables are written, the next one is not: those from before still count; with room again, all is
    made.
    """
    at_table(monkeypatch, "traffic", lambda: room(100))
    text = told(spark, folder)
    assert text.startswith(f"lake {folder.path}: the run ended and published nothing: ")
    assert "File too large" in text
    assert folder.manifest().tables == BEFORE.tables
    monkeypatch.undo()
    room(resource.RLIM_INFINITY)
    assert run_batch(spark, folder, SETTINGS).rows["traffic"] > 0
    assert folder.table("traffic").num_rows == 8


def test_no_rights_to_a_table(spark: SparkSession, folder: Lake) -> None:
    """Tests may run as root, who may write everywhere; but not below a file."""
    make_folder(folder.tables)
    (folder.tables / "growth").write_bytes(b"in the way")
    assert "growth" in told(spark, folder)
    assert folder.manifest().tables == BEFORE.tables


@pytest.mark.long
def test_no_disk_space_for_a_publication_ends_the_stream_which_resumes_later(
    spark: SparkSession, folder: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when all tables are written: the micro-batch is done again, and counts once."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_table(monkeypatch, "quality", lambda: monkeypatch.setattr(os, "fsync", full))
    with pytest.raises(TrimtabError) as error:
        run_stream(spark, folder, SETTINGS, StreamSource(), once=True)
    assert "No space left on device" in str(error.value) and "\n" not in str(error.value)
    assert "what was published before is sound, start it again" in str(error.value)
    monkeypatch.undo()
    assert folder.manifest().tables == BEFORE.tables
    run_stream(spark, folder, SETTINGS, StreamSource(), once=True)
    assert folder.table("traffic").num_rows == 8


@pytest.mark.long
def test_a_revoked_key_or_a_missing_bucket_ends_a_batch(
    spark: SparkSession, s3: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a batch: the key is revoked, and the next time the bucket is removed."""
    lake = prepared(Lake(f"{s3.bucket()}/lake", REPLICAS))
    for name, value in store_options(lake.path).items():
        spark.conf.set(name.removeprefix("spark.hadoop."), value)
    try:
        with monkeypatch.context() as during:
            at_table(during, "traffic", lambda: s3.refuse(True))
            assert "403" in (text := told(spark, lake)) or "denied" in text
    finally:
        s3.refuse(False)
    assert lake.manifest().tables == BEFORE.tables
    at_table(monkeypatch, "traffic", s3.lose)
    assert "bucket" in told(spark, lake)
