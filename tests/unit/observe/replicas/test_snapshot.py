"""Tables to snapshots: who is dead, what is new, and which load counts."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hand_written_tables import lake_with
from support.local_paths import local
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT
from trimtab.model.replicas.snapshot import NO_BROKER, LogDirState, ReplicaBrokerState
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.replicas.snapshot import write_newest_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.model.replicas.snapshot import ReplicasSnapshot

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
SETTINGS = ReplicasPipelineSettings(window_seconds=10, slide_seconds=10, gap_seconds=35)
LAST = 3


def tick(number: int) -> datetime.datetime:
    """Ticks of ten seconds."""
    return START + datetime.timedelta(seconds=10 * number)


def partition(number: int, replicas: list[int], **values: Any) -> dict[str, Any]:
    """Partition t:number at the last tick, led by its first replica, all in sync."""
    placed = {"leader": replicas[0], "replicas": replicas, "in_sync": replicas, "adding": []}
    return {
        "cluster": "c",
        "tick": tick(LAST),
        "kind": "partition",
        "topic": "t",
        "partition": number,
        **(placed | values),
    }


def replica(number: int, broker: int, size: int, log_dir: str = "/a", **values: Any) -> dict[str, Any]:
    """One replica's size."""
    placed = {"topic": "t", "partition": number, "log_dir": log_dir, "size_bytes": size, "is_future": False}
    return {"cluster": "c", "tick": tick(LAST), "kind": "replica", "broker": broker, **(placed | values)}


def directory(broker: int, path: str, state: str = "online", total: int | None = 1000) -> dict[str, Any]:
    """One log dir."""
    return {
        "cluster": "c", "tick": tick(LAST), "kind": "log_dir", "broker": broker, "log_dir": path,
        "dir_state": state, "disk_total_bytes": total,
    }  # fmt: skip


def member(broker: int, at: int = LAST, state: str = "alive", **values: Any) -> dict[str, Any]:
    """One broker, on a host of its own."""
    return {
        "cluster": "c", "tick": tick(at), "broker": broker, "broker_state": state, "live": state != "fenced",
        "host": f"h{broker}", "rack": f"r{broker}", "cpu_capacity": 4.0, **values,
    }  # fmt: skip


def window(end: int, number: int, rate_in: float, rate_out: float) -> dict[str, Any]:
    """Role loads of one partition in one window; CPU as the window's own model had it."""
    leader = {"cpu": 9.0, "disk": 5.0, "network_in": rate_in, "network_out": rate_out}
    follower = {"cpu": 9.0, "disk": 5.0, "network_in": rate_in / 2, "network_out": 0.0}
    return {
        "cluster": "c", "window_end": tick(end), "topic": "t", "partition": number, "leader_load": leader,
        "follower_load": follower, "cpu_method": "measured", "valid_share": 1.0, "extrapolated": False,
    }  # fmt: skip


MODEL = {
    "cluster": "c", "window_end": tick(LAST), "method": "measured", "leader_in": 0.01, "leader_out": 0.001,
    "follower_in": 0.002, "idle_cores": 0.5, "r2": 0.9, "rows": 40,
    "base": [{"broker": 1, "cores": 0.5}, {"broker": 2, "cores": 0.7}],
}  # fmt: skip


def snapshot(
    tmp_path: Path,
    rates: list[dict[str, Any]],
    brokers: list[dict[str, Any]],
    settings: ReplicasPipelineSettings = SETTINGS,
    **tables: list[dict[str, Any]],
) -> ReplicasSnapshot:
    """The snapshot that the pipeline writes from these tables, read back from its file."""
    growth = [
        {"cluster": "c", "tick": row["tick"], "topic": "t"} for row in rates if row["kind"] == "partition"
    ]
    lake = lake_with(tmp_path, {"rates": rates, "brokers": brokers, "growth": growth, **tables})
    (path,) = write_newest_snapshots(lake, lake.manifest(), settings)
    assert path == lake.newest_snapshot("c")
    return read_snapshot(path)


def test_states_of_brokers(tmp_path: Path) -> None:
    """One alive, one fenced, one missing with a known host, one never observed, one empty, one
    unreachable.
    """
    rates = [
        partition(0, [1, 2, 3], in_sync=[1]),
        partition(1, [4, 1], leader=None, in_sync=[4]),
        partition(2, [6, 1]),
    ]
    brokers = [
        member(1),
        member(2, state="fenced"),
        member(3, at=1),
        member(5),
        member(6, state="unreachable"),
    ]
    found = snapshot(tmp_path, rates, brokers)
    states = dict(zip(found.brokers.id.tolist(), found.brokers.state.tolist(), strict=True))
    assert states == {
        1: ReplicaBrokerState.ALIVE,
        2: ReplicaBrokerState.DEAD,
        3: ReplicaBrokerState.DEAD,
        4: ReplicaBrokerState.DEAD,
        5: ReplicaBrokerState.NEW,
        6: ReplicaBrokerState.ALIVE,
    }
    assert found.brokers.host == ("h1", "h2", "h3", "broker-4", "h5", "h6")
    assert found.partitions.leader.tolist() == [0, NO_BROKER, 5]
    assert found.partitions.in_sync[[0, 2]].tolist() == [[True, False, False], [True, True, False]]


def test_log_dirs_and_disk(tmp_path: Path) -> None:
    """Offline dirs give no room, cordoned ones do; a replica's size is the largest complete copy's."""
    rates = [
        partition(0, [1, 2], adding=[2]),
        replica(0, 1, 70, "/a"),
        replica(0, 2, 90, "/c"),
        replica(0, 1, 500, "/b", is_future=True),
        directory(1, "/a"),
        directory(1, "/b", state="offline", total=None),
        directory(2, "/c", state="cordoned", total=3000),
    ]
    found = snapshot(tmp_path, rates, [member(1), member(2)])
    assert found.brokers.capacity[:, DISK].tolist() == [1000.0, 3000.0]
    assert found.log_dirs.path == ("/a", "/b", "/c")
    assert found.log_dirs.state.tolist() == [LogDirState.ONLINE, LogDirState.OFFLINE, LogDirState.CORDONED]
    assert [found.log_dirs.path[place] for place in found.partitions.log_dir[0]] == ["/a", "/c"]
    assert found.partitions.leader_load[0, DISK] == 70.0


def loaded(tmp_path: Path, **settings: Any) -> ReplicasSnapshot:
    """Two windows of one partition on two brokers, with a CPU model."""
    return snapshot(
        tmp_path,
        [partition(0, [1, 2]), replica(0, 1, 70)],
        [member(1), member(2)],
        ReplicasPipelineSettings(
            **{"window_seconds": 10, "slide_seconds": 10, "gap_seconds": 35, **settings}
        ),
        attributed=[window(2, 0, 100.0, 40.0), window(3, 0, 300.0, 80.0), window(4, 0, 1e6, 1e6)],
        cpu_model=[MODEL],
    )


def test_repaired_and_literal_values(tmp_path: Path) -> None:
    """Open windows do not count; CPU is the newest fit's cost of each window's load, its mean in both
    rules.
    """
    repaired = loaded(tmp_path / "repaired").partitions.leader_load[0]
    literal = loaded(tmp_path / "literal", load_value="literal").partitions.leader_load[0]
    assert repaired[[NETWORK_IN, NETWORK_OUT]].tolist() == [300.0, 60.0]
    assert literal[[NETWORK_IN, NETWORK_OUT]].tolist() == [200.0, 80.0]
    cpu = (100 * 0.01 + 40 * 0.001 + 300 * 0.01 + 80 * 0.001) / 2
    assert repaired[CPU] == pytest.approx(cpu)
    assert literal[CPU] == pytest.approx(cpu)


def test_idle_cpu_apart_leaves_loads_alone(tmp_path: Path) -> None:
    """The base is subtracted from the capacity and stored separately; loads move with a role."""
    found = loaded(tmp_path)
    assert found.brokers.capacity[:, CPU].tolist() == [3.5, 3.3]
    assert dict(found.extra)["x_base_load"] == {"cpu": {"1": 0.5, "2": 0.7}}
    assert found.partitions.follower_load[0, CPU] == pytest.approx((50 + 150) / 2 * 0.002)


def test_idle_cpu_in_replicas_adds_up_to_the_measurement(tmp_path: Path) -> None:
    """Spread over replicas, the sum of role loads is load plus base, broker by broker."""
    apart, spread = loaded(tmp_path / "apart"), loaded(tmp_path / "spread", cpu_base="replicas")
    difference = spread.broker_load()[:, CPU] - apart.broker_load()[:, CPU]
    np.testing.assert_allclose(difference, [0.5, 0.7])
    assert spread.brokers.capacity[:, CPU].tolist() == [4.0, 4.0]


def test_network_without_capacity_is_balanced_but_never_overloaded(tmp_path: Path) -> None:
    """All brokers get one nominal capacity, at least twice the load of the whole cluster, with a note."""
    found = loaded(tmp_path)
    nominal = found.brokers.capacity[:, NETWORK_IN]
    assert nominal[0] == nominal[1] >= 2 * found.broker_load()[:, NETWORK_IN].sum()
    assert dict(found.quality.extra)["x_nominal_capacity"] == ["disk", "network_in", "network_out"]


def test_same_tick_again_is_a_snapshot_of_its_own(tmp_path: Path) -> None:
    """A reader of the first one must not lose it when more samples of that tick come in."""
    lake = lake_with(
        tmp_path,
        {
            "rates": [partition(0, [1])],
            "brokers": [member(1)],
            "growth": [{"cluster": "c", "tick": tick(LAST), "topic": "t"}],
        },
    )
    (first,) = write_newest_snapshots(lake, lake.manifest(), SETTINGS)
    (second,) = write_newest_snapshots(lake, lake.manifest(), SETTINGS)
    assert first != second
    assert lake.newest_snapshot() == second
    assert read_snapshot(local(first)).reference.taken_at == "2026-11-21T05:00:30Z"


def profile(hour: int, number: int, network_in: float, by: str = "week") -> dict[str, Any]:
    """The profile of the hour of partition t:number that ends so many hours after the start of 6 o'clock."""
    role = {"cpu": 9.0, "disk": 1.0, "network_in": network_in, "network_out": 4.0}
    return {
        "cluster": "c", "window_end": START + datetime.timedelta(hours=1 + hour), "topic": "t",
        "partition": number, "leader_load": role, "follower_load": role | {"network_out": 0.0}, "by": by,
        "count": 2,
    }  # fmt: skip


def test_the_next_hours_are_forecast_from_profiles(tmp_path: Path) -> None:
    """It is past 5: the hour that ends at 7 is first. Partitions without a profile continue unchanged; CPU is
    from the fit, and disks stay as full as they are.
    """
    rates = [partition(0, [1, 2]), partition(1, [2, 1]), replica(0, 1, 700), replica(0, 2, 600)]
    found = snapshot(
        tmp_path,
        rates,
        [member(1), member(2)],
        dataclasses.replace(SETTINGS, profile_weeks=4),
        attributed=[window(LAST, 0, 50.0, 5.0), window(LAST, 1, 80.0, 8.0)],
        cpu_model=[MODEL],
        profiles=[profile(0, 0, 999.0), profile(1, 0, 10.0), profile(2, 0, 30.0, "day"), profile(3, 9, 1.0)],
    )
    leader, follower = found.partitions.leader_forecast, found.partitions.follower_forecast
    assert leader.shape == follower.shape == (2, 24, 4)
    assert leader[0, :3, NETWORK_IN].tolist() == [10.0, 30.0, 50.0]
    assert leader[0, 0, CPU] == pytest.approx(10.0 * 0.01 + 4.0 * 0.001)
    assert follower[0, 1, CPU] == pytest.approx(30.0 * 0.002)
    assert (leader[0, :, DISK] == 700.0).all()
    assert (leader[1] == found.partitions.leader_load[1]).all(), "no profile at all"
    told = dict(found.quality.extra)["x_load_forecast"]
    assert told == {"hours": 24, "by_week_share": 1 / 48, "by_day_share": 1 / 48, "recent_share": 46 / 48}


def test_too_little_history_yields_no_hours_with_a_note(tmp_path: Path) -> None:
    """On the first day there is no profile; a note appears only if profiles are requested."""
    rates, brokers = [partition(0, [1, 2])], [member(1), member(2)]
    asked = dataclasses.replace(SETTINGS, profile_weeks=4)
    found = snapshot(tmp_path / "asked", rates, brokers, asked)
    assert found.partitions.hours == 0
    told = dict(found.quality.extra)["x_load_forecast"]
    assert told == {
        "hours": 0,
        "why": "no profile of the hours to come: that takes samples of two days or more",
    }
    assert "x_load_forecast" not in dict(snapshot(tmp_path / "not", rates, brokers).quality.extra)


def test_arrival_times_of_replicas_are_reported_by_the_hour(tmp_path: Path) -> None:
    """Broker 2 arrived in the hour that ended at 4, an hour and 30 s ago, and once before; 1 arrived at
    another partition; 9 has left again.
    """
    rates = [partition(0, [1, 2]), partition(1, [2, 1])]

    def arrival(hours_ago: int, number: int, broker: int) -> dict[str, Any]:
        at = START - datetime.timedelta(hours=hours_ago)
        return {"cluster": "c", "window_end": at, "topic": "t", "partition": number, "broker": broker}

    found = snapshot(
        tmp_path,
        rates,
        [member(1), member(2)],
        dataclasses.replace(SETTINGS, profile_weeks=4),
        arrivals=[arrival(1, 0, 2), arrival(5, 0, 2), arrival(2, 1, 1), arrival(1, 1, 9)],
    )
    assert found.partitions.held_seconds.tolist() == [[np.inf, 3630.0], [np.inf, 7230.0]]
    assert found.partitions.settled_seconds.tolist() == [3630.0, 7230.0]


def test_the_trend_counts_if_it_was_more_accurate_over_the_last_day(tmp_path: Path) -> None:
    """Network in was off by 8 of 80 by the profile and by 4 with the trend: the trend's 12.5 counts, not the
    profile's 10. Network out by 1 and by 2: its profile counts. An error of 25 hours ago does not count.
    Disks stay as full as they are.
    """
    rates = [partition(0, [1, 2]), replica(0, 1, 700), replica(0, 2, 700)]

    def errors(hours_ago: int, *network_in: float) -> dict[str, Any]:
        same = {"cpu": None, "disk": 5.0, "network_out": 1.0}
        return {
            "cluster": "c", "window_end": START - datetime.timedelta(hours=hours_ago), "topic": "t",
            "partition": 0, "actual": same | {"disk": 50.0, "network_in": 40.0, "network_out": 10.0},
            "error": same | {"network_in": network_in[0]},
            "error_with_trend": same | {"network_in": network_in[1], "network_out": -2.0},
            "error_of_yesterday": same | {"network_in": 20.0},
        }  # fmt: skip

    def trend(hour: int, disk: float) -> dict[str, Any]:
        role = {"cpu": None, "disk": disk, "network_in": 12.5, "network_out": 77.0}
        found = profile(hour, 0, 0.0) | {"leader_load": role, "follower_load": role, "weeks": 3}
        return {name: value for name, value in found.items() if name not in ("by", "count")}

    found = snapshot(
        tmp_path,
        rates,
        [member(1), member(2)],
        dataclasses.replace(SETTINGS, profile_weeks=4),
        attributed=[window(LAST, 0, 50.0, 5.0)],
        profiles=[profile(1, 0, 10.0), profile(2, 0, 30.0)],
        trends=[trend(1, 900.0), trend(2, 600.0)],
        profile_errors=[errors(0, -5.0, 1.0), errors(23, 3.0, 3.0), errors(25, 0.0, 99.0)],
    )
    leader = found.partitions.leader_forecast
    assert leader[0, :3, NETWORK_IN].tolist() == [12.5, 12.5, 50.0]
    assert leader[0, :2, NETWORK_OUT].tolist() == [4.0, 4.0]
    assert leader[0, :3, DISK].tolist() == [700.0, 700.0, 700.0]
    told: Any = dict(found.quality.extra)["x_load_forecast"]
    assert told["backtest"] == {
        "error": {"disk": 0.1, "network_in": 0.1, "network_out": 0.1},
        "error_with_trend": {"disk": 0.1, "network_in": 0.05, "network_out": 0.2},
        "error_of_yesterday": {"disk": 0.1, "network_in": 0.5, "network_out": 0.1},
        "trend": ["network_in"],
    }


def test_quality_is_the_same_in_any_order_of_the_rows(tmp_path: Path) -> None:
    """Tables made by another Spark lie in other files; added one after the other, shares would differ."""
    rates = [partition(number, [1, 2]) for number in range(3)]
    windows = [
        {**window(LAST, number, 1.0, 1.0), "valid_share": share}
        for number, share in enumerate((0.1, 0.2, 0.3))
    ]
    shares = [
        snapshot(
            tmp_path / str(number), rates, [member(1), member(2)], attributed=[windows[one] for one in order]
        ).quality.valid_share
        for number, order in enumerate(itertools.permutations(range(3)))
    ]
    assert shares == [0.6 / 3] * 6
