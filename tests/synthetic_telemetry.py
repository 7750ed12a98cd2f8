"""A made-up cluster's raw samples, with its truth: for tests and benchmarks of the pipeline."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from trimtab.files.store import Location
from trimtab.observe.lake.parquet import write_rows
from trimtab.observe.replicas.pipeline import COLUMNS

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)

_ARROW = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "ints": pa.list_(pa.int32()),
}
RAW_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS])


@dataclass
class SyntheticCluster:
    """Steady log-normal rates on a random placement; every figure follows from the seed.

    CPU of a broker: `base_cores` + cost of leader-in, leader-out and follower-in bytes.
    """

    brokers: int = 6
    partitions: int = 40
    replication: int = 2
    partitions_per_topic: int = 5
    seconds_per_tick: float = 10.0
    bytes_per_record: int = 1000
    metrics: bool = True
    groups: int = 1
    jitter: float = 0.2
    seed: int = 5
    name: str = "test"
    costs: tuple[float, float, float] = (4e-8, 1e-8, 5e-9)
    base_cores: float = 0.05
    start: datetime.datetime = START
    replicas: np.ndarray = field(init=False)
    rate: np.ndarray = field(init=False)
    fan_out: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Draw placement and rates."""
        rng = np.random.default_rng(self.seed)
        self.replicas = np.array(
            [rng.permutation(self.brokers)[: self.replication] + 1 for _ in range(self.partitions)],
            dtype=np.int32,
        )
        self.rate = rng.lognormal(0.0, 1.0, self.partitions)
        self.rate *= 2e6 * self.brokers / self.rate.sum() / self.replication
        self.fan_out = (
            rng.integers(0, self.groups + 1, self.partitions)
            if self.groups
            else np.zeros(self.partitions, int)
        )
        self.start_bytes = (rng.uniform(5, 60, self.partitions) * 1e6 // self.bytes_per_record).astype(
            np.int64
        )

    def topic_of(self, partition: np.ndarray) -> np.ndarray:
        """Topic names, `partitions_per_topic` partitions each."""
        return np.char.add("topic-", np.char.zfill((partition // self.partitions_per_topic).astype(str), 4))

    def records(self, ticks: int) -> np.ndarray:
        """Cumulative records of each partition at each tick; shape (ticks, partitions)."""
        rng = np.random.default_rng(self.seed + 1)
        mean = self.rate * self.seconds_per_tick / self.bytes_per_record
        drawn = mean * rng.uniform(1 - self.jitter, 1 + self.jitter, (ticks, self.partitions))
        return self.start_bytes + np.cumsum(np.rint(drawn).astype(np.int64), axis=0)

    def tick_times(self, ticks: int) -> np.ndarray:
        """Shape (ticks,): microseconds since the epoch."""
        first = int(self.start.timestamp() * 1e6)
        return first + (np.arange(ticks) * self.seconds_per_tick * 1e6).astype(np.int64)

    def raw(self, ticks: int) -> pa.Table:
        """Every sample of `ticks` ticks, in order of time."""
        end = self.records(ticks)
        times = self.tick_times(ticks)
        number = np.arange(self.partitions)
        topic, within = self.topic_of(number), (number % self.partitions_per_topic).astype(np.int32)
        lead = self.replicas[:, 0]
        tables = []

        def add(kind: str, at: np.ndarray, delay_ms: np.ndarray | int, **columns: object) -> None:
            rows = len(at)
            sampled = at + np.asarray(delay_ms) * 1000
            fixed: dict[str, object] = {
                "cluster": np.full(rows, self.name),
                "tick": at,
                "kind": np.full(rows, kind),
                "sampled_at": sampled,
                "received_at": sampled + 200_000,
                **columns,
            }
            arrays = [
                pa.array(fixed[column.name], type=pa.int64()).cast(column.type)
                if pa.types.is_timestamp(column.type) and column.name in fixed
                else pa.array(fixed[column.name], type=column.type)
                if column.name in fixed
                else pa.nulls(rows, column.type)
                for column in RAW_SCHEMA
            ]
            tables.append(pa.Table.from_arrays(arrays, schema=RAW_SCHEMA))

        def grid(per_tick: int) -> np.ndarray:
            return np.repeat(times, per_tick)

        lists = [row.tolist() for row in self.replicas]
        add(
            "partition",
            grid(self.partitions),
            50,
            topic=np.tile(topic, ticks),
            partition=np.tile(within, ticks),
            leader=np.tile(lead, ticks),
            replicas=lists * ticks,
            in_sync=lists * ticks,
            adding=[[]] * (ticks * self.partitions),
            start_offset=np.zeros(ticks * self.partitions, dtype=np.int64),
            end_offset=end.reshape(-1),
        )
        width = self.replication
        holder = self.replicas.reshape(-1)
        add(
            "replica",
            grid(self.partitions * width),
            np.tile(20 + holder, ticks),
            broker=np.tile(holder, ticks),
            topic=np.tile(np.repeat(topic, width), ticks),
            partition=np.tile(np.repeat(within, width), ticks),
            log_dir=np.full(ticks * self.partitions * width, "/data"),
            size_bytes=np.repeat(end * self.bytes_per_record, width, axis=1).reshape(-1),
            offset_lag=np.zeros(ticks * self.partitions * width, dtype=np.int64),
            is_future=np.zeros(ticks * self.partitions * width, dtype=bool),
        )
        for group in range(self.groups):
            reads = np.flatnonzero(self.fan_out > group)
            add(
                "group",
                grid(len(reads)),
                60,
                group=np.full(ticks * len(reads), f"group-{group}"),
                topic=np.tile(topic[reads], ticks),
                partition=np.tile(within[reads], ticks),
                committed_offset=end[:, reads].reshape(-1),
            )
        ids = np.arange(1, self.brokers + 1, dtype=np.int32)
        new = (end - end[0]) * self.bytes_per_record
        led = ids[:, None] == lead[None, :]
        followed = (self.replicas[None, :, 1:] == ids[:, None, None]).any(axis=2)
        leader_in, follower_in = new @ led.T, new @ followed.T
        leader_out = (new * self.fan_out) @ led.T
        elapsed = np.arange(ticks)[:, None] * self.seconds_per_tick
        cores = leader_in * self.costs[0] + leader_out * self.costs[1] + follower_in * self.costs[2]
        counters: dict[str, object] = {}
        if self.metrics:
            counters = {
                "cpu_time_ns": np.rint((cores + self.base_cores * elapsed + 5.0) * 1e9)
                .astype(np.int64)
                .reshape(-1),
                "processors": np.full(ticks * self.brokers, 4.0),
                "bytes_in_total": leader_in.reshape(-1),
                "bytes_out_total": leader_out.reshape(-1),
                "replication_bytes_in_total": follower_in.reshape(-1),
                "produce_requests_total": leader_in.reshape(-1) // 10000,
                "fetch_requests_total": leader_out.reshape(-1) // 10000,
            }
        add(
            "broker",
            grid(self.brokers),
            10,
            broker=np.tile(ids, ticks),
            host=np.tile(np.char.add("host-", ((ids - 1) // 2).astype(str)), ticks),
            rack=np.tile(np.char.add("rack-", ((ids - 1) % 3).astype(str)), ticks),
            broker_state=np.full(ticks * self.brokers, "alive"),
            **counters,
        )
        add(
            "log_dir",
            grid(self.brokers),
            15,
            broker=np.tile(ids, ticks),
            log_dir=np.full(ticks * self.brokers, "/data"),
            dir_state=np.full(ticks * self.brokers, "online"),
            disk_total_bytes=np.full(ticks * self.brokers, 5 * 10**11, dtype=np.int64),
            disk_usable_bytes=np.full(ticks * self.brokers, 4 * 10**11, dtype=np.int64),
        )
        if self.metrics:
            names, of_topic = np.unique(topic, return_inverse=True)
            pairs, pair = np.unique((lead - 1) * len(names) + of_topic, return_inverse=True)
            order = np.argsort(pair, kind="stable")
            starts = np.searchsorted(pair[order], np.arange(len(pairs)))

            def by_pair(values: np.ndarray) -> np.ndarray:
                return np.add.reduceat(values[:, order], starts, axis=1).reshape(-1)

            add(
                "topic_broker",
                grid(len(pairs)),
                10,
                broker=np.tile(ids[pairs // len(names)], ticks),
                topic=np.tile(names[pairs % len(names)], ticks),
                bytes_in_total=by_pair(new),
                bytes_out_total=by_pair(new * self.fan_out),
                messages_in_total=by_pair(end - end[0]),
            )
        offered = new.sum(axis=1)
        add(
            "client",
            times,
            5,
            client=np.full(ticks, "load"),
            offered_bytes_total=offered,
            served_bytes_total=offered,
            errors_total=np.zeros(ticks, dtype=np.int64),
            late_total=np.zeros(ticks, dtype=np.int64),
            latency_p99_ms=np.full(ticks, 5.0),
        )
        return pa.concat_tables(tables).sort_by("tick")


def land(table: pa.Table, raw: Location, name: str) -> None:
    """Write one file per day into a lake's raw folder, as collectors do."""
    days = pa.compute.strftime(table["tick"], format="%Y-%m-%d")
    for day in pa.compute.unique(days).to_pylist():
        write_rows(raw / f"date={day}" / f"{name}.parquet", table.filter(pa.compute.equal(days, day)))


def land_by_tick(table: pa.Table, raw: Location, prefix: str = "tick") -> None:
    """One file per tick, as a collector leaves them."""
    for place, tick in enumerate(pa.compute.unique(table["tick"])):
        land(table.filter(pa.compute.equal(table["tick"], tick)), raw, f"{prefix}-{place:05d}")


def dirtied(raw: pa.Table, seconds_per_tick: float, lateness_seconds: float, seed: int = 7) -> list[pa.Table]:
    """The same samples as a bad day would deliver them: files in the order of their arrival.

    A broker restarts, one is silent for a tick, one clock goes back, retention cuts a partition, values are
    NaN or negative, rows come twice (some with another value), out of order, within the lateness allowed
    and beyond it, and some cannot be read at all.
    """
    rng = np.random.default_rng(seed)
    rows = raw.to_pylist()
    ticks = sorted({row["tick"] for row in rows})
    number = {tick: place for place, tick in enumerate(ticks)}
    counters = [name for name, kind in COLUMNS if kind == "long" and name.endswith(("_total", "_ns"))]
    restart = next(
        row for row in rows if row["kind"] == "broker" and row["broker"] == 2 and number[row["tick"]] == 4
    )
    before = {name: restart[name] for name in counters if restart[name] is not None}
    first_topic = min(row["topic"] for row in rows if row["topic"])
    kept = []
    for row in rows:
        at, kind, broker = number[row["tick"]], row["kind"], row["broker"]
        if broker == 3 and at == 6:
            continue
        if kind == "broker" and broker == 2 and at >= 4:
            row |= {name: row[name] - value for name, value in before.items()}
        if kind == "broker" and broker == 4 and at == 3:
            row["sampled_at"] -= datetime.timedelta(hours=1)
        if kind == "broker" and broker == 1 and at == 2:
            row["processors"] = float("nan")
        if row["topic"] == first_topic and row["partition"] == 0 and at >= 5:
            if kind == "replica":
                row["size_bytes"] -= 3_000_000
            if kind == "partition":
                row["start_offset"] += 3000
        if kind == "replica" and at == 7 and row["topic"] == first_topic and row["partition"] == 1:
            row["size_bytes"] = -5
        kept.append(row)
    tick_length = datetime.timedelta(seconds=seconds_per_tick)
    delivered = []
    for row in kept:
        draw = rng.random(4)
        if draw[0] < 0.06:
            row["received_at"] += 2 * tick_length
        elif draw[0] < 0.08:
            row["received_at"] = row["tick"] + datetime.timedelta(seconds=lateness_seconds + 1)
        delivered.append(row)
        if draw[1] < 0.05:
            copy = dict(row, received_at=row["received_at"] + int(3 * draw[2]) * tick_length)
            if draw[3] < 0.5 and copy["size_bytes"] is not None:
                copy["size_bytes"] += 12345
            delivered.append(copy)
    delivered += [dict(row, kind=None) for row in kept[:3]]
    delivered = [delivered[place] for place in rng.permutation(len(delivered))]
    files: dict[int, list[dict[str, object]]] = {}
    for row in delivered:
        files.setdefault((row["received_at"] - ticks[0]) // tick_length, []).append(row)
    return [pa.Table.from_pylist(files[arrival], schema=RAW_SCHEMA) for arrival in sorted(files)]
