"""Whole ticks of a Pulsar cluster against the simulated admin API."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from simulate.pulsar_admin.server import Fault, PulsarAdminServer, Trouble
from support.pulsar_admin import NAMESPACE, bundle_holding, loaded_server
from trimtab.files.bundles.reports import read_reports
from trimtab.observe.bundles.pipeline import COLUMNS, KINDS
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.recorded import recent_ticks
from trimtab.observe.collect.sampler import RequestError, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, PulsarCollectSettings
from trimtab.observe.collect.sinks import LakeSink, arrow_schema
from trimtab.observe.lake.lake import Lake
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.collector import PulsarCollector, RecordingSink
from trimtab.systems.pulsar.connection import PulsarConnection

Row = dict[str, Any]
ORDERS = f"persistent://{NAMESPACE}/orders-0"
TICK = datetime.datetime(2026, 11, 21, 12, 0, 30, tzinfo=datetime.UTC)


@pytest.fixture
def server() -> Iterator[PulsarAdminServer]:
    """Three brokers, four bundles, six topics."""
    with loaded_server() as running:
        yield running


def opened(
    server: PulsarAdminServer,
    capacity: CapacitySettings | None = None,
    patience_seconds: float = 30.0,
    **pulsar: Any,
) -> PulsarCollector:
    """A collector of this cluster; its reports count as measured if nothing else is asked for."""
    settings = CollectSettings(
        interval_seconds=6, pulsar=PulsarCollectSettings(**({"usage": "measured"} | pulsar))
    )
    connection = PulsarConnection(server.urls, timeout_seconds=patience_seconds, token=server.cluster.token)
    return PulsarCollector(PulsarAdmin(connection), settings, capacity or CapacitySettings())


def sample(server: PulsarAdminServer, capacity: CapacitySettings | None = None, **pulsar: Any) -> TickSample:
    """One tick."""
    collector = opened(server, capacity, **pulsar)
    try:
        return collector.sample()
    finally:
        collector.close()


def rows(found: TickSample, kind: str) -> list[Row]:
    """Rows of one kind, in order."""
    return [row for batch in found.batches if batch.kind == kind for row in batch.rows()]


def by_owner(found: TickSample, kind: str = "pulsar_broker") -> dict[str, Row]:
    """Rows of one kind by broker, the last of each."""
    return {row["owner"]: row for row in rows(found, kind)}


def test_a_tick_contains_the_reports_of_brokers(server: PulsarAdminServer) -> None:
    """Every broker's resources, every bundle with its owner and load, every topic, and the boundaries."""
    found = sample(server)
    assert (found.answered, found.brokers, found.dropped_values, found.problems) == (3, 3, 0, ())
    assert found.cluster == "simulated"
    brokers = rows(found, "pulsar_broker")
    assert [one["owner"] for one in brokers] == sorted(server.ids)
    assert [one["position"] for one in brokers] == [0, 1, 2]
    assert {one["owner"]: one["is_leader"] for one in brokers}[server.ids[0]]
    assert sum(one["is_leader"] for one in brokers) == 1
    assert {(one["cpu_usage"], one["cpu_limit"], one["broker_state"]) for one in brokers} == {
        (20.0, 200.0, "alive")
    }
    assert sum(one["msg_rate_in"] for one in brokers) == sum(10.0 * number for number in range(1, 7))
    bundles = {row["bundle"]: row for row in rows(found, "pulsar_bundle")}
    assert {key: row["owner"] for key, row in bundles.items() if key.startswith(NAMESPACE)} == (
        server.cluster.owners
    )
    topics = rows(found, "pulsar_topic")
    assert len(topics) == 6
    held = next(row for row in topics if row["topic"] == ORDERS)
    assert (held["bundle"], held["msg_rate_in"], held["msg_throughput_out"]) == (
        bundle_holding(server, ORDERS),
        10.0,
        20.0 * 512,
    )
    assert (held["producers"], held["consumers"], held["subscriptions"]) == (2, 1, 1)
    namespaces = {row["namespace"]: row for row in rows(found, "pulsar_namespace")}
    assert namespaces[NAMESPACE]["boundaries"] == [0, 2**30, 2**31, 3 * 2**30, 2**32 - 1]


def test_the_figures_of_a_bundle_are_those_of_the_report(server: PulsarAdminServer) -> None:
    """In the order of the report, which decides where two bundles are equal."""
    found = sample(server)
    for broker, row in by_owner(found).items():
        own = [one for one in rows(found, "pulsar_bundle") if one["owner"] == broker]
        assert [one["position"] for one in own] == list(range(len(own)))
        assert [one["stats_position"] for one in own] == list(range(len(own)))
        assert row["bundles"] == len(own)
        assert sum(one["msg_throughput_in"] for one in own) == row["msg_throughput_in"]


def test_rows_have_exactly_the_declared_columns(server: PulsarAdminServer, tmp_path: Path) -> None:
    """The pipeline reads what the collector lands, column for column, type for type."""
    found = sample(server)
    LakeSink(tmp_path / "bundles/raw", COLUMNS).write(found.batches, found.cluster, TICK)
    (file,) = Lake(tmp_path, BUNDLES).raw_files()
    table = pq.ParquetFile(file).read()
    assert table.schema.equals(arrow_schema(COLUMNS))
    assert set(table["kind"].to_pylist()) <= set(KINDS)
    names = {name for name, _ in COLUMNS}
    assert all(row.keys() <= names for batch in found.batches for row in batch.rows())


def test_a_dead_broker_never_loses_the_others(server: PulsarAdminServer) -> None:
    """It counts as alive until its session expires: a row with that state, and all the others' rows."""
    before = sample(server)
    dead = server.ids[1]
    server.kill(dead)
    found = sample(server)
    states = {owner: row["broker_state"] for owner, row in by_owner(found).items()}
    assert states == {one: "unreachable" if one == dead else "alive" for one in server.ids}
    assert (found.answered, found.brokers) == (2, 3)
    assert any(f"broker {dead} is unreachable: Connection refused" in one for one in found.problems)
    for kind in ("pulsar_bundle", "pulsar_topic"):
        kept = [row["owner"] for row in rows(before, kind) if row["owner"] != dead]
        assert [row["owner"] for row in rows(found, kind)] == kept
    assert len(rows(found, "pulsar_namespace")) == 2


def test_a_dead_first_broker_does_not_stop_collecting(server: PulsarAdminServer) -> None:
    """The leader, and the first address in the settings at that."""
    server.kill(server.ids[0])
    assert sample(server).answered == 2


def test_a_slow_broker_costs_its_own_rows_only(server: PulsarAdminServer) -> None:
    """Each broker has a time-out of its own."""
    slow = server.ids[2]
    server.faults.append(Fault("GET", "load-report", Trouble.LATE, seconds=12.0, broker=slow))
    collector = opened(server, patience_seconds=3.0)
    found = collector.sample()
    collector.close()
    assert found.answered == 2
    assert any(f"broker {slow} is unreachable: no answer in 3 s" in one for one in found.problems)


def test_no_broker_answers(server: PulsarAdminServer) -> None:
    """Then there is no tick at all, with the reason."""
    collector = opened(server)
    for one in server.ids:
        server.kill(one)
    with pytest.raises(RequestError, match=r"no Pulsar broker answers"):
        collector.sample()
    collector.close()


def test_a_token_is_sent_and_a_wrong_one_is_reported() -> None:
    """With the right one everything is there; without it, one sentence that names the setting."""
    with loaded_server(token="secret") as server:
        assert sample(server).answered == 3
        admin = PulsarAdmin(PulsarConnection(server.urls, token="wrong"))
        collector = PulsarCollector(admin, CollectSettings(), CapacitySettings())
        with pytest.raises(RequestError, match=r"rights of a superuser") as caught:
            collector.sample()
        collector.close()
        assert "wrong" not in str(caught.value)


def test_a_bundle_that_has_just_moved_has_its_new_owner(server: PulsarAdminServer) -> None:
    """Reports lag by up to a minute; ownership is read again, and topics supply its load."""
    bundle = bundle_holding(server, ORDERS)
    old = server.cluster.owners[bundle]
    new = next(one for one in server.ids if one != old)
    stale = {one: server.cluster.brokers[one] for one in (old, new)}
    told = sample(server)
    reports = {
        owner: [row["bundle"] for row in rows(told, "pulsar_bundle") if row["owner"] == owner]
        for owner in stale
    }
    figures = {row["bundle"]: row["msg_rate_in"] for row in rows(told, "pulsar_bundle")}
    server.cluster.give(bundle, new)

    def as_before(owner: str) -> Any:
        def alter(report: dict[str, Any]) -> dict[str, Any]:
            stats = report["lastStats"] | {bundle: {**_STATS, "msgRateIn": figures[bundle]}}
            return report | {
                "bundles": reports[owner],
                "lastStats": {one: stats[one] for one in reports[owner] if one in stats},
            }

        return alter

    for owner, node in stale.items():
        node.alter = as_before(owner)
    found = {(row["owner"], row["bundle"]): row for row in rows(sample(server), "pulsar_bundle")}
    assert "position" not in found[old, bundle]
    assert found[old, bundle]["has_stats"]
    assert found[new, bundle]["position"] == len(reports[new])
    assert found[new, bundle]["msg_rate_in"] == figures[bundle]


_STATS = {
    "msgRateIn": 1.0,
    "msgRateOut": 1.0,
    "msgThroughputIn": 1.0,
    "msgThroughputOut": 1.0,
    "topics": 1,
    "consumerCount": 1,
    "producerCount": 1,
    "cacheSize": 0,
}


def changed(report: dict[str, Any], *path: str, to: Any) -> dict[str, Any]:
    """A report with one value replaced."""
    first, *rest = path
    return report | {first: changed(report[first], *rest, to=to) if rest else to}


def dropped(report: dict[str, Any], name: str) -> dict[str, Any]:
    """A report without a field."""
    return {key: value for key, value in report.items() if key != name}


@pytest.mark.parametrize(
    ("alter", "column", "said"),
    [
        (lambda report: dropped(report, "cpu"), "cpu_usage", "tells no cpu"),
        (
            lambda report: changed(report, "cpu", "usage", to=float("nan")),
            "cpu_usage",
            "of cpu what is no number",
        ),
        (lambda report: changed(report, "cpu", "usage", to="NaN"), "cpu_usage", "of cpu what is no number"),
        (lambda report: changed(report, "cpu", "limit", to=0.0), "cpu_limit", "a limit of 0 for cpu"),
        (lambda report: changed(report, "cpu", "usage", to=-3.0), "cpu_usage", "a negative usage of cpu"),
        (
            lambda report: changed(report, "cpu", to={"usage": -1.0, "limit": -1.0}),
            "cpu_usage",
            "know its cpu yet",
        ),
        (
            lambda report: changed(report, "bandwidthIn", "limit", to=float("inf")),
            "bandwidth_in_limit",
            "limit of",
        ),
        (lambda report: changed(report, "msgRateIn", to=-1.0), "msg_rate_in", "a negative msgRateIn"),
        (
            lambda report: changed(report, "msgThroughputOut", to=None),
            "msg_throughput_out",
            "no msgThroughputOut",
        ),
        (lambda report: changed(report, "msgRateOut", to=True), "msg_rate_out", "what is no number"),
    ],
)
def test_an_impossible_value_is_left_out_and_counted(
    server: PulsarAdminServer, alter: Any, column: str, said: str
) -> None:
    """One broker, one value: that one is empty and counted, all the rest is there."""
    bad = server.ids[1]
    server.cluster.brokers[bad].alter = alter
    found = sample(server)
    assert column not in by_owner(found)[bad]
    assert all(column in row for owner, row in by_owner(found).items() if owner != bad)
    assert "memory_usage" in by_owner(found)[bad]
    assert (found.answered, found.dropped_values) == (3, 1)
    (problem,) = found.problems
    assert problem.startswith(f"broker {bad} ") and said in problem and problem.endswith("left out")


@pytest.mark.parametrize("value", [-1.0, float("nan"), "7", None])
def test_a_bundle_with_a_figure_that_cannot_be_stays_listed(server: PulsarAdminServer, value: object) -> None:
    """Its figures are one sample; its owner is still known, and its topics supply its load."""
    bundle = bundle_holding(server, ORDERS)
    owner = server.cluster.owners[bundle]
    server.cluster.brokers[owner].alter = lambda report: changed(
        report, "lastStats", bundle, "msgRateIn", to=value
    )
    found = sample(server)
    row = next(one for one in rows(found, "pulsar_bundle") if one["bundle"] == bundle)
    others = [one for one in rows(found, "pulsar_bundle") if one["owner"] == owner]
    assert row["owner"] == owner
    assert row["msg_rate_in"] == sum(
        one["msg_rate_in"] for one in rows(found, "pulsar_topic") if one["bundle"] == bundle
    )
    assert row["stats_position"] == len(others) - 1  # after those that the report has
    assert found.dropped_values == 1
    assert bundle in found.problems[0]


@pytest.mark.parametrize("stats", [None, [], "none"])
def test_a_report_without_bundles_still_counts_as_one(server: PulsarAdminServer, stats: object) -> None:
    """A partial report: ownership and topics' load come from other endpoints."""
    bad = server.ids[0]
    server.cluster.brokers[bad].alter = lambda report: report | {"lastStats": stats, "bundles": stats or None}
    found = sample(server)
    own = [row for row in rows(found, "pulsar_bundle") if row["owner"] == bad]
    assert {row["bundle"] for row in own} >= {
        key for key, owner in server.cluster.owners.items() if owner == bad
    }
    assert found.dropped_values >= 1


def test_an_invalid_bundle_has_no_row(server: PulsarAdminServer) -> None:
    """A name that no bundle has, and a bundle that is none of its namespace."""
    bad = server.ids[0]
    server.cluster.brokers[bad].alter = lambda report: changed(
        report,
        "lastStats",
        to=report["lastStats"] | {"acme/shop": _STATS, f"{NAMESPACE}/0x00000000_0x00000010": _STATS},
    )
    found = sample(server)
    keys = {row["bundle"] for row in rows(found, "pulsar_bundle")}
    assert not keys & {"acme/shop", f"{NAMESPACE}/0x00000000_0x00000010"}
    assert found.dropped_values == 2
    assert any("is no bundle's name" in one for one in found.problems)
    assert any("which is no bundle of its namespace (any more)" in one for one in found.problems)


def test_a_bundle_from_before_a_split_is_left_out(server: PulsarAdminServer) -> None:
    """Its halves are owned and its topics are in them; the report of the whole would count them twice."""
    bundle = next(one for one in server.cluster.bundles_of(NAMESPACE))
    owner = server.cluster.owners[bundle.key]
    before = sample(server)
    whole = next(row for row in rows(before, "pulsar_bundle") if row["bundle"] == bundle.key)
    middle = bundle.low + (bundle.high - bundle.low) // 2
    server.cluster.cut(bundle, [middle], "admin")
    server.cluster.brokers[owner].alter = lambda report: (
        report
        | {
            "bundles": [bundle.key],
            "lastStats": {bundle.key: _STATS},
        }
    )
    found = sample(server)
    halves = [row for row in rows(found, "pulsar_bundle") if row["bundle"].startswith(f"{NAMESPACE}/0x0")]
    assert bundle.key not in {row["bundle"] for row in rows(found, "pulsar_bundle")}
    assert sum(row["msg_rate_in"] for row in halves if row["has_stats"]) == whole["msg_rate_in"]
    assert any(bundle.key in one for one in found.problems)


def test_a_namespace_whose_bundles_overlap_is_left_out(server: PulsarAdminServer) -> None:
    """Boundaries that go back, and in such a namespace the narrower of two bundles that overlap stays."""
    server.cluster.namespaces[NAMESPACE].boundaries = [0, 2**31, 2**30, 2**32 - 1]
    wide = f"{NAMESPACE}/0x00000000_0x80000000"
    server.cluster.brokers[server.ids[0]].alter = lambda report: changed(
        report, "lastStats", to=report["lastStats"] | {wide: _STATS}
    )
    found = sample(server)
    assert [row["namespace"] for row in rows(found, "pulsar_namespace")] == ["pulsar/system"]
    assert any(f"namespace {NAMESPACE} has bundles that overlap" in one for one in found.problems)
    assert wide not in {row["bundle"] for row in rows(found, "pulsar_bundle")}
    assert any(f"tells of {wide}, which overlaps" in one for one in found.problems)


def test_a_clock_that_moves_backwards_is_reported(server: PulsarAdminServer) -> None:
    """The second report is older than the first; its figures are those of now all the same."""
    collector = opened(server)
    times = iter([9_000, 5_000, 6_000])
    server.cluster.brokers[server.ids[0]].alter = lambda report: report | {"lastUpdate": next(times)}
    problems = [collector.sample().problems for _ in range(3)]
    collector.close()
    assert not problems[0]
    assert "its clock went back" in problems[1][0]
    assert not problems[2]


def test_a_clock_that_is_ahead_is_reported(server: PulsarAdminServer) -> None:
    """A report from the future is stamped with the time at which it was read."""
    ahead = (time.time() + 3600) * 1000
    server.cluster.brokers[server.ids[0]].alter = lambda report: report | {"lastUpdate": ahead}
    found = sample(server)
    assert "its clock is ahead of ours" in found.problems[0]
    assert by_owner(found)[server.ids[0]]["sampled_at"] <= datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize("told", [{}, {"acme/shop": None}, {"acme/shop": {"x": {}}}])
def test_statistics_of_topics_that_make_no_sense(server: PulsarAdminServer, told: dict[str, Any]) -> None:
    """No topics of that broker; the report is enough for everything else."""
    bad = server.ids[0]
    server.cluster.brokers[bad].alter_topics = lambda _: told
    found = sample(server)
    assert bad not in by_owner(found, "pulsar_topic")
    assert found.answered == 3
    assert sum(row["msg_rate_in"] for row in rows(found, "pulsar_broker")) == 210.0


def test_a_topic_with_a_rate_that_cannot_be_is_left_out(server: PulsarAdminServer) -> None:
    """One topic of many."""
    bundle = bundle_holding(server, ORDERS)
    place = bundle.rpartition("/")[2]

    def alter(told: dict[str, Any]) -> dict[str, Any]:
        return changed(told, NAMESPACE, place, "persistent", ORDERS, "msgRateOut", to=-1)

    server.cluster.brokers[server.cluster.owners[bundle]].alter_topics = alter
    found = sample(server)
    assert ORDERS not in {row["topic"] for row in rows(found, "pulsar_topic")}
    assert len(rows(found, "pulsar_topic")) == 5
    assert (found.dropped_values, ORDERS in found.problems[0]) == (1, True)


@pytest.mark.parametrize("status", [401, 403])
def test_metrics_replace_statistics_that_are_not_authorized(server: PulsarAdminServer, status: int) -> None:
    """A role that may not see brokers' statistics may see their metrics: topics, and bundles as sums."""
    whole = sample(server)
    server.faults.append(Fault("GET", "broker-stats", Trouble.REFUSED, times=99, status=status))
    found = sample(server, CapacitySettings(cpu_cores=2.0))
    rates = {
        row["bundle"]: row["msg_rate_in"] for row in rows(whole, "pulsar_bundle") if "acme" in row["bundle"]
    }
    assert {
        row["bundle"]: row["msg_rate_in"]
        for row in rows(found, "pulsar_bundle")
        if row["has_stats"] and "acme" in row["bundle"]
    } == {bundle: rate for bundle, rate in rates.items() if rate}
    assert {(row["cpu_usage"], row["cpu_limit"]) for row in rows(found, "pulsar_broker")} == {(20.0, 200.0)}
    assert sum(row["msg_rate_in"] for row in rows(found, "pulsar_broker")) == 210.0
    assert any(
        f"gives no load report: Pulsar at http://{server.ids[0]} answers" in one for one in found.problems
    )
    without = sample(server, metrics=False)
    assert not rows(without, "pulsar_topic")
    assert by_owner(without)[server.ids[0]]["bundles"] > 0


def test_namespaces_may_not_be_listed(server: PulsarAdminServer) -> None:
    """Then the owners of bundles are queried one by one."""
    server.faults.append(Fault("GET", "/tenants", Trouble.REFUSED, status=403))
    found = sample(server)
    assert [row["namespace"] for row in rows(found, "pulsar_namespace")] == [NAMESPACE]
    assert "namespaces cannot be listed" in found.problems[0]


def test_a_missing_leader_is_reported(server: PulsarAdminServer) -> None:
    """During an election there is none, and everything else is recorded."""
    server.faults.append(Fault("GET", "leaderBroker", Trouble.REFUSED, status=404))
    found = sample(server)
    assert all("is_leader" not in row for row in rows(found, "pulsar_broker"))
    assert "no leader can be told" in found.problems[0]
    assert found.answered == 3


def test_policies_come_with_their_namespaces(server: PulsarAdminServer) -> None:
    """Isolation of the cluster, group of the namespace, as text."""
    server.cluster.isolation["p"] = {"namespaces": ["acme/.*"], "primary": ["127.0.0.1"]}
    server.cluster.namespaces[NAMESPACE].group = "apart"
    texts = {row["namespace"]: row["policies"] for row in rows(sample(server), "pulsar_namespace")}
    assert '"anti_affinity_group":"apart"' in texts[NAMESPACE]
    assert all('"isolation"' in text for text in texts.values())


def test_topics_may_be_left_out(server: PulsarAdminServer) -> None:
    """A million topics are a million rows a tick."""
    found = sample(server, topics=False)
    assert not rows(found, "pulsar_topic")
    assert rows(found, "pulsar_bundle")


def test_brokers_of_one_host_that_report_the_same_count_by_declared_capacity(
    server: PulsarAdminServer,
) -> None:
    """All three report 20 of 200: the host's. Their reports are unchanged; rows and a sentence state it."""
    capacity = CapacitySettings(
        network_in_bytes_per_second=1e6, brokers={server.ids[0]: {"network_in_bytes_per_second": 2e6}}
    )
    found = sample(server, capacity, usage="auto")
    assert {row["usage_source"] for row in rows(found, "pulsar_broker")} == {"declared"}
    assert {row["cpu_usage"] for row in rows(found, "pulsar_broker")} == {20.0}
    declared = {
        owner: row["bandwidth_in_capacity_bytes_per_second"] for owner, row in by_owner(found).items()
    }
    assert declared == {one: 2e6 if one == server.ids[0] else 1e6 for one in server.ids}
    assert "the brokers on 127.0.0.1 report one and the same host's CPU" in found.problems[0]
    assert (
        "capacity.network_out_bytes_per_second, capacity.message_rate_per_second are not" in found.problems[1]
    )


def test_brokers_of_one_host_with_cpu_of_their_own_count_as_measured(server: PulsarAdminServer) -> None:
    """A control group for each, of another size: their limits differ."""
    for number, broker in enumerate(server.ids):
        server.cluster.brokers[broker].cpu = (8.4, 30.0 + number)
    found = sample(server, usage="auto")
    assert {row["usage_source"] for row in rows(found, "pulsar_broker")} == {"measured"}
    assert found.problems == ()


def test_the_extensible_manager_has_no_report_and_nothing_is_lost_for_it() -> None:
    """Owners and topics by the admin API, CPU by metrics until something is published, and a sentence."""
    with loaded_server(extensible=True) as server:
        collector = opened(server, CapacitySettings(cpu_cores=2.0))
        first, second = collector.sample(), collector.sample()
        collector.close()
    assert {row["load_manager"] for row in rows(first, "pulsar_broker")} == {"extensible"}
    assert {row["cpu_usage"] for row in rows(second, "pulsar_broker")} == {20.0}
    bundles = [row for row in rows(first, "pulsar_bundle") if row["bundle"].startswith(NAMESPACE)]
    assert sum(row["msg_rate_in"] for row in bundles if row["has_stats"]) == 210.0
    assert any("no usage is known of" in one for one in first.problems)
    assert any("load reports" in one for one in second.problems)


def test_a_recording_equals_the_lake(server: PulsarAdminServer, tmp_path: Path) -> None:
    """`--record` and the lake contain the same ticks, bit for bit, and a recording is continued."""
    path = tmp_path / "reports.jsonl"
    raw = tmp_path / "bundles/raw"
    collector = opened(server)
    for number in range(4):
        landing = RecordingSink(LakeSink(raw, COLUMNS), path)
        found = collector.sample()
        landing.write(
            found.batches, found.cluster, TICK + datetime.timedelta(seconds=30 * (number - number // 3))
        )
        landing.close()
    collector.close()
    recorded = list(read_reports(path))
    assert recorded == list(recent_ticks(Lake(tmp_path, BUNDLES)))
    assert [tick.at - TICK.timestamp() for tick in recorded] == [0.0, 30.0, 60.0]
    assert set(recorded[0].brokers) == set(server.ids)
    assert recorded[0].brokers[server.ids[0]].cpu.usage == 20.0
