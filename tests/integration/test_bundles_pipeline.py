"""Reports of Pulsar's brokers to tables: stream against batch, and against the planner's own averages."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pytest

from support.bundle_views import update_bundles
from support.local_paths import local
from synthetic_bundles import SyntheticPulsar, dirtied, table_of
from synthetic_telemetry import land
from trimtab.files.bundles.snapshot import read_bundles_snapshot
from trimtab.model.bundles.reports import LONG_SAMPLES, SHORT_SAMPLES, TRAFFIC
from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.forecasts import forecasts
from trimtab.observe.bundles.pipeline import ATTRIBUTED, FORM, HOURS, BundlesPipelineSettings
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.recorded import recent_ticks
from trimtab.observe.lake.lake import Lake
from trimtab.observe.steps.batch import run_batch
from trimtab.observe.steps.stream import StreamSource, run_stream
from trimtab.plan.pulsar.options import PulsarBrokerConfig
from trimtab.plan.pulsar.placers import LeastResourceState, choose_by_usage, noted_usage
from trimtab.plan.pulsar.view import EMPTY_TABLE, BrokerLoad, LeaderLoadView

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TICKS = 14
SETTINGS = BundlesPipelineSettings(
    window_seconds=120,
    slide_seconds=60,
    lateness_seconds=360,
    gap_seconds=130,
    cpu_fit_windows=8,
    horizon_seconds=120,
    trend_windows=4,
    departure_retention_seconds=400,
)
STEADY = SyntheticPulsar(name="steady", moves=((4, 3, 1), (6, 4, None), (7, 4, 2)))
BAD = SyntheticPulsar(name="bad-day", moves=((5, 2, 1), (7, 2, 3)), seed=6)


def arrivals() -> list[Any]:
    """Files of both clusters in order of arrival; the steady one's come tick by tick between the others."""
    bad = dirtied(BAD, TICKS, SETTINGS.lateness_seconds)
    steady = STEADY.raw(TICKS)
    ticks = pc.unique(steady["tick"])
    each = [steady.filter(pc.equal(steady["tick"], tick)) for tick in ticks]
    return (
        [file for pair in zip(bad, each, strict=False) for file in pair] + bad[len(each) :] + each[len(bad) :]
    )


@pytest.fixture(scope="module")
def history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Tables of both clusters by one batch over all files."""
    lake = Lake(tmp_path_factory.mktemp("bundles"), BUNDLES)
    for number, file in enumerate(arrivals()):
        land(file, lake.raw, f"file-{number:03d}")
    run_batch(spark, lake, SETTINGS)
    return lake


@pytest.mark.long
def test_stream_and_batch_agree_to_the_bit(spark: SparkSession, history: Lake, tmp_path: Path) -> None:
    """Late, double and out-of-order reports in micro-batches, with a stop in between, end in one batch's
    tables.
    """
    lake = Lake(tmp_path, BUNDLES)
    files = arrivals()
    for begin, end in ((0, 10), (10, len(files))):
        for number in range(begin, end):
            land(files[number], lake.raw, f"file-{number:03d}")
            (file,) = local(lake.raw).glob(f"*/file-{number:03d}.parquet")
            os.utime(file, (number, number))
        run_stream(spark, lake, SETTINGS, StreamSource(max_per_batch=12), once=True)
    assert lake.manifest().version >= 3
    for name in BUNDLES.tables:
        live, batch = (sorted(map(repr, one.table(name).to_pylist())) for one in (lake, history))
        assert len(live) == len(batch), name
        for one, other in zip(live, batch, strict=True):
            assert one == other, name


def test_the_bad_day_contains_every_kind_of_fault(history: Lake) -> None:
    """A comparison proves little unless every kind of dirt is there and was counted."""
    counts = history.table("quality", context=pc.field("cluster") != "steady")
    flags = ("duplicates", "late", "unreadable", "not_a_number", "negative", "gap", "clock_back", "missed")
    totals = {name: pc.sum(counts[name]).as_py() for name in flags}
    assert all(totals.values()), totals
    assert max(history.table("bundles")["claims"].to_pylist()) == 2


def test_averages_are_the_planners_own(history: Lake, tmp_path: Path) -> None:
    """What is carried from tick to tick is what the planner computes from the reports themselves."""
    accepted = history.table("cleaned", context=pc.field("accepted")).to_pylist()
    # What was cleaned away is no zero: such a broker is silent, such a bundle has no figures.
    sound = [
        dict(row, has_stats=row["has_stats"] and not row["flags"])
        for row in accepted
        if not (row["flags"] and row["kind"] == "pulsar_broker")
    ]
    lake = Lake(tmp_path, BUNDLES)
    land(table_of(sound), lake.raw, "accepted")
    found: dict[str, dict[tuple[float, str], dict[str, Any]]] = {}
    for row in history.table("averages").to_pylist():
        found.setdefault(row["cluster"], {})[row["tick"].timestamp(), row["name"]] = row
    options = PulsarBrokerConfig()
    for cluster, rows in found.items():
        table, usage = EMPTY_TABLE, LeastResourceState()
        expected = set()
        for tick in recent_ticks(lake, cluster):
            table = update_bundles(table, tick.brokers.values())
            for name in table.names:
                row, data = rows[tick.at, name], table[name]
                expected.add((tick.at, name))
                for kept, own in ((row["short"], data.short), (row["long"], data.long)):
                    assert kept["samples"] == own.samples
                    assert kept["means"] == [getattr(own, one) for one in TRAFFIC]
                assert row["topics"] == data.topics
            view = LeaderLoadView(
                tick.at, {name: BrokerLoad(report) for name, report in tick.brokers.items()}
            )
            _, usage = choose_by_usage(
                BAD.keys[0],
                list(tick.brokers),
                view,
                noted_usage(usage, view, options),
                options,
                np.random.default_rng(0),
            )
            for name in tick.brokers:
                assert rows[tick.at, name]["usage_ema"] == usage.usage[name]
                expected.add((tick.at, name))
        assert expected == set(rows)


def test_a_mean_of_a_thousand_samples_is_carried_on(spark: SparkSession) -> None:
    """Past ten and a thousand samples, and past the blocks of the list, every state is the planner's."""
    from trimtab.observe.bundles.pipeline import AVERAGES
    from trimtab.observe.bundles.reports import averages
    from trimtab.observe.lake.columns import ddl

    cluster = SyntheticPulsar(brokers=1, namespaces=1, bundles_per_namespace=1, seed=3)
    number = LONG_SAMPLES + 40
    rows = [
        {**row, "accepted": True, "flags": 0, "copies": 1, "late_copies": 0}
        for row in cluster.rows(number)
        if row["kind"] in ("pulsar_broker", "pulsar_bundle")
    ]
    names = [name for name, _ in FORM.cleaned]
    cleaned = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows],
                                    ddl(FORM.cleaned))  # fmt: skip
    empty = spark.createDataFrame([], ddl(AVERAGES))
    made = averages(cleaned, empty, SETTINGS).where("kind = 'bundle'").orderBy("tick").collect()
    table = EMPTY_TABLE
    for row, tick in zip(made, cluster.reports(number), strict=True):
        table = update_bundles(table, tick.brokers.values())
        data = table[table.names[0]]
        assert (row.short.samples, row.long.samples) == (data.short.samples, data.long.samples)
        assert row.short.means == [getattr(data.short, one) for one in TRAFFIC]
        assert row.long.means == [getattr(data.long, one) for one in TRAFFIC]
    assert (made[-1].short.samples, made[-1].long.samples) == (SHORT_SAMPLES, LONG_SAMPLES)


def test_departures_name_the_previous_and_the_current_owner(history: Lake) -> None:
    """One bundle moves within a tick, one is unowned for a tick; both left their broker."""
    rows = history.table("departures", context=pc.field("cluster") == "steady").to_pylist()
    told = {(row["bundle"], row["broker"], row["target"], row["tick"], row["last_observed"]) for row in rows}
    before = STEADY.owners(0)
    assert told == {
        (STEADY.keys[3], STEADY.names[before[3]], STEADY.names[1], STEADY.at(4), STEADY.at(3)),
        (STEADY.keys[4], STEADY.names[before[4]], STEADY.names[2], STEADY.at(7), STEADY.at(5)),
    }


def test_cpu_is_attributed_by_the_cost_of_messages_and_bytes(history: Lake) -> None:
    """The fit finds the costs that compose the brokers' CPU, and the idle part is attributed to no bundle."""
    model = history.table("cpu_model", context=pc.field("cluster") == "steady").to_pylist()
    newest = max(model, key=lambda row: row["window_end"])
    assert newest["method"] == "measured"
    assert newest["idle_cores"] == pytest.approx(STEADY.base_cores, rel=0.02)
    true = dict(zip(("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out"),
                    STEADY.costs, strict=True))  # fmt: skip
    for row in history.table("windows", context=pc.field("cluster") == "steady").to_pylist():
        if row["kind"] == "bundle" and row["window_end"] == newest["window_end"]:
            fitted = sum(newest[name] * row[name] for name in TRAFFIC)
            assert fitted == pytest.approx(sum(true[name] * row[name] for name in TRAFFIC), rel=0.05)


def test_imbalance_is_the_models_own(history: Lake) -> None:
    """The table's measures are what equations 1 to 5 of the model give for the brokers of that tick."""
    from trimtab.model.load import imbalance

    rows = history.table("imbalance", context=pc.field("complete")).to_pylist()
    assert {row["resource"] for row in rows} == set(RESOURCES)
    for row in rows:
        load = np.array([[one["load"]] for one in row["by_broker"]])
        limited = row["by_broker"][0]["capacity"] is not None
        capacity = np.array([[one["capacity"] if limited else 1.0] for one in row["by_broker"]])
        expected = imbalance(load, capacity, np.ones(len(load), dtype=bool), (row["resource"],))
        np.testing.assert_allclose(row["sigma"], expected.sigma[0], rtol=1e-12)
        np.testing.assert_allclose(row["worst_deviation"], expected.worst_deviation[0], rtol=1e-12)
        assert row["usage_source"] == "measured"
        assert (row["resource"] == "message_rate") == (not limited)


def test_forecasts_are_compared_with_actual_values(history: Lake) -> None:
    """Every forecast whose time has come has its error, and it is forecast minus actual."""
    expected = {
        (row["bundle"], row["target"]): row["load"]
        for row in history.table("forecasts", context=pc.field("cluster") == "steady").to_pylist()
    }
    errors = history.table("forecast_errors", context=pc.field("cluster") == "steady").to_pylist()
    assert len(errors) > 100
    for row in errors:
        for name in RESOURCES:
            off = expected[row["bundle"], row["window_end"]][name] - row["actual"][name]
            assert row["error"][name] == off


def test_a_trend_is_followed_no_longer_than_it_is_known(spark: SparkSession) -> None:
    """Three minutes of a load that grows by 10 a minute forecast the next three minutes, not ten."""
    settings = BundlesPipelineSettings(window_seconds=60, slide_seconds=60, horizon_seconds=600)
    rows = [
        ("c", datetime(2026, 1, 1, 0, minute, tzinfo=UTC), "bundle", key, (10.0 * minute,) * len(RESOURCES))
        for key, first in (("young", 8), ("old", 1))
        for minute in range(first, 11)
    ]
    columns = [one for one in ATTRIBUTED if one[0] in ("cluster", "window_end", "kind", "bundle", "load")]
    attributed = spark.createDataFrame(rows, ", ".join(map(" ".join, columns)))
    hours = spark.createDataFrame([], ", ".join(map(" ".join, HOURS)))
    found = forecasts(attributed, hours, settings).toArrow().sort_by("window_end").to_pylist()
    newest = {row["bundle"]: row["load"]["message_rate"] for row in found}
    assert newest == pytest.approx({"young": 100 + 30, "old": 100 + 100})


def test_snapshot_has_owners_loads_and_forecasts(history: Lake) -> None:
    """Owners of the newest tick, the newest closed windows and a forecast, as one folder that reads back."""
    snapshot = read_bundles_snapshot(history.newest_snapshot("steady"))
    assert snapshot.taken_at == STEADY.at(TICKS - 1).timestamp()
    assert snapshot.views == ("window 0", "window -1", "window -2", "forecast +120")
    assert snapshot.brokers.name == STEADY.names
    assert snapshot.bundles.key == STEADY.keys
    np.testing.assert_array_equal(snapshot.bundles.owner, STEADY.owners(TICKS - 1))
    rates = STEADY.rates(TICKS)
    windows = [rates[TICKS - 2 - view : TICKS - view].mean(axis=0) for view in range(3)]
    for view, mean in enumerate(windows):
        load = snapshot.bundles.load[view]
        np.testing.assert_allclose(
            load[:, RESOURCES.index("message_rate")], mean[:, :2].sum(axis=1), rtol=1e-6
        )
        np.testing.assert_allclose(load[:, RESOURCES.index("bandwidth_in")], mean[:, 2], rtol=1e-5)
        np.testing.assert_allclose(load[:, RESOURCES.index("bandwidth_out")], mean[:, 3], rtol=1e-5)
        np.testing.assert_allclose(load[:, 0], mean @ np.array(STEADY.costs), rtol=0.05, atol=1e-4)
    forecast = snapshot.bundles.load[3]
    np.testing.assert_allclose(forecast, snapshot.bundles.load[:3].mean(axis=0), rtol=0.8)
    np.testing.assert_allclose(snapshot.brokers.base[:, 0], STEADY.base_cores, rtol=0.05)
    np.testing.assert_allclose(snapshot.brokers.base[:, 1], STEADY.bandwidth_overhead * 125, rtol=0.01)
    assert np.isinf(snapshot.brokers.capacity[:, RESOURCES.index("message_rate")]).all()
    assert (snapshot.brokers.capacity[:, 0] == 4.0).all()
    assert (snapshot.bundles.sessions == 1 + STEADY.fan_out).all()
    assert len(snapshot.topics) == len(set(snapshot.topics.name)) > 0
    assert snapshot.boundaries["public/space-0"] == STEADY.boundaries
    assert [one.bundle for one in snapshot.departures] == [STEADY.keys[4]], "the other one is too long ago"
    assert (snapshot.quality.cpu, snapshot.usage) == ("measured", "measured")
    assert snapshot.quality.valid_share == 1.0
    errors: Any = dict(snapshot.quality.extra)["x_forecast_error"]
    assert set(errors["forecast"]) == set(RESOURCES)


def test_snapshot_of_the_bad_day_has_every_bundle_and_the_valid_share(history: Lake) -> None:
    """With gaps, wrong claims and moves, every bundle is present, its load is finite, and the valid share is
    stated.
    """
    snapshot = read_bundles_snapshot(history.newest_snapshot("bad-day"))
    assert snapshot.bundles.key == BAD.keys
    np.testing.assert_array_equal(snapshot.bundles.owner, BAD.owners(TICKS - 1))
    assert np.isfinite(snapshot.bundles.load).all()
    assert 0 < snapshot.quality.valid_share < 1
