"""The pipeline from raw samples to traffic, brokers, windows and imbalance, written for Polars."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import polars as pl

from trimtab.observe.replicas.pipeline import COUNTERS, DELTAS, FORM, KEYS, STATE

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

c = pl.col
SOUND = (c("flags") & (16 | 32 | 64)) == 0
BROKER = ["cluster", "tick", "broker"]
RESOURCES = ("cpu", "disk", "network_in", "network_out")


def run(files: list[Path], out: Path, settings: ReplicasPipelineSettings) -> None:
    """Read raw files, write one Parquet file per table."""
    tables = {"cleaned": cleaned(pl.scan_parquet(files), settings).collect()}
    tables["rates"] = rates(tables["cleaned"].lazy(), settings).collect()
    changes = tables["rates"].lazy()
    tables["growth"] = growth(changes).collect()
    tables["traffic"] = traffic(tables["growth"].lazy(), changes, settings).collect()
    tables["brokers"] = brokers(changes, tables["traffic"].lazy()).collect()
    tables["windows"] = windows(tables["traffic"].lazy(), tables["brokers"].lazy(), settings).collect()
    tables["imbalance"] = imbalance(tables["brokers"].lazy()).collect()
    for name, table in tables.items():
        table.write_parquet(out / f"{name}.parquet", compression="zstd")


def micros(name: str) -> pl.Expr:
    """Microseconds since the epoch."""
    return c(name).dt.epoch("us")


def bit(condition: pl.Expr, flag: int) -> pl.Expr:
    """The flag where the condition holds."""
    return pl.when(condition.fill_null(False)).then(flag).otherwise(0)


def whole(value: pl.Expr) -> pl.Expr:
    """Rounded half away from zero, as Spark and SQL do."""
    return value.round(0, mode="half_away_from_zero").cast(pl.Int64)


def scaled(name: str) -> pl.Expr:
    """A change, scaled to the time between ticks."""
    factor = (micros("tick") - micros("previous_tick")) / c("elapsed_us")
    return pl.when(SOUND).then(whole(c(name) * factor))


def cleaned(raw: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Flags, one row per sample."""
    doubles = [name for name, kind in FORM.columns if kind == "double"]
    longs = [name for name, kind in FORM.columns if kind == "bigint" and name != "offset_lag"]
    bad = {name: c(name).is_nan() | c(name).is_infinite() for name in doubles} | {
        name: c(name) < 0 for name in longs
    }
    flags = (
        bit(micros("received_at") - micros("tick") > settings.lateness, 1)
        | bit(pl.any_horizontal(bad[name] for name in doubles), 4)
        | bit(pl.any_horizontal(bad[name] for name in longs if name != "committed_offset"), 8)
    )
    typed = raw.with_columns(flags=flags).with_columns(
        pl.when(~bad[name].fill_null(False)).then(c(name)).alias(name) for name in bad
    )
    return (
        typed.with_columns(accepted=(c("flags") & 3) == 0, copies=pl.len().over(KEYS))
        .sort("accepted", "received_at", "sampled_at", descending=[True, False, False])
        .unique(KEYS, keep="first")
    )


def rates(samples: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Changes between consecutive ticks of an entity."""
    entity = [key for key in KEYS if key != "tick"]
    accepted = samples.filter("accepted").sort("tick")
    before = [
        c(name).shift(1).over(entity).alias(f"before_{name}")
        for name in ("tick", "sampled_at", "leader", *DELTAS)
    ]
    fell = reduce(or_, ((c(name) < c(f"before_{name}")).fill_null(False) for name in COUNTERS))
    by_clock = micros("sampled_at") - micros("before_sampled_at")
    near = (micros("tick") - micros("before_tick") <= settings.gap).fill_null(False)
    ticks = samples.filter("accepted").select("cluster", "tick").unique().sort("tick")
    ticks = ticks.with_columns(cluster_before=c("tick").shift(1).over("cluster"))
    judged = (
        accepted.with_columns(before)
        .with_columns(near=near, fell=fell, by_clock=by_clock)
        .join(ticks, on=["cluster", "tick"], how="left")
        .with_columns(
            flags=c("flags")
            | bit(~c("near"), 32)
            | bit(c("near") & c("fell"), 16)
            | bit(c("near") & (c("by_clock") <= 0), 64)
            | bit(c("near") & (c("before_tick") < c("cluster_before")), 128)
        )
    )
    return judged.select(
        *KEYS,
        "sampled_at",
        "flags",
        pl.when("near").then(c("before_tick")).alias("previous_tick"),
        pl.when("near").then(c("before_leader")).alias("previous_leader"),
        pl.when(SOUND)
        .then(pl.coalesce("by_clock", micros("tick") - micros("before_tick")))
        .alias("elapsed_us"),
        *(pl.when(SOUND).then(c(name) - c(f"before_{name}")).alias(new) for name, new in DELTAS.items()),
        *STATE,
    )


def growth(changes: pl.LazyFrame) -> pl.LazyFrame:
    """What each partition's log gained."""
    keys = ["cluster", "tick", "topic", "partition"]
    rows = changes.filter(~c("is_future").fill_null(False))
    own = rows.filter(c("kind") == "partition").select(
        *keys,
        "previous_tick",
        "leader",
        "previous_leader",
        "replicas",
        "in_sync",
        "adding",
        "records_dropped",
        "flags",
        (c("end_offset") - c("start_offset")).alias("records_stored"),
        (c("records_in") * (1.0 / c("elapsed_us"))).alias("records_in_per_us"),
        c("in_sync").fill_null(c("replicas")).alias("insync"),
    )
    held = rows.filter(c("kind") == "replica").select(
        *keys,
        "broker",
        "size_bytes",
        pl.when(SOUND).then(c("growth_bytes") * (1.0 / c("elapsed_us"))).alias("grown"),
    )
    placed = held.join(own.select(*keys, "insync", "adding"), on=keys, how="inner").with_columns(
        member=c("insync").list.contains(c("broker")),
        copied=c("adding").list.contains(c("broker")).fill_null(False),
    )
    complete = c("member") & ~c("copied")
    sizes = placed.group_by(keys).agg(
        c("grown").filter(complete).max(),
        pl.coalesce(c("size_bytes").filter(complete).max(), c("size_bytes").max()).alias("size_bytes"),
        (~c("member")).any().alias("outsider"),
    )
    read = (
        rows.filter(c("kind") == "group")
        .group_by(keys)
        .agg(
            pl.when(c("records_out").is_not_null().any())
            .then(scaled("records_out").sum())
            .alias("records_out")
        )
    )
    joined = own.join(sizes, on=keys, how="left").join(read, on=keys, how="left")
    joined = joined.with_columns(elapsed_us=micros("tick") - micros("previous_tick"))
    return joined.select(
        *keys,
        "leader",
        "replicas",
        "in_sync",
        "elapsed_us",
        "size_bytes",
        whole(c("records_in_per_us") * c("elapsed_us")).alias("records_in"),
        "records_out",
        "records_stored",
        whole(c("grown") * c("elapsed_us")).alias("growth_bytes"),
        c("flags")
        | bit((c("records_dropped") > 0).fill_null(False) | (c("grown") < 0).fill_null(False), 256)
        | bit((c("adding").list.len() > 0).fill_null(False) | c("outsider").fill_null(False), 512)
        | bit(c("previous_tick").is_not_null() & c("leader").ne_missing(c("previous_leader")), 1024),
    )


def traffic(logs: pl.LazyFrame, changes: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Bytes in and out of each partition."""
    uncut = (c("flags") & 256) == 0
    teaches = uncut & (c("growth_bytes") > 0) & (c("records_in") > 0)
    recent = f"{settings.learning}us"
    taught = logs.sort("tick").with_columns(
        pl.when(teaches)
        .then(c(name))
        .rolling_sum_by("tick", recent, closed="right")
        .over("cluster", "topic", "partition")
        .alias(new)
        for name, new in (("growth_bytes", "bytes"), ("records_in", "records"))
    )
    learned = pl.when(c("records") > 0).then(c("bytes") / c("records"))
    stock = pl.when(c("records_stored") > 0).then(c("size_bytes") / c("records_stored"))
    weighed = (
        taught.with_columns(bytes_per_record=pl.coalesce(learned, stock))
        .with_columns(expected=whole(c("records_in") * c("bytes_per_record")))
        .with_columns(flags=c("flags") | bit(c("growth_bytes") < c("expected") * 0.5, 256))
        .with_columns(by_growth=pl.when(uncut).then(c("growth_bytes")))
        .with_columns(
            log_bytes=pl.coalesce("by_growth", "expected"),
            out=whole(c("records_out") * c("bytes_per_record")),
            extrapolated=(c("by_growth").is_null() & c("expected").is_not_null())
            | ((c("flags") & 1024) != 0),
        )
    )
    counted = changes.filter(c("kind") == "topic_broker").select(
        "cluster",
        "tick",
        "topic",
        c("broker").alias("leader"),
        scaled("bytes_in").alias("counted_in"),
        scaled("bytes_out").alias("counted_out"),
    )
    led = ["cluster", "tick", "topic", "leader"]
    shared = weighed.join(counted, on=led, how="left").with_columns(
        all_in=c("log_bytes").sum().over(led), all_out=c("out").sum().over(led), number=pl.len().over(led)
    )
    even = 1.0 / c("number")
    by_in = pl.when(c("all_in") > 0).then(c("log_bytes").fill_null(0) / c("all_in")).otherwise(even)
    by_out = pl.when(c("all_out") > 0).then(c("out").fill_null(0) / c("all_out")).otherwise(by_in)
    return shared.with_columns(
        bytes_in=pl.coalesce(whole(c("counted_in") * by_in), "log_bytes"),
        bytes_out=pl.coalesce(whole(c("counted_out") * by_out), "out"),
    ).select(
        "cluster",
        "tick",
        "topic",
        "partition",
        "leader",
        "replicas",
        "in_sync",
        "elapsed_us",
        "size_bytes",
        "records_in",
        "records_out",
        "log_bytes",
        "bytes_in",
        "bytes_out",
        "bytes_per_record",
        "flags",
        "extrapolated",
    )


def brokers(changes: pl.LazyFrame, logs: pl.LazyFrame) -> pl.LazyFrame:
    """Load and capacity of each broker."""
    held = (
        logs.filter(c("leader").is_not_null())
        .select(
            "cluster", "tick", "leader", "log_bytes", "bytes_in", "bytes_out", c("in_sync").alias("broker")
        )
        .explode("broker")
    )
    leads = c("broker") == c("leader")

    def total(value: pl.Expr) -> pl.Expr:
        return pl.when(value.is_not_null().any()).then(value.sum())

    carried = held.group_by(BROKER).agg(
        total(c("bytes_in").filter(leads)).alias("led_in"),
        total(c("bytes_out").filter(leads)).alias("led_out"),
        total(c("log_bytes").filter(~leads)).alias("followed_in"),
    )
    counted = (
        "cpu_ns",
        "bytes_in",
        "bytes_out",
        "replication_bytes_in",
        "produce_requests",
        "fetch_requests",
    )
    own = changes.filter(c("kind") == "broker").select(
        *BROKER,
        "host",
        "rack",
        "broker_state",
        "flags",
        "previous_tick",
        pl.coalesce("cpu_capacity_cores", "processors").alias("cpu_capacity"),
        c("network_in_capacity_bytes_per_second").alias("network_in_capacity"),
        c("network_out_capacity_bytes_per_second").alias("network_out_capacity"),
        *(scaled(name).alias(name) for name in counted),
        SOUND.alias("sound"),
    )
    sizes = (
        changes.filter(c("kind") == "replica").group_by(BROKER).agg(c("size_bytes").sum().alias("held_bytes"))
    )
    dirs = (
        changes.filter(c("kind") == "log_dir")
        .group_by(BROKER)
        .agg(c("disk_total_bytes").sum().cast(pl.Float64).alias("disk_capacity"), pl.len().alias("dirs"))
    )
    joined = carried
    for other in (own, sizes, dirs):
        joined = joined.join(other, on=BROKER, how="full", coalesce=True)
    measured = c("bytes_in").is_not_null() & c("replication_bytes_in").is_not_null()

    def counted_or(counter: str, estimate: str) -> pl.Expr:
        return pl.when("sound").then(pl.coalesce(counter, estimate, 0))

    return joined.select(
        *BROKER,
        "host",
        "rack",
        "broker_state",
        (c("broker_state") != "fenced").fill_null(True).alias("live"),
        pl.when("sound").then(micros("tick") - micros("previous_tick")).alias("elapsed_us"),
        "cpu_ns",
        (c("produce_requests") + c("fetch_requests")).alias("requests"),
        pl.when(measured).then("bytes_in").otherwise(counted_or("led_in", "led_in")).alias("leader_bytes_in"),
        pl.when(measured)
        .then("replication_bytes_in")
        .otherwise(counted_or("followed_in", "followed_in"))
        .alias("follower_bytes_in"),
        counted_or("bytes_out", "led_out").alias("bytes_out"),
        pl.when(c("dirs") > 0).then(c("held_bytes").fill_null(0)).alias("disk_bytes"),
        measured.alias("network_measured"),
        "cpu_capacity",
        "disk_capacity",
        "network_in_capacity",
        "network_out_capacity",
    )


def windows(logs: pl.LazyFrame, loads: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Statistics per window."""

    def known(name: str) -> pl.Expr:
        return c("elapsed_us").filter(c(name).is_not_null()).sum()

    def mean_rate(name: str) -> pl.Expr:
        return pl.when(c(name).is_not_null().any()).then(c(name).sum() * 1e6 / known(name))

    def statistics(value: pl.Expr, mean: pl.Expr) -> pl.Expr:
        there = value.is_not_null()
        parts = pl.struct(
            mean.alias("mean"),
            value.filter(there).sort_by(c("tick").filter(there)).last().alias("latest"),
            *(value.quantile(share, "linear").alias(f"p{int(share * 100)}") for share in (0.5, 0.95, 0.99)),
            value.max().alias("max"),
        )
        return pl.when(there.any()).then(parts)

    def rate(name: str) -> pl.Expr:
        return statistics(c(name) * (1_000_000 / c("elapsed_us")), mean_rate(name))

    def level(name: str) -> pl.Expr:
        return statistics(c(name).cast(pl.Float64), c(name).sum() / c(name).count())

    def with_end(rows: pl.LazyFrame) -> pl.LazyFrame:
        end = (micros("tick") / settings.slide).ceil().cast(pl.Int64) * settings.slide
        return rows.with_columns(window_end=pl.from_epoch(end, "us").dt.replace_time_zone("UTC"))

    sound = ~c("extrapolated").fill_null(False) & c("bytes_in").is_not_null()
    one = (
        with_end(logs)
        .group_by("cluster", "window_end", "topic", "partition")
        .agg(
            level("size_bytes").alias("disk"),
            rate("bytes_in").alias("network_in"),
            rate("bytes_out").alias("network_out"),
            mean_rate("bytes_in").alias("leader_in"),
            mean_rate("log_bytes").alias("follower_in"),
            c("bytes_in").count().alias("samples"),
            pl.min_horizontal(c("elapsed_us").filter(sound).sum() / settings.window, 1.0).alias(
                "valid_share"
            ),
        )
        .with_columns(kind=pl.lit("partition"))
    )
    other = (
        with_end(loads.with_columns(total_in=c("leader_bytes_in") + c("follower_bytes_in")))
        .group_by("cluster", "window_end", "broker")
        .agg(
            statistics(
                c("cpu_ns") / (c("elapsed_us") * 1000), c("cpu_ns").sum() / (known("cpu_ns") * 1000)
            ).alias("cpu"),
            level("disk_bytes").alias("disk"),
            rate("total_in").alias("network_in"),
            rate("bytes_out").alias("network_out"),
            mean_rate("leader_bytes_in").alias("leader_in"),
            mean_rate("follower_bytes_in").alias("follower_in"),
            mean_rate("requests").alias("requests"),
            c("total_in").count().alias("samples"),
            pl.min_horizontal(c("elapsed_us").filter("network_measured").sum() / settings.window, 1.0).alias(
                "valid_share"
            ),
        )
        .with_columns(kind=pl.lit("broker"))
    )
    return pl.concat([one, other], how="diagonal")


def imbalance(loads: pl.LazyFrame) -> pl.LazyFrame:
    """σ, γ and peak per tick and resource."""
    per_second = 1_000_000 / c("elapsed_us")
    values = {
        "cpu": c("cpu_ns") / (c("elapsed_us") * 1000),
        "disk": c("disk_bytes").cast(pl.Float64),
        "network_in": (c("leader_bytes_in") + c("follower_bytes_in")) * per_second,
        "network_out": c("bytes_out") * per_second,
    }
    rows = pl.concat(
        loads.filter("live").select(
            *BROKER,
            pl.lit(name).alias("resource"),
            value.alias("load"),
            c(f"{name}_capacity").cast(pl.Float64).alias("capacity"),
        )
        for name, value in values.items()
    )
    keys = ["cluster", "tick", "resource"]
    limited, complete, number = c("limited"), c("complete"), c("brokers")
    weighed = (
        rows.with_columns(
            brokers=pl.len().over(keys),
            complete=c("load").is_not_null().all().over(keys),
            limited=(c("capacity") > 0).fill_null(False).all().over(keys),
        )
        .with_columns(weight=pl.when(limited).then(c("load") / c("capacity")).otherwise(c("load")))
        .with_columns(
            mean=c("load").sum().over(keys)
            / pl.when(limited).then(c("capacity").sum().over(keys)).otherwise(number),
            share=c("weight") / c("weight").sum().over(keys),
        )
        .with_columns(
            share=pl.when(c("weight").sum().over(keys) > 0).then(c("share")).otherwise(1 / number),
            deviation=pl.when(c("mean") > 0).then((c("weight") - c("mean")).abs() / c("mean")).otherwise(0.0),
        )
    )
    return weighed.group_by(keys).agg(
        number.first(),
        complete.first(),
        pl.when(complete.first()).then(c("mean").first()).alias("mean"),
        pl.when(complete.first())
        .then((((c("share") - 1 / number) ** 2).sum() / number.first()).sqrt())
        .alias("sigma"),
        pl.when(complete.first()).then(c("deviation").max()).alias("worst_deviation"),
        pl.when(complete.first() & limited.first()).then(c("weight").max()).alias("peak_usage"),
    )
