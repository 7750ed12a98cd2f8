"""Running means in time order: what Pulsar's leader remembers of bundles and brokers, at every tick.

The long mean remembers a thousand samples and never quite forgets those before: such a state reaches back
without end. It is carried from row to row, in doubles and in Pulsar's order of operations, so that it is the
same to the bit whether it was computed in one go or tick by tick, and the same as the planner's own.
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
from trimtab.observe.bundles.schemas import AVERAGES
from trimtab.observe.columns import SampleFlag
from trimtab.observe.spark_columns import conform, is_flagged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings

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
        Columns of `schemas.AVERAGES`: each cluster's rows of the tick before the first wanted. They are not
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
