"""A step through the transformations of a balancer: what makes stream and batch the same.

A step takes samples, works out which instants of which table they can change, computes exactly those from
what is stored and what is new, and publishes all of it in one rename. Batch over history is one step over
everything; a micro-batch of the stream is a step over a few ticks. Every row is a pure function of the
samples within its reach, so both end in the same tables whatever came late, twice or out of order. Running
means reach back without end: their stage goes on from its own last rows before the first change, and makes
everything after anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from trimtab.observe.lake.lake import microseconds, read_entries
from trimtab.observe.lake.manifest import merged
from trimtab.observe.spark.expressions import is_inside
from trimtab.observe.spark.session import table_parallelism
from trimtab.observe.spark.tables import (
    PreparedFrames,
    SparkTables,
    WrittenFolder,
    write_gathered,
    write_table,
)
from trimtab.observe.steps.clean import deduplicated

if TYPE_CHECKING:
    import numpy as np
    import pyarrow
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings, Reach, TableStage
    from trimtab.observe.lake.columns import RawSchema, Row
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest, Ranges


@dataclass(frozen=True)
class StageResult:
    """The result of one step.

    Attributes
    ----------
    manifest
        To be published.
    rows
        Rows written per table.
    ranges
        Ticks that got samples.
    """

    manifest: Manifest
    rows: dict[str, int]
    ranges: Ranges


@dataclass(frozen=True)
class Gathered:
    """A micro-batch of few samples.

    Attributes
    ----------
    rows
        Its samples, as `clean.typed` has them.
    frames
        Those of the stream.
    read
        Makes a frame of the same rows.
    """

    rows: pyarrow.Table
    frames: PreparedFrames
    read: Callable[[], DataFrame]


def step(
    tables: SparkTables,
    samples: DataFrame | Gathered,
    ranges: Ranges,
    settings: PipelineSettings,
    doubled: Ranges,
    add: bool,
    nearest: int | None = None,
) -> StageResult:
    """Bring every table up to date with some samples; nothing is published yet.

    Parameters
    ----------
    tables
        As they are.
    samples
        Columns of the balancer's table `cleaned`, one row per raw row (`clean.typed`). If they are gathered,
        all tables are written from here.
    ranges
        Covers the ticks of `samples`.
    settings
        Those of the lake's level.
    doubled
        Ticks in which `samples` may hold one twice.
    add
        True: `samples` come on top of those already in the tables (a micro-batch). False: they are all
        there is for these ticks (a batch over history).
    nearest
        The newest tick in the tables, if all of `ranges` lies after it and every entity that has an accepted
        sample there has one in it (`nearest_tick`).
    """
    lake, manifest = tables.lake, tables.manifest
    gathered = samples if isinstance(samples, Gathered) else None
    stored = _stored(manifest, ranges) if add else []
    doubled = merged([*doubled, *stored])
    rows: dict[str, int] = {}
    if gathered is not None and not doubled:
        files = write_gathered(gathered.rows, lake, "cleaned")
    else:
        every = samples.read() if isinstance(samples, Gathered) else samples
        if stored:
            every = tables.read("cleaned", ranges).unionByName(every)
        cleaned = deduplicated(every.where(is_inside("tick", ranges)), lake.balancer.raw, doubled)
        files = write_table(cleaned, lake, "cleaned")
    manifest = manifest.replaced("cleaned", ranges, files.path, files.span)
    rows["cleaned"] = files.rows
    changed = {"cleaned": ranges}
    waiting = [stage for stage in lake.balancer.stages if stage.is_enabled(settings)]
    # Tables that do not need one another are made at the same time: small ones are bound by planning.
    with ThreadPoolExecutor(table_parallelism(tables.session)) as workers:
        running: set[Future[tuple[str, Ranges, WrittenFolder]]] = set()
        while waiting or running:
            for stage in [one for one in waiting if all(name in changed for name in one.reach)]:
                waiting.remove(stage)
                now = replace(tables, manifest=manifest)
                known = (dict(changed), settings, nearest, rows["cleaned"], gathered)
                running.add(workers.submit(_make, now, stage, *known))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                table, made, files = future.result()
                manifest = manifest.replaced(table, made, files.path, files.span)
                rows[table], changed[table] = files.rows, made
    return StageResult(replace(manifest, settings=settings.of_tables()), rows, ranges)


def _stored(manifest: Manifest, ranges: Ranges) -> Ranges:
    """The parts of `ranges` for which the tables may hold samples already."""
    held = [
        (max(entry.begin, entry.first), min(entry.end, entry.last + 1))
        for entry in manifest.tables.get("cleaned", ())
    ]
    return merged((max(low, begin), min(high, end)) for low, high in ranges for begin, end in held)


def _make(
    tables: SparkTables,
    stage: TableStage,
    changed: Mapping[str, Ranges],
    settings: PipelineSettings,
    nearest: int | None,
    samples: int,
    gathered: Gathered | None,
) -> tuple[str, Ranges, WrittenFolder]:
    """Compute everything of one table that changes in others can reach, and write it."""
    made = merged(
        piece for name, reach in stage.reach.items() for piece in forward(changed[name], reach(settings))
    )
    state: Ranges = []
    if stage.carries:
        made = _to_the_end(tables.manifest, stage, made)
        state = newest_before(tables.lake, tables.manifest, stage.table, made)
    begin = made[0][0]
    span = span_from(tables.manifest, stage.reach, begin)
    inputs, one_tick = None, stage.one_tick if span == (begin, begin) else None
    if one_tick is not None:
        inputs = one_tick.inputs(stage.reach, begin, nearest, settings)
    if inputs is None:
        one_tick, inputs = None, _inputs(stage, made, settings, nearest)
    if stage.carries:
        inputs[stage.table] = stage.table, state

    def build(frames: dict[str, DataFrame]) -> DataFrame:
        if one_tick is not None:
            return one_tick.build(frames, settings)
        return stage.build(frames, settings, span, samples)

    if gathered is not None and (one_tick is not None or stage.is_reusable):
        name = stage.table if one_tick is None else f"{stage.table} of one tick"
        found = gathered.frames.rows(tables, name, inputs, build)
        return stage.table, made, write_gathered(found, tables.lake, stage.table, made)
    frame = build({name: tables.read(table, ranges) for name, (table, ranges) in inputs.items()})
    if gathered is not None:
        return stage.table, made, write_gathered(frame.toArrow(), tables.lake, stage.table, made)
    frame = frame.where(is_inside(tables.lake.balancer.time_column(stage.table), made))
    return stage.table, made, write_table(frame, tables.lake, stage.table)


def _inputs(
    stage: TableStage, made: Ranges, settings: PipelineSettings, nearest: int | None
) -> dict[str, tuple[str, Ranges]]:
    """For each argument of a stage the table and the ranges of its rows, to make some ranges."""
    needed = {name: backward(made, reach(settings)) for name, reach in stage.reach.items()}
    if stage.nearest and nearest is not None:
        needed["cleaned"] = merged((max(begin, nearest), end) for begin, end in needed["cleaned"])
    inputs = {name: (name, ranges) for name, ranges in needed.items()}
    begin = made[0][0]
    for name in stage.before:
        earlier = [(low, min(high, begin)) for low, high in needed[name] if low < begin]
        inputs[f"{name}_before"] = name, earlier
        inputs[name] = name, [(max(low, begin), high) for low, high in needed[name] if begin < high]
    return inputs


def span_from(manifest: Manifest, names: Iterable[str], begin: int) -> tuple[int, int] | None:
    """Two instants between which all rows of some tables lie that are not before `begin`, both included.

    In a micro-batch of the newest tick both are that tick. None where there is no such row.
    """
    entries = [entry for name in names for entry in manifest.tables.get(name, ()) if entry.end > begin]
    if not entries:
        return None
    first = min(max(entry.first, entry.begin) for entry in entries)
    return max(first, begin), max(min(entry.last, entry.end - 1) for entry in entries)


def forward(ranges: Ranges, reach: Reach) -> Ranges:
    """Everything that may change when something in `ranges` does, if it depends on `reach` before itself."""
    return merged((begin + near, end + far) for begin, end in ranges for far, near in _stretches(reach))


def backward(ranges: Ranges, reach: Reach) -> Ranges:
    """Everything that `ranges` depend on, if they depend on `reach` before themselves."""
    return merged((begin - far, end - near) for begin, end in ranges for far, near in _stretches(reach))


def _stretches(reach: Reach) -> tuple[tuple[int, int], ...]:
    return ((reach, 0),) if isinstance(reach, int) else reach


def _to_the_end(manifest: Manifest, stage: TableStage, made: Ranges) -> Ranges:
    """From the first instant on, everything that is in the tables it reads or makes."""
    last = [
        entry.last + 1 for table in (*stage.reach, stage.table) for entry in manifest.tables.get(table, ())
    ]
    return [(made[0][0], max([made[-1][1], *last]))]


def ticks_of(samples: DataFrame, form: RawSchema) -> Row:
    """The distinct ticks of typed samples (microseconds) and when the last one was received.

    Returns
    -------
    dict
        `ticks` ascending, `doubled` (those in which some sample seems to come twice), `received` (0 where
        nothing says when), `rows`, `late`, and `entities`: for each tick how many have an accepted sample,
        and a sum of their keys that another set of entities has once in 10^19.
    """
    entity = F.xxhash64(*(name for name in form.keys if name != "tick"))
    here = F.col("accepted") > 0
    found = (
        samples.groupBy(F.unix_micros("tick").alias("tick"), entity.alias("entity"))
        .agg(
            F.max(F.col("accepted").cast("int")).alias("accepted"),
            F.count(F.lit(1)).alias("rows"),
            F.sum("late_copies").alias("late"),
            F.max(F.unix_micros("received_at")).alias("received"),
        )
        .groupBy("tick")
        .agg(
            F.sum("rows").alias("rows"),
            F.sum("late").alias("late"),
            F.max("received").alias("received"),
            (F.max("rows") > 1).alias("doubled"),
            F.count_if(here).alias("accepted"),
            F.bit_xor(F.when(here, F.col("entity"))).alias("entities"),
        )
        .collect()
    )
    return {
        "doubled": sorted(row["tick"] for row in found if row["doubled"]),
        "ticks": sorted(row["tick"] for row in found),
        "entities": {row["tick"]: (row["accepted"], row["entities"]) for row in found},
        "received": max((row["received"] or 0 for row in found), default=0),
        "rows": sum(row["rows"] for row in found),
        "late": sum(row["late"] for row in found),
    }


def ticks_of_rows(samples: pyarrow.Table, form: RawSchema) -> Row:
    """`ticks_of` of rows that are here; sums of keys are not those that Spark makes."""
    import numpy as np
    import pyarrow.compute as pc

    ticks = samples["tick"].cast("int64").to_numpy()
    entity = _row_hashes(samples.select([name for name in form.keys if name != "tick"]))
    accepted = samples["accepted"].to_numpy(zero_copy_only=False)
    entities: dict[int, tuple[int, object]] = {}
    doubled = []
    for tick in np.unique(ticks).tolist():
        own = ticks == tick
        if len(np.unique(entity[own])) < own.sum():
            doubled.append(tick)
        known = np.unique(entity[own & accepted])
        entities[tick] = len(known), int(known.sum())
    received = pc.max(samples["received_at"].cast("int64")).as_py()
    return {
        "doubled": doubled,
        "ticks": sorted(entities),
        "entities": entities,
        "received": received or 0,
        "rows": samples.num_rows,
        "late": pc.sum(samples["late_copies"]).as_py() or 0,
    }


def _row_hashes(rows: pyarrow.Table) -> NDArray[np.uint64]:
    """A hash of each row, which two different rows share once in 10^19; another in every process."""
    import numpy as np

    hashes = np.zeros(rows.num_rows, dtype=np.uint64)
    for column in rows.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        # Of the text: -1 and -2 hash alike, and "None" is not null.
        values = np.array([hash(repr(one)) for one in encoded.dictionary.to_pylist()], dtype=np.int64)
        hashes ^= values.view(np.uint64)[encoded.indices.to_numpy()]
        # The end of splitmix64 (Steele, Lea and Flood 2014), so that columns cannot cancel one another out.
        hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        hashes ^= hashes >> np.uint64(31)
    return hashes


def nearest_tick(
    tables: SparkTables,
    samples: DataFrame | Gathered,
    found: Row,
    known: tuple[int, object] | None,
    settings: PipelineSettings,
) -> int | None:
    """The newest tick in the tables, if nothing before it can matter to the samples after it.

    That is so where it has samples of the same entities as each new tick: of every entity it then holds the
    newest sample before. While replicas move, nearly every tick has others. So it is also so where those of
    a single new tick that are not in it have no sample within `gap_seconds` at all: replicas that were added.

    Parameters
    ----------
    tables
        Without the samples.
    samples, settings
        As of `step`.
    found
        Of `ticks_of`, for the samples.
    known
        A tick, and the `entities` of samples that were found for it; there may be more in the tables.
    """
    newest = max((entry.last for entry in tables.manifest.tables.get("cleaned", ())), default=None)
    tick, uses = found["ticks"][0], any(stage.nearest for stage in tables.lake.balancer.stages)
    if newest is None or not uses or tick <= newest:
        return None
    if known is not None and all((newest, one) == known for one in found["entities"].values()):
        return newest
    if len(found["ticks"]) > 1:
        return None
    entity = F.struct(*(name for name in tables.lake.balancer.raw.keys if name != "tick")).alias("entity")

    def entities(frame: DataFrame) -> DataFrame:
        return frame.where("accepted").select(entity)

    now = entities(samples.read() if isinstance(samples, Gathered) else samples)
    before = entities(tables.read("cleaned", [(newest, newest + 1)]))
    begin = tick - settings.gap
    older = entities(tables.read("cleaned", [(begin, newest)] if begin < newest else []))
    skipped = now.join(before, on="entity", how="left_anti").join(older, on="entity", how="left_semi")
    return newest if skipped.isEmpty() else None


def newest_before(lake: Lake, manifest: Manifest, table: str, made: Ranges) -> Ranges:
    """The instants at which a table has its newest row before `made`, a cluster each.

    Read from the newest entry backward, and only until every cluster is found that has samples from there on:
    in a stream that is the entry of the micro-batch before.

    They are a microsecond wide each, and may hold older rows of other clusters too. The table has the columns
    `cluster` and `tick`, and `made` is one range.
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
