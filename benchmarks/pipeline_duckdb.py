"""The pipeline from raw samples to traffic, brokers, windows and imbalance, written for DuckDB."""
# ruff: noqa: E501 - the queries are laid out as SQL, not as Python

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from trimtab.observe.replicas.pipeline import COUNTERS, DELTAS, FORM, KEYS, OF_MANY, STATE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings

OUTPUTS = ("cleaned", "rates", "growth", "traffic", "brokers", "clients", "windows", "imbalance")
"""Tables that are written; the others are steps on the way."""
NO_RATE = 16 | 32 | 64
SOUND = f"(flags & {NO_RATE}) = 0"
INTERVAL = "(epoch_us(tick) - epoch_us(previous_tick))"
COUNTED = ("cpu_ns", "bytes_in", "bytes_out", "replication_bytes_in", "produce_requests", "fetch_requests")
KEY = ", ".join(f'"{key}"' for key in KEYS)


def run(files: list[Path], out: Path, settings: ReplicasPipelineSettings) -> None:
    """Read raw files, write one Parquet file per table."""
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    names = ", ".join(f"'{path}'" for path in files)
    db.execute(f"CREATE VIEW raw AS SELECT * FROM read_parquet([{names}])")
    db.execute(f"CREATE VIEW typed AS {_typed(settings)}")
    queries = {
        "doubled": f"""
            SELECT DISTINCT tick FROM (
                SELECT tick FROM typed GROUP BY tick, hash({KEY}) HAVING count(*) > 1)""",
        "cleaned": _cleaned(),
        "ticks": """
            SELECT cluster, tick, lag(tick) OVER (PARTITION BY cluster ORDER BY tick) AS cluster_before
            FROM (SELECT DISTINCT cluster, tick FROM cleaned WHERE accepted)""",
        "rates": _rates(settings),
        "own": _own(),
        "growth": _growth(),
        "traffic": _traffic(settings),
        "brokers": _brokers(),
        "clients": _clients(settings),
        "windows": _windows(settings),
        "imbalance": _imbalance(),
    }
    for table, query in queries.items():
        db.execute(f"CREATE TEMP TABLE {table} AS {query}")
    for table in OUTPUTS:
        db.execute(f"COPY {table} TO '{out / table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
    db.close()


def _bit(condition: str, flag: int) -> str:
    return f"(CASE WHEN {condition} THEN {flag} ELSE 0 END)"


def _typed(settings: ReplicasPipelineSettings) -> str:
    """Raw rows with their flags; values that cannot be are null."""
    doubles = [name for name, kind in FORM.columns if kind == "double"]
    bad = {name: f"{name} < 0" for name in (*FORM.negative, *FORM.minus_one)}
    bad |= {name: f"(isnan({name}) OR isinf({name}))" for name in doubles}
    kinds = ", ".join(f"'{kind}'" for kind in FORM.kinds)
    unreadable = f"(cluster IS NULL OR tick IS NULL OR NOT coalesce(kind IN ({kinds}), false))"
    values = {name: f'"{name}"' for name, _ in FORM.columns}
    values |= {name: f"CASE WHEN {condition} THEN NULL ELSE {name} END" for name, condition in bad.items()}
    values["tick"] = "coalesce(tick, received_at, make_timestamptz(0))"
    values["cluster"] = "coalesce(cluster, '')"
    values["kind"] = f"CASE WHEN {unreadable} THEN 'unreadable' ELSE kind END"
    any_nan = " OR ".join(bad[name] for name in doubles)
    negative = " OR ".join(
        [bad[name] for name in FORM.negative] + [f"{name} < -1" for name in FORM.minus_one]
    )
    late = f"epoch_us(received_at) - epoch_us(tick) > {settings.lateness}"
    return f"""
        SELECT *, (flags & 3) = 0 AS accepted, 1 AS copies, flags & 1 AS late_copies FROM (
            SELECT {", ".join(f'{value} AS "{name}"' for name, value in values.items())},
                {_bit(late, 1)} | {_bit(unreadable, 2)} | {_bit(any_nan, 4)} | {_bit(negative, 8)} AS flags
            FROM raw)"""


def _cleaned() -> str:
    """One row per sample; only ticks that hold a sample twice are put in order."""
    return f"""
        SELECT * FROM typed WHERE tick NOT IN (SELECT tick FROM doubled)
        UNION ALL
        SELECT * REPLACE (sum(copies) OVER same AS copies, sum(late_copies) OVER same AS late_copies)
        FROM typed WHERE tick IN (SELECT tick FROM doubled)
        WINDOW same AS (PARTITION BY {KEY})
        QUALIFY row_number() OVER (PARTITION BY {KEY} ORDER BY accepted DESC, received_at NULLS LAST, sampled_at NULLS LAST) = 1"""


def _rates(settings: ReplicasPipelineSettings) -> str:
    """Changes between consecutive ticks of an entity; kinds that fill few columns apart from the others."""
    of_many = {name for names in OF_MANY.values() for name in names}
    kinds = ", ".join(f"'{kind}'" for kind in OF_MANY)
    every = {name for name, _ in FORM.columns}
    return f"""
        {_changes(f"kind IN ({kinds})", of_many, settings)}
        UNION ALL BY NAME
        {_changes(f"kind NOT IN ({kinds})", every, settings)}"""


def _changes(rows: str, values: set[str], settings: ReplicasPipelineSettings) -> str:
    """`_rates` of some samples, as far as it is made of some of their values."""
    deltas = {column: name for column, name in DELTAS.items() if column in values}
    counters = [name for name in COUNTERS if name in values]
    state = [name for name in STATE if name in values]
    needed = ", ".join(
        f'"{name}"' for name in dict.fromkeys((*KEYS, "sampled_at", "flags", "leader", *deltas, *state))
    )
    lagged = ("tick", "sampled_at", "leader", "in_sync", "adding", *deltas)
    entity = ", ".join(f'"{key}"' for key in KEYS if key != "tick")
    fell = " OR ".join(f"coalesce({name} < before_{name}, false)" for name in counters)
    changes = (
        f"CASE WHEN sound THEN {column} - before_{column} END AS {name}" for column, name in deltas.items()
    )

    def complete(prefix: str) -> str:
        return (
            f"CASE WHEN len({prefix}adding) > 0 "
            f"THEN list_filter({prefix}in_sync, lambda it: NOT list_contains({prefix}adding, it)) ELSE {prefix}in_sync END"
        )

    return f"""(
        WITH paired AS (
            SELECT {needed}, {", ".join(f"lag({name}) OVER w AS before_{name}" for name in lagged)}
            FROM cleaned WHERE accepted AND {rows} WINDOW w AS (PARTITION BY {entity} ORDER BY tick)),
        marked AS (
            SELECT *, coalesce(epoch_us(tick) - epoch_us(before_tick) <= {settings.gap}, false) AS near, {fell} AS fell,
                epoch_us(sampled_at) - epoch_us(before_sampled_at) AS by_clock, {complete("before_")} AS were_complete, {complete("")} AS are_complete
            FROM paired),
        judged AS (
            SELECT marked.* REPLACE (flags | {_bit("NOT near", 32)} | {_bit("near AND fell", 16)} | {_bit("near AND by_clock <= 0", 64)}
                | {_bit("near AND before_tick < cluster_before", 128)} AS flags)
            FROM marked LEFT JOIN ticks USING (cluster, tick)),
        evaluated AS (SELECT *, {SOUND} AS sound FROM judged)
        SELECT {KEY}, sampled_at, flags, CASE WHEN near THEN before_tick END AS previous_tick, CASE WHEN near THEN before_leader END AS previous_leader,
            CASE WHEN near AND were_complete IS DISTINCT FROM are_complete THEN were_complete END AS complete_before,
            CASE WHEN sound THEN coalesce(by_clock, epoch_us(tick) - epoch_us(before_tick)) END AS elapsed_us,
            {", ".join((*changes, *state))} FROM evaluated)"""


def _scaled(name: str) -> str:
    """A change, scaled to the time between ticks."""
    return f"CASE WHEN {SOUND} THEN round({name} * ({INTERVAL} / elapsed_us))::BIGINT END"


def _own() -> str:
    """Samples of partitions; later steps look them up by `rowid`, not by text."""
    return """
        SELECT cluster, tick, topic, partition, previous_tick, leader, previous_leader, complete_before, replicas, in_sync,
            coalesce(adding, []) AS copying, coalesce(in_sync, replicas, []) AS members, flags, records_dropped,
            end_offset - start_offset AS records_stored, records_in * (1.0::DOUBLE / elapsed_us) AS records_in_per_us
        FROM rates WHERE kind = 'partition' AND NOT coalesce(is_future, false)"""


def _growth() -> str:
    """The growth of each partition's log, and what groups read of it."""
    return f"""
        WITH held AS (
            SELECT own.rowid AS id, size_bytes AS bytes, list_contains(members, broker) AS member,
                member AND NOT list_contains(copying, broker) AS complete,
                coalesce(list_contains(own.complete_before, broker), true) AS was_complete,
                CASE WHEN complete AND was_complete AND coalesce(rates.previous_tick >= own.previous_tick, true)
                    AND (rates.flags & {NO_RATE}) = 0 THEN growth_bytes * (1.0::DOUBLE / elapsed_us) END AS grown
            FROM rates JOIN own USING (cluster, tick, topic, partition)
            WHERE kind = 'replica' AND NOT coalesce(is_future, false)),
        logs AS (
            SELECT id, coalesce(max(bytes) FILTER (complete), max(bytes)) AS size_bytes, max(grown) AS grown,
                bool_or(NOT (member AND was_complete)) AS outsider
            FROM held GROUP BY id),
        read AS (
            SELECT own.rowid AS id, CASE WHEN (rates.flags & {NO_RATE}) = 0 THEN records_out END AS records,
                coalesce(rates.previous_tick < own.previous_tick, false) AS spans,
                round(records * ((epoch_us(tick) - epoch_us(own.previous_tick)) / elapsed_us)) AS in_interval
            FROM rates JOIN own USING (cluster, tick, topic, partition)
            WHERE kind = 'group' AND NOT coalesce(is_future, false)),
        groups AS (
            SELECT id, count(*)::INTEGER AS readers, bool_or(spans) AS spans,
                CASE WHEN count(records) = count(*) THEN sum(in_interval)::BIGINT END AS records_out
            FROM read GROUP BY id),
        measured AS (
            SELECT own.*, own.rowid AS id, {INTERVAL} AS elapsed_us FROM own)
        SELECT cluster, tick, topic, partition, leader, replicas, in_sync, elapsed_us, size_bytes,
            round(records_in_per_us * elapsed_us)::BIGINT AS records_in, records_out, previous_leader, coalesce(readers, 0) AS readers,
            records_stored, round(grown * elapsed_us)::BIGINT AS growth_bytes,
            flags | {_bit("records_dropped > 0 OR grown < 0", 256)} | {_bit("len(copying) > 0 OR outsider", 512)}
                | {_bit("previous_tick IS NOT NULL AND leader IS DISTINCT FROM previous_leader", 1024)} | {_bit("spans", 128)} AS flags
        FROM measured LEFT JOIN logs USING (id) LEFT JOIN groups USING (id)"""


def _traffic(settings: ReplicasPipelineSettings) -> str:
    """Bytes in and out of each partition."""

    def share(part: str, whole: str) -> str:
        return f"CASE WHEN {whole} > 0 THEN coalesce({part}, 0) / {whole} ELSE 1.0::DOUBLE / led END"

    return f"""
        WITH taught AS (
            SELECT *, epoch_us(tick) AS instant, (flags & 256) = 0 AND growth_bytes > 0 AND records_in > 0 AS teaches FROM growth),
        recent AS (
            SELECT *, sum(CASE WHEN teaches THEN growth_bytes END) OVER learning / sum(CASE WHEN teaches THEN records_in END) OVER learning AS learned,
                max(readers) OVER gap AS recent_readers
            FROM taught WINDOW
                learning AS (PARTITION BY cluster, topic, partition ORDER BY instant RANGE BETWEEN {settings.learning - 1} PRECEDING AND CURRENT ROW),
                gap AS (PARTITION BY cluster, topic, partition ORDER BY instant RANGE BETWEEN {settings.gap} PRECEDING AND CURRENT ROW)),
        weighed AS (
            SELECT *, coalesce(learned, CASE WHEN records_stored > 0 THEN size_bytes / records_stored END) AS bytes_per_record,
                readers < recent_readers OR (records_out IS NULL AND readers > 0) AS unread,
                round(records_in * bytes_per_record) AS expected, round(records_out * bytes_per_record)::BIGINT AS out_bytes FROM recent),
        judged AS (SELECT * REPLACE (flags | {_bit("growth_bytes < expected * 0.5", 256)} AS flags) FROM weighed),
        estimated AS (
            SELECT *, CASE WHEN (flags & 256) = 0 THEN growth_bytes END AS by_growth, coalesce(by_growth, expected::BIGINT) AS log_bytes,
                (by_growth IS NULL AND expected IS NOT NULL) OR (flags & 1024) != 0 AS extrapolated,
                CASE WHEN elapsed_us IS NOT NULL AND NOT unread THEN coalesce(out_bytes, 0) END AS read_bytes
            FROM judged),
        moves AS (
            SELECT DISTINCT cluster, topic, unnest([leader, previous_leader]) AS leader, epoch_us(tick) AS moved
            FROM growth WHERE (flags & {1024 | 32}) != 0),
        counters AS (
            SELECT cluster, tick, topic, broker AS leader, epoch_us(previous_tick) AS counted_since, elapsed_us AS counted_us,
                bytes_in AS counted_in, bytes_out AS counted_out
            FROM rates WHERE kind = 'topic_broker' AND {SOUND}),
        counted AS (
            SELECT * FROM counters ANTI JOIN moves
                ON counters.cluster = moves.cluster AND counters.topic = moves.topic AND counters.leader = moves.leader
                AND moved > counted_since AND moved <= epoch_us(tick)),
        shared AS (
            SELECT *, elapsed_us / counted_us AS per_row, coalesce(counted_since < instant - elapsed_us, false) AS spans,
                count(*) OVER led AS led, count(log_bytes) OVER led AS grew, count(records_in) OVER led AS offsets,
                sum(log_bytes) OVER led AS all_bytes, sum(records_in) OVER led AS all_records, sum(out_bytes) OVER led AS all_out,
                bool_and(NOT unread) OVER led AS all_read
            FROM estimated LEFT JOIN counted USING (cluster, tick, topic, leader) WINDOW led AS (PARTITION BY cluster, tick, topic, leader)),
        split AS (
            SELECT *, CASE WHEN grew = led THEN {share("log_bytes", "all_bytes")} WHEN offsets = led THEN {share("records_in", "all_records")} END AS by_in,
                CASE WHEN all_read THEN CASE WHEN all_out > 0 THEN {share("out_bytes", "all_out")} ELSE by_in END END AS by_out,
                round(counted_in * per_row * by_in)::BIGINT AS shared_in, round(counted_out * per_row * by_out)::BIGINT AS shared_out
            FROM shared)
        SELECT cluster, tick, topic, partition, leader, replicas, in_sync, elapsed_us, size_bytes, records_in, records_out, log_bytes, read_bytes,
            coalesce(shared_in, log_bytes) AS bytes_in, coalesce(shared_out, read_bytes) AS bytes_out, bytes_per_record,
            flags | {_bit("spans OR unread", 128)} AS flags, shared_in IS NOT NULL AS counted, extrapolated OR spans AS extrapolated FROM split"""


def _brokers() -> str:
    """Load and capacity of each broker."""

    def carried(name: str, value: str, role: str) -> str:
        pace = f"round({value} * (1000000000 / elapsed_us))::BIGINT"
        return (
            f"(sum({pace}) FILTER ({role}))::BIGINT AS {name}, "
            f"bool_or({value} IS NULL) FILTER ({role}) AS {name}_unknown"
        )

    def counted_or(counter: str, estimate: str) -> str:
        return (
            f"CASE WHEN NOT told THEN NULL WHEN metered THEN {counter} WHEN NOT coalesce({estimate}_unknown, false) "
            f"THEN round(coalesce({estimate}, 0) * (span_us / 1000000000))::BIGINT END"
        )

    return f"""
        WITH holder AS (
            SELECT cluster, tick, leader, elapsed_us, log_bytes, read_bytes, unnest(in_sync) AS broker FROM traffic WHERE leader IS NOT NULL),
        carried AS (
            SELECT cluster, tick, broker, {carried("led_in", "log_bytes", "broker = leader")},
                {carried("led_out", "read_bytes", "broker = leader")}, {carried("followed_in", "log_bytes", "broker != leader")}
            FROM holder GROUP BY ALL),
        held AS (
            SELECT cluster, tick, broker, sum(size_bytes)::BIGINT AS held_bytes FROM rates
            WHERE kind = 'replica' AND broker IS NOT NULL GROUP BY ALL),
        dirs AS (
            SELECT cluster, tick, broker, sum(disk_total_bytes)::DOUBLE AS disk_total, count(*) AS dirs FROM rates
            WHERE kind = 'log_dir' AND broker IS NOT NULL GROUP BY ALL),
        own AS (
            SELECT cluster, tick, broker, host, rack, broker_state, flags, coalesce(cpu_capacity_cores, processors) AS cpu_capacity,
                network_in_capacity_bytes_per_second AS network_in_capacity, network_out_capacity_bytes_per_second AS network_out_capacity,
                {INTERVAL} AS span_us, {", ".join(f"{_scaled(name)} AS {name}" for name in COUNTED)}
            FROM rates WHERE kind = 'broker' AND broker IS NOT NULL),
        joined AS (
            SELECT *, coalesce(broker_state != 'fenced', true) AS live, coalesce(broker_state = 'alive' AND {SOUND}, false) AS told,
                bytes_in IS NOT NULL AND replication_bytes_in IS NOT NULL AS measured
            FROM own FULL JOIN carried USING (cluster, tick, broker) FULL JOIN held USING (cluster, tick, broker)
                FULL JOIN dirs USING (cluster, tick, broker)),
        judged AS (SELECT *, coalesce(bool_and(measured) FILTER (live) OVER (PARTITION BY cluster, tick), false) AS metered FROM joined)
        SELECT cluster, tick, broker, host, rack, broker_state, live, CASE WHEN told THEN span_us END AS elapsed_us,
            CASE WHEN told THEN cpu_ns END AS cpu_ns, CASE WHEN told THEN produce_requests + fetch_requests END AS requests,
            {counted_or("bytes_in", "led_in")} AS leader_bytes_in, {counted_or("replication_bytes_in", "followed_in")} AS follower_bytes_in,
            {counted_or("bytes_out", "led_out")} AS bytes_out, CASE WHEN dirs > 0 THEN coalesce(held_bytes, 0) END AS disk_bytes,
            metered AS network_measured, cpu_capacity, CASE WHEN disk_total > 0 THEN disk_total END AS disk_capacity,
            network_in_capacity, network_out_capacity, coalesce(flags, 0) AS flags FROM judged"""


def _clients(settings: ReplicasPipelineSettings) -> str:
    """Traffic that clients wanted and got, and whether it collapsed."""

    def usual(name: str) -> str:
        known = f"sum(CASE WHEN {name} IS NOT NULL THEN elapsed END) OVER usual"
        return f"sum({name}) OVER usual * 1e6 / {known}"

    return f"""
        WITH totals AS (
            SELECT cluster, tick, count(*)::INTEGER AS clients, max({INTERVAL}) AS elapsed, sum({_scaled("offered_bytes")})::BIGINT AS offered,
                sum({_scaled("served_bytes")})::BIGINT AS served, sum(errors)::BIGINT AS errors, sum(late)::BIGINT AS late,
                max(latency_p99_ms) AS latency_p99_ms_max
            FROM rates WHERE kind = 'client' GROUP BY cluster, tick),
        rated AS (
            SELECT cluster, tick, clients, offered * 1e6 / elapsed AS offered_bytes_per_second, served * 1e6 / elapsed AS served_bytes_per_second,
                {usual("offered")} AS usual_offered_bytes_per_second, {usual("served")} AS usual_served_bytes_per_second, errors, late, latency_p99_ms_max
            FROM totals WINDOW usual AS (PARTITION BY cluster ORDER BY epoch_us(tick) RANGE BETWEEN {settings.collapse} PRECEDING AND 1 PRECEDING))
        SELECT *, coalesce(served_bytes_per_second < 0.5 * usual_served_bytes_per_second
            AND offered_bytes_per_second >= 0.5 * usual_offered_bytes_per_second, false) AS traffic_collapse FROM rated"""


def _windows(settings: ReplicasPipelineSettings) -> str:
    """Statistics of partitions and brokers per window."""
    first = f"(ceil(epoch_us(tick) / {settings.slide}) * {settings.slide})::BIGINT"
    steps = range(0, settings.window, settings.slide)
    end = (
        f"make_timestamptz({first})"
        if len(steps) == 1
        else f"unnest([{', '.join(f'make_timestamptz({first} + {step})' for step in steps)}])"
    )

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

    def chosen(names: Iterable[str], keys: str) -> str:
        """Values of the ticks with counters where a window has one of the value there, else all."""
        return ", ".join(
            f"CASE WHEN counted OR NOT bool_or(counted AND {name} IS NOT NULL) OVER (PARTITION BY cluster, window_end, {keys}) THEN {name} END AS best_{name}"
            for name in names
        )

    def covered(measured: str) -> str:
        return (
            f"least(coalesce(CASE WHEN bool_or(counted) THEN sum(CASE WHEN counted AND {measured} THEN elapsed_us END) "
            f"ELSE sum(CASE WHEN {measured} THEN elapsed_us END) END, 0) / {settings.window}, 1.0)"
        )

    def struct(name: str) -> str:
        fields = (
            "mean: {0}.mean, latest: {0}.latest, p50: {0}.q[1], p95: {0}.q[2], p99: {0}.q[3], max: {0}.max"
        )
        return f"CASE WHEN {name} IS NOT NULL THEN {{{fields.format(name)}}} END AS {name}"

    cores = stats(
        "(best_cpu_ns / (elapsed_us * 1000))",
        "sum(best_cpu_ns) / (sum(CASE WHEN best_cpu_ns IS NOT NULL THEN elapsed_us END) * 1000)",
    )
    return f"""
        WITH ticks_of_partitions AS (SELECT *, {end} AS window_end FROM traffic),
        partitions AS (
            SELECT *, NOT extrapolated AND bytes_in IS NOT NULL AND (flags & 128) = 0 AS known, {chosen(("bytes_in", "bytes_out"), "topic, partition")}
            FROM ticks_of_partitions),
        ticks_of_brokers AS (
            SELECT *, leader_bytes_in + follower_bytes_in AS bytes_in, network_measured AND bytes_in IS NOT NULL AS counted, {end} AS window_end FROM brokers),
        members AS (
            SELECT *, counted AND (flags & 128) = 0 AS known, {chosen(("cpu_ns", "bytes_in", "bytes_out", "leader_bytes_in", "follower_bytes_in"), "broker")}
            FROM ticks_of_brokers),
        both_kinds AS (
            SELECT cluster, window_end, 'partition' AS kind, NULL::INTEGER AS broker, topic, partition, arg_max_null(leader, tick) AS leader,
                arg_max_null(replicas, tick) AS replicas, arg_max_null(in_sync, tick) AS in_sync, NULL AS cpu, {level("size_bytes")} AS disk,
                {rate("best_bytes_in")} AS network_in, {rate("best_bytes_out")} AS network_out, {mean_rate("best_bytes_in")} AS leader_in,
                {mean_rate("log_bytes")} AS follower_in, NULL::DOUBLE AS requests, count(bytes_in)::INTEGER AS samples, {covered("known")} AS valid_share,
                bool_or(counted) AS counted, bool_or(extrapolated) AS extrapolated
            FROM partitions GROUP BY cluster, window_end, topic, partition
            UNION ALL
            SELECT cluster, window_end, 'broker', broker, NULL, NULL, NULL, NULL, NULL, {cores}, {level("disk_bytes")}, {rate("best_bytes_in")},
                {rate("best_bytes_out")}, {mean_rate("best_leader_bytes_in")}, {mean_rate("best_follower_bytes_in")}, {mean_rate("requests")},
                count(bytes_in)::INTEGER, {covered("known")}, bool_or(counted), false
            FROM members GROUP BY cluster, window_end, broker)
        SELECT * REPLACE ({", ".join(struct(name) for name in ("cpu", "disk", "network_in", "network_out"))}) FROM both_kinds"""


def _imbalance() -> str:
    """σ, γ and peak per tick and resource."""
    return """
        WITH loads AS (
            SELECT cluster, tick, broker, network_measured, unnest(['cpu', 'disk', 'network_in', 'network_out']) AS resource,
                unnest([cpu_ns / (elapsed_us * 1000), disk_bytes::DOUBLE, (leader_bytes_in + follower_bytes_in) * (1000000 / elapsed_us),
                    bytes_out * (1000000 / elapsed_us)]) AS load,
                unnest([cpu_capacity, disk_capacity, network_in_capacity, network_out_capacity]) AS capacity
            FROM brokers WHERE live),
        sums AS (
            SELECT *, count(*) OVER t AS number, bool_and(load IS NOT NULL) OVER t AS complete, bool_and(coalesce(capacity > 0, false)) OVER t AS limited,
                sum(load) OVER t AS all_load, sum(capacity) OVER t AS all_capacity
            FROM loads WINDOW t AS (PARTITION BY cluster, tick, resource)),
        weighed AS (
            SELECT *, CASE WHEN limited THEN load / capacity ELSE load END AS weight,
                all_load / CASE WHEN limited THEN all_capacity ELSE number END AS mean FROM sums),
        shared AS (
            SELECT *, CASE WHEN complete THEN CASE WHEN sum(weight) OVER t > 0 THEN weight / sum(weight) OVER t ELSE 1 / number END END AS share,
                CASE WHEN complete THEN CASE WHEN mean > 0 THEN abs(weight - mean) / mean ELSE 0 END END AS deviation,
                CASE WHEN limited THEN weight END AS usage
            FROM weighed WINDOW t AS (PARTITION BY cluster, tick, resource)),
        measured AS (
            SELECT cluster, tick, resource, count(*)::INTEGER AS brokers, bool_and(complete) AS complete,
                bool_and(complete AND (network_measured OR resource NOT IN ('network_in', 'network_out'))) AS measured,
                CASE WHEN bool_and(complete) THEN any_value(mean) END AS mean, sqrt(sum((share - 1 / number) ** 2) / count(*)) AS sigma,
                max(deviation) AS worst_deviation, CASE WHEN bool_and(complete) THEN max(usage) END AS peak_usage,
                list({broker: broker, load: load, capacity: capacity, usage: usage, share: share, deviation: deviation} ORDER BY broker) AS by_broker
            FROM shared GROUP BY cluster, tick, resource)
        SELECT measured.*, traffic_collapse FROM measured LEFT JOIN clients USING (cluster, tick)"""
