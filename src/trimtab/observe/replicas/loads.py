"""Loads of partitions' roles in a snapshot: of recent windows, and forecasts with their backtest."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from trimtab.model.load import FloatArray
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES, load_value
from trimtab.model.replicas.snapshot import LOAD_FORECAST, NO_HOURS
from trimtab.observe.lake.columns import SECOND, Row
from trimtab.observe.lake.snapshots import fields_of

if TYPE_CHECKING:
    from trimtab.model.load import BoolArray
    from trimtab.observe.lake.snapshots import SnapshotInputs
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
    from trimtab.observe.replicas.placement import SnapshotPlacement


@dataclass(frozen=True, eq=False)
class RoleLoads:
    """Load of each partition's roles, from the recent windows.

    Attributes
    ----------
    leader, follower
        Shape (partitions, resources), in `UNITS`; finite.
    method
        Where CPU comes from: `measured`, `shares` or `absent`.
    valid_share
        Share of the time from the oldest to the newest window used that measured intervals cover, over all
        partitions. Where a partition has windows with counters, the others cover nothing.
    extrapolated_share
        Share of (partition, window) pairs that are partly extrapolated.
    unknown
        Partitions without any window: their rates count as 0.
    estimated
        Partitions whose rates come from logs and offsets, though those of others come from counters.
    begin
        Start of the oldest window used, microseconds.
    ends
        Ends of the windows used.
    """

    leader: FloatArray
    follower: FloatArray
    method: str
    valid_share: float
    extrapolated_share: float
    unknown: int
    estimated: int
    begin: int
    ends: list[int]


def role_loads(
    inputs: SnapshotInputs[ReplicasPipelineSettings], placement: SnapshotPlacement, model: Row
) -> RoleLoads:
    """The load value of every partition's roles at a tick; `model` is of `newest_cpu_fit`, maybe empty."""
    settings, tick = inputs.settings, inputs.tick
    columns = ("topic", "partition", "leader_load", "follower_load", "valid_share", "counted", "extrapolated")
    rows, end = inputs.windows("attributed", settings.windows, columns)
    number = len(placement.partitions)
    ends = np.unique(end)
    closed = ends[ends <= tick]
    used = (closed if len(closed) else ends)[-settings.windows :]
    leader = np.full((len(used), number, len(RESOURCES)), np.nan)
    follower = leader.copy()
    counted = np.zeros((len(used), number), dtype=bool)
    valid = extrapolated = 0.0
    if len(used):
        counts = np.isin(end, used)
        rows, end = rows.filter(pa.array(counts)), end[counts]
        place = placement.index_of(rows["topic"], rows["partition"])
        known = place >= 0
        at = np.searchsorted(used, end)[known]
        for loads, name in ((leader, "leader_load"), (follower, "follower_load")):
            loads[at, place[known]] = fields_of(rows, name, RESOURCES)[known]
        if known.any():
            covered = np.zeros((len(used), number))
            covered[at, place[known]] = rows["valid_share"].to_numpy()[known]
            counted[at, place[known]] = rows["counted"].to_numpy(zero_copy_only=False)[known]
            # A mean of counters and estimates would be neither: a partition's counters go before.
            passed = counted.any(axis=0) & ~counted
            covered[passed] = 0.0
            leader[..., [NETWORK_IN, NETWORK_OUT]] = np.where(
                passed[..., None], np.nan, leader[..., [NETWORK_IN, NETWORK_OUT]]
            )
            seen = np.unique(place[known])
            spanned = (used[-1] - used[0]) // settings.slide + 1
            # Rows come in the order of the files that they lie in; rounded once, the sum is the same in any.
            valid = fsum(covered[:, seen].ravel().tolist()) / (len(seen) * int(spanned))
            extrapolated = float(rows["extrapolated"].to_numpy(zero_copy_only=False)[known].mean())
    if model:
        # The newest fit has seen most: the windows' own would mix costs, and fixed shares at the start.
        leader[..., CPU] = leader[..., [NETWORK_IN, NETWORK_OUT]] @ [model["leader_in"], model["leader_out"]]
        follower[..., CPU] = follower[..., NETWORK_IN] * model["follower_in"]
    # Newer sizes than the last window's are there: a snapshot shows the disks as they are now.
    nothing = np.full((number, len(RESOURCES)), np.nan)
    value = [
        load_value(one, settings.load_value) if len(used) else nothing.copy() for one in (leader, follower)
    ]
    for one in value:
        one[:, DISK] = np.where(np.isfinite(placement.size_bytes), placement.size_bytes, one[:, DISK])
    unknown = int((~np.isfinite(value[0][:, NETWORK_IN])).sum())
    clean = [np.nan_to_num(one, nan=0.0, posinf=0.0, neginf=0.0) for one in value]
    method = model.get("method", "absent")
    begin = int(used[0]) - settings.window if len(used) else tick
    estimated = int((~counted.any(axis=0)).sum()) - unknown if counted.any() else 0
    return RoleLoads(
        clean[0],
        clean[1],
        method,
        valid,
        extrapolated,
        unknown,
        estimated,
        begin,
        [int(one) for one in used],
    )


METHODS: Final = ("error", "error_with_trend", "error_of_yesterday")


@dataclass(frozen=True, eq=False)
class Backtest:
    """How far off the expectations of an already known stretch of time were.

    Attributes
    ----------
    off
        Shape (`METHODS`, resources): sum of |expected − actual|.
    actual
        Shape (resources,): sum of what came.
    """

    off: FloatArray
    actual: FloatArray

    @property
    def share(self) -> FloatArray:
        """Shape (`METHODS`, resources): the mean absolute percentage error, each load weighing what it is, as
        a fraction (Σ|error| / Σ actual); NaN where nothing came.
        """
        known = self.actual > 0
        return np.where(known, self.off / np.where(known, self.actual, 1.0), np.nan)

    @property
    def trend(self) -> BoolArray:
        """Shape (resources,): where the trend was nearer than the profile alone, and so is used."""
        return np.asarray(self.off[1] < self.off[0])

    def document(self) -> dict[str, object]:
        """As a snapshot's quality has it; resources of which nothing came are left out."""
        told: dict[str, object] = {
            way: {name: float(one) for name, one in zip(RESOURCES, row, strict=True) if np.isfinite(one)}
            for way, row in zip(METHODS, self.share, strict=True)
        }
        return {**told, "trend": [name for name, used in zip(RESOURCES, self.trend, strict=True) if used]}


def backtest_of(rows: pa.Table) -> Backtest:
    """The sums over rows of `profile_errors`, the same in any order of the rows; 0 without any."""
    if not rows.num_rows:
        return Backtest(np.zeros((len(METHODS), len(RESOURCES))), np.zeros(len(RESOURCES)))
    actual = np.abs(fields_of(rows, "actual", RESOURCES))
    errors = np.abs(np.stack([fields_of(rows, way, RESOURCES) for way in METHODS]))
    # A load counts where all ways tell of it, so that they are compared on the same.
    counts = np.isfinite(actual) & np.isfinite(errors).all(axis=0)
    return Backtest(
        np.sort(np.where(counts, errors, 0.0), axis=1).sum(axis=1),
        np.sort(np.where(counts, actual, 0.0), axis=0).sum(axis=0),
    )


def expected_loads(profile: FloatArray, trend: FloatArray, recent: FloatArray, uses: BoolArray) -> FloatArray:
    """The loads expected of hours to come.

    Parameters
    ----------
    profile, trend
        Shape (partitions, hours, resources); NaN where nothing is known.
    recent
        Shape (partitions, resources): the load of now, where nothing else is known.
    uses
        Shape (resources,): where the trend counts.

    Returns
    -------
    FloatArray
        Shape of `profile`. Disks stay as they are.
    """
    raised = uses & np.isfinite(trend)
    found = np.where(raised, trend, np.where(np.isfinite(profile), profile, recent[:, None]))
    found[..., DISK] = recent[:, None, DISK]
    return found


HOURS: Final = 24
OBSERVED_SECONDS: Final = 48 * 3600
_HOUR: Final = 3600 * SECOND


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
    model: Row,
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
        return LoadForecast(NO_HOURS, NO_HOURS, ((LOAD_FORECAST, {"hours": 0, "why": why}),))
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
    return LoadForecast(leader, follower, ((LOAD_FORECAST, quality),))


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
