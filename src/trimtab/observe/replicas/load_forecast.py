"""Loads of the hours to come as a snapshot carries them, from the newest profiles, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.model.replicas.resources import CPU, NETWORK_IN, NETWORK_OUT, RESOURCES
from trimtab.model.replicas.snapshot import NO_HOURS
from trimtab.observe.columns import SECOND
from trimtab.observe.replicas.backtest import backtest_of, expected_loads
from trimtab.observe.snapshots import fields_of

if TYPE_CHECKING:
    import pyarrow as pa

    from trimtab.model.load import FloatArray
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
    from trimtab.observe.replicas.placement import SnapshotPlacement
    from trimtab.observe.replicas.role_loads import RoleLoads
    from trimtab.observe.snapshots import SnapshotInputs

HOURS: Final = 24
OBSERVED_SECONDS: Final = 48 * 3600
_HOUR: Final = 3600 * SECOND
_NAME: Final = "x_load_forecast"


@dataclass(frozen=True, eq=False)
class LoadForecast:
    """Loads of the hours to come.

    Attributes
    ----------
    leader, follower
        Shape (partitions, hours, resources), in `UNITS`; no hours without any profile.
    quality
        How they came about, for a snapshot's quality; empty where no profiles are asked for.
    """

    leader: FloatArray
    follower: FloatArray
    quality: tuple[tuple[str, object], ...] = ()


def load_forecast(
    inputs: SnapshotInputs[ReplicasPipelineSettings],
    placement: SnapshotPlacement,
    loads: RoleLoads,
    model: dict[str, Any],
) -> LoadForecast:
    """The expected load of every partition's roles in each of the next `HOURS` hours.

    Profiles tell it, or the trend of the weeks, for each resource that which was nearer in the last 24 hours.
    Where a partition has no profile of an hour, its recent load stands for it. Disks are expected to stay as
    they are.
    """
    if not inputs.settings.profile_weeks:
        return LoadForecast(NO_HOURS, NO_HOURS)
    columns = ("window_end", "topic", "partition", "leader_load", "follower_load", "by", "count")
    first = -(-inputs.tick // _HOUR) * _HOUR + _HOUR
    last = first + (HOURS - 1) * _HOUR
    rows = inputs.rows("profiles", first, last, columns)
    place = _place(rows, placement)
    if not (place >= 0).any():
        why = "no profile of the hours to come: that takes samples of two days or more"
        return LoadForecast(NO_HOURS, NO_HOURS, ((_NAME, {"hours": 0, "why": why}),))
    backtest = backtest_of(inputs.rows("profile_errors", inputs.tick - 24 * _HOUR + 1))
    told = _role_forecast(rows, placement, first)
    raised = _role_forecast(inputs.rows("trends", first, last), placement, first)
    for leader, follower in (told, raised):
        if model:
            # As of the recent load: by the newest fit, which has seen most.
            costs = [model["leader_in"], model["leader_out"]]
            leader[..., CPU] = leader[..., [NETWORK_IN, NETWORK_OUT]] @ costs
            follower[..., CPU] = follower[..., NETWORK_IN] * model["follower_in"]
    known = np.isfinite(told[0][..., NETWORK_IN])
    leader, follower = (
        expected_loads(profile, trend, recent, backtest.trend)
        for profile, trend, recent in zip(told, raised, (loads.leader, loads.follower), strict=True)
    )
    rows = rows.filter(place >= 0)
    by_week = rows["by"].to_numpy(zero_copy_only=False) == "week"
    quality: dict[str, object] = {
        "hours": HOURS,
        "by_week_share": float(by_week.sum() / known.size),
        "by_day_share": float((~by_week).sum() / known.size),
        "recent_share": float(1 - known.mean()),
    }
    if backtest.actual.any():
        quality["backtest"] = backtest.document()
    return LoadForecast(leader, follower, ((_NAME, quality),))


def held_seconds(
    inputs: SnapshotInputs[ReplicasPipelineSettings], placement: SnapshotPlacement
) -> FloatArray:
    """How long each replica has been on its broker, if it came within `OBSERVED_SECONDS`; shape of
    `replicas`.

    Arrivals are known by the hour: a replica that came in an hour is deemed to have come at its beginning or
    since then.
    """
    parts, tick = placement.partitions, inputs.tick
    if not inputs.settings.profile_weeks:
        return np.zeros((0, 0))
    found = np.full(parts.replicas.shape, np.inf)
    columns = ("window_end", "topic", "partition", "broker")
    rows = inputs.rows("arrivals", tick - OBSERVED_SECONDS * SECOND, tick + _HOUR, columns)
    if not rows.num_rows:
        return found
    place = placement.index_of(rows["topic"], rows["partition"])
    ago = np.maximum(tick - rows["window_end"].cast("int64").to_numpy(), 0) / SECOND
    index = {number: row for row, number in enumerate(placement.brokers.id.tolist())}
    broker = np.array([index.get(one, -2) for one in rows["broker"].to_pylist()])
    for slot in range(parts.replicas.shape[-1]):
        here = (place >= 0) & (parts.replicas[place, slot] == broker)
        np.minimum.at(found[:, slot], place[here], ago[here])
    return found


def _place(rows: pa.Table, placement: SnapshotPlacement) -> np.ndarray:
    """Shape (rows,): the partition of each, -1 where it is not there any more."""
    if not rows.num_rows:
        return np.zeros(0, dtype=np.int64)
    return placement.index_of(rows["topic"], rows["partition"])


def _role_forecast(rows: pa.Table, placement: SnapshotPlacement, first: int) -> tuple[FloatArray, FloatArray]:
    """Loads of leaders and followers, shape (partitions, hours, resources); NaN where nothing is told."""
    shape = (len(placement.partitions), HOURS, len(RESOURCES))
    leader, follower = np.full(shape, np.nan), np.full(shape, np.nan)
    if rows.num_rows:
        place = _place(rows, placement)
        rows, place = rows.filter(place >= 0), place[place >= 0]
        hour = (rows["window_end"].cast("int64").to_numpy() - first) // _HOUR
        leader[place, hour] = fields_of(rows, "leader_load", RESOURCES)
        follower[place, hour] = fields_of(rows, "follower_load", RESOURCES)
    return leader, follower
