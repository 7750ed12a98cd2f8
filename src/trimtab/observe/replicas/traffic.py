"""Changes of every entity between two of its ticks, and bytes in and out of every partition.

Stock Kafka does not tell the traffic of partitions.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.observe.lake.columns import SampleFlag
from trimtab.observe.replicas.pipeline import COUNTERS, DELTAS, GROWTH, KEYS, OF_MANY, RATES, STATE, TRAFFIC
from trimtab.observe.spark.expressions import conform, flag_if, is_flagged, is_inside, is_valid_interval

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings


_ENTITY: Final = (
    *("kind", "topic", "partition", "broker"),
    *(key for key in KEYS if key not in ("kind", "topic", "partition", "broker", "tick")),
)
"""Keys of an entity as its samples mostly lie, so that putting them in order has least to do."""


_OF_MANY: Final = frozenset(name for names in OF_MANY.values() for name in names)

_KINDS_APART_FROM: Final = 200_000
"""Samples of a step from which on each kind of `OF_MANY` is put in order alone: below, planning more queries
costs more than narrower rows save."""


def rates(cleaned: DataFrame, settings: PipelineSettings, samples: int = 0) -> DataFrame:
    """Changes between consecutive ticks of an entity, as whole numbers with the time they took.

    One row per accepted sample. A counter that fell means a restart: the whole row's changes are void, since
    the other counters restarted too even where they have already passed their old value. So are changes over
    a gap, and those between two samples whose clocks disagree on the order.

    Nearly all samples are of kinds that fill few columns. They are put in order apart from the others, with
    those columns alone: what else such a sample should hold is no value of its kind, and does not get here.

    Parameters
    ----------
    cleaned, settings
        The table, and settings of the balancer.
    samples
        How many the step takes in.
    """
    accepted = cleaned.where("accepted")
    ticks = _ticks(accepted)
    kind = F.col("kind")
    of_many = kind.isin(*OF_MANY)
    if samples < _KINDS_APART_FROM:
        own = {
            value: F.expr(f"case when {' or '.join(_kinds_with(value))} then {value} end")
            for value in _OF_MANY
        }
        parts = [_changes(accepted.where(of_many).withColumns(own), _OF_MANY, ticks, settings)]
    else:
        parts = [
            _changes(accepted.where(kind == name), frozenset(values), ticks, settings)
            for name, values in OF_MANY.items()
        ]
    parts.append(_changes(accepted.where(~of_many), frozenset(cleaned.columns), ticks, settings))
    return conform(reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts), RATES)


def _kinds_with(value: str) -> list[str]:
    """A condition for each of the kinds of many samples that has a value."""
    return [f"kind = '{name}'" for name, values in OF_MANY.items() if value in values]


def rates_of_one_tick(cleaned: DataFrame, cleaned_before: DataFrame, settings: PipelineSettings) -> DataFrame:
    """`rates` of a tick whose samples before all lie in one other: joined, which puts nothing in order.

    Parameters
    ----------
    cleaned, cleaned_before
        The rows of the two ticks.
    settings
        Of the balancer.
    """
    values = dict.fromkeys(("leader", "in_sync", "adding", *DELTAS, *STATE))
    many = ", ".join(f"'{name}'" for name in OF_MANY)
    own = {
        name: f"case when {' or '.join([f'kind not in ({many})', *_kinds_with(name)])} then `{name}` end"
        for name in values
    }
    entity = F.struct(*_ENTITY).alias("_entity")
    now = cleaned.where("accepted").select(
        *KEYS,
        "sampled_at",
        "flags",
        entity,
        *(F.expr(value).alias(name) for name, value in own.items()),
    )
    earlier = {"tick": "tick", "sampled_at": "sampled_at"}
    earlier |= {name: own[name] for name in ("leader", "in_sync", "adding", *DELTAS)}
    before = cleaned_before.where("accepted").select(
        entity, *(F.expr(value).alias(f"_before_{name}") for name, value in earlier.items())
    )
    paired = now.join(before.hint("shuffle_hash"), on="_entity", how="left")
    return conform(_differences(paired, frozenset(values), None, settings), RATES)


def _changes(
    accepted: DataFrame, values: frozenset[str], ticks: DataFrame, settings: PipelineSettings
) -> DataFrame:
    """`rates` of some samples, as far as it is made of some of their values."""
    deltas = [name for name in DELTAS if name in values]
    state = [name for name in STATE if name in values]
    led = [name for name in ("leader",) if name in values]
    needed = dict.fromkeys((*KEYS, "sampled_at", "flags", *led, *deltas, *state))
    entity = Window.partitionBy(*_ENTITY).orderBy("tick")
    placed = [name for name in ("in_sync", "adding") if name in values]
    before = {name: F.lag(name).over(entity) for name in ("tick", "sampled_at", *led, *placed, *deltas)}
    # Comet takes windows of bounded frames row by row. Beside an unbounded one, `lag` is a shift of columns.
    whole = entity.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    paired = accepted.select(
        *needed,
        *(column.alias(f"_before_{name}") for name, column in before.items()),
        F.count(F.lit(1)).over(whole).alias("_rows"),
    ).where("_rows > 0")
    return _differences(paired, values, ticks, settings)


def _differences(
    paired: DataFrame, values: frozenset[str], ticks: DataFrame | None, settings: PipelineSettings
) -> DataFrame:
    """Changes and flags of samples that stand beside those before, `_before_` their names.

    `ticks` are those of `_ticks`; None where no sample before is older than its cluster's tick before.
    """
    deltas = {column: name for column, name in DELTAS.items() if column in values}
    counters = [name for name in COUNTERS if name in values]
    state = [name for name in STATE if name in values]
    is_led, is_placed = ("leader" in values, "in_sync" in values)
    led_before = F.col("_before_leader") if is_led else F.lit(None).cast("int")
    tick = F.unix_micros("tick")
    by_tick = tick - F.unix_micros("_before_tick")
    near = by_tick <= settings.gap
    by_clock = F.unix_micros("sampled_at") - F.unix_micros("_before_sampled_at")
    fell = reduce(
        or_,
        (F.coalesce(F.col(name) < F.col(f"_before_{name}"), F.lit(False)) for name in counters),
        F.lit(False),
    )
    marked = paired.withColumns(
        {"_near": F.coalesce(near, F.lit(False)), "_fell": fell, "_by_clock": by_clock}
    )
    back = F.coalesce(F.col("_by_clock") <= 0, F.lit(False))
    found = (
        F.col("flags")
        .bitwiseOR(flag_if(~F.col("_near"), SampleFlag.GAP))
        .bitwiseOR(flag_if(F.col("_near") & F.col("_fell"), SampleFlag.RESET))
        .bitwiseOR(flag_if(F.col("_near") & back, SampleFlag.CLOCK_BACK))
    )
    flagged = marked.withColumn("flags", found)
    if ticks is not None:
        flagged = _with_missed_ticks(flagged, ticks)
    changes = {
        name: F.when(is_valid_interval(), F.col(column) - F.col(f"_before_{column}"))
        for column, name in deltas.items()
    }
    return flagged.withColumns(
        {
            **changes,
            "previous_tick": F.when(F.col("_near"), F.col("_before_tick")),
            "previous_leader": F.when(F.col("_near"), led_before),
            "complete_before": _complete_before() if is_placed else F.lit(None).cast("array<int>"),
            "elapsed_us": F.when(is_valid_interval(), F.coalesce("_by_clock", by_tick)),
        }
    ).select(
        *KEYS,
        "sampled_at",
        "flags",
        "previous_tick",
        "previous_leader",
        "complete_before",
        "elapsed_us",
        *deltas.values(),
        *state,
    )


def _complete_before() -> Column:
    """The brokers whose replica was complete at the sample before; null where the same ones still are."""
    none = F.array().cast("array<int>")
    before, now = (
        F.array_except(f"{prefix}in_sync", F.coalesce(f"{prefix}adding", none)) for prefix in ("_before_", "")
    )
    return F.when(F.col("_near") & ~before.eqNullSafe(now), before)


def _ticks(accepted: DataFrame) -> DataFrame:
    """Each cluster's ticks, with the one before."""
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = accepted.select("cluster", "tick").distinct()
    return ticks.withColumn("_cluster_before", F.lag("tick").over(cluster))


def _with_missed_ticks(marked: DataFrame, ticks: DataFrame) -> DataFrame:
    """Flag intervals that span a tick at which the cluster, but not this entity, has samples."""
    joined = marked.join(F.broadcast(ticks), on=["cluster", "tick"], how="left")
    missed = F.coalesce(F.col("_near") & (F.col("_before_tick") < F.col("_cluster_before")), F.lit(False))
    return joined.withColumn("flags", F.col("flags").bitwiseOR(flag_if(missed, SampleFlag.MISSED)))


_COMPACTED_BELOW = 0.5
"""Growth under this share of what the new records should weigh means that something was compacted away
meanwhile."""


_MAX_HASHED: Final = 5_000_000
"""Samples of a step up to which those of partitions, one in five or so, are looked up in memory."""

_PARTITION: Final = ("cluster", "topic", "partition")
_TICK: Final = (*_PARTITION, "tick")

_OF_PARTITION = (
    "previous_tick",
    "leader",
    "previous_leader",
    "complete_before",
    "replicas",
    "in_sync",
    "adding",
    "records_dropped",
)


def growth(rates: DataFrame, samples: int = 0) -> DataFrame:
    """The growth of each partition's log in an interval, as its own and its replicas' samples tell.

    One row per partition and tick: the largest growth over the replicas that were complete at both ends of
    the interval. A replica whose size was read early in the interval shows less, a future replica or one that
    was copied in the interval shows the copy. Every figure is scaled from the time between its own two
    samples to the interval of the partition's row, so that a row holds one interval and partitions add up.
    `readers` counts the groups that commit; `records_out` is null where the reads of one are not known.

    Parameters
    ----------
    rates
        The table.
    samples
        How many the step takes in.
    """
    measured = _gathered(rates, samples).withColumn(
        "elapsed_us", F.unix_micros("tick") - F.unix_micros("previous_tick")
    )
    return conform(
        measured.withColumns(
            {
                "flags": _flags_of_growth(),
                "size_bytes": F.coalesce("_complete_bytes", "_held_bytes"),
                "growth_bytes": F.round(F.col("_grown") * F.col("elapsed_us")),
                "records_in": F.round(F.col("records_in_per_us") * F.col("elapsed_us")),
            }
        ),
        GROWTH,
    )


def _gathered(rates: DataFrame, samples: int) -> DataFrame:
    """Each partition's own sample at a tick, with what its replicas and groups tell, summed up.

    Own samples are joined to the others, and are keys of the aggregate besides: what is left to keep for each
    then is numbers, which Spark keeps by hash. Lists and text it would put in order, twice.
    """
    rows = rates.where("not coalesce(is_future, false)").withColumn("_key", F.struct(*_TICK))
    none = F.array().cast("array<int>")
    per_us = 1.0 / F.col("elapsed_us")
    own = rows.where("kind = 'partition'").select(
        "_key",
        *_OF_PARTITION,
        (F.col("end_offset") - F.col("start_offset")).alias("records_stored"),
        (F.col("records_in") * per_us).alias("records_in_per_us"),
        F.col("flags").alias("own_flags"),
        F.coalesce("adding", none).alias("_copying"),
        F.coalesce("in_sync", F.col("replicas"), none).alias("_in_sync"),
    )
    told = rows.where("kind in ('replica', 'group')").select(
        "_key",
        F.col("broker").alias("_broker"),
        F.when(F.col("kind") == "replica", F.col("size_bytes")).alias("_bytes"),
        F.when((F.col("kind") == "replica") & is_valid_interval(), F.col("growth_bytes") * per_us).alias(
            "_per_us"
        ),
        F.col("previous_tick").alias("_reported_since"),
        # Doubles would add up differently in another order: groups are rounded before they are summed.
        F.when((F.col("kind") == "group") & is_valid_interval(), F.col("records_out")).alias("_read"),
        F.when(F.col("kind") == "group", F.col("elapsed_us")).alias("_read_us"),
        (F.col("kind") == "replica").alias("_is_replica"),
        (F.col("kind") == "group").alias("_is_group"),
    )
    # What is looked up by hash must fit into memory; putting both sides in order spills.
    how = "shuffle_hash" if samples <= _MAX_HASHED else "merge"
    joined = own.hint(how).join(told, on="_key", how="left")
    member = F.array_contains("_in_sync", F.col("_broker"))
    complete = member & ~F.array_contains("_copying", F.col("_broker"))
    was_complete = F.coalesce(F.array_contains("complete_before", F.col("_broker")), F.lit(True))
    # A longer interval than the partition's may hold the copy of a replica that is complete since.
    same_interval = F.coalesce(F.col("_reported_since") >= F.col("previous_tick"), F.lit(True))
    interval = F.unix_micros("_key.tick") - F.unix_micros("previous_tick")
    unread = F.col("_is_group") & F.col("_read").isNull()
    return (
        joined.groupBy(*own.columns)
        .agg(
            F.max(F.when(complete, F.col("_bytes"))).alias("_complete_bytes"),
            F.max("_bytes").alias("_held_bytes"),
            F.max(F.when(complete & was_complete & same_interval, F.col("_per_us"))).alias("_grown"),
            F.max(F.col("_is_replica") & ~(member & was_complete)).alias("_outsider"),
            F.count_if("_is_group").alias("readers"),
            F.max(unread).alias("_unread"),
            F.max(F.col("_is_group") & (F.col("_reported_since") < F.col("previous_tick"))).alias("_spans"),
            F.sum(F.round(F.col("_read") * (interval / F.col("_read_us")))).alias("_records_out"),
        )
        .withColumn("records_out", F.when(~F.coalesce("_unread", F.lit(False)), F.col("_records_out")))
        .select("*", "_key.*")
    )


def _flags_of_growth() -> Column:
    """Flags of a partition's own sample, and what the samples of its replicas tell besides."""
    dropped = (F.col("records_dropped") > 0) | (F.col("_grown") < 0)
    moved = F.col("previous_tick").isNotNull() & ~F.col("leader").eqNullSafe(F.col("previous_leader"))
    return (
        F.col("own_flags")
        .bitwiseOR(flag_if(dropped, SampleFlag.CUT))
        .bitwiseOR(flag_if((F.size("_copying") > 0) | F.col("_outsider"), SampleFlag.COPYING))
        .bitwiseOR(flag_if(moved, SampleFlag.LEADER_CHANGED))
        .bitwiseOR(flag_if(F.coalesce("_spans", F.lit(False)), SampleFlag.MISSED))
    )


def traffic(
    growth: DataFrame,
    rates: DataFrame,
    settings: ReplicasPipelineSettings,
    growth_before: DataFrame | None = None,
    span: tuple[int, int] | None = None,
) -> DataFrame:
    """Bytes in and out of each partition in an interval, one row per partition and tick.

    Bytes in are the log's growth; where retention or compaction cut the log, new records times the
    partition's learned bytes per record. Bytes out are the records that groups committed times bytes per
    record, a lower bound. Both are then weights by which the leader's own counters for the topic are split,
    where a metrics endpoint gives those (`counted`). Bytes out are null where some group's commits are not
    known at this tick and were within `gap_seconds` before.

    Parameters
    ----------
    growth, rates, settings
        Tables, and settings of the balancer.
    growth_before
        Rows of `growth` before those to be made, if they are not in it.
    span
        Two instants (microseconds since 1970) between which all rows to be made lie, both included.
    """
    weighed = _with_weight(growth, settings, growth_before, span)
    changes = growth if growth_before is None else growth.unionByName(growth_before)
    return _split(weighed, changes, rates)


def traffic_of_one_tick(
    growth: DataFrame, growth_learned: DataFrame, growth_recent: DataFrame, rates: DataFrame
) -> DataFrame:
    """`traffic` of a tick: what lies before is summed up and joined.

    Parameters
    ----------
    growth, rates
        The rows of the tick.
    growth_learned, growth_recent
        The rows before it from which is learned what a record weighs, and those within `gap_seconds`.
    """
    key = F.struct(*_PARTITION).alias("_key")
    nothing = [F.lit(0).cast("bigint").alias(f"{name}_before") for name in _SUMMED]
    learned = _taught(growth_learned).select(
        key, *(F.col(name).alias(f"{name}_before") for name in _SUMMED), F.lit(None).alias("_readers")
    )
    recent = growth_recent.where("readers > 0").select(key, *nothing, F.col("readers").alias("_readers"))
    before = (
        learned.unionByName(recent)
        .groupBy("_key")
        .agg(
            *(F.sum(f"{name}_before").alias(f"{name}_before") for name in _SUMMED),
            F.max("_readers").alias("_readers"),
        )
    )
    rows = _taught(growth).withColumn("_key", key).join(before.hint("shuffle_hash"), on="_key", how="left")
    grown, records = (F.col(name) + F.coalesce(f"{name}_before", F.lit(0)) for name in _SUMMED)
    weighed = _weighed(rows, grown, records, F.greatest("readers", "_readers"))
    return _split(weighed, growth.unionByName(growth_recent), rates)


def _split(weighed: DataFrame, changes: DataFrame, rates: DataFrame) -> DataFrame:
    """`traffic` of growth whose records have a weight; `changes` are its rows and some before."""
    joined = _with_estimates(weighed).join(
        _counters(rates, changes), on=["cluster", "tick", "topic", "leader"], how="left"
    )
    led = Window.partitionBy("cluster", "tick", "topic", "leader")
    shared = joined.withColumns(
        {
            "_led": F.count(F.lit(1)).over(led),
            "_grew": F.count("log_bytes").over(led),
            "_offset": F.count("records_in").over(led),
            "_all_bytes": F.sum("log_bytes").over(led),
            "_all_records": F.sum("records_in").over(led),
            "_all_out": F.sum("_out").over(led),
            "_all_read": F.min(~F.col("_unread")).over(led),
        }
    )
    # Where one sibling is not known, the others would be given what it carried.
    by_bytes_in = F.when(F.col("_grew") == F.col("_led"), _share("log_bytes", "_all_bytes")).when(
        F.col("_offset") == F.col("_led"), _share("records_in", "_all_records")
    )
    # Consumers that commit nothing leave no weights: then what is written is what is read.
    by_bytes_out = F.when(
        F.col("_all_read"), F.when(F.col("_all_out") > 0, _share("_out", "_all_out")).otherwise(by_bytes_in)
    )
    # A counter's change belongs to the counter's own interval: a row gets the part of its own.
    per_row = F.col("elapsed_us") / F.col("_counted_us")
    spans = F.coalesce(F.col("_counted_since") < F.col("_since"), F.lit(False))
    return conform(
        shared.withColumns(
            {
                "_since": F.unix_micros("tick") - F.col("elapsed_us"),
                "_read_bytes": F.when(
                    F.col("elapsed_us").isNotNull() & ~F.col("_unread"), F.coalesce("_out", F.lit(0))
                ),
                "_bytes_in": F.round(F.col("_counted_in") * per_row * by_bytes_in),
                "_bytes_out": F.round(F.col("_counted_out") * per_row * by_bytes_out),
            }
        ).withColumns(
            {
                "counted": F.col("_bytes_in").isNotNull(),
                "read_bytes": F.col("_read_bytes"),
                "bytes_in": F.coalesce("_bytes_in", "log_bytes"),
                "bytes_out": F.coalesce("_bytes_out", "_read_bytes"),
                "flags": F.col("flags").bitwiseOR(flag_if(spans | F.col("_unread"), SampleFlag.MISSED)),
                "extrapolated": F.col("extrapolated") | spans,
            }
        ),
        TRAFFIC,
    )


def _counters(rates: DataFrame, growth: DataFrame) -> DataFrame:
    """Changes of the topic counters of brokers, each with the interval that it spans.

    A counter belongs to the partitions that its broker leads. Where a leadership of the topic came or went in
    the counter's interval, it belongs to partitions of which some are not led there now: it is left out.
    """
    counted = rates.where("kind = 'topic_broker'").select(
        "cluster",
        "tick",
        "topic",
        F.col("broker").alias("leader"),
        F.unix_micros("previous_tick").alias("_counted_since"),
        F.col("elapsed_us").alias("_counted_us"),
        F.when(is_valid_interval(), F.col("bytes_in")).alias("_counted_in"),
        F.when(is_valid_interval(), F.col("bytes_out")).alias("_counted_out"),
    )
    # A partition that is seen for the first time may have carried bytes before its first sample.
    moves = growth.where(is_flagged(SampleFlag.LEADER_CHANGED | SampleFlag.GAP)).select(
        "cluster",
        "topic",
        F.explode(F.array("leader", "previous_leader")).alias("leader"),
        F.unix_micros("tick").alias("_moved"),
    )
    moves = moves.where("leader is not null").distinct().alias("moves")
    within = (
        (F.col("counted.cluster") == F.col("moves.cluster"))
        & (F.col("counted.topic") == F.col("moves.topic"))
        & (F.col("counted.leader") == F.col("moves.leader"))
        & (F.col("moves._moved") > F.col("counted._counted_since"))
        & (F.col("moves._moved") <= F.unix_micros("counted.tick"))
    )
    return counted.alias("counted").join(moves, within, "left_anti")


def _with_weight(
    growth: DataFrame,
    settings: ReplicasPipelineSettings,
    before: DataFrame | None,
    span: tuple[int, int] | None,
) -> DataFrame:
    """Growth with `bytes_per_record`, null where nothing tells.

    It is learned where the log was not cut, over the time before; a partition that never grew in sight is
    taken by what it holds. Arguments as of `traffic`.
    """
    if before is None or span is None or span[1] - span[0] >= settings.learning:
        rows = _taught(growth if before is None else growth.unionByName(before))
        over = (1 - settings.learning, 0)
    else:
        rows = _with_sums_before(_taught(growth), _taught(before), span, settings)
        over = (Window.unboundedPreceding, 0)
    ordered = Window.partitionBy(*_PARTITION).orderBy(F.unix_micros("tick"))
    recent = ordered.rangeBetween(*over)
    grown, records = (F.sum(name).over(recent) for name in _SUMMED)
    readers = F.max("readers").over(ordered.rangeBetween(-settings.gap, 0))
    return _weighed(rows, grown, records, readers).where("_retained")


def _weighed(rows: DataFrame, grown: Column, records: Column, readers: Column) -> DataFrame:
    """Growth with `bytes_per_record` and `_unread`, by the sums learned and the most groups that read."""
    stock = F.when(F.col("records_stored") > 0, F.col("size_bytes") / F.col("records_stored"))
    return rows.withColumns(
        {
            "bytes_per_record": F.coalesce(F.when(records > 0, grown / records), stock),
            "_unread": (F.col("readers") < readers)
            | (F.col("records_out").isNull() & (F.col("readers") > 0)),
        }
    )


_SUMMED: Final = ("_grown", "_records")


def _taught(growth: DataFrame) -> DataFrame:
    """Growth with what each row teaches: whole numbers, 0 where nothing."""
    teaches = ~is_flagged(SampleFlag.CUT) & (F.col("growth_bytes") > 0) & (F.col("records_in") > 0)
    values = zip(_SUMMED, ("growth_bytes", "records_in"), strict=True)
    taught = {name: F.when(teaches, F.col(value)).otherwise(F.lit(0)) for name, value in values}
    return growth.withColumns({**taught, "_retained": F.lit(True)})


def _with_sums_before(
    growth: DataFrame, before: DataFrame, span: tuple[int, int], settings: ReplicasPipelineSettings
) -> DataFrame:
    """Rows whose running sums are those over `learning`, with fewer rows to put in order than lie there.

    One row holds a partition's sum over all that the first instant still sees, and each row that a later one
    sees no more is taken off again when it is out of sight: whole numbers add up alike either way. In a
    stream that is a row or two a partition instead of sixty.
    """
    first, last = span
    learning = settings.learning
    seen = before.where(is_inside("tick", [(first - learning + 1, first)]))
    sums = seen.groupBy(*_PARTITION).agg(
        F.max("tick").alias("tick"), *(F.sum(name).alias(name) for name in _SUMMED)
    )
    rows = growth.unionByName(sums.withColumn("_retained", F.lit(False)), allowMissingColumns=True)
    reading = before.where(is_inside("tick", [(first - settings.gap, first)]) & (F.col("readers") > 0))
    rows = rows.unionByName(
        reading.select(*_PARTITION, "tick", "readers", F.lit(False).alias("_retained")),
        allowMissingColumns=True,
    )
    out_of_sight = seen.where(is_inside("tick", [(first - learning + 1, last - learning + 1)])).select(
        *_PARTITION,
        F.timestamp_micros(F.unix_micros("tick") + F.lit(learning)).alias("tick"),
        *((-F.col(name)).alias(name) for name in _SUMMED),
        F.lit(False).alias("_retained"),
    )
    return rows.unionByName(out_of_sight, allowMissingColumns=True)


def _with_estimates(weighed: DataFrame) -> DataFrame:
    """Growth with `log_bytes`, `_out` and `extrapolated`, by what a record of the partition weighs."""
    cut = is_flagged(SampleFlag.CUT)
    expected = F.round(F.col("records_in") * F.col("bytes_per_record"))
    compacted = F.coalesce((F.col("growth_bytes") < expected * _COMPACTED_BELOW), F.lit(False))
    flagged = weighed.withColumns(
        {"_expected": expected, "flags": F.col("flags").bitwiseOR(flag_if(compacted, SampleFlag.CUT))}
    )
    by_growth = F.when(~cut, F.col("growth_bytes"))
    return flagged.withColumns(
        {
            "log_bytes": F.coalesce(by_growth, "_expected").cast("bigint"),
            "_out": F.round(F.col("records_out") * F.col("bytes_per_record")).cast("bigint"),
            "extrapolated": (by_growth.isNull() & F.col("_expected").isNotNull())
            | is_flagged(SampleFlag.LEADER_CHANGED),
        }
    )


def _share(part: str, whole: str) -> Column:
    """A partition's share of what its leader's partitions of the topic carry together; even where all are
    0.
    """
    weighed = F.coalesce(F.col(part), F.lit(0)) / F.col(whole)
    return F.when(F.col(whole) > 0, weighed).otherwise(1.0 / F.col("_led"))
