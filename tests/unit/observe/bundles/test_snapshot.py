"""Hand-written tables of the balancer `bundles` to snapshots: what is taken where something is missing."""

from __future__ import annotations

import datetime
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hand_written_tables import lake_with
from support.local_paths import local
from trimtab.files.bundles.snapshot import read_bundles_snapshot
from trimtab.model.bundles.snapshot import NO_OWNER, RESOURCES, BundlesSnapshot
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
from trimtab.observe.bundles.snapshot import write_newest_snapshots

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)
SETTINGS = BundlesPipelineSettings(recent_windows=2, horizon_seconds=120)
LEFT, RIGHT = "public/shop/0x00000000_0x80000000", "public/shop/0x80000000_0xffffffff"
BOUNDARIES = [0, 0x80000000, 0xFFFFFFFF]
TOPIC = "persistent://public/shop/orders"  # its hash is 0x9f94a430: in the right half


def broker(name: str, at: datetime.datetime = NOON, **columns: Any) -> dict[str, Any]:
    """A broker that answered, with capacities."""
    return {
        "cluster": "c", "tick": at, "broker": name, "broker_state": "alive", "load_manager": "modular",
        "usage_source": "measured", "cpu_capacity": 4.0, "bandwidth_in_capacity": 1e8,
        "bandwidth_out_capacity": 1e8, **columns,
    }  # fmt: skip


def owned(bundle: str, owner: str, at: datetime.datetime = NOON, **columns: Any) -> dict[str, Any]:
    """A bundle with figures."""
    return {
        "cluster": "c", "tick": at, "bundle": bundle, "owner": owner, "is_known": True, "topics": 3,
        "sessions": 5,
        "msg_rate_in": 10.0, "msg_rate_out": 20.0, "msg_throughput_in": 1000.0, "msg_throughput_out": 2000.0,
        **columns,
    }  # fmt: skip


def window(kind: str, end: datetime.datetime = NOON, scale: float = 1.0, **columns: Any) -> dict[str, Any]:
    """A window over the minute before."""
    return {
        "cluster": "c", "window_end": end, "kind": kind, "msg_rate_in": 100.0 * scale,
        "msg_rate_out": 200.0 * scale, "msg_throughput_in": 1e4 * scale, "msg_throughput_out": 2e4 * scale,
        "sessions": 4, "valid_share": 1.0, "extrapolated": False, **columns,
    }  # fmt: skip


def measured(mean: float) -> dict[str, float]:
    """Statistics of a value that never changed."""
    return dict.fromkeys(("mean", "latest", "p50", "p95", "p99", "max"), mean)


def namespace(at: datetime.datetime = NOON, policies: str = "{}") -> dict[str, Any]:
    """What the admin API said of the namespace."""
    return {
        "cluster": "c", "tick": at, "kind": "pulsar_namespace", "accepted": True, "namespace": "public/shop",
        "boundaries": BOUNDARIES, "policies": policies,
    }  # fmt: skip


def usual() -> dict[str, list[dict[str, Any]]]:
    """Two brokers, each with a half of the namespace, over two windows."""
    return {
        "brokers": [broker("a:1"), broker("b:1")],
        "bundles": [owned(LEFT, "a:1"), owned(RIGHT, "b:1")],
        "cleaned": [namespace()],
        "windows": [
            window(kind, end, scale, bundle=bundle)
            for end, scale in ((NOON, 1.0), (NOON - MINUTE, 2.0), (NOON + MINUTE, 9.0))
            for kind, bundle in (("bundle", LEFT), ("bundle", RIGHT))
        ]
        + [window("topic", bundle=RIGHT, topic=TOPIC)],
        "cpu_model": [
            {
                "cluster": "c", "window_end": NOON, "method": "measured", "msg_rate_in": 0.001,
                "msg_rate_out": 0.0, "msg_throughput_in": 0.0, "msg_throughput_out": 0.0, "idle_cores": 0.25,
                "rows": 20, "base": [{"broker": "a:1", "cores": 0.25}, {"broker": "b:1", "cores": 0.5}],
            }
        ],
    }  # fmt: skip


def snapshot(folder: Path, tables: dict[str, list[dict[str, Any]]]) -> BundlesSnapshot:
    """Written, and read back by the format's own reader, which refuses what contradicts itself."""
    lake = lake_with(folder, tables, BUNDLES)
    (path,) = write_newest_snapshots(lake, lake.manifest(), SETTINGS)
    assert (
        read_bundles_snapshot(local(lake.newest_snapshot())).reference
        == read_bundles_snapshot(local(path)).reference
    )
    return read_bundles_snapshot(local(lake.newest_snapshot()))


def test_closed_windows_are_views_newest_first(tmp_path: Path) -> None:
    """A window that is still open is left out; without a forecast the newest is expected to go on."""
    found = snapshot(tmp_path, usual())
    assert found.views == ("window 0", "window -1", "forecast +120")
    expected = np.array([0.1, 1e4, 2e4, 300.0])
    np.testing.assert_allclose(found.bundles.load[:, 0], [expected, 2 * expected, expected])
    np.testing.assert_allclose(found.brokers.base[:, 0], [0.25, 0.5])
    assert (found.topics.name, found.topics.bundle.tolist()) == ((TOPIC,), [1])
    assert found.bundles.sessions.tolist() == [5, 5]
    assert found.quality.cpu == "measured"


def test_the_base_of_bandwidth_is_traffic_outside_bundles(tmp_path: Path) -> None:
    """Broker a counts more than its bundle; b counts less, which is no negative base."""
    tables = usual()
    tables["windows"] += [
        window("broker", broker=name, bandwidth_in=measured(total), bandwidth_out=measured(2e4),
               message_rate=measured(300.0))
        for name, total in (("a:1", 1.5e4), ("b:1", 0.5e4))
    ]  # fmt: skip
    base = snapshot(tmp_path, tables).brokers.base
    np.testing.assert_allclose(base[:, RESOURCES.index("bandwidth_in")], [5e3, 0.0])
    np.testing.assert_allclose(base[:, RESOURCES.index("bandwidth_out")], 0.0)


def test_an_unresponsive_broker_keeps_its_bundles_and_gets_no_more(tmp_path: Path) -> None:
    """It does not answer at the newest tick; its bundles of the previous tick are not unowned for that
    reason.
    """
    tables = usual()
    silent: dict[str, Any] = {"broker_state": "unreachable", "cpu_capacity": None, "usage_source": None}
    tables["brokers"] = [broker("a:1"), broker("b:1", NOON - MINUTE), broker("b:1", **silent)]
    tables["bundles"] = [owned(LEFT, "a:1"), owned(RIGHT, "b:1", NOON - MINUTE)]
    found = snapshot(tmp_path, tables)
    assert found.brokers.in_service.tolist() == [True, False]
    assert found.bundles.owner.tolist() == [0, 1]
    assert found.brokers.capacity[1, 0] == 4.0, "what it said of its capacity a minute ago"


def test_a_bundle_that_its_broker_no_longer_lists_is_unowned(tmp_path: Path) -> None:
    """It answers without naming the bundle, which was unloaded and not looked up since."""
    tables = usual()
    tables["bundles"] = [owned(LEFT, "a:1"), owned(RIGHT, "b:1", NOON - MINUTE)]
    tables["brokers"] = [broker(name, at) for name in ("a:1", "b:1") for at in (NOON - MINUTE, NOON)]
    assert snapshot(tmp_path, tables).bundles.owner.tolist() == [0, NO_OWNER]


def test_the_parts_of_a_split_have_their_present_load_in_all_views(tmp_path: Path) -> None:
    """Windows know the bundle from before the split only; it is no bundle any more."""
    whole = "public/shop/0x00000000_0xffffffff"
    tables = usual()
    tables["windows"] = [window("bundle", bundle=whole), window("topic", bundle=whole, topic=TOPIC)]
    tables["bundles"].append(owned(whole, "a:1", NOON - MINUTE))
    tables["brokers"].append(broker("a:1", NOON - MINUTE))
    found = snapshot(tmp_path, tables)
    assert found.bundles.key == (LEFT, RIGHT)
    np.testing.assert_allclose(found.bundles.load[:, 1], [[0.01, 1000.0, 2000.0, 30.0]] * 2)
    assert (found.topics.name, found.topics.bundle.tolist()) == ((TOPIC,), [1])
    assert dict(found.quality.extra)["x_bundles_without_load"] == 2


def test_without_any_capacity_all_brokers_get_the_same(tmp_path: Path) -> None:
    """Declared usage on one host without a declared capacity: bandwidth and messages are still balanced."""
    tables = usual()
    nothing: dict[str, Any] = dict.fromkeys(f"{name}_capacity" for name in RESOURCES)
    tables["brokers"] = [broker(name, usage_source="declared", **nothing) for name in ("a:1", "b:1")]
    del tables["cpu_model"]
    found = snapshot(tmp_path, tables)
    assert (found.usage, found.quality.cpu) == ("declared", "absent")
    assert np.isinf(found.brokers.capacity[:, 0]).all()
    assert np.isfinite(found.brokers.capacity[:, 1:]).all()
    assert (found.brokers.capacity[0] == found.brokers.capacity[1]).all()
    assert dict(found.quality.extra)["x_nominal_capacity"] == list(RESOURCES[1:])


def test_policies_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    """A snapshot is still written, and names the namespaces without policies."""
    tables = usual()
    tables["cleaned"] = [namespace(policies="{broken")]
    found = snapshot(tmp_path, tables)
    assert dict(found.quality.extra)["x_namespaces_with_unreadable_policies"] == ["public/shop"]
    tables["cleaned"] = [namespace(policies='{"anti_affinity_group": "g"}')]
    assert snapshot(tmp_path / "other", tables).policies.anti_affinity_groups == {"public/shop": "g"}


@pytest.mark.parametrize("key", ["no bundle", "public/shop/0x80000000_0x00000000"])
def test_a_name_that_is_no_bundles_is_left_out(tmp_path: Path, key: str) -> None:
    """For any bundles that a broker lists."""
    tables = usual()
    tables["bundles"].append(owned(key, "a:1"))
    assert snapshot(tmp_path, tables).bundles.key == (LEFT, RIGHT)


def test_quality_is_the_same_in_any_order_of_the_rows(tmp_path: Path) -> None:
    """Tables made by another Spark lie in other files; added one after the other, sums would differ."""
    found = []
    for number, order in enumerate(itertools.permutations((0.1, 0.2, 0.3))):
        tables = usual()
        third = "public/more/0x00000000_0xffffffff"
        tables["bundles"].append(owned(third, "a:1"))
        rows = {
            share: window("bundle", bundle=bundle, valid_share=share)
            for share, bundle in ((0.1, LEFT), (0.2, RIGHT), (0.3, third))
        }
        tables["windows"] = [rows[share] for share in order]
        loads = [dict.fromkeys(RESOURCES, one) for one in order]
        tables["forecast_errors"] = [
            {"cluster": "c", "window_end": NOON, "bundle": LEFT, "actual": one, "error": one,
             "error_of_latest": one} for one in loads
        ]  # fmt: skip
        quality = snapshot(tmp_path / str(number), tables).quality
        found.append((quality.valid_share, dict(quality.extra)["x_forecast_error"]))
    assert found[0] == (0.6 / 3, {kind: dict.fromkeys(RESOURCES, 1.0) for kind in ("forecast", "latest")})
    assert found == found[:1] * 6


def test_a_bundle_that_two_brokers_report_is_named_with_both(tmp_path: Path) -> None:
    """It has one owner in the snapshot, and figures of a bundle just given up are no report of it."""
    tables = usual()
    tables["bundles"] = [owned(LEFT, "a:1", claims=2), owned(RIGHT, "b:1", claims=1)]
    claim = {"cluster": "c", "tick": NOON, "kind": "pulsar_bundle", "accepted": True, "has_stats": True}
    tables["cleaned"] += [
        claim | {"bundle": LEFT, "owner": "a:1", "position": 0},
        claim | {"bundle": LEFT, "owner": "b:1", "position": 0, "has_stats": False},
        claim | {"bundle": LEFT, "owner": "c:1", "position": None},
        claim | {"bundle": RIGHT, "owner": "b:1", "position": 1},
    ]
    found = snapshot(tmp_path, tables)
    assert found.claims == {LEFT: ("a:1", "b:1")}
    assert found.bundles.owner.tolist() == [0, 1]
    assert snapshot(tmp_path / "usual", usual()).claims == {}
