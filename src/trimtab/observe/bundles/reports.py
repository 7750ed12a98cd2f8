"""Brokers and bundles by the brokers' reports, and running means of them as Pulsar's leader computes them.

The long mean remembers a thousand samples and never quite forgets those before: such a state reaches back
without end. It is carried from row to row, in doubles and in Pulsar's order of operations, so that it is
the same to the bit whether it was computed in one go or tick by tick, and the same as the planner's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from trimtab.model.bundles.reports import (
    BROKER_RESOURCES,
    DEFAULT_MESSAGE_RATE,
    DEFAULT_MESSAGE_THROUGHPUT,
    LONG_SAMPLES,
    SHORT_SAMPLES,
    TRAFFIC,
)
from trimtab.observe.bundles.pipeline import AVERAGES, BROKERS, BUNDLES, DEPARTURES
from trimtab.observe.lake.columns import SampleFlag
from trimtab.observe.spark.expressions import conform, flag_if, is_flagged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings


BYTES_PER_KBIT: Final = 125.0
_BAD_FIGURE: Final = SampleFlag.NOT_A_NUMBER | SampleFlag.NEGATIVE


def brokers(cleaned: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Load and capacity of each broker per tick, by its own report.

    One row per broker that the cluster names, also where it did not answer: its loads are null then. Where
    usage is declared (one host carries all brokers, so that the host's counters tell nothing of any),
    bandwidth is what the broker's messages take, and there is no CPU. Else bandwidth is what the host's
    network cards count, replication to bookies and all.
    """
    own = cleaned.where("accepted and kind = 'pulsar_broker' and owner is not null")
    judged = _flag_intervals(own.withColumn("broker", F.col("owner")), own, ("broker",), settings)
    answered = F.coalesce(F.col("broker_state") == "alive", F.lit(False))
    sound = answered & ~is_flagged(SampleFlag.CLOCK_BACK)
    declared = F.coalesce(F.col("usage_source") == "declared", F.lit(False))

    def bandwidth(direction: str) -> Column:
        counted = F.col(f"bandwidth_{direction}_usage") * BYTES_PER_KBIT
        return F.when(sound, F.when(declared, F.col(f"msg_throughput_{direction}")).otherwise(counted))

    def limit(name: str, declared_as: str, scale: float) -> Column:
        reported = F.when(F.col(f"{name}_limit") > 0, F.col(f"{name}_limit") * scale)
        return F.coalesce(F.when(F.col(declared_as) > 0, F.col(declared_as)), reported)

    return conform(
        judged.withColumns(
            {
                "cpu": F.when(sound & ~declared, F.col("cpu_usage") / 100.0),
                "bandwidth_in": bandwidth("in"),
                "bandwidth_out": bandwidth("out"),
                "message_rate": F.when(sound, F.col("msg_rate_in") + F.col("msg_rate_out")),
                **{name: F.when(sound, F.col(name)) for name in TRAFFIC},
                "cpu_capacity": limit("cpu", "cpu_capacity_cores", 0.01),
                "bandwidth_in_capacity": limit(
                    "bandwidth_in", "bandwidth_in_capacity_bytes_per_second", BYTES_PER_KBIT
                ),
                "bandwidth_out_capacity": limit(
                    "bandwidth_out", "bandwidth_out_capacity_bytes_per_second", BYTES_PER_KBIT
                ),
                "message_rate_capacity": F.col("message_rate_capacity_per_second"),
            }
        ),
        BROKERS,
    )


def bundles(cleaned: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Owner and traffic of each bundle per tick, one row per bundle that somebody owns.

    Two brokers may say that they own a bundle while it changes hands: the one that told figures of it, and
    told them last, has it (`claims` counts them).
    """
    # Figures of a bundle that is not in the list are of one that was just given up.
    owned = cleaned.where(
        "accepted and kind = 'pulsar_bundle' and owner is not null and bundle is not null "
        "and (position is not null or not coalesce(has_stats, false))"
    )
    same = Window.partitionBy("cluster", "tick", "bundle")
    has_stats = F.coalesce(F.col("has_stats"), F.lit(False))
    best = same.orderBy(has_stats.desc(), F.col("sampled_at").desc_nulls_last(), F.col("owner"))
    one = owned.withColumns(
        {"_place": F.row_number().over(best), "claims": F.count(F.lit(1)).over(same)}
    ).where("_place = 1")
    judged = _flag_intervals(one, cleaned, ("bundle",), settings)
    wrong = is_flagged(_BAD_FIGURE | SampleFlag.CLOCK_BACK)
    is_known = has_stats & ~wrong
    return conform(
        judged.withColumns(
            {
                "is_known": is_known,
                **{name: F.when(is_known, F.coalesce(F.col(name), F.lit(0.0))) for name in TRAFFIC},
                "topics": F.when(is_known, F.col("topics")),
                "sessions": F.when(
                    is_known, F.coalesce("producers", F.lit(0)) + F.coalesce("consumers", F.lit(0))
                ),
            }
        ),
        BUNDLES,
    )


def departures(bundles: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """Bundles that another broker has than the last time they were seen, whoever moved them.

    At `tick` a bundle was seen at `target` for the first time, at `last_observed` at `broker` for the last,
    no longer than `settings.departure` before.
    """
    history = Window.partitionBy("cluster", "bundle").orderBy("tick")
    seen = bundles.select(
        "cluster",
        "tick",
        "bundle",
        F.col("owner").alias("target"),
        F.lag("owner").over(history).alias("broker"),
        F.lag("tick").over(history).alias("last_observed"),
    )
    near = F.unix_micros("tick") - F.unix_micros("last_observed") <= settings.departure
    return conform(seen.where(near & (F.col("broker") != F.col("target"))), DEPARTURES)


def _flag_intervals(
    rows: DataFrame, cleaned: DataFrame, entity: tuple[str, ...], settings: BundlesPipelineSettings
) -> DataFrame:
    """Rows with `elapsed_us`, and flags that tell gaps, missed ticks and clocks that went back.

    `elapsed_us` is the time since the cluster's tick before: what a rate told at this tick stands for. It is
    null at the first tick and after a gap.
    """
    said = cleaned.where("accepted and kind = 'pulsar_broker'").select("cluster", "tick").distinct()
    cluster = Window.partitionBy("cluster").orderBy("tick")
    ticks = said.withColumn("_cluster_before", F.lag("tick").over(cluster))
    history = Window.partitionBy("cluster", *entity).orderBy("tick")
    before = {f"_before_{name}": F.lag(name).over(history) for name in ("tick", "sampled_at", "owner")}
    paired = rows.withColumns(before).join(F.broadcast(ticks), on=["cluster", "tick"], how="left")

    def since(name: str) -> Column:
        return F.unix_micros("tick") - F.unix_micros(name)

    near = F.coalesce(since("_before_tick") <= settings.gap, F.lit(False))
    same_owner = F.col("_before_owner") == F.col("owner")
    back = F.coalesce(near & same_owner & (F.col("sampled_at") < F.col("_before_sampled_at")), F.lit(False))
    missed = F.coalesce(near & (F.col("_before_tick") < F.col("_cluster_before")), F.lit(False))
    flags = (
        F.col("flags")
        .bitwiseOR(flag_if(~near, SampleFlag.GAP))
        .bitwiseOR(flag_if(back, SampleFlag.CLOCK_BACK))
        .bitwiseOR(flag_if(missed, SampleFlag.MISSED))
    )
    elapsed = F.when(since("_cluster_before") <= settings.gap, since("_cluster_before"))
    return paired.withColumns({"flags": flags, "elapsed_us": elapsed})


BLOCK: Final = 64
"""A running value over a list is a list that is copied as it grows: in blocks, the cost stays linear."""

_STATE: Final = (
    "struct<tick:timestamp,topics:bigint,short:struct<samples:int,means:array<double>>,"
    "long:struct<samples:int,means:array<double>>,usage:double,usage_ema:double>"
)


def averages(cleaned: DataFrame, averages: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    """`TimeAverageMessageData` of every bundle and the running mean of every broker's usage, tick by tick.

    A bundle that no report names at a tick is forgotten, and begins anew with its next sample
    (`ModularLoadManagerImpl.updateBundleData`). A broker's mean begins anew where it reports no bundle or no
    message, or was not there at the tick before (`LeastResourceUsageWithWeight`). One sample a tick, as
    `trimtab replay` takes them: Pulsar itself takes one with every report that is written.

    Parameters
    ----------
    averages
        Columns of `pipeline.AVERAGES`: each cluster's rows of the tick before the first wanted. They are not
        among the rows returned.
    """
    wrong = is_flagged(SampleFlag.NOT_A_NUMBER | SampleFlag.NEGATIVE)
    sound = cleaned.where("accepted and owner is not null").where(~wrong)
    reports = sound.where("kind = 'pulsar_broker' and broker_state = 'alive'")
    newest = averages.groupBy("cluster").agg(F.max("tick").alias("tick"))
    before = averages.join(F.broadcast(newest), on=["cluster", "tick"], how="left_semi")
    said = reports.select("cluster", "tick").unionByName(newest).distinct()
    order = Window.partitionBy("cluster").orderBy("tick")
    ticks = said.withColumn("previous", F.lag("tick").over(order))

    told = sound.where("kind = 'pulsar_bundle' and has_stats and bundle is not null")
    answered = reports.select("cluster", "tick", "owner", F.col("position").alias("broker_position"))
    told = told.join(answered, on=["cluster", "tick", "owner"], how="inner")
    samples = _of_bundles(told).unionByName(_of_brokers(reports, settings))
    samples = samples.join(F.broadcast(ticks), on=["cluster", "tick"], how="inner")
    seeds = before.select(
        "cluster",
        "kind",
        "name",
        F.struct(
            F.struct("tick", "topics", "short", "long", "usage", "usage_ema").cast(_STATE).alias("state")
        ).alias("seed"),
    )
    one = F.struct("tick", "broker_position", "owner", "stats_position", "previous", "topics", "traffic",
                   "usage", "is_idle")  # fmt: skip
    lists = samples.groupBy("cluster", "kind", "name").agg(F.array_sort(F.collect_list(one)).alias("samples"))
    running = (
        lists.join(seeds, on=["cluster", "kind", "name"], how="left")
        .withColumn("states", F.expr(_running(settings)))
        # Two brokers may report one bundle while it changes hands: the state after both samples holds. What
        # is told of the next sample, not of the next state: Spark would compute all states for each of them.
        .withColumn(
            "states",
            F.expr(
                "filter(states, (one, place) -> "
                "place = size(samples) - 1 or samples[place + 1].tick <> one.tick)"
            ),
        )
        .select("cluster", "kind", "name", F.explode("states").alias("state"))
        .select("cluster", "kind", "name", "state.*")
    )
    return conform(running, AVERAGES)


def _of_bundles(text: DataFrame) -> DataFrame:
    traffic = F.array(*(F.coalesce(name, F.lit(0.0)) for name in TRAFFIC))
    return text.select(
        "cluster",
        "tick",
        F.lit("bundle").alias("kind"),
        F.col("bundle").alias("name"),
        "broker_position",
        "owner",
        "stats_position",
        F.coalesce("topics", F.lit(0)).alias("topics"),
        traffic.alias("traffic"),
        F.lit(None).cast("double").alias("usage"),
        F.lit(None).cast("boolean").alias("is_idle"),
    )


def _of_brokers(reports: DataFrame, settings: BundlesPipelineSettings) -> DataFrame:
    weights = zip(BROKER_RESOURCES, settings.usage_weights, strict=True)
    usage = F.greatest(*(_percent(name) * F.lit(weight) for name, weight in weights)) / 100.0
    rate_in, rate_out = (F.coalesce(name, F.lit(0.0)) for name in ("msg_rate_in", "msg_rate_out"))
    return reports.select(
        "cluster",
        "tick",
        F.lit("broker").alias("kind"),
        F.col("owner").alias("name"),
        F.col("position").alias("broker_position"),
        "owner",
        F.lit(None).cast("bigint").alias("stats_position"),
        F.lit(None).cast("bigint").alias("topics"),
        F.lit(None).cast("array<double>").alias("traffic"),
        usage.alias("usage"),
        ((F.coalesce("bundles", F.lit(0)) == 0) | ((rate_in == 0) & (rate_out == 0))).alias("is_idle"),
    )


def _percent(name: str) -> Column:
    """`ResourceUsage.percentUsage`: in single precision, as `trimtab.model.bundles.reports` has it.

    Spark divides and multiplies in doubles; rounding the result of one operation on two singles to single
    is the same as operating in singles.
    """
    usage, limit = (F.coalesce(f"{name}_{part}", F.lit(0.0)) for part in ("usage", "limit"))
    share = (usage.cast("float").cast("double") / limit.cast("float").cast("double")).cast("float")
    percent = (share.cast("double") * 100.0).cast("float").cast("double")
    return F.when(limit > 0, percent).otherwise(F.lit(0.0))


def _running(settings: BundlesPipelineSettings) -> str:
    """The states after each of `samples`, from `seed.state` on, as a SQL expression.

    Written as text: nested functions of functions are a hundred calls into the JVM otherwise.
    """
    weight = settings.history_weight
    defaults = ", ".join(
        f"{DEFAULT_MESSAGE_THROUGHPUT if 'throughput' in name else DEFAULT_MESSAGE_RATE}D" for name in TRAFFIC
    )
    known = "(state.tick = x.previous or state.tick = x.tick)"

    def average(name: str, most: int) -> str:
        n = f"least(if({known}, state.{name}.samples, 0) + 1, {most})"
        means = f"if({known}, state.{name}.means, array({defaults}))"
        return (
            f"if(x.traffic is null, null, named_struct('samples', {n}, 'means', "
            f"zip_with({means}, x.traffic, (mean, t) -> (({n} - 1) * mean + t) / {n})))"
        )

    remembered = f"state.usage_ema * {weight!r}D + {1 - weight!r}D * x.usage"
    after = (
        "cast(named_struct('tick', x.tick, 'topics', x.topics, "
        f"'short', {average('short', SHORT_SAMPLES)}, 'long', {average('long', LONG_SAMPLES)}, "
        f"'usage', x.usage, 'usage_ema', if({known} and not x.is_idle, {remembered}, x.usage)) as {_STATE})"
    )
    # The last state is an argument of its own: `state` stands for the one in the lambda that is given it.
    step = f"transform(array(element_at(list, -1)), state -> {after})"
    block = (
        f"slice(aggregate(slice(samples, block * {BLOCK} + 1, {BLOCK}), "
        f"array(element_at(element_at(blocks, -1), -1)), (list, x) -> concat(list, {step})), 2, {BLOCK})"
    )
    blocks = (
        f"aggregate(sequence(0, (size(samples) - 1) div {BLOCK}), "
        f"array(array(cast(seed.state as {_STATE}))), (blocks, block) -> concat(blocks, array({block})))"
    )
    return f"flatten(slice({blocks}, 2, size(samples)))"
