"""The pipeline from raw samples to traffic, brokers, windows and imbalance, written for Polars."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import polars as pl

from trimtab.observe.replicas.pipeline import COUNTERS, DELTAS, FORM, KEYS, OF_MANY, STATE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

c = pl.col
SOUND = (c("flags") & (16 | 32 | 64)) == 0
BROKER = ["cluster", "tick", "broker"]
PARTITION = ["cluster", "topic", "partition"]
ENTITY = [key for key in KEYS if key != "tick"]


def run(files: list[Path], out: Path, settings: ReplicasPipelineSettings) -> None:
    """Read raw files, write one Parquet file per table."""
    tables = {"cleaned": cleaned(pl.scan_parquet(files), settings)}
    tables["rates"] = rates(tables["cleaned"].lazy(), settings).collect()
    changes = tables["rates"].lazy()
    tables["growth"] = growth(changes).collect()
    tables["traffic"] = traffic(tables["growth"].lazy(), changes, settings).collect()
    tables["brokers"] = brokers(changes, tables["traffic"].lazy()).collect()
    tables["clients"] = clients(changes, settings).collect()
    tables["windows"] = windows(tables["traffic"].lazy(), tables["brokers"].lazy(), settings).collect()
    tables["imbalance"] = imbalance(tables["brokers"].lazy(), tables["clients"].lazy()).collect()
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


def total(value: pl.Expr) -> pl.Expr:
    """A sum; null where no value is known, as in SQL."""
    return pl.when(value.is_not_null().any()).then(value.sum())


def cleaned(raw: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.DataFrame:
    """Flags, one row per sample; only ticks that hold a sample twice are put in order."""
    doubles = [name for name, kind in FORM.columns if kind == "double"]
    bad = {name: c(name).is_nan() | c(name).is_infinite() for name in doubles}
    bad |= {name: c(name) < 0 for name in (*FORM.negative, *FORM.minus_one)}
    unreadable = (
        c("cluster").is_null() | c("tick").is_null() | ~c("kind").is_in(list(FORM.kinds)).fill_null(False)
    )
    negative = [bad[name] for name in FORM.negative] + [c(name) < -1 for name in FORM.minus_one]
    flags = (
        bit(micros("received_at") - micros("tick") > settings.lateness, 1)
        | bit(unreadable, 2)
        | bit(pl.any_horizontal(bad[name] for name in doubles), 4)
        | bit(pl.any_horizontal(negative), 8)
    )
    typed = (
        raw.with_columns(
            pl.coalesce("tick", "received_at", pl.from_epoch(pl.lit(0)).dt.replace_time_zone("UTC")).alias(
                "tick"
            ),
            c("cluster").fill_null(""),
            pl.when(unreadable).then(pl.lit("unreadable")).otherwise("kind").alias("kind"),
            *(pl.when(~condition).then(c(name)).alias(name) for name, condition in bad.items()),
            flags=flags.cast(pl.Int32),
        )
        .with_columns(accepted=(c("flags") & 3) == 0, copies=pl.lit(1), late_copies=c("flags") & 1)
        .collect()
    )
    doubled = typed.group_by(KEYS).len().filter(c("len") > 1)["tick"].unique()
    if doubled.is_empty():
        return typed
    ordered = (
        typed.filter(c("tick").is_in(doubled.implode()))
        .sort("accepted", "received_at", "sampled_at", descending=[True, False, False], nulls_last=True)
        .with_columns(c("copies", "late_copies").sum().over(KEYS))
        .unique(KEYS, keep="first", maintain_order=True)
    )
    return pl.concat([typed.filter(~c("tick").is_in(doubled.implode())), ordered])


def rates(samples: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Changes between consecutive ticks of an entity; kinds that fill few columns apart from the others."""
    accepted = samples.filter("accepted")
    ticks = accepted.select("cluster", "tick").unique().sort("tick")
    ticks = ticks.with_columns(cluster_before=c("tick").shift(1).over("cluster"))
    every = [name for name, _ in FORM.columns]
    parts = [
        changes(accepted.filter(c("kind") == kind), names, ticks, settings) for kind, names in OF_MANY.items()
    ]
    parts.append(changes(accepted.filter(~c("kind").is_in(list(OF_MANY))), every, ticks, settings))
    return pl.concat(parts, how="diagonal")


def changes(
    rows: pl.LazyFrame, values: Collection[str], ticks: pl.LazyFrame, settings: ReplicasPipelineSettings
) -> pl.LazyFrame:
    """`rates` of some samples, as far as it is made of some of their values."""
    deltas = {column: name for column, name in DELTAS.items() if column in values}
    state = [name for name in STATE if name in values]
    placed = [name for name in ("leader", "in_sync", "adding") if name in values]
    lagged = ["tick", "sampled_at", *placed, *deltas]
    same = pl.all_horizontal(c(key).eq_missing(c(key).shift(1)) for key in ENTITY)
    near = same & (micros("tick") - micros("tick").shift(1) <= settings.gap)
    fell = reduce(or_, (c(name) < c(f"before_{name}") for name in COUNTERS if name in values), pl.lit(False))
    by_clock = micros("sampled_at") - micros("before_sampled_at")
    judged = (
        rows.select(*dict.fromkeys([*KEYS, "sampled_at", "flags", *placed, *deltas, *state]))
        .sort(*ENTITY, "tick")
        .with_columns(c(name).shift(1).alias(f"before_{name}") for name in lagged)
        .with_columns(near=near.fill_null(False), by_clock=by_clock)
        .join(ticks, on=["cluster", "tick"], how="left")
        .with_columns(
            flags=c("flags")
            | bit(~c("near"), 32)
            | bit(c("near") & fell, 16)
            | bit(c("near") & (c("by_clock") <= 0), 64)
            | bit(c("near") & (c("before_tick") < c("cluster_before")), 128)
        )
    )
    before = {"previous_tick": pl.when("near").then("before_tick")}
    if placed:
        were, are = (
            pl.when(c(f"{prefix}adding").list.len() > 0)
            .then(c(f"{prefix}in_sync").list.set_difference(f"{prefix}adding"))
            .otherwise(f"{prefix}in_sync")
            for prefix in ("before_", "")
        )
        before["previous_leader"] = pl.when("near").then("before_leader")
        before["complete_before"] = pl.when(c("near") & were.ne_missing(are)).then(were)
    return judged.select(
        *KEYS,
        "sampled_at",
        "flags",
        *(value.alias(name) for name, value in before.items()),
        pl.when(SOUND)
        .then(pl.coalesce("by_clock", micros("tick") - micros("before_tick")))
        .alias("elapsed_us"),
        *(pl.when(SOUND).then(c(name) - c(f"before_{name}")).alias(new) for name, new in deltas.items()),
        *state,
    )


def growth(changes: pl.LazyFrame) -> pl.LazyFrame:
    """The growth of each partition's log, and what groups read of it."""
    keys = ["cluster", "tick", "topic", "partition"]
    rows = changes.filter(~c("is_future").fill_null(False))
    none = pl.lit([], dtype=pl.List(pl.Int32))
    own = (
        rows.filter(c("kind") == "partition")
        .select(
            *keys,
            "previous_tick",
            "leader",
            "previous_leader",
            "complete_before",
            "replicas",
            "in_sync",
            "records_dropped",
            "flags",
            (c("end_offset") - c("start_offset")).alias("records_stored"),
            (c("records_in") * (1.0 / c("elapsed_us"))).alias("records_in_per_us"),
            (micros("tick") - micros("previous_tick")).alias("interval"),
            pl.coalesce("in_sync", "replicas", none).alias("members"),
            c("adding").fill_null(none).alias("copying"),
        )
        .with_row_index("id")
    )
    member = c("members").list.contains(c("broker"))
    held = (
        rows.filter(c("kind") == "replica")
        .select(
            *keys,
            "broker",
            "size_bytes",
            c("previous_tick").alias("since"),
            pl.when(SOUND).then(c("growth_bytes") * (1.0 / c("elapsed_us"))).alias("grown"),
        )
        .join(
            own.select(*keys, "id", "previous_tick", "members", "copying", "complete_before"),
            on=keys,
            how="inner",
        )
        .select(
            "id",
            "size_bytes",
            "grown",
            member.alias("member"),
            (member & ~c("copying").list.contains(c("broker"))).alias("complete"),
            c("complete_before").list.contains(c("broker")).fill_null(True).alias("was_complete"),
            (c("since") >= c("previous_tick")).fill_null(True).alias("same_interval"),
        )
        .select(
            "id",
            "size_bytes",
            pl.when("complete").then("size_bytes").alias("complete_bytes"),
            pl.when(c("complete") & c("was_complete") & c("same_interval")).then("grown").alias("grown"),
            (~(c("member") & c("was_complete"))).alias("outsider"),
        )
    )
    logs = held.group_by("id").agg(c("complete_bytes", "size_bytes", "grown", "outsider").max())
    read = (
        rows.filter(c("kind") == "group")
        .select(
            *keys,
            c("previous_tick").alias("since"),
            pl.when(SOUND).then("records_out").alias("records"),
            c("elapsed_us").alias("read_us"),
        )
        .join(own.select(*keys, "id", "previous_tick", "interval"), on=keys, how="inner")
        .select(
            "id",
            unread=c("records").is_null(),
            spans=(c("since") < c("previous_tick")).fill_null(False),
            in_interval=whole(c("records") * (c("interval") / c("read_us"))),
        )
    )
    groups = read.group_by("id").agg(
        pl.len().cast(pl.Int32).alias("readers"),
        c("unread", "spans").max(),
        c("in_interval").sum().alias("records_out"),
    )
    joined = own.join(logs, on="id", how="left").join(groups, on="id", how="left")
    # A sum of nothing is 0 here: it is known where each group's reads are, and the interval.
    known = ~c("unread") & c("interval").is_not_null()
    return joined.select(
        *keys,
        "leader",
        "replicas",
        "in_sync",
        c("interval").alias("elapsed_us"),
        pl.coalesce("complete_bytes", "size_bytes").alias("size_bytes"),
        whole(c("records_in_per_us") * c("interval")).alias("records_in"),
        pl.when(known).then("records_out").alias("records_out"),
        "previous_leader",
        c("readers").fill_null(0),
        "records_stored",
        whole(c("grown") * c("interval")).alias("growth_bytes"),
        c("flags")
        | bit((c("records_dropped") > 0).fill_null(False) | (c("grown") < 0).fill_null(False), 256)
        | bit((c("copying").list.len() > 0) | c("outsider").fill_null(False), 512)
        | bit(c("previous_tick").is_not_null() & c("leader").ne_missing(c("previous_leader")), 1024)
        | bit(c("spans"), 128),
    )


def counters(logs: pl.LazyFrame, changes: pl.LazyFrame) -> pl.LazyFrame:
    """Topic counters of brokers; without those in whose interval a leadership came or went."""
    counted = changes.filter((c("kind") == "topic_broker") & SOUND).select(
        "cluster",
        "tick",
        "topic",
        c("broker").alias("leader"),
        c("previous_tick").alias("counted_since"),
        c("elapsed_us").alias("counted_us"),
        c("bytes_in").alias("counted_in"),
        c("bytes_out").alias("counted_out"),
    )
    moved = logs.filter((c("flags") & (1024 | 32)) != 0)
    moves = (
        pl.concat(
            moved.select("cluster", "topic", c(leader).alias("leader"), c("tick").alias("moved"))
            for leader in ("leader", "previous_leader")
        )
        .drop_nulls()
        .unique()
    )
    last = counted.sort("tick").join_asof(
        moves.sort("moved"),
        left_on="tick",
        right_on="moved",
        by=["cluster", "topic", "leader"],
        strategy="backward",
        check_sortedness=False,
    )
    return last.filter(~(c("moved") > c("counted_since")).fill_null(False)).drop("moved")


def traffic(logs: pl.LazyFrame, changes: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Bytes in and out of each partition."""
    uncut = (c("flags") & 256) == 0
    teaches = uncut & (c("growth_bytes") > 0) & (c("records_in") > 0)
    learning, gap = f"{settings.learning}us", f"{settings.gap}us"
    recent = logs.sort("tick").with_columns(
        *(
            pl.when(teaches)
            .then(c(name))
            .rolling_sum_by("tick", learning, closed="right")
            .over(PARTITION)
            .alias(new)
            for name, new in (("growth_bytes", "bytes"), ("records_in", "records"))
        ),
        c("readers").rolling_max_by("tick", gap, closed="both").over(PARTITION).alias("recent_readers"),
    )
    learned = pl.when(c("records") > 0).then(c("bytes") / c("records"))
    stock = pl.when(c("records_stored") > 0).then(c("size_bytes") / c("records_stored"))
    weighed = (
        recent.with_columns(
            bytes_per_record=pl.coalesce(learned, stock),
            unread=(c("readers") < c("recent_readers")) | (c("records_out").is_null() & (c("readers") > 0)),
        )
        .with_columns(
            expected=whole(c("records_in") * c("bytes_per_record")),
            out=whole(c("records_out") * c("bytes_per_record")),
        )
        .with_columns(flags=c("flags") | bit(c("growth_bytes") < c("expected") * 0.5, 256))
        .with_columns(by_growth=pl.when(uncut).then("growth_bytes"))
        .with_columns(
            log_bytes=pl.coalesce("by_growth", "expected"),
            read_bytes=pl.when(c("elapsed_us").is_not_null() & ~c("unread")).then(c("out").fill_null(0)),
            extrapolated=(c("by_growth").is_null() & c("expected").is_not_null())
            | ((c("flags") & 1024) != 0),
        )
    )
    led = ["cluster", "tick", "topic", "leader"]
    sums = weighed.group_by(led).agg(
        pl.len().alias("led"),
        c("log_bytes").count().alias("grew"),
        c("records_in").count().alias("offsets"),
        c("log_bytes").sum().alias("all_bytes"),
        c("records_in").sum().alias("all_records"),
        c("out").sum().alias("all_out"),
        (~c("unread")).all().alias("all_read"),
    )
    sums = sums.join(counters(logs, changes), on=led, how="left")
    shared = weighed.join(sums, on=led, how="left", nulls_equal=True)

    def share(part: str, whole_: str) -> pl.Expr:
        weighed_ = c(part).fill_null(0) / c(whole_)
        return pl.when(c(whole_) > 0).then(weighed_).otherwise(1.0 / c("led"))

    by_in = (
        pl.when(c("grew") == c("led"))
        .then(share("log_bytes", "all_bytes"))
        .when(c("offsets") == c("led"))
        .then(share("records_in", "all_records"))
    )
    by_out = pl.when("all_read").then(
        pl.when(c("all_out") > 0).then(share("out", "all_out")).otherwise("by_in")
    )
    per_row = c("elapsed_us") / c("counted_us")
    spans = (micros("counted_since") < micros("tick") - c("elapsed_us")).fill_null(False)
    return (
        shared.with_columns(by_in=by_in, spans=spans)
        .with_columns(
            shared_in=whole(c("counted_in") * per_row * c("by_in")),
            shared_out=whole(c("counted_out") * per_row * by_out),
        )
        .select(
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
            "read_bytes",
            pl.coalesce("shared_in", "log_bytes").alias("bytes_in"),
            pl.coalesce("shared_out", "read_bytes").alias("bytes_out"),
            "bytes_per_record",
            c("flags") | bit(c("spans") | c("unread"), 128),
            c("shared_in").is_not_null().alias("counted"),
            c("extrapolated") | c("spans"),
        )
    )


def brokers(changes: pl.LazyFrame, logs: pl.LazyFrame) -> pl.LazyFrame:
    """Load and capacity of each broker."""

    def pace(name: str) -> pl.Expr:
        return whole(c(name) * (1_000_000_000 / c("elapsed_us"))).alias(name)

    held = (
        logs.filter(c("leader").is_not_null())
        .select(
            "cluster", "tick", "leader", pace("log_bytes"), pace("read_bytes"), c("in_sync").alias("broker")
        )
        .explode("broker", empty_as_null=False, keep_nulls=False)
    )
    leads = c("broker") == c("leader")
    carries = {
        "led_in": c("log_bytes").filter(leads),
        "led_out": c("read_bytes").filter(leads),
        "followed_in": c("log_bytes").filter(~leads),
    }
    carried = held.group_by(BROKER).agg(
        *(value.sum().alias(name) for name, value in carries.items()),
        *(value.is_null().any().alias(f"{name}_unknown") for name, value in carries.items()),
    )
    counted = (
        "cpu_ns",
        "bytes_in",
        "bytes_out",
        "replication_bytes_in",
        "produce_requests",
        "fetch_requests",
    )
    placed = changes.filter(c("broker").is_not_null())
    own = placed.filter(c("kind") == "broker").select(
        *BROKER,
        "host",
        "rack",
        "broker_state",
        "flags",
        pl.coalesce("cpu_capacity_cores", "processors").alias("cpu_capacity"),
        c("network_in_capacity_bytes_per_second").alias("network_in_capacity"),
        c("network_out_capacity_bytes_per_second").alias("network_out_capacity"),
        *(scaled(name).alias(name) for name in counted),
        (micros("tick") - micros("previous_tick")).alias("interval"),
    )
    sizes = (
        placed.filter(c("kind") == "replica").group_by(BROKER).agg(c("size_bytes").sum().alias("held_bytes"))
    )
    dirs = (
        placed.filter(c("kind") == "log_dir")
        .group_by(BROKER)
        .agg(c("disk_total_bytes").sum().cast(pl.Float64).alias("disk_capacity"), pl.len().alias("dirs"))
    )
    joined = carried
    for other in (own, sizes, dirs):
        joined = joined.join(other, on=BROKER, how="full", coalesce=True)
    measured = c("bytes_in").is_not_null() & c("replication_bytes_in").is_not_null()
    judged = joined.with_columns(
        live=(c("broker_state") != "fenced").fill_null(True),
        told=((c("broker_state") == "alive") & SOUND).fill_null(False),
    ).with_columns(
        metered=(measured.filter("live").all() & c("live").any()).over("cluster", "tick"),
    )

    def told(value: pl.Expr) -> pl.Expr:
        return pl.when("told").then(value)

    def counted_or(counter: str, estimate: str) -> pl.Expr:
        known = pl.when(~c(f"{estimate}_unknown").fill_null(False)).then(c(estimate).fill_null(0))
        estimated = whole(known * (c("interval") / 1_000_000_000))
        return told(pl.when("metered").then(counter).otherwise(estimated))

    return judged.select(
        *BROKER,
        "host",
        "rack",
        "broker_state",
        "live",
        told(c("interval")).alias("elapsed_us"),
        told(c("cpu_ns")),
        told(c("produce_requests") + c("fetch_requests")).alias("requests"),
        counted_or("bytes_in", "led_in").alias("leader_bytes_in"),
        counted_or("replication_bytes_in", "followed_in").alias("follower_bytes_in"),
        counted_or("bytes_out", "led_out").alias("bytes_out"),
        pl.when(c("dirs") > 0).then(c("held_bytes").fill_null(0)).alias("disk_bytes"),
        c("metered").alias("network_measured"),
        "cpu_capacity",
        pl.when(c("disk_capacity") > 0).then("disk_capacity").alias("disk_capacity"),
        "network_in_capacity",
        "network_out_capacity",
        c("flags").fill_null(0),
    )


def clients(changes: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Traffic that clients wanted and got, and whether it collapsed."""
    totals = (
        changes.filter(c("kind") == "client")
        .group_by("cluster", "tick")
        .agg(
            pl.len().cast(pl.Int32).alias("clients"),
            (micros("tick") - micros("previous_tick")).max().alias("elapsed"),
            total(scaled("offered_bytes")).alias("offered"),
            total(scaled("served_bytes")).alias("served"),
            total(c("errors")).alias("errors"),
            total(c("late")).alias("late"),
            c("latency_p99_ms").max().alias("latency_p99_ms_max"),
        )
        .sort("tick")
    )
    before = f"{settings.collapse}us"

    def usual(name: str) -> pl.Expr:
        spent = pl.when(c(name).is_not_null()).then("elapsed")
        carried, time = (
            value.rolling_sum_by("tick", before, closed="left").over("cluster") for value in (c(name), spent)
        )
        return pl.when(time > 0).then(carried * 1e6 / time)

    rated = totals.select(
        "cluster",
        "tick",
        "clients",
        (c("offered") * 1e6 / c("elapsed")).alias("offered_bytes_per_second"),
        (c("served") * 1e6 / c("elapsed")).alias("served_bytes_per_second"),
        usual("offered").alias("usual_offered_bytes_per_second"),
        usual("served").alias("usual_served_bytes_per_second"),
        "errors",
        "late",
        "latency_p99_ms_max",
    )
    fell = c("served_bytes_per_second") < 0.5 * c("usual_served_bytes_per_second")
    wanted = c("offered_bytes_per_second") >= 0.5 * c("usual_offered_bytes_per_second")
    return rated.with_columns(traffic_collapse=(fell & wanted).fill_null(False))


def with_end(rows: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Each row once for every window that its tick lies in, in order of time."""
    first = (micros("tick") / settings.slide).ceil().cast(pl.Int64) * settings.slide
    ends = [first + step for step in range(0, settings.window, settings.slide)]
    end = ends[0] if len(ends) == 1 else pl.concat_list(ends)
    ordered = rows.sort("tick").with_columns(window_end=end)
    if len(ends) > 1:
        ordered = ordered.explode("window_end")
    return ordered.with_columns(pl.from_epoch("window_end", "us").dt.replace_time_zone("UTC"))


def windows(logs: pl.LazyFrame, loads: pl.LazyFrame, settings: ReplicasPipelineSettings) -> pl.LazyFrame:
    """Statistics per window."""

    def mean_rate(name: str) -> pl.Expr:
        known = c("elapsed_us").filter(c(name).is_not_null()).sum()
        return pl.when(c(name).is_not_null().any()).then(c(name).sum() * 1e6 / known)

    def statistics(value: pl.Expr, mean: pl.Expr) -> pl.Expr:
        parts = pl.struct(
            mean.alias("mean"),
            value.drop_nulls().last().alias("latest"),
            *(value.quantile(share, "linear").alias(f"p{int(share * 100)}") for share in (0.5, 0.95, 0.99)),
            value.max().alias("max"),
        )
        return pl.when(value.is_not_null().any()).then(parts)

    def rate(name: str) -> pl.Expr:
        return statistics(c(name) * (1_000_000 / c("elapsed_us")), mean_rate(name))

    def level(name: str) -> pl.Expr:
        return statistics(c(name).cast(pl.Float64), c(name).sum() / c(name).count())

    def best(rows: pl.LazyFrame, keys: list[str], names: Iterable[str]) -> pl.LazyFrame:
        """Rows with the values of the ticks with counters where a window has one of those, else with all."""
        some = [(c("counted") & c(name).is_not_null()).any().alias(f"any_{name}") for name in names]
        judged = rows.join(rows.group_by(keys).agg(some), on=keys, how="left", maintain_order="left")
        return judged.with_columns(
            pl.when(c("counted") | ~c(f"any_{name}")).then(name).alias(f"best_{name}") for name in names
        )

    def covered() -> pl.Expr:
        measured = c("elapsed_us").filter("known")
        of_counted = c("elapsed_us").filter(c("known") & c("counted"))
        time = pl.when(c("counted").any()).then(of_counted.sum()).otherwise(measured.sum())
        return pl.min_horizontal(time / settings.window, 1.0)

    keys = ["cluster", "window_end", "topic", "partition"]
    known = ~c("extrapolated") & c("bytes_in").is_not_null() & ((c("flags") & 128) == 0)
    one = (
        best(with_end(logs.with_columns(known=known), settings), keys, ("bytes_in", "bytes_out"))
        .group_by(keys)
        .agg(
            c("leader", "replicas", "in_sync").last(),
            level("size_bytes").alias("disk"),
            rate("best_bytes_in").alias("network_in"),
            rate("best_bytes_out").alias("network_out"),
            mean_rate("best_bytes_in").alias("leader_in"),
            mean_rate("log_bytes").alias("follower_in"),
            c("bytes_in").count().cast(pl.Int32).alias("samples"),
            covered().alias("valid_share"),
            c("counted", "extrapolated").any(),
        )
        .with_columns(kind=pl.lit("partition"))
    )
    keys = ["cluster", "window_end", "broker"]
    summed = loads.with_columns(bytes_in=c("leader_bytes_in") + c("follower_bytes_in")).with_columns(
        counted=c("network_measured") & c("bytes_in").is_not_null()
    )
    summed = summed.with_columns(known=c("counted") & ((c("flags") & 128) == 0))
    chosen = ("cpu_ns", "bytes_in", "bytes_out", "leader_bytes_in", "follower_bytes_in")
    spent = c("elapsed_us").filter(c("best_cpu_ns").is_not_null()).sum() * 1000
    cores = statistics(c("best_cpu_ns") / (c("elapsed_us") * 1000), c("best_cpu_ns").sum() / spent)
    other = (
        best(with_end(summed, settings), keys, chosen)
        .group_by(keys)
        .agg(
            cores.alias("cpu"),
            level("disk_bytes").alias("disk"),
            rate("best_bytes_in").alias("network_in"),
            rate("best_bytes_out").alias("network_out"),
            mean_rate("best_leader_bytes_in").alias("leader_in"),
            mean_rate("best_follower_bytes_in").alias("follower_in"),
            mean_rate("requests").alias("requests"),
            c("bytes_in").count().cast(pl.Int32).alias("samples"),
            covered().alias("valid_share"),
            c("counted").any(),
            extrapolated=pl.lit(False),
        )
        .with_columns(kind=pl.lit("broker"))
    )
    return pl.concat([one, other], how="diagonal")


def imbalance(loads: pl.LazyFrame, clients: pl.LazyFrame) -> pl.LazyFrame:
    """σ, γ and peak per tick and resource."""
    per_second = 1_000_000 / c("elapsed_us")
    values = {
        "cpu": c("cpu_ns") / (c("elapsed_us") * 1000),
        "disk": c("disk_bytes").cast(pl.Float64),
        "network_in": (c("leader_bytes_in") + c("follower_bytes_in")) * per_second,
        "network_out": c("bytes_out") * per_second,
    }
    rows = pl.concat(
        loads.filter("live")
        .sort("broker")
        .select(
            *BROKER,
            pl.lit(name).alias("resource"),
            value.alias("load"),
            c(f"{name}_capacity").cast(pl.Float64).alias("capacity"),
            (c("network_measured") | pl.lit(not name.startswith("network"))).alias("counted"),
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
            all_weight=c("weight").sum().over(keys),
        )
        .with_columns(
            usage=pl.when(limited).then("weight"),
            share=pl.when(complete).then(
                pl.when(c("all_weight") > 0).then(c("weight") / c("all_weight")).otherwise(1 / number)
            ),
            deviation=pl.when(complete).then(
                pl.when(c("mean") > 0).then((c("weight") - c("mean")).abs() / c("mean")).otherwise(0.0)
            ),
        )
    )
    spread = ((c("share") - 1 / number) ** 2).sum()
    measures = weighed.group_by(keys).agg(
        number.first().cast(pl.Int32),
        complete.first(),
        (complete & c("counted")).all().alias("measured"),
        pl.when(complete.first()).then(c("mean").first()).alias("mean"),
        pl.when(complete.first()).then((spread / number.first()).sqrt()).alias("sigma"),
        c("deviation").max().alias("worst_deviation"),
        pl.when(complete.first()).then(c("usage").max()).alias("peak_usage"),
        pl.struct("broker", "load", "capacity", "usage", "share", "deviation").alias("by_broker"),
    )
    collapse = clients.select("cluster", "tick", "traffic_collapse")
    return measures.join(collapse, on=["cluster", "tick"], how="left")
