"""The live stream: micro-batches of new samples into every table, each exactly once.

Spark's checkpoint says which samples make up micro-batch n, also when it is run again after a crash. The
manifest says which n the tables hold. A micro-batch that is in the tables already is skipped. One that is
not is computed from the tables as published, so nothing is lost and nothing counted twice wherever the
process was killed.

A lake holds the samples of several balancers: `run_streams` runs a stream of each.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from trimtab.files.store import make_folder
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.balancer_pipeline import LakeSettings, PipelineSettings
from trimtab.observe.lake.columns import ddl
from trimtab.observe.lake.housekeeping import after_publication, retained
from trimtab.observe.lake.lake import instant
from trimtab.observe.lake.manifest import merged
from trimtab.observe.lake.parquet import sound_files
from trimtab.observe.spark.session import (
    is_local,
    place_of_address,
    require_classic_spark,
    spark_address,
    spark_reason,
)
from trimtab.observe.spark.tables import (
    PreparedFrames,
    SparkTables,
    from_readable_files,
    read_raw,
    write_topic_rows,
)
from trimtab.observe.steps.batch import (
    ProgressCallback,
    build_before_stream,
    lakes_with_samples,
    named_progress,
    require_same_settings,
    tables_before_stream,
)
from trimtab.observe.steps.clean import from_json, typed
from trimtab.observe.steps.step import (
    Gathered,
    nearest_tick,
    step,
    ticks_of,
    ticks_of_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from trimtab.files.store import Location
    from trimtab.observe.lake.columns import Row
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest
    from trimtab.observe.lake.writer_lock import WriterLock


MAX_RECORDS = 500_000
"""Records of a topic that a micro-batch holds at most, if nothing else is asked for: a tick of 100,000
partitions with three replicas, which fit the driver's default memory where Spark runs there."""

MAX_GATHERED = 250_000
"""Samples of a micro-batch up to which its rows are brought here and its tables are written from here: a tick
of 50,000 partitions. Above that, Spark's tasks write them."""

HOUSEKEEPING_EVERY = 50
"""Micro-batches between two compactions."""


@dataclass(frozen=True)
class StreamSource:
    """The origin of a stream's samples.

    Attributes
    ----------
    topic
        A Kafka topic of JSON values; None for the files of `Lake.raw`.
    options
        Of Spark's Kafka source: `kafka.bootstrap.servers` and what security needs.
    max_per_batch
        Files (or records) that one micro-batch may hold; None: all files there are, or `MAX_RECORDS`.
    """

    topic: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    max_per_batch: int | None = None

    @property
    def name(self) -> str:
        """The name of its checkpoint."""
        return "lake" if self.topic is None else f"kafka-{self.topic}"


@dataclass(frozen=True)
class BatchResult:
    """The figures of a micro-batch that was published.

    Attributes
    ----------
    balancer
        Name of the balancer.
    rows, late_rows
        Samples read, and those that came too late to count.
    newest_tick
        The newest tick with samples, microseconds since 1970; None without samples.
    seconds
        Time from the begin to the publication.
    """

    balancer: str
    rows: int
    late_rows: int
    newest_tick: int | None
    seconds: float


BatchCallback = Callable[[BatchResult], None]


def run_stream(
    session: SparkSession,
    lake: Lake,
    settings: PipelineSettings,
    source: StreamSource,
    trigger_seconds: float = 10.0,
    once: bool = False,
    stop: threading.Event | None = None,
    print_progress: ProgressCallback = lambda _: None,
    ages: LakeSettings = LakeSettings(),  # noqa: B008 - frozen
    on_batch: BatchCallback = lambda _: None,
) -> None:
    """Keep the tables up to date with what arrives.

    Parameters
    ----------
    session
        Spark, with the Kafka connector's jars where the source is a topic.
    lake
        Where the tables go; samples of a topic are also landed as raw files there, so that history can be
        built anew.
    settings
        Those of the lake's balancer.
    source
        Where samples come from.
    trigger_seconds
        Shortest distance of two micro-batches.
    once
        End when everything there is has been worked in.
    stop
        Ends the stream when set; a micro-batch in the making is given up and done again at the next start.
    print_progress
        Told what goes on, one line at a time.
    ages
        How long things are kept; older ones are removed now and then.
    on_batch
        Receives the figures of each micro-batch, from a thread of the stream.

    Raises
    ------
    ObserveError
        If the stream fails, or the tables were made with other settings.
    """
    from pyspark.errors import StreamingQueryException

    require_classic_spark(session)
    checkpoint = lake.checkpoints / source.name
    with lake.writing(print_progress) as lock, tempfile.TemporaryDirectory() as scratch:
        require_same_settings(lake, lake.manifest(), settings, whole=False)
        if source.topic is None:
            build_before_stream(session, lake, lock, settings, print_progress)
        writer = (
            _samples(session, lake, settings, source)
            .writeStream.foreachBatch(
                _MicroBatches(
                    lake, lock, settings, ages, source, checkpoint, print_progress, on_batch, Path(scratch)
                )
            )
            .option("checkpointLocation", spark_address(checkpoint))
        )
        writer = (
            writer.trigger(availableNow=True)
            if once
            else writer.trigger(processingTime=f"{trigger_seconds} seconds")
        )
        query = _started(writer, checkpoint)
        print_progress(
            f"reading {'raw files of ' + str(lake.path) if source.topic is None else 'topic ' + source.topic}"
        )
        try:
            # What ends the query is told below, in a sentence.
            with suppress(StreamingQueryException):
                while query.isActive and not (stop is not None and stop.is_set()):
                    query.awaitTermination(0.5)  # type: ignore[arg-type]
        finally:
            failure = query.exception()
            query.stop()
        if failure is not None:
            raise ObserveError(
                f"the stream ended: {spark_reason(failure)}; what was published before is sound, start it "
                "again"
            )


def _samples(
    session: SparkSession, lake: Lake, settings: PipelineSettings, source: StreamSource
) -> DataFrame:
    form = lake.balancer.raw
    reader = session.readStream
    if source.topic is None:
        make_folder(lake.raw)
        reader = (
            reader.schema(ddl(form.columns))
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
        )
        # A collector that was down for a week may land files with old times when it comes back.
        reader = reader.option("maxFileAge", "3650d")
        if source.max_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", str(source.max_per_batch))
        raw = reader.parquet(spark_address(lake.raw))
    else:
        options = {"subscribe": source.topic, "startingOffsets": "earliest", **source.options}
        # A topic may hold days of samples when a stream first starts.
        options["maxOffsetsPerTrigger"] = str(source.max_per_batch or MAX_RECORDS)
        raw = from_json(reader.format("kafka").options(**options).load(), form)
    return raw.withWatermark("received_at", f"{settings.lateness // 1000} milliseconds")


def _started(writer: Any, checkpoint: Location) -> StreamingQuery:
    try:
        query: StreamingQuery = writer.start()
    except Exception as error:
        raise ObserveError(
            f"the stream does not start from checkpoint {checkpoint}: {spark_reason(error)}; if it is "
            "damaged, remove it: the tables are then built anew from what the source still holds"
        ) from None
    return query


def files_of_batch(checkpoint: Location, number: int, folder: Location) -> list[Location]:
    """The files below a folder that make up micro-batch `number`, as Spark wrote them down before it began.

    What Spark hands over are rows, each of them made whole. Files are read column by column.
    """
    offset = (checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]
    entry = int(json.loads(offset)["logOffset"])
    log = checkpoint / "sources" / "0"
    # Every tenth entry stands in a file with all entries before it.
    written = next(path for path in (log / str(entry), log / f"{entry}.compact") if path.is_file())
    files = [json.loads(line) for line in written.read_text().splitlines()[1:]]
    return [place_of_address(file["path"], folder) for file in files if file["batchId"] == entry]


class _MicroBatches:
    """Works micro-batches into the tables, one after the other."""

    def __init__(
        self,
        lake: Lake,
        lock: WriterLock,
        settings: PipelineSettings,
        ages: LakeSettings,
        source: StreamSource,
        checkpoint: Location,
        print_progress: ProgressCallback,
        on_batch: BatchCallback,
        scratch: Path,
    ) -> None:
        self._lake = lake
        self._frames = PreparedFrames(scratch)
        self._writer_lock = lock
        self._settings = settings
        self._ages = ages
        self._source = source
        self._checkpoint = checkpoint
        self._print_progress = print_progress
        self._on_batch = on_batch
        self._known: tuple[int, object] | None = None

    def __call__(self, raw: DataFrame, number: int) -> None:
        """Publish micro-batch `number`, unless it is published already."""
        begun = time.monotonic()
        lake, settings = self._lake, self._settings
        stream = json.loads((self._checkpoint / "metadata").read_text())["id"]
        manifest = lake.manifest()
        if number <= manifest.streams.get(stream, -1):
            self._print_progress(f"batch {number} is in the tables already")
            return
        if stream not in manifest.streams and self._source.topic is None:
            # A new stream reads every raw file: on top of tables made from the same files all would count
            # twice.
            manifest = replace(tables_before_stream(lake, manifest), streams={})
        if self._source.topic is None:
            found, manifest = self._with_files(raw.sparkSession, manifest, number)
        else:
            # Records that are read a second time would be fetched again.
            raw = raw.persist()
            try:
                samples = typed(raw, settings, lake.balancer.raw)
                found = ticks_of(samples, lake.balancer.raw)
                if found["rows"]:
                    name = f"stream-{stream}-{number:09d}"
                    write_topic_rows(raw, found["rows"], lake.raw, name)
                manifest = self._with_samples(raw.sparkSession, manifest, samples, found)
            finally:
                raw.unpersist()
        watermark = max(manifest.watermark, found["received"] - settings.lateness)
        streams = {**manifest.streams, stream: number}
        manifest = replace(manifest, watermark=watermark, streams=streams)
        orderly = number % HOUSEKEEPING_EVERY != HOUSEKEEPING_EVERY - 1
        if not orderly:
            manifest = retained(lake, manifest, self._ages, settings, time.time())
        published = self._writer_lock.publish(manifest)
        if found["ticks"] and (self._known is None or found["ticks"][-1] > self._known[0]):
            self._known = found["ticks"][-1], found["entities"][found["ticks"][-1]]
        lake.balancer.write_snapshots(lake, published, settings)
        if not orderly:
            after_publication(lake, published, self._ages, settings, time.time())
        # What rows took here goes back to the machine.
        pyarrow.default_memory_pool().release_unused()
        newest = found["ticks"][-1] if found["ticks"] else None
        seconds = time.monotonic() - begun
        self._on_batch(BatchResult(lake.balancer.name, found["rows"], found["late"], newest, seconds))
        if found["ticks"]:
            last, final = instant(found["ticks"][-1]), instant(max(watermark, 0))
            self._print_progress(
                f"batch {number}: {found['rows']:,} samples of {len(found['ticks']):,} ticks up to "
                f"{last:%H:%M:%S} UTC, {found['late']:,} late, in {seconds:.1f} s; "
                f"ticks are final up to {final:%H:%M:%S}"
            )

    def _with_files(self, session: SparkSession, manifest: Manifest, number: int) -> tuple[Row, Manifest]:
        """The ticks of a micro-batch of raw files, and the tables with it; damaged files are left out."""
        form, settings = self._lake.balancer.raw, self._settings
        listed = files_of_batch(self._checkpoint, number, self._lake.raw)
        files = sound_files(listed, self._print_progress)

        def with_those(paths: Sequence[Location]) -> tuple[Row, Manifest]:
            def read() -> DataFrame:
                return typed(read_raw(session, paths, form.columns), settings, form)

            if sum(files[path].rows for path in paths) > MAX_GATHERED or not is_local(session):
                samples = read()
                found = ticks_of(samples, form)
                return found, self._with_samples(session, manifest, samples, found)
            rows = self._frames.rows_of_raw(
                session, paths, form.columns, lambda raw: typed(raw, settings, form)
            )
            found = ticks_of_rows(rows, form)
            gathered = Gathered(rows, self._frames, read)
            return found, self._with_samples(session, manifest, gathered, found)

        found, _ = from_readable_files(session, list(files), form.columns, with_those, self._print_progress)
        return found

    def _with_samples(
        self, session: SparkSession, manifest: Manifest, samples: DataFrame | Gathered, found: Row
    ) -> Manifest:
        """The tables with some samples, whose ticks are known."""
        if not found["ticks"]:
            return manifest
        ranges, doubled = (
            merged(((tick, tick + 1) for tick in found[name]), apart=self._settings.gap)
            for name in ("ticks", "doubled")
        )
        tables = SparkTables(session, self._lake, manifest)
        nearest = nearest_tick(tables, samples, found, self._known, self._settings)
        return step(tables, samples, ranges, self._settings, doubled, True, nearest).manifest


POLL_SECONDS = 2.0
"""Time between two looks for samples of another balancer."""


def run_streams(
    session: SparkSession,
    lakes: Sequence[Lake],
    settings: Mapping[str, PipelineSettings],
    source: StreamSource,
    trigger_seconds: float = 10.0,
    once: bool = False,
    stop: threading.Event | None = None,
    print_progress: ProgressCallback = lambda _: None,
    ages: LakeSettings = LakeSettings(),  # noqa: B008 - frozen
    on_batch: BatchCallback = lambda _: None,
) -> None:
    """`run_stream` of every balancer that has samples, and of one that gets some later.

    Parameters
    ----------
    lakes, settings
        As for `run_batches`.
    session, source, trigger_seconds, once, stop, print_progress, ages, on_batch
        As for `run_stream`; the source is the lake's files.

    Raises
    ------
    ObserveError
        As `run_stream`; if one balancer's stream fails, the others end too.
    """
    asked = stop or threading.Event()
    ended = threading.Event()
    running: dict[str, Future[None]] = {}

    def start(lake: Lake, workers: ThreadPoolExecutor) -> None:
        own = settings[lake.balancer.name]
        told = named_progress(print_progress, lake) if lake.balancer.place else print_progress
        running[lake.balancer.name] = workers.submit(
            run_stream, session, lake, own, source, trigger_seconds, once, ended, told, ages, on_batch
        )

    with ThreadPoolExecutor(len(lakes)) as workers:
        try:
            while True:
                for lake in lakes_with_samples(lakes) or ([] if running else lakes[:1]):
                    if lake.balancer.name not in running:
                        start(lake, workers)
                wait(running.values(), POLL_SECONDS, FIRST_COMPLETED)
                over = [one for one in running.values() if one.done()]
                if asked.is_set() or (once and len(over) == len(running)):
                    break
                if any(one.exception() is not None or not once for one in over):
                    break
        finally:
            ended.set()
    for one in running.values():
        one.result()
