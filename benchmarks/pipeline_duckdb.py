"""The pipeline from raw samples to traffic, brokers, windows and imbalance, written for DuckDB."""
# ruff: noqa: E501 - the queries are laid out as SQL, not as Python

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from trimtab.observe.replicas.pipeline import COUNTERS, DELTAS, FORM, KEYS, STATE

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

OUTPUTS = ("cleaned", "rates", "growth", "traffic", "brokers", "windows", "imbalance")
NO_RATE = 16 | 32 | 64


def run(files: list[Path], out: Path, settings: ReplicasPipelineSettings) -> None:
    """Read raw files, write one Parquet file per table."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    names = ", ".join(f"'{path}'" for path in files)
    db.execute(f"CREATE VIEW raw AS SELECT * FROM read_parquet([{names}])")
    for table, query in _queries(settings).items():
        db.execute(f"CREATE TEMP TABLE {table} AS {query}")
    for table in OUTPUTS:
        db.execute(f"COPY {table} TO '{out / table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
    db.close()


def _queries(settings: ReplicasPipelineSettings) -> dict[str, str]:
    doubles = [name for name, kind in FORM.columns if kind == "double"]
    longs = [name for name, kind in FORM.columns if kind == "bigint"]
    signed = ("committed_offset", "offset_lag")
    bad = {name: f"(isnan({name}) OR isinf({name}))" for name in doubles}
    bad |= {name: f"({name} < 0)" for name in longs if name != "offset_lag"}
    clean = [f"CASE WHEN {bad[name]} THEN NULL ELSE {name} END AS {name}" for name in bad]
    plain = [f'"{name}"' for name, _ in FORM.columns if name not in bad]
    keys = ", ".join(f'"{key}"' for key in KEYS)
    any_nan = " OR ".join(f"coalesce({bad[name]}, false)" for name in doubles)
    any_negative = " OR ".join(f"coalesce({bad[name]}, false)" for name in longs if name not in signed)
    entity = ", ".join(f'"{key}"' for key in KEYS if key != "tick")
    lagged = ["tick", "sampled_at", "leader", *DELTAS]
    before = ", ".join(f"lag({name}) OVER w AS before_{name}" for name in lagged)
    fell = " OR ".join(f"coalesce({name} < before_{name}, false)" for name in COUNTERS)
    changes = ", ".join(
        f"CASE WHEN sound THEN {name} - before_{name} END AS {new}" for name, new in DELTAS.items()
    )
    scaled = "round({0} * ((epoch_us(tick) - epoch_us(previous_tick)) / elapsed_us))::BIGINT"
    sound = f"(flags & {NO_RATE}) = 0"
    step = settings.slide
    window = f"make_timestamptz((ceil(epoch_us(tick) / {step}) * {step})::BIGINT) AS window_end"

    def stats(value: str, mean: str) -> str:
        return (
            f"CASE WHEN count({value}) > 0 THEN {{mean: {mean}, latest: arg_max({value}, tick), "
            f"q: quantile_cont({value}, [0.5, 0.95, 0.99]), max: max({value})}} END"
        )

    def mean_rate(name: str) -> str:
        return f"(sum({name}) * 1e6 / sum(CASE WHEN {name} IS NOT NULL THEN elapsed_us END))"

    def rate(name: str) -> str:
        return stats(f"({name} * (1000000 / elapsed_us))", mean_rate(name))

    def level(name: str) -> str:
        return stats(f"({name}::DOUBLE)", f"sum({name}) / count({name})")

    cores = stats(
        "(cpu_ns / (elapsed_us * 1000))",
        "sum(cpu_ns) / (sum(CASE WHEN cpu_ns IS NOT NULL THEN elapsed_us END) * 1000)",
    )
    first = "any_value({0}) FILTER (kind = 'broker') AS {0}"
    counted = (
        "cpu_ns",
        "bytes_in",
        "bytes_out",
        "replication_bytes_in",
        "produce_requests",
        "fetch_requests",
    )
    part = "first({0}) FILTER (kind = 'partition') AS {1}"
    queries = {
        "cleaned": f"""
            WITH flagged AS (
                SELECT {", ".join(plain + clean)},
                    (CASE WHEN epoch_us(received_at) - epoch_us(tick) > {settings.lateness} THEN 1 ELSE 0 END)
                    | (CASE WHEN {any_nan} THEN 4 ELSE 0 END) | (CASE WHEN {any_negative} THEN 8 ELSE 0 END) AS flags
                FROM raw)
            SELECT *, (flags & 3) = 0 AS accepted, count(*) OVER (PARTITION BY {keys}) AS copies
            FROM flagged
            QUALIFY row_number() OVER (PARTITION BY {keys}
                                       ORDER BY accepted DESC, received_at, sampled_at) = 1""",
        "rates": f"""
            WITH paired AS (
                SELECT *, {before} FROM cleaned WHERE accepted WINDOW w AS (PARTITION BY {entity} ORDER BY tick)),
            marked AS (
                SELECT *, coalesce(epoch_us(tick) - epoch_us(before_tick) <= {settings.gap}, false) AS near,
                    {fell} AS fell, epoch_us(sampled_at) - epoch_us(before_sampled_at) AS by_clock FROM paired),
            judged AS (
                SELECT * REPLACE (flags | (CASE WHEN near THEN 0 ELSE 32 END) | (CASE WHEN near AND fell THEN 16 ELSE 0 END)
                    | (CASE WHEN near AND coalesce(by_clock <= 0, false) THEN 64 ELSE 0 END) AS flags) FROM marked),
            ticks AS (
                SELECT cluster, tick, lag(tick) OVER (PARTITION BY cluster ORDER BY tick) AS cluster_before
                FROM (SELECT DISTINCT cluster, tick FROM cleaned WHERE accepted)),
            missed AS (
                SELECT judged.* REPLACE (flags | (CASE WHEN near AND before_tick < cluster_before THEN 128 ELSE 0 END) AS flags),
                    {sound} AS sound FROM judged LEFT JOIN ticks USING (cluster, tick))
            SELECT {keys}, sampled_at, flags, CASE WHEN near THEN before_tick END AS previous_tick,
                CASE WHEN near THEN before_leader END AS previous_leader,
                CASE WHEN sound THEN coalesce(by_clock, epoch_us(tick) - epoch_us(before_tick)) END AS elapsed_us,
                {changes}, {", ".join(STATE)} FROM missed""",
        "growth": f"""
            WITH gathered AS (
                SELECT cluster, tick, topic, partition,
                    {part.format("previous_tick", "previous_tick")}, {part.format("leader", "leader")},
                    {part.format("previous_leader", "previous_leader")}, {part.format("replicas", "replicas")},
                    {part.format("in_sync", "in_sync")}, {part.format("adding", "adding")},
                    first(end_offset - start_offset) FILTER (kind = 'partition') AS records_stored,
                    first(records_in * (1.0::DOUBLE / elapsed_us)) FILTER (kind = 'partition') AS records_in_per_us,
                    {part.format("records_dropped", "records_dropped")}, {part.format("flags", "own_flags")},
                    list({{broker: broker, size: size_bytes,
                        growth: CASE WHEN {sound} THEN growth_bytes * (1.0::DOUBLE / elapsed_us) END}}) FILTER (kind = 'replica') AS held,
                    sum(CASE WHEN {sound} THEN {scaled.format("records_out")} END) FILTER (kind = 'group') AS records_out
                FROM rates WHERE kind IN ('replica', 'partition', 'group') AND NOT coalesce(is_future, false)
                GROUP BY ALL),
            chosen AS (
                SELECT *, epoch_us(tick) - epoch_us(previous_tick) AS elapsed_us, coalesce(in_sync, replicas, []) AS insync,
                    coalesce(adding, []) AS copying,
                    list_filter(held, lambda it: NOT list_contains(copying, it.broker) AND list_contains(insync, it.broker)) AS complete
                FROM gathered WHERE own_flags IS NOT NULL),
            measured AS (
                SELECT *, list_max(list_transform(complete, lambda it: it.growth)) AS grown,
                    coalesce(list_max(list_transform(complete, lambda it: it.size)), list_max(list_transform(held, lambda it: it.size))) AS size_bytes,
                    len(list_filter(held, lambda it: NOT list_contains(insync, it.broker))) > 0 AS outsider FROM chosen)
            SELECT cluster, tick, topic, partition, leader, replicas, in_sync, elapsed_us, size_bytes,
                round(records_in_per_us * elapsed_us)::BIGINT AS records_in, records_out::BIGINT AS records_out, records_stored,
                round(grown * elapsed_us)::BIGINT AS growth_bytes,
                own_flags | (CASE WHEN records_dropped > 0 OR grown < 0 THEN 256 ELSE 0 END)
                | (CASE WHEN len(copying) > 0 OR outsider THEN 512 ELSE 0 END)
                | (CASE WHEN previous_tick IS NOT NULL AND leader IS DISTINCT FROM previous_leader THEN 1024 ELSE 0 END) AS flags
            FROM measured""",
        "traffic": f"""
            WITH learned AS (
                SELECT *, (flags & 256) = 0 AND growth_bytes > 0 AND records_in > 0 AS teaches FROM growth),
            weighed AS (
                SELECT * EXCLUDE (teaches), coalesce(
                    sum(CASE WHEN teaches THEN growth_bytes END) OVER recent / sum(CASE WHEN teaches THEN records_in END) OVER recent,
                    CASE WHEN records_stored > 0 THEN size_bytes / records_stored END) AS bytes_per_record
                FROM learned WINDOW recent AS (PARTITION BY cluster, topic, partition ORDER BY epoch_us(tick)
                    RANGE BETWEEN {settings.learning - 1} PRECEDING AND CURRENT ROW)),
            expected AS (SELECT *, round(records_in * bytes_per_record)::BIGINT AS expected FROM weighed),
            cut AS (SELECT * REPLACE (flags | (CASE WHEN growth_bytes < expected * 0.5 THEN 256 ELSE 0 END) AS flags) FROM expected),
            logged AS (
                SELECT *, coalesce(CASE WHEN (flags & 256) = 0 THEN growth_bytes END, expected) AS log_bytes,
                    round(records_out * bytes_per_record)::BIGINT AS out_bytes,
                    (CASE WHEN (flags & 256) = 0 THEN growth_bytes END IS NULL AND expected IS NOT NULL) OR (flags & 1024) != 0 AS extrapolated
                FROM cut),
            counted AS (
                SELECT cluster, tick, topic, broker AS leader,
                    CASE WHEN {sound} THEN {scaled.format("bytes_in")} END AS counted_in,
                    CASE WHEN {sound} THEN {scaled.format("bytes_out")} END AS counted_out
                FROM rates WHERE kind = 'topic_broker'),
            shared AS (
                SELECT *, sum(log_bytes) OVER led AS all_in, sum(out_bytes) OVER led AS all_out, count(*) OVER led AS number
                FROM logged LEFT JOIN counted USING (cluster, tick, topic, leader)
                WINDOW led AS (PARTITION BY cluster, tick, topic, leader)),
            split AS (
                SELECT *, CASE WHEN all_in > 0 THEN coalesce(log_bytes, 0) / all_in ELSE 1.0::DOUBLE / number END AS by_in FROM shared)
            SELECT cluster, tick, topic, partition, leader, replicas, in_sync, elapsed_us, size_bytes, records_in, records_out,
                log_bytes, coalesce(round(counted_in * by_in)::BIGINT, log_bytes) AS bytes_in,
                coalesce(round(counted_out * CASE WHEN all_out > 0 THEN coalesce(out_bytes, 0) / all_out ELSE by_in END)::BIGINT, out_bytes) AS bytes_out,
                bytes_per_record, flags, extrapolated FROM split""",
        "brokers": f"""
            WITH holder AS (
                SELECT cluster, tick, leader, log_bytes, bytes_in AS produced, bytes_out AS consumed, unnest(in_sync) AS broker
                FROM traffic WHERE leader IS NOT NULL),
            carried AS (
                SELECT cluster, tick, broker, sum(produced) FILTER (broker = leader) AS led_in,
                    sum(consumed) FILTER (broker = leader) AS led_out, sum(log_bytes) FILTER (broker != leader) AS followed_in
                FROM holder GROUP BY ALL),
            own AS (
                SELECT * REPLACE ({
            ", ".join(f"CASE WHEN {sound} THEN {scaled.format(name)} END AS {name}" for name in counted)
        }),
                    coalesce(cpu_capacity_cores, processors) AS cpu_capacity FROM rates
                WHERE kind IN ('broker', 'replica', 'log_dir') AND broker IS NOT NULL),
            gathered AS (
                SELECT cluster, tick, broker, {
            ", ".join(
                first.format(name)
                for name in (
                    "host",
                    "rack",
                    "broker_state",
                    "flags",
                    "previous_tick",
                    "cpu_capacity",
                    "network_in_capacity_bytes_per_second",
                    "network_out_capacity_bytes_per_second",
                    *counted,
                )
            )
        },
                    sum(size_bytes) FILTER (kind = 'replica') AS held_bytes,
                    sum(disk_total_bytes) FILTER (kind = 'log_dir') AS disk_capacity, count(*) FILTER (kind = 'log_dir') AS dirs
                FROM own GROUP BY ALL),
            joined AS (SELECT *, flags IS NOT NULL AND {
            sound
        } AS sound, bytes_in IS NOT NULL AND replication_bytes_in IS NOT NULL AS measured
                FROM gathered FULL JOIN carried USING (cluster, tick, broker))
            SELECT cluster, tick, broker, host, rack, broker_state, coalesce(broker_state != 'fenced', true) AS live,
                CASE WHEN sound THEN epoch_us(tick) - epoch_us(previous_tick) END AS elapsed_us, cpu_ns,
                produce_requests + fetch_requests AS requests,
                CASE WHEN measured THEN bytes_in WHEN sound THEN coalesce(led_in, 0) END::BIGINT AS leader_bytes_in,
                CASE WHEN measured THEN replication_bytes_in WHEN sound THEN coalesce(followed_in, 0) END::BIGINT AS follower_bytes_in,
                CASE WHEN sound THEN coalesce(bytes_out, led_out, 0) END::BIGINT AS bytes_out,
                CASE WHEN dirs > 0 THEN coalesce(held_bytes, 0) END::BIGINT AS disk_bytes, measured AS network_measured, cpu_capacity,
                CASE WHEN disk_capacity > 0 THEN disk_capacity END::DOUBLE AS disk_capacity,
                network_in_capacity_bytes_per_second AS network_in_capacity,
                network_out_capacity_bytes_per_second AS network_out_capacity FROM joined""",
        "windows": f"""
            SELECT cluster, window_end, 'partition' AS kind, NULL::INTEGER AS broker, topic, partition,
                arg_max(leader, tick) AS leader, arg_max(replicas, tick) AS replicas, arg_max(in_sync, tick) AS in_sync, NULL AS cpu,
                {level("size_bytes")} AS disk, {rate("bytes_in")} AS network_in, {rate("bytes_out")} AS network_out,
                {mean_rate("bytes_in")} AS leader_in, {mean_rate("log_bytes")} AS follower_in, NULL::DOUBLE AS requests,
                count(bytes_in) AS samples, least(coalesce(sum(CASE WHEN NOT extrapolated AND bytes_in IS NOT NULL THEN elapsed_us END), 0)
                    / {settings.window}, 1.0) AS valid_share, coalesce(bool_or(extrapolated), false) AS extrapolated
            FROM (SELECT *, {window} FROM traffic) GROUP BY ALL
            UNION ALL
            SELECT cluster, window_end, 'broker', broker, NULL, NULL, NULL, NULL, NULL, {cores}, {level("disk_bytes")},
                {rate("total_in")}, {rate("bytes_out")}, {mean_rate("leader_bytes_in")}, {mean_rate("follower_bytes_in")},
                {mean_rate("requests")}, count(total_in),
                least(coalesce(sum(CASE WHEN network_measured THEN elapsed_us END), 0) / {settings.window}, 1.0), false
            FROM (SELECT *, leader_bytes_in + follower_bytes_in AS total_in, {window} FROM brokers) GROUP BY ALL""",
        "imbalance": """
            WITH loads AS (
                SELECT cluster, tick, broker, unnest(['cpu', 'disk', 'network_in', 'network_out']) AS resource,
                    unnest([cpu_ns / (elapsed_us * 1000), disk_bytes::DOUBLE, (leader_bytes_in + follower_bytes_in) * (1000000 / elapsed_us),
                        bytes_out * (1000000 / elapsed_us)]) AS load,
                    unnest([cpu_capacity, disk_capacity, network_in_capacity, network_out_capacity]) AS capacity
                FROM brokers WHERE live),
            sums AS (
                SELECT *, count(*) OVER t AS number, bool_and(load IS NOT NULL) OVER t AS complete,
                    bool_and(coalesce(capacity > 0, false)) OVER t AS limited, sum(load) OVER t AS all_load, sum(capacity) OVER t AS all_capacity
                FROM loads WINDOW t AS (PARTITION BY cluster, tick, resource)),
            weighed AS (
                SELECT *, CASE WHEN limited THEN load / capacity ELSE load END AS weight,
                    all_load / CASE WHEN limited THEN all_capacity ELSE number END AS mean FROM sums),
            shared AS (
                SELECT *, CASE WHEN sum(weight) OVER t > 0 THEN weight / sum(weight) OVER t ELSE 1 / number END AS share
                FROM weighed WINDOW t AS (PARTITION BY cluster, tick, resource))
            SELECT cluster, tick, resource, any_value(number) AS brokers, any_value(complete) AS complete,
                CASE WHEN any_value(complete) THEN any_value(mean) END AS mean,
                CASE WHEN any_value(complete) THEN sqrt(sum((share - 1 / number) ** 2) / any_value(number)) END AS sigma,
                CASE WHEN any_value(complete) THEN max(CASE WHEN mean > 0 THEN abs(weight - mean) / mean ELSE 0 END) END AS worst_deviation,
                CASE WHEN any_value(complete) AND any_value(limited) THEN max(weight) END AS peak_usage
            FROM shared GROUP BY ALL""",
    }
    return queries
