"""Raw samples of a Pulsar cluster that never existed, whose true rates, costs and owners are known."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from trimtab.model.bundles.reports import BrokerReport, BundleStats, ReportTick, ResourceUsage
from trimtab.model.bundles.snapshot import bundles_between, initial_boundaries
from trimtab.observe.bundles.pipeline import COLUMNS

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)

_ARROW = {
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "longs": pa.list_(pa.int64()),
}
RAW_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in COLUMNS])

KBIT = 125.0
"""Bytes per second in a kbit/s."""


@dataclass
class SyntheticPulsar:
    """Steady log-normal rates of bundles on random owners; every figure follows from the seed.

    CPU of a broker: `base_cores` + cost of messages in, messages out, bytes in, bytes out. `moves` names
    bundles that change hands: (tick, bundle's number, new owner's number, or None for nobody).
    """

    brokers: int = 4
    namespaces: int = 2
    bundles_per_namespace: int = 8
    topics_per_bundle: int = 2
    seconds_per_tick: float = 60.0
    jitter: float = 0.2
    seed: int = 5
    name: str = "pulsar-test"
    costs: tuple[float, float, float, float] = (2e-4, 1e-4, 2e-8, 1e-8)
    base_cores: float = 0.2
    bandwidth_overhead: float = 1000.0
    moves: tuple[tuple[int, int, int | None], ...] = ()
    usage_source: str = "measured"
    start: datetime.datetime = START
    keys: tuple[str, ...] = field(init=False)
    owner: np.ndarray = field(init=False)
    rate: np.ndarray = field(init=False)
    size: np.ndarray = field(init=False)
    fan_out: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Draw owners and rates."""
        rng = np.random.default_rng(self.seed)
        self.boundaries = initial_boundaries(self.bundles_per_namespace)
        self.keys = tuple(
            one.key
            for number in range(self.namespaces)
            for one in bundles_between(f"public/space-{number}", self.boundaries)
        )
        self.names = tuple(f"10.0.0.{number + 1}:8080" for number in range(self.brokers))
        self.owner = rng.integers(0, self.brokers, len(self.keys))
        self.rate = rng.lognormal(5.0, 1.0, len(self.keys))
        self.size = rng.uniform(200, 2000, len(self.keys))
        self.fan_out = rng.integers(0, 3, len(self.keys))

    def owners(self, tick: int) -> np.ndarray:
        """Number of each bundle's owner at a tick; -1 for nobody."""
        owner = self.owner.copy()
        for at, bundle, target in self.moves:
            if at <= tick:
                owner[bundle] = -1 if target is None else target
        return owner

    def rates(self, ticks: int) -> np.ndarray:
        """Shape (ticks, bundles, 4): messages in and out, bytes in and out, per second."""
        rng = np.random.default_rng(self.seed + 1)
        drawn = self.rate * rng.uniform(1 - self.jitter, 1 + self.jitter, (ticks, len(self.keys)))
        out = drawn * self.fan_out
        return np.stack([drawn, out, drawn * self.size, out * self.size], axis=2)

    def at(self, tick: int) -> datetime.datetime:
        """The instant of a tick."""
        return self.start + datetime.timedelta(seconds=tick * self.seconds_per_tick)

    def _stats(self, one: int, carried: Any) -> BundleStats:
        rate_in, rate_out, bytes_in, bytes_out = map(float, carried)
        return BundleStats(
            rate_in,
            rate_out,
            bytes_in,
            bytes_out,
            topics=self.topics_per_bundle,
            consumer_count=int(self.fan_out[one]),
            producer_count=1,
            cache_size=one * 10,
        )

    def reports(self, ticks: int) -> list[ReportTick]:
        """What the brokers say at each tick, in the order that the cluster names them: the last first."""
        rates = self.rates(ticks)
        found = []
        for tick in range(ticks):
            owner, told = self.owners(tick), {}
            for number in reversed(range(self.brokers)):
                own = np.flatnonzero(owner == number)
                carried = rates[tick, own].sum(axis=0)
                cores = self.base_cores + float(carried @ np.array(self.costs))
                # Figures come in another order than the list, as from Pulsar's two maps.
                stats = {self.keys[one]: self._stats(int(one), rates[tick, one]) for one in own[::-1]}
                told[self.names[number]] = BrokerReport(
                    cpu=ResourceUsage(cores * 100, 400.0),
                    memory=ResourceUsage(512.0, 1024.0),
                    direct_memory=ResourceUsage(64.0, 1024.0),
                    bandwidth_in=ResourceUsage(float(carried[2]) / KBIT + self.bandwidth_overhead, 1e6),
                    bandwidth_out=ResourceUsage(float(carried[3]) / KBIT + self.bandwidth_overhead, 1e6),
                    msg_rate_in=float(carried[0]),
                    msg_rate_out=float(carried[1]),
                    msg_throughput_in=float(carried[2]),
                    msg_throughput_out=float(carried[3]),
                    bundles=tuple(self.keys[one] for one in own),
                    last_stats=stats,
                )
            found.append(ReportTick(self.at(tick).timestamp(), told))
        return found

    def rows(self, ticks: int) -> list[dict[str, Any]]:
        """The same reports as raw rows, with topics, namespaces and a client."""
        rows: list[dict[str, Any]] = []
        for number, tick in enumerate(self.reports(ticks)):
            common = {
                "cluster": self.name,
                "tick": self.at(number),
                "sampled_at": self.at(number) + datetime.timedelta(milliseconds=40),
                "received_at": self.at(number) + datetime.timedelta(milliseconds=300),
            }
            for place, (broker, report) in enumerate(tick.brokers.items()):
                rows += report_rows(broker, place, report, common, self.usage_source)
                rows += self._topic_rows(broker, report, common)
            rows += [
                {
                    **common,
                    "kind": "pulsar_namespace",
                    "namespace": f"public/space-{space}",
                    "boundaries": list(self.boundaries),
                    "policies": json.dumps({}),
                }
                for space in range(self.namespaces)
            ]
            rows.append(
                {**common, "kind": "pulsar_client", "client": "load", "offered_messages_total": 100 * number,
                 "served_messages_total": 100 * number, "errors_total": 0}
            )  # fmt: skip
        return rows

    def _topic_rows(self, broker: str, report: BrokerReport, common: dict[str, Any]) -> list[dict[str, Any]]:
        share = 1.0 / self.topics_per_bundle
        return [
            {
                **common,
                "kind": "pulsar_topic",
                "owner": broker,
                "bundle": bundle,
                "topic": f"persistent://{bundle.rpartition('/')[0]}/{bundle.rpartition('/')[2]}-{number}",
                "msg_rate_in": stats.msg_rate_in * share,
                "msg_rate_out": stats.msg_rate_out * share,
                "msg_throughput_in": stats.msg_throughput_in * share,
                "msg_throughput_out": stats.msg_throughput_out * share,
                "producers": 1,
                "consumers": 1,
            }
            for bundle, stats in report.last_stats.items()
            for number in range(self.topics_per_bundle)
        ]

    def raw(self, ticks: int) -> pa.Table:
        """Every sample of `ticks` ticks, in order of time."""
        return table_of(self.rows(ticks))


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of raw samples."""
    return pa.Table.from_pylist(rows, schema=RAW_SCHEMA)


def report_rows(
    broker: str, place: int, report: BrokerReport, common: dict[str, Any], usage_source: str = "measured"
) -> list[dict[str, Any]]:
    """One broker's report as raw rows."""
    usage: dict[str, Any] = {}
    for name in ("cpu", "memory", "direct_memory", "bandwidth_in", "bandwidth_out"):
        one = getattr(report, name)
        usage |= {f"{name}_usage": one.usage, f"{name}_limit": one.limit}
    rows = [
        {
            **common,
            **usage,
            "kind": "pulsar_broker",
            "owner": broker,
            "position": place,
            "broker_state": "alive",
            "is_leader": place == 0,
            "load_manager": "modular",
            "usage_source": usage_source,
            "bundles": len(report.bundles),
            "msg_rate_in": report.msg_rate_in,
            "msg_rate_out": report.msg_rate_out,
            "msg_throughput_in": report.msg_throughput_in,
            "msg_throughput_out": report.msg_throughput_out,
        }
    ]
    figures = {bundle: number for number, bundle in enumerate(report.last_stats)}
    for bundle in dict.fromkeys([*report.bundles, *report.last_stats]):
        row = {**common, "kind": "pulsar_bundle", "owner": broker, "bundle": bundle}
        if bundle in report.bundles:
            row["position"] = report.bundles.index(bundle)
        row["has_stats"] = bundle in figures
        if bundle in figures:
            one = report.last_stats[bundle]
            row |= {
                "stats_position": figures[bundle],
                "msg_rate_in": one.msg_rate_in,
                "msg_rate_out": one.msg_rate_out,
                "msg_throughput_in": one.msg_throughput_in,
                "msg_throughput_out": one.msg_throughput_out,
                "topics": one.topics,
                "consumers": one.consumer_count,
                "producers": one.producer_count,
                "cache_size_bytes": one.cache_size,
            }
        rows.append(row)
    return rows


def dirtied(cluster: SyntheticPulsar, ticks: int, lateness_seconds: float, seed: int = 7) -> list[pa.Table]:
    """The same reports as a bad day would deliver them: files in the order of their arrival.

    A broker does not answer, one is missing for a tick, one clock goes back, a tick is missing for all,
    figures are NaN or negative, two brokers claim one bundle, whole reports come twice (some with other
    figures), out of order, within the lateness allowed and beyond it, and some rows cannot be read at all.
    """
    rng = np.random.default_rng(seed)
    length = datetime.timedelta(seconds=cluster.seconds_per_tick)
    rows = cluster.rows(ticks)
    reports: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for row in rows:
        number = (row["tick"] - cluster.start) // length
        broker = cluster.names.index(row["owner"]) if row.get("owner") else None
        if number == ticks - 3 or (broker == 2 and number == 3):
            continue
        if broker == 1 and number == 4:
            if row["kind"] != "pulsar_broker":
                continue
            row = {name: row[name] for name in ("cluster", "tick", "kind", "owner", "position",
                                                "sampled_at", "received_at")}  # fmt: skip
            row["broker_state"] = "unreachable"
        if broker == 3 and number == 5:
            row["sampled_at"] -= 3 * length
        if row["kind"] == "pulsar_broker" and broker == 0 and number == 2:
            row["cpu_usage"] = float("nan")
        if row["kind"] == "pulsar_bundle" and broker == 0 and number == 5 and row["position"] == 0:
            row["msg_rate_in"] = -1.0
        if row["kind"] == "pulsar_bundle" and broker == 0 and number == 3 and row["position"] == 1:
            row["msg_throughput_out"] = float("inf")
        reports.setdefault((row["tick"], row.get("owner")), []).append(row)
    # A bundle that is just changing hands: its new owner tells of it too, and before the old one does.
    claimed = next(row for row in rows if row["kind"] == "pulsar_bundle" and row["tick"] == cluster.at(1))
    other = next(name for name in cluster.names if name != claimed["owner"])
    reports[(cluster.at(1), other)].append(
        dict(claimed, owner=other, position=99, stats_position=99, msg_rate_in=claimed["msg_rate_in"] + 1.0)
    )
    delivered = []
    for said in reports.values():
        draw = rng.random(4)
        if draw[0] < 0.15:
            said = [dict(row, received_at=row["received_at"] + 2 * length) for row in said]
        elif draw[0] < 0.2:
            late = datetime.timedelta(seconds=lateness_seconds + 1)
            said = [dict(row, received_at=row["tick"] + late) for row in said]
        delivered.append(said)
        if draw[1] < 0.2:
            later = (1 + int(2 * draw[2])) * length
            delivered.append(
                [
                    dict(row, received_at=row["received_at"] + later, topics=77 if draw[3] < 0.5 else None)
                    for row in said
                ]
            )
    delivered.append([dict(row, kind=None) for row in rows[:3]])
    files: dict[int, list[dict[str, Any]]] = {}
    for place in rng.permutation(len(delivered)):
        for row in delivered[place]:
            files.setdefault((row["received_at"] - cluster.start) // length, []).append(row)
    return [table_of(files[arrival]) for arrival in sorted(files)]
