"""Writes docs/benchmarks.md and its charts from the figures in `results/`; measures nothing."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from pictures import draw_accuracy, draw_pipeline, draw_plan_quality
from results import read_result
from run import ALL, BY_NAME

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """# Benchmarks

`make bench` measures the figures of this page and rewrites it, in about half an hour on two quiet cores.
The figures are in `benchmarks/results/`, each with its machine. Commands and engines
alternate (A B A B), and medians are quoted. Ratios are more reliable than seconds: the machine is shared.
Four parts run separately, by `.venv/bin/python benchmarks/run.py NAME`:

- `pipeline_accuracy pipeline_cpu_base`: attribution compared with the truth
- `queues_rivals`: other task queues
- `month_lake`: a lake of a month (needs 30 GB of disk)
- `serve`: answers, memory and processor time of the service

Machines:
"""


def main() -> None:
    """Write the page from the figures that exist."""
    sections = [
        HEAD,
        _machines(),
        _startup(),
        _plan_speed(),
        _plan_quality(),
        _bundles_speed(),
        _bundles_replay(),
        _queues_dispatch(),
        _queues_count(),
        _queues_rivals(),
        _keys_choose(),
        _keys_clients(),
        _keys_consumers(),
    ]
    sections += [_pipeline(), _month(), _accuracy(), _serve()]
    (DOCS / "benchmarks.md").write_text("\n".join(part for part in sections if part), encoding="utf-8")
    print("wrote docs/benchmarks.md")


def _rows(name: str) -> Any:
    found = read_result(name)
    return None if found is None else found["rows"]


def _machines() -> str:
    lines = []
    for name in (*ALL, *BY_NAME):
        found = read_result(name)
        if found is None:
            lines.append(f"- `{name}`: not measured yet")
            continue
        machine: Any = found["machine"]
        lines.append(
            f"- `{name}`: {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
            f"Python {machine['python']}, load average {machine['load_average']} at the end"
        )
    return "\n".join(lines) + "\n"


def _startup() -> str:
    rows = _rows("cli_startup")
    if rows is None:
        return ""
    body = [
        (name, _seconds(row["wall_median"]), _seconds(row["cpu_median"]), _limit(row))
        for name, row in rows.items()
    ]
    return "## Start-up of the command line\n\n" + _table(("command", "wall", "CPU", "goal"), body)


def _plan_speed() -> str:
    rows = _rows("plan_speed")
    if rows is None:
        return ""
    body = [
        (row["what"], _seconds(row["wall_median"]), _seconds(row["cpu_median"]), _limit(row)) for row in rows
    ]
    return (
        "## From command to plan file\n\n"
        "Times are of the whole process, including its start and reading the snapshot, unless stated.\n\n"
        + _table(("what", "wall", "CPU", "goal"), body)
    )


def _plan_quality() -> str:
    rows = _rows("plan_quality")
    if rows is None:
        return ""
    body = [
        (
            row["strategy"],
            f"{row['brokers']:,}",
            f"{row['replicas']:,}",
            f"{row['goals_met']} of {row['seeds']}",
            *("-" if row[key] is None else f"{row[key]:.3f}" for key in ("ratio", "worst_ratio")),
            _seconds(row["cpu_seconds"]),
        )
        for row in rows["medians"]
    ]
    return (
        "## Plans: bytes over the lower bound\n\n"
        "Instances: lognormal broker weights (σ 0.25), mean utilisation 0.4/0.4/0.4/0.5, replication factor "
        "3 "
        "in three racks, θ 0.80, ε 0.10. The ratio is bytes moved over the lower bound of the plan (goal: at "
        "most 1.2). Times are of the planner alone, in a warm process.\n\n"
        + _table(("strategy", "brokers", "replicas", "all goals met", "bytes / bound", "worst", "CPU"), body)
        + _picture(draw_plan_quality(rows["medians"]), "bytes over the bound against brokers, and seconds")
    )


def _bundles_speed() -> str:
    found = _rows("bundles_speed")
    if found is None:
        return ""
    body = [
        (row["what"], _seconds(row["wall_median"]), _seconds(row["cpu_median"]), _limit(row))
        for row in found["rows"]
    ]
    return (
        "## Decisions on bundles\n\n"
        f"{found['brokers']:,} brokers, {found['bundles']:,} bundles. Times are of a round in which the "
        "strategy "
        "acts, without precomputed values. A whole round is the work of a replay at a tick: running means, "
        "the order of Java's hash maps, the decision, and the placement of unloaded bundles.\n\n"
        + _table(("what", "wall", "CPU", "goal"), body)
    )


def _bundles_replay() -> str:
    found = _rows("bundles_replay")
    if found is None:
        return ""
    body = [
        (name, _seconds(row["wall_median"]), _seconds(row["cpu_median"]), f"{row['ticks_per_second']:,}")
        for name, row in found["engines"].items()
    ]
    peaks = ", ".join(f"{size} MB over {what}" for what, size in found["peak_megabytes"].items())
    return (
        "## Replays of a day\n\n"
        f"{found['ticks']:,} ticks of {found['brokers']} brokers and {found['bundles']} bundles "
        f"({found['gzip_bytes'] / 1e6:.0f} MB of gzip), replayed by {found['strategies']} shedders, each in "
        "its "
        "simulated world, and as recorded. The run fails if a decision differs in one byte. A tick counts "
        "once "
        "for each shedder. Times exclude the start of a Spark session and include the start of its workers. "
        f"Peak memory of the process that replays one strategy: {peaks}.\n\n"
        + _table(("where", "wall", "CPU", "ticks per second"), body)
        + "\nOne process reads the recording once for all strategies. Each task of Spark reads it again, "
        "which is "
        "about half of its work. If the load average shows other programs, CPU time is more reliable than "
        "wall "
        "time.\n"
    )


def _queues_dispatch() -> str:
    rows = _rows("queues_dispatch")
    if rows is None:
        return ""
    sizes = list(next(iter(rows["policies"].values())))
    body = [
        (
            f"`{name}`",
            *(f"{row[size]['choose_ns']:,} ns" for size in sizes),
            f"{rows['limits_ns'][name]} ns" if name in rows["limits_ns"] else "",
        )
        for name, row in rows["policies"].items()
    ]
    counts = [row["5"]["count_ns"] for row in rows["policies"].values()]
    return (
        "## Dispatch of messages\n\n"
        "The balancer `queues`: time to choose a queue for a message, in one thread of plain Python, while "
        "messages are sent and finished alternately. Figures are the minimum of many short runs of 1,000 "
        "messages, less the same run without choosing. That run counts messages in and out and takes "
        f"{min(counts):,} to {max(counts):,} ns per message at five queues. The time that a work-stealing "
        "worker needs to find work is not included.\n\n"
        + _table(("policy", *(f"{size} queues" for size in sizes), "limit at 5"), body)
        + "\nAbove 32 queues least-work-left and join-shortest-queue keep a heap. Below, comparing all "
        "queues is "
        "faster. Min-Min compares a completion time for each queue.\n"
    )


def _queues_count() -> str:
    rows = _rows("queues_count")
    if rows is None:
        return ""
    body = [
        (
            f"{int(queues):,}",
            f"{row['messages_per_second']:,.0f}",
            f"{row['share_of_rate']:.2f}",
            f"{row['sender_milliseconds']:.2f} ms",
            f"{row['server_milliseconds']:.2f} ms",
            f"{row['claim_milliseconds']:.2f} ms",
            f"{row['longest_queue_over_mean']:.2f}",
        )
        for queues, row in rows["queues"].items()
    ]
    return (
        "## Messages a second by the number of queues\n\n"
        f"The balancer `queues` on a Valkey server: one sender with {rows['at_once']} messages in flight, "
        "and no "
        "workers. The numbers of queues alternate; figures are medians of the rounds. *Share* is relative to "
        f"the rate at the fewest queues; the goal at 100 queues is {rows['least_share_at_100']}. Processor "
        "times are per message. *Claim* is the server's processor time for the claim of a standby worker, "
        "once "
        "a second.\n\n"
        + _table(
            ("queues", "messages a second", "share", "sender", "server", "claim", "longest queue / mean"),
            body,
        )
    )


def _queues_rivals() -> str:
    found = _rows("queues_rivals")
    if found is None:
        return ""
    programs, sizes = found["programs"], list(next(iter(found["programs"].values()))["waits"])
    body = [
        (
            name,
            row["settings"],
            f"{row['done_per_second']:,}",
            f"{row['cpu_microseconds']:,} µs",
            *(
                f"{one['mean_seconds']:.2f}, {one['p99_seconds']:.2f} s"
                for size in sizes
                for one in (row["waits"][size]["short"], row["waits"][size]["long"])
            ),
            f"{row['killed']['lost']}, {row['killed']['doubled']}",
        )
        for name, row in programs.items()
    ]
    words = tuple(f"bursts of {size}: {what}" for size in sizes for what in ("short", "long"))
    messages = next(iter(programs.values()))["killed"]["messages"]
    return (
        "## Comparison with other task queues\n\n"
        f"All programs run the same tasks on one Valkey (append-only file, synced every second) with "
        f"{found['workers']} worker processes. Each worker processes one message at a time, as a container "
        "with one core does. Each program runs with its defaults, and tuned.\n\n"
        "- *Empty tasks*: one sender, idle workers, all on this machine. Tasks per second, and processor "
        "time "
        "per task of sender, server and workers together. Processor time is more reliable if other programs "
        "run.\n"
        f"- *Bursts*: {found['short_share']:.0%} of the messages take {found['short_seconds'] * 1000:.0f} "
        "ms, "
        f"the others {found['long_seconds'] * 1000:.0f} ms; workers are used to {found['use']:.0%}. Mean and "
        "p99 of the time from acceptance to start.\n"
        f"- *Killed*: a worker is killed with signal 9 during a backlog of {messages} messages, and another "
        "is "
        f"started. Lost: missing {found['given_up_seconds']} s after the last message. Doubled: surplus "
        "runs.\n\n"
        + _table(("program", "settings", "empty tasks", "processor", *words, "killed: lost, doubled"), body)
        + _sessions(programs)
    )


def _sessions(programs: dict[str, Any]) -> str:
    """Moves and pauses of balance scheduling in the rows of trimtab, and rows of an earlier session."""
    earlier = [name for name, row in programs.items() if "load_average" not in row]
    body = [
        (name, *(f"{one['orders']['moved']}, {one['orders']['pauses']}" for one in runs))
        for name, row in programs.items()
        for runs in [[*row["waits"].values(), row["killed"]]]
        if name.startswith("trimtab") and name not in earlier
    ]
    text = f"\nRows of an earlier run: {'; '.join(earlier)}.\n" if earlier else ""
    if body:
        words = (*(f"bursts of {size}" for size in next(iter(programs.values()))["waits"]), "killed")
        text += "\nBalance scheduling meanwhile: messages moved, and pauses of a queue.\n\n"
        text += _table(("program", *words), body)
    return text


def _keys_choose() -> str:
    rows = _rows("keys_choose")
    if rows is None:
        return ""
    own = rows["policies"]["kafka-python's own"]

    def verdict(name: str, row: dict[str, int], column: str) -> str:
        """Whether a figure meets its limit; the limit of `hash` is added to the client's own time."""
        limit = str(rows["limits_ns"].get(name, ""))
        if not limit:
            return ""
        most = int(limit.split()[0].replace(",", "")) + (own[column] if "over" in limit else 0)
        return "met" if row[column] <= most else f"missed, by {row[column] - most:,} ns"

    body = [
        (f"`{name}`" if name in rows["limits_ns"] or " " not in name else name,
         f"{row['drawn_ns']:,} ns", f"{row['fresh_ns']:,} ns",
         f"{row['elsewhere']:.0%}" if "elsewhere" in row else "", rows["limits_ns"].get(name, ""),
         verdict(name, row, "drawn_ns"), verdict(name, row, "fresh_ns"))
        for name, row in rows["policies"].items()
    ]  # fmt: skip
    return (
        "## Choice of partitions\n\n"
        "The balancer `keys`: time to choose the partition of a record and to count it. 24 partitions, keys "
        "of 12 "
        "bytes, one thread of plain Python. Figures are medians of three minima of many short runs of 1,000 "
        "records. The load is observed at the beginning of each run, with half of the partitions overloaded. "
        "*Elsewhere* is the share of drawn records outside the partition of the plain hash.\n\n"
        "- *Drawn keys* follow a Zipf law of 10,000 keys, and their hashes are cached. The limits are for "
        "drawn keys, as topics have them.\n"
        "- *New keys* are the worst case: every key is hashed. A hash in plain Python alone takes "
        f"{rows['policies']['hash']['fresh_ns']:,} ns.\n\n"
        + _table(
            ("policy", "drawn keys", "new keys", "elsewhere", "limit, ns", "drawn keys", "new keys"), body
        )
    )


def _keys_clients() -> str:
    rows = _rows("keys_clients")
    if rows is None:
        return ""
    columns = ("ours", "partitioner", "bare", "told")
    body = [
        (name, f"{row['own_per_second']:,.0f}", f"{row['ours_per_second']:,.0f}",
         *(f"{row[f'{one}_ratio']:.2f}" if f"{one}_ratio" in row else "-" for one in columns),
         *(f"{row[f'{one}_cpu_us']:.1f} µs" for one in ("own", "bare", "ours")))
        for name, row in rows["clients"].items()
    ]  # fmt: skip
    guard = [(name, f"{value:,.0f} ns") for name, value in rows["guard_ns"].items()]
    return (
        "## Clients that keep order\n\n"
        "The balancer `keys`: records per second of a producer with its client's own partitioner (murmur2), "
        "and "
        "of trimtab's producer. The routing table splits a key with a tenth of all records, and moves a "
        "tenth "
        "of the groups. Records of moved groups carry a fence until it is passed. Records have 100 bytes "
        "unless stated, and all producers have the same settings. Figures are medians of "
        f"{rows['rounds']} rounds; processor time is per record, of the whole process. Goal: "
        f"{rows['limit']:g} of the client's own rate.\n\n"
        "- *Bare*: a subclass whose `send` only calls the client's. No Python wrapper can be faster.\n"
        "- *Precomputed*: the client's own producer with partition, header and callback of each record "
        "computed in advance.\n"
        "- *Partitioner*: the client's own producer with trimtab's partitioner and the same table, without "
        "order.\n\n"
        + _table(
            (
                "client",
                "its own, records/s",
                "trimtab",
                "ratio",
                "partitioner, ratio",
                "bare, ratio",
                "precomputed, ratio",
                "its own, processor",
                "bare",
                "trimtab",
            ),
            body,
        )
        + "\nProcessor time of the order guard for a record in a consumer, with a handler that does nothing "
        "and one "
        "transaction for up to 500 records. Split records carry stamps.\n\n"
        + _table(("records, checkpoints", "processor"), guard)
        + f"\nA waiting record takes {rows['held_bytes']:,.0f} bytes besides its content, if each has "
        "another "
        "key.\n"
    )


def _keys_consumers() -> str:
    found = _rows("keys_consumers")
    if found is None:
        return ""
    body = [
        (
            client,
            name,
            f"{row['per_second']:,.0f}",
            f"{row['ratio']:.2f}",
            f"{row['least_ratio']:.2f} to {row['most_ratio']:.2f}",
            f"{row['cpu_us']:.1f} µs",
        )
        for client, runs in found["clients"].items()
        for name, row in runs.items()
    ]
    sizes = ", ".join(f"{records:,} on {client}" for client, records in found["records"].items())
    return (
        "## Consumers that keep order\n\n"
        "The balancer `keys`: records per second of a consumer that keeps order, by the store of its "
        "checkpoints, and of a plain poll loop on the same client in the same run. Records have 100 bytes, "
        "and "
        f"keys are not moved. {sizes}, 24 partitions, a handler that does nothing, equally frequent commits; "
        f"medians of {found['rounds']} rounds. SQLite and PostgreSQL run on the same machine and do not wait "
        "for the disk. confluent-kafka fetches again 10 ms after its queue was full (1 s by default). "
        "Processor time is that of the consumer's process, without a database server.\n\n"
        + _table(
            (
                "client",
                "consumer",
                "records/s",
                "of the plain loop",
                "minimum and maximum",
                "processor per record",
            ),
            body,
        )
    )


def _pipeline() -> str:
    rows = _rows("pipeline")
    if rows is None:
        return ""
    return "## The pipeline\n\n" + _compared(rows) + _command(rows.get("command")) + _points(rows["points"])


def _command(of: dict[str, Any] | None) -> str:
    """What a user of `trimtab pipeline run` waits for."""
    if of is None:
        return ""
    return (
        f"\n`trimtab pipeline run` with the default settings takes {_seconds(median(of['seconds']))} for "
        f"{of['raw_rows']:,} rows, from the command to its end: all tables and the snapshot, with the start "
        f"of Python and Spark (median of {len(of['seconds'])}: {min(of['seconds'])} to "
        f"{max(of['seconds'])} s). It takes {_seconds(median(of['processor_seconds']))} of CPU, and at most "
        f"{max(of['peak_mebibytes']):,} MiB.\n"
    )


def _compared(rows: dict[str, Any]) -> str:
    """Spark compared with engines without a JVM."""
    of = rows["compared"]
    if of is None:
        return "Comparison of engines: not measured yet.\n"
    engines = of["engines"]
    body = [
        (
            name,
            _seconds(row["median_seconds"]),
            _seconds(row["first_seconds"]) if "first_seconds" in row else "-",
            _seconds(row["cpu_seconds"]) if "cpu_seconds" in row else "-",
            f"{row['rows_per_second']:,}",
            f"{row['rows_per_second'] / engines['polars']['rows_per_second']:.2f}",
            f"{row['rows_per_second'] / engines['duckdb']['rows_per_second']:.2f}",
        )
        for name, row in engines.items()
    ]
    words = ("engine", "median", "first", "CPU", "rows per second", "times Polars", "times DuckDB")
    return (
        f"{of['raw_rows']:,} raw rows ({of['partitions']} partitions, three replicas each, "
        f"{of['ticks']} ticks, {of['files']} files) are processed to the tables "
        f"{', '.join(of['same_results'])}. Results are recorded only if all engines produce equal tables. "
        f"Starting Spark took {of['spark_start_seconds']} s, which is not included. Spark runs with "
        "`--large-job`, with [Comet](decisions/0036-comet.md) in a JVM of its own; `auto` takes Comet. "
        "*First* is its first turn, in which the JVM still compiles. The stream processes the "
        "same rows in a micro-batch per file, and makes all tables and snapshots.\n\n"
        + _table(words, body)
        + "\nOn one machine, engines without a JVM build the tables faster. trimtab uses Spark for two "
        "reasons: the "
        "same transformations also update the tables, equal to the bit, at the cost of one tick, while the "
        "other engines compute everything again; and both batch and stream run on several machines.\n"
        + _picture(
            draw_pipeline(of, rows["points"]),
            "engines compared: batch, live, and how Spark grows with partitions",
        )
    )


MEMORY = ("batch_peak_mebibytes", "live_peak_mebibytes")


def _batches(one: dict[str, Any]) -> tuple[str, str, str, str]:
    return (
        f"{one['batches']}",
        f"{one['batch_rows_per_second']:,}",
        f"{one['batch_cpu_microseconds_per_row']:.0f}",
        _shares(one["batch_cpu_seconds"]),
    )


def _points(points: dict[str, dict[str, Any]]) -> str:
    """Batch and live runs by numbers of partitions, cores and workers."""
    if not points:
        return "\nBy numbers of partitions, cores and workers: not measured yet.\n"
    body = [
        (
            f"{one['partitions']:,}",
            _where(one["master"]),
            *(_batches(one) if "batch_seconds" in one else ("-",) * 4),
            f"{one['live_ticks']}",
            f"{one['tick_rows']:,}",
            _seconds(one["tick_seconds"]),
            f"{one['tick_rows_per_second']:,}",
            _shares(one["tick_cpu_seconds"]),
            " / ".join(f"{one[name]:,}" for name in MEMORY if name in one),
        )
        for one in points.values()
    ]
    words = (
        "partitions",
        "on",
        "batches",
        "batch: rows per second",
        "CPU µs per row",
        "share of tasks, compiling, rest",
        "live: ticks",
        "rows per tick",
        "time per tick",
        "rows per second",
        "share of tasks, compiling, rest",
        "MiB: batch / live",
    )
    return (
        "\nThe next table is about all tables of the pipeline. Each part of a line was measured once, in a "
        "process of its own.\n\n"
        "- *Batch* is the median of the last three of so many batches in the process, with `--large-job` and "
        "without Comet; the first ones compile. *Live* is a micro-batch per tick with the settings of "
        "`trimtab pipeline stream`, so with Comet above 30,000 partitions; figures are medians of the "
        "later half.\n"
        "- A tick lasts from the arrival of its samples to the written snapshot.\n"
        "- Workers are two processes with one core each, on the same machine as the driver.\n"
        "- The largest of three shares of CPU limits a line: *tasks* process rows; *compiling* ends after "
        "some "
        "dozens of micro-batches; the *rest* plans queries and does not depend on the number of rows.\n"
        "- Memory is the maximum of Python and all JVMs together, shared pages counted in each (batch: "
        "3 GiB of heap in the driver).\n\n" + _table(words, body)
    )


def _month() -> str:
    """A lake of a month: computed and shifted hours, and times of commands."""
    found = _rows("month_lake")
    if found is None:
        return ""
    copied, newest, kept, shorter = (found[one] for one in ("copied", "newest", "kept", "kept_shorter"))
    looked, read = ({**found[one]} for one in ("looked", "read"))
    asked, rows = looked.pop("requests"), read.pop("rows")
    commands = {
        "the hour after the month: `pipeline run --large-job --since`": newest,
        f"the next 23 hours in one run, {found['rest_of_day']['samples'] / 1e6:.1f} million rows": found[
            "rest_of_day"
        ],
        "`pipeline compact`: merges the files of a day, retention of 30 days": kept,
        "`pipeline compact`, retention of 29 days: removes a day": shorter,
        **{f"`{name}`": one for name, one in looked.items()},
        **read,
    }
    body = [
        (
            what,
            _seconds(one.get("wall_median", one["seconds"])),
            _seconds(one.get("cpu_median", one["processor_seconds"])),
            f"{one['peak_mebibytes']:,}",
        )
        for what, one in commands.items()
    ]
    return (
        "## A lake of a month\n\n"
        f"{found['partitions']:,} partitions, three replicas each, {found['brokers']} brokers, a sample "
        "every "
        f"30 s for 30 days: {copied['raw_rows'] / 1e6:,.0f} million raw rows, and the day after as a "
        "collector writes it.\n\n"
        "- **Spark made the last hour of the month and the hour after it** "
        f"({newest['samples']:,} raw rows each: {newest['samples'] / newest['processor_seconds']:,.0f} rows "
        "per second of processor time, including the start of the JVM).\n"
        "- **The other 719 hours are copies of the last hour with all times moved**, a folder per day. "
        "Counters start in each hour where they start in the last.\n"
        f"- These {copied['rows'] / 1e6:,.0f} million rows of tables "
        f"({copied['bytes'] / 1e9:.1f} GB, samples {copied['raw_bytes'] / 1e9:.1f} GB) were published by the "
        "lake's own code; Spark would have taken 719 times as long.\n"
        "- Results are recorded only if the bytes in and out in `traffic` of the hour after the month equal "
        "those of the last hour, to the bit. Only the second half hour is compared, because bytes per record "
        "are estimated over half an hour.\n"
        "- The commands below ran on the whole month. Memory is the maximum of Python and its JVM together "
        "(2 "
        f"GB of heap).{found.get('note', '')}\n\n"
        + _table(("what", "wall", "CPU", "MiB"), body)
        + f"\nCompaction merged {kept['before']['raw_files']:,} raw files into "
        f"{kept['after']['raw_files']:,}, and "
        f"{kept['before']['folders']:,} folders of tables into {kept['after']['folders']:,}. A day less of "
        f"retention leaves {shorter['after']['raw_files']:,} and {shorter['after']['folders']:,}. `status` "
        "on "
        f"the same lake in an object store: {asked['requests']} requests, {asked['bytes'] / 1e6:.1f} MB. "
        f"`imbalance` has {rows['imbalance']:,} rows, `traffic` {rows['traffic'] / 1e6:,.0f} million. All "
        "readers open the tables by `trimtab.tables`.\n"
    )


def _where(master: str) -> str:
    if master.startswith("local-cluster"):
        return "two workers"
    return "one core" if master == "local[1]" else f"{master[len('local[') : -1]} cores"


def _shares(cpu: dict[str, float]) -> str:
    whole = max(cpu["all"], 1e-9)
    tasks, compiling = cpu["tasks"] / whole, cpu["compiling"] / whole
    return " ".join(f"{100 * max(0.0, part):.0f} %" for part in (tasks, compiling, 1 - tasks - compiling))


def _accuracy() -> str:
    rows = _rows("pipeline_accuracy")
    if rows is None:
        return ""
    body = [
        (
            name.replace("_", " "),
            one["measure"],
            one["scope"],
            _percent(one["share_error"]),
            _percent(one["bias"]),
        )
        for name in ("with_metrics", "without_metrics")
        for one in rows[name]
    ]
    return (
        "## Attribution compared with the truth\n\n"
        "Six real brokers; the load generator records the traffic of every partition. *Misplaced* is the "
        "share "
        "of the total that is attributed to the wrong partition or broker; balancing depends on it. *Bias* "
        "is "
        "the error of the total: consumers receive compressed bytes, and the generator counts uncompressed "
        "ones. More in [pipeline.md](pipeline.md).\n\n"
        + _table(("run", "measure", "per", "misplaced", "bias of the total"), body)
        + _picture(draw_accuracy(rows), "share of the load attributed to the wrong partition or broker")
    )


def _serve() -> str:
    rows = _rows("serve")
    if rows is None:
        return ""
    body = []
    for part in ("six", "large"):
        found = rows[part]
        after, planning, start = (
            found["answers_after_plans"],
            found["planning"],
            found["peak_mebibytes_start"],
        )
        answers = (after[name] for name in ("overview", "cluster page", "metrics"))
        body.append(
            (
                f"{found['brokers']:,} brokers, {found['replicas']:,} replicas",
                *(f"{_seconds(one['median_seconds'])}, {one['gzip_bytes'] / 1000:.0f} KB" for one in answers),
                " / ".join(_seconds(one) for one in planning["max_seconds"].values()),
                f"{found['idle']['mebibytes']:.0f} / {start['service']:.0f} MiB",
                " + ".join(f"{planning['peak_mebibytes'][one]:.0f}" for one in ("service", "planner"))
                + f" MiB, together {planning['peak_mebibytes']['all']:.0f}",
                _percent(found["idle"]["core_share"]),
                f"{max(found['death']):.1f} s",
            )
        )
    head = (
        "cluster",
        "overview",
        "cluster page",
        "metrics",
        "longest of these during a plan",
        "idle / at the start",
        "peak during a plan: service + planner",
        "of a core, idle",
        "death to decision",
    )
    return (
        "## The service\n\n"
        "A real process of `trimtab serve` in mode `watch`, on simulated brokers that answer in Kafka's "
        "protocol. The 1,000 brokers hold no partitions; the snapshot in the lake does. Times are medians of "
        "20 requests, sizes those of the answer compressed by gzip. Memory is PSS of the process; a planner "
        "is a process of its own that ends with its plan. Each peak is that of one process, or of the sum. "
        f"Idle is over {rows['six']['idle']['seconds']:.0f} s (6 brokers) and "
        f"{rows['large']['idle']['seconds']:.0f} s. *Death to decision* is from the death of a broker; the "
        "simulated controller fences it after 6 s.\n\n"
        + _table(head, body)
        + "".join(_with_a_stream(found) for name, found in rows.items() if name.startswith("stream"))
        + _without_a_stream(rows.get("batch"))
    )


def _with_a_stream(found: dict[str, Any]) -> str:
    """What `observe = "run"` takes."""
    minutes = [found["peak_mebibytes_start"], *found["peak_mebibytes_each_minute"]]
    largest = {name: max(one[name] for one in minutes) for name in minutes[-1]}
    return (
        f'\nWith `observe = "run"`, {found["brokers"]} brokers, {found["partitions"]:,} partitions, a '
        f"sample every {found['interval_seconds']:g} s and a lake that is empty at first, for "
        f"{found['seconds'] / 60:.0f} minutes: the stream takes at most {largest['JVM']:,.0f} MiB (JVM) and "
        f"{largest['pipeline']:.0f} MiB (Python), the collector {largest['collect']:.0f} MiB, the service "
        f"{largest['service']:.0f} MiB, all at once at most {largest['all']:,.0f} MiB (PSS, seen every "
        f"0.2 s). First snapshot: after {found['first_snapshot_seconds']:.0f} s. From the death of a "
        f"broker to the decision it took {' and '.join(f'{one:.0f} s' for one in found['death_seconds'])}. "
        f"{found.get('note', '')}\n"
    )


def _without_a_stream(found: dict[str, Any] | None) -> str:
    """What `observe = "batch"` takes."""
    if found is None:
        return ""
    minutes = [found["peak_mebibytes_start"], *found["peak_mebibytes_each_minute"]]
    return (
        f'\nWith `observe = "batch"` and a run every {found["pause_seconds"]:.0f} s, for '
        f"{found['seconds']:.0f} s on the same cluster and a busy machine: service and collector, that stay, "
        f"take {max(one['service'] + one['collect'] for one in minutes):,.0f} MiB, all processes in a run "
        f"at most {max(one['all'] for one in minutes):,.0f} MiB. The newest snapshot was at most "
        f"{found['oldest_snapshot_seconds']:.0f} s old; the first came after "
        f"{found['first_snapshot_seconds']:.0f} s, since the first run finds no samples.\n"
    )


def _table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    rows = [head, ("---",) * len(head), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _picture(path: Path, words: str) -> str:
    return f"\n![{words}]({path.relative_to(DOCS)})\n"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 0.095 else f"{value * 1000:.0f} ms"


def _limit(row: dict[str, Any]) -> str:
    return f"{row['limit_seconds']:g} s" if "limit_seconds" in row else ""


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


if __name__ == "__main__":
    main()
