"""From the figures in `results/` to docs/benchmarks.md and its charts: nothing is measured here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pictures import draw_accuracy, draw_pipeline, draw_plan_quality
from results import read_result
from run import ALL, BY_NAME

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """# Benchmarks

`make bench` measures this page anew and rewrites it, in about half an hour on two quiet cores; the figures
lie in `benchmarks/results/`, each with the machine it was taken on. Commands and engines take turns
(A B A B), medians are quoted, and ratios say more than seconds: the machine is shared. Attribution against
truth is measured on its own, by `.venv/bin/python benchmarks/run.py pipeline_accuracy pipeline_cpu_base`,
and so are other task queues, by `.venv/bin/python benchmarks/run.py queues_rivals`, and a lake of a month, by
`.venv/bin/python benchmarks/run.py month_lake` (it takes 30 GB of disk).
"""


def main() -> None:
    """Write the page from whatever has been measured so far."""
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
    sections += [_pipeline(), _month(), _accuracy()]
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
            f"Python {machine['python']}, load average {machine['load_average']} when it ended"
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
        "The whole process, start and reading included, unless said otherwise.\n\n"
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
        "Lognormal broker weights (sigma .25), mean usage .4/.4/.4/.5, RF 3 in three racks, theta .80, "
        "epsilon .10. The ratio is bytes moved over the bound that comes with each plan (goal: at most 1.2); "
        "planner alone, in a warm process.\n\n"
        + _table(
            ("strategy", "brokers", "replicas", "all goals met", "bytes / bound", "at worst", "CPU"), body
        )
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
        f"{found['brokers']:,} brokers, {found['bundles']:,} bundles, in a round in which the strategy acts, "
        "on a view that nothing has been computed of. A whole round is what a replay does at a tick: running "
        "means, the order of Java's hash maps, the decision, and the placement of what is shed.\n\n"
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
        f"({found['gzip_bytes'] / 1e6:.0f} MB of gzip) through {found['strategies']} shedders side by side, "
        "each in its simulated world, and the recording as it is; the run fails if a decision differs in a "
        "byte. A tick counts once for each of them. Starting a session is not counted, starting its workers "
        f"is. Peak memory of one strategy's replay, the whole process: {peaks}.\n\n"
        + _table(("where", "wall", "CPU", "ticks per second"), body)
        + "\nIn one process the recording is read once for all strategies; of Spark's tasks each reads it "
        "for itself, about half of their work. Where the load average says that others were at work, CPU "
        "tells more than the clock.\n"
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
        "The balancer `queues`: choosing a queue for a message, one thread of plain Python, while messages "
        "are "
        "sent and finished in turn. The least of many short runs of 1,000 messages, with the same run "
        "without choosing taken off: what that does (counting a message in and out) takes "
        f"{min(counts):,} to {max(counts):,} ns at five queues. What a thief spends on finding work comes on "
        "top, in the worker.\n\n"
        + _table(("policy", *(f"{size} queues" for size in sizes), "limit at 5"), body)
        + "\nAbove 32 queues least-work-left and join-shortest-queue keep a heap; below, looking at all is "
        "quicker. Min-Min compares a completion time for each queue.\n"
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
        f"The balancer `queues` on a Valkey server: one sender with {rows['at_once']} messages on their way "
        "at "
        "once, and no workers. Numbers of queues take turns; medians of the rounds. The share is of the rate "
        f"at the fewest queues; at 100 queues {rows['least_share_at_100']} is wanted. Processor times are "
        "those of one message. A claim is what a worker costs the server that stands by, once a second.\n\n"
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
        "## Task queues beside ours\n\n"
        f"The same tasks, on one Valkey (append-only file, synced every second): {found['workers']} worker "
        "processes, each of which does one message at a time, as a container with one core does; each "
        "program as it comes and tuned. *Empty tasks*: one sender, workers that wait, all on this machine; a "
        "second, and processor time of sender, server and workers together for each, which tells more where "
        f"others are at work. *Bursts*: {found['short_share']:.0%} of the messages take "
        f"{found['short_seconds'] * 1000:.0f} ms, the others {found['long_seconds'] * 1000:.0f} ms, workers "
        f"are {found['use']:.0%} used; mean and p99 from when a message was accepted until it was begun. "
        f"*Killed*: of {messages} messages, when a worker is killed with signal 9 in mid-backlog and another "
        "started: "
        f"those that were not there {found['given_up_seconds']} s after the last, and runs too many.\n\n"
        + _table(("program", "settings", "empty tasks", "processor", *words, "killed: lost, doubled"), body)
        + _sessions(programs)
    )


def _sessions(programs: dict[str, Any]) -> str:
    """What balance scheduling did in each row of ours, and which rows date from a session before."""
    earlier = [name for name, row in programs.items() if "load_average" not in row]
    body = [
        (name, *(f"{one['orders']['moved']}, {one['orders']['pauses']}" for one in runs))
        for name, row in programs.items()
        for runs in [[*row["waits"].values(), row["killed"]]]
        if name.startswith("trimtab") and name not in earlier
    ]
    told = f"\nRows of an earlier run: {'; '.join(earlier)}.\n" if earlier else ""
    if body:
        words = (*(f"bursts of {size}" for size in next(iter(programs.values()))["waits"]), "killed")
        told += "\nBalance scheduling did this meanwhile: messages moved, and pauses of a queue.\n\n"
        told += _table(("program", *words), body)
    return told


def _keys_choose() -> str:
    rows = _rows("keys_choose")
    if rows is None:
        return ""
    own = rows["policies"]["kafka-python's own"]

    def verdict(name: str, row: dict[str, int], column: str) -> str:
        """Met or missed by a column; the limit of `hash` is one over the client's own."""
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
        "The balancer `keys`: choosing the partition of a record and counting it, 24 partitions, keys of 12 "
        "bytes, one thread of plain Python; the least of many short runs of 1,000 records, the median of "
        "three such figures. At the beginning of each run the load is looked at, and half of the partitions "
        "are overloaded. *Elsewhere*: drawn records that went to another partition than the plain hash's. "
        "Keys are drawn by a Zipf "
        "law of 10,000, and hashes are remembered; keys that are new each time must all be hashed. "
        "Limits are meant for drawn keys, as topics have them; beside them stands whether new keys, the "
        "worst case, keep them too: a hash in plain Python alone takes "
        f"{rows['policies']['hash']['fresh_ns']:,} ns.\n\n"
        + _table(
            ("policy", "drawn keys", "new keys", "elsewhere", "limit, ns", "drawn keys", "new keys"), body
        )
    )


def _keys_clients() -> str:
    rows = _rows("keys_clients")
    if rows is None:
        return ""
    beside = ("ours", "partitioner", "bare", "told")
    body = [
        (name, f"{row['own_per_second']:,.0f}", f"{row['ours_per_second']:,.0f}",
         *(f"{row[f'{one}_ratio']:.2f}" if f"{one}_ratio" in row else "-" for one in beside),
         *(f"{row[f'{one}_cpu_us']:.1f} µs" for one in ("own", "bare", "ours")))
        for name, row in rows["clients"].items()
    ]  # fmt: skip
    guard = [(name, f"{value:,.0f} ns") for name, value in rows["guard_ns"].items()]
    return (
        "## Clients that keep order\n\n"
        "The balancer `keys`: records a second of a producer with its client's own partitioner (murmur2), "
        "and "
        "of ours, which follows a table with a split key, a tenth of all records, and a tenth of the groups "
        "elsewhere, whose records carry a fence until it is passed: the same 100 bytes a record, unless "
        f"said, and settings, medians of {rows['rounds']} rounds of runs, processor time of the "
        f"whole process a record. Asked for: {rows['limit']:g} of the client's own. *Bare* is a subclass "
        "whose send does nothing but call the client's: none that does more can be faster. *Told* is the "
        "client's own, which is given partition, header and callback of each record, thought up before; "
        "*partitioner* is its own with our partitioner alone, by the same table, which keeps no order.\n\n"
        + _table(
            (
                "client",
                "its own, records/s",
                "ours",
                "of its own",
                "partitioner, of its own",
                "bare, of its own",
                "told, of its own",
                "its own, processor",
                "bare",
                "ours",
            ),
            body,
        )
        + "\nWhat the guard takes for a record in a consumer, from received to done, with a handler that "
        "does nothing, and one transaction for up to 500 records; split records carry stamps.\n\n"
        + _table(("records, marks", "processor"), guard)
        + f"\nA record that waits takes {rows['held_bytes']:,.0f} bytes besides itself, where each is of "
        "another key.\n"
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
        "The balancer `keys`: records a second of a consumer that keeps order, by where its marks lie, and "
        "of a "
        "plain poll loop on the same client in the same run. Records of 100 bytes of keys that no table has "
        f"moved, {sizes}, 24 partitions, a handler that does nothing, commits as often; medians of "
        f"{found['rounds']} rounds. SQLite and PostgreSQL run on the same machine and do not wait for the "
        "disk. confluent-kafka fetches again 10 ms after its queue was full (1 s by default). Processor time "
        "is that of the consumer's process, a database server's is not in it.\n\n"
        + _table(
            ("client", "consumer", "records/s", "of the plain loop", "least and most", "processor a record"),
            body,
        )
    )


def _pipeline() -> str:
    rows = _rows("pipeline")
    if rows is None:
        return ""
    return "## The pipeline\n\n" + _compared(rows) + _points(rows["points"])


def _compared(rows: dict[str, Any]) -> str:
    """Spark beside engines without a JVM."""
    of = rows["compared"]
    if of is None:
        return "Engines beside one another: not measured yet.\n"
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
        f"{of['ticks']} ticks, {of['files']} files) to the tables {', '.join(of['same_results'])}; "
        "nothing is written down if engines differ in any of them. Spark also writes `cleaned` in the same "
        f"job. Starting Spark took {of['spark_start_seconds']} s, apart; it runs with `--large-job`, and "
        "*first* "
        "is its first turn, in which its JVM still compiles. The stream takes the same rows in a micro-batch "
        "for each file, and makes all tables and snapshots.\n\n"
        + _table(words, body)
        + "\nBuilding tables once, engines without a JVM are faster on one machine. Spark is there because "
        "the same transformations, to the bit, also keep the tables up to date: a tick costs the tick, where "
        "the others make everything anew; and because both go on over several machines.\n"
        + _picture(
            draw_pipeline(of, rows["points"]),
            "engines compared: batch, live, and how Spark grows with partitions",
        )
    )


def _points(points: dict[str, dict[str, Any]]) -> str:
    """Batch and live over numbers of partitions, cores and workers."""
    if not points:
        return "\nOver numbers of partitions, cores and workers: not measured yet.\n"
    body = [
        (
            f"{one['partitions']:,}",
            _where(one["master"]),
            f"{one['batch_rows_per_second']:,}",
            f"{one['batch_cpu_microseconds_per_row']:.0f}",
            _shares(one["batch_cpu_seconds"]),
            f"{one['live_ticks']}",
            f"{one['tick_rows']:,}",
            _seconds(one["tick_seconds"]),
            f"{one['tick_rows_per_second']:,}",
            _shares(one["tick_cpu_seconds"]),
            f"{one['peak_mebibytes']:,}",
        )
        for one in points.values()
    ]
    words = (
        "partitions",
        "on",
        "batch: rows per second",
        "CPU µs a row",
        "of it tasks, compiling, rest",
        "live: ticks",
        "rows of one",
        "a tick",
        "rows per second",
        "of its CPU tasks, compiling, rest",
        "MiB",
    )
    return (
        "\nAll tables, each line measured once, in a process of its own; batch is the second of two in it, "
        "live a micro-batch for each tick from then on, the median of the later half of them. So few ticks "
        "are still compiling: a stream that stays up gets faster. A tick goes from samples landed to the "
        "snapshot written. Workers are two processes of one core beside the driver, on the same machine. "
        "What bounds a line is the largest of its three shares: *tasks* work on rows, *compiling* ends after "
        "some dozens of micro-batches, the *rest* is planning queries, which costs as much for a row as for "
        "a million. Memory is the largest of Python and all JVMs (3 GiB of heap in the driver) together.\n\n"
        + _table(words, body)
    )


def _month() -> str:
    """A lake of a month: what was computed, what was shifted, and what each command takes."""
    found = _rows("month_lake")
    if found is None:
        return ""
    copied, newest, kept, shorter = (found[one] for one in ("copied", "newest", "kept", "kept_shorter"))
    looked, read = ({**found[one]} for one in ("looked", "read"))
    asked, rows = looked.pop("requests"), read.pop("rows")
    commands = {
        "the hour after the month, upon it: `pipeline run --large-job --since`": newest,
        f"the 23 hours after that at once, {found['rest_of_day']['samples'] / 1e6:.1f} million rows": found[
            "rest_of_day"
        ],
        "`pipeline compact`: a day of files a tick joined, ages of 30 days": kept,
        "`pipeline compact`, ages of 29 days: a day goes": shorter,
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
        f"{found['partitions']:,} partitions, three replicas each, {found['brokers']} brokers, a sample of "
        f"all every 30 s for 30 days: {copied['raw_rows'] / 1e6:,.0f} million raw rows, and the day after "
        f"as a collector lands it. **Spark made the last hour of the month and the one after it** "
        f"({newest['samples']:,} raw rows each: {newest['samples'] / newest['processor_seconds']:,.0f} a "
        "second of processors, with a JVM that starts and compiles for them). **The other 719 hours are "
        "copies of the former's tables and samples with all times moved**, a folder a day: counters begin in "
        f"each hour where they begin in the last. These {copied['rows'] / 1e6:,.0f} million rows of tables "
        f"({copied['bytes'] / 1e9:.1f} GB, samples {copied['raw_bytes'] / 1e9:.1f} GB) were published by the "
        "lake's own code; Spark would have taken 719 times as long. Nothing is written down unless the hour "
        "after the month comes out as the one before, to the bit, in what `traffic` says of bytes in and out "
        "(the second half, since bytes per record are learned over half an hour). What follows ran on the "
        "whole month; memory is the largest of Python and its JVM (2 GB of heap) together."
        f"{found.get('note', '')}\n\n"
        + _table(("what", "wall", "CPU", "MiB"), body)
        + f"\nCompaction made {kept['after']['raw_files']:,} raw files of {kept['before']['raw_files']:,}, "
        f"and {kept['after']['folders']:,} folders of tables of {kept['before']['folders']:,}; ages of a day "
        f"less leave {shorter['after']['raw_files']:,} and {shorter['after']['folders']:,}. `status` on the "
        f"same lake in an object store: {asked['requests']} requests, {asked['bytes'] / 1e6:.1f} MB. "
        f"`imbalance` has {rows['imbalance']:,} rows, `traffic` {rows['traffic'] / 1e6:,.0f} million; all "
        "readers open them by `trimtab.tables`.\n"
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
        "## Attribution against truth\n\n"
        "Six real brokers; the load generator knows what every partition got. *Misplaced* is the share of "
        "the total laid at the wrong partition or broker, which is what balancing depends on; *bias* is the "
        "error of the total (consumers are sent compressed bytes, the generator counts what it unpacked). "
        "More in [pipeline.md](pipeline.md).\n\n"
        + _table(("run", "measure", "per", "misplaced", "bias of the total"), body)
        + _picture(draw_accuracy(rows), "share of the load laid at the wrong partition or broker")
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
