"""Loads of the hours to come as a snapshot carries them, from the newest profiles, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trimtab.model.replicas.resources import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES
from trimtab.model.replicas.snapshot import NO_HOURS
from trimtab.observe.columns import SECOND
from trimtab.observe.snapshots import fields_of

if TYPE_CHECKING:
    from trimtab.model.load import FloatArray
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
    from trimtab.observe.replicas.placement import Placement
    from trimtab.observe.replicas.role_loads import RoleLoads
    from trimtab.observe.snapshots import Moment

HOURS: Final = 24
SEEN_SECONDS: Final = 48 * 3600
_HOUR: Final = 3600 * SECOND
_NAME: Final = "x_coming"


@dataclass(frozen=True, eq=False)
class Coming:
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


def coming_loads(
    moment: Moment[ReplicasPipelineSettings], placement: Placement, loads: RoleLoads, model: dict[str, Any]
) -> Coming:
    """The expected load of every partition's roles in each of the next `HOURS` hours.

    Where a partition has no profile of an hour, its recent load stands for it. Disks are expected to stay as
    they are.
    """
    if not moment.settings.profile_weeks:
        return Coming(NO_HOURS, NO_HOURS)
    columns = ("window_end", "topic", "partition", "leader_load", "follower_load", "by", "count")
    first = -(-moment.tick // _HOUR) * _HOUR + _HOUR
    last = first + (HOURS - 1) * _HOUR
    rows = moment.rows("profiles", first, last, columns)
    place = placement.index_of(rows["topic"], rows["partition"]) if rows.num_rows else np.zeros(0, np.int64)
    if not (place >= 0).any():
        why = "no profile of the hours to come: that takes samples of two days or more"
        return Coming(NO_HOURS, NO_HOURS, ((_NAME, {"hours": 0, "why": why}),))
    rows, place = rows.filter(place >= 0), place[place >= 0]
    hour = (rows["window_end"].cast("int64").to_numpy() - first) // _HOUR
    shape = (len(placement.partitions), HOURS, len(RESOURCES))
    told = {}
    for name in ("leader_load", "follower_load"):
        told[name] = np.full(shape, np.nan)
        told[name][place, hour] = fields_of(rows, name, RESOURCES)
    leader, follower = told["leader_load"], told["follower_load"]
    if model:
        # As of the recent load: by the newest fit, which has seen most.
        leader[..., CPU] = leader[..., [NETWORK_IN, NETWORK_OUT]] @ [model["leader_in"], model["leader_out"]]
        follower[..., CPU] = follower[..., NETWORK_IN] * model["follower_in"]
    known = np.isfinite(leader[..., NETWORK_IN])
    leader, follower = filled(leader, loads.leader), filled(follower, loads.follower)
    by_week = rows["by"].to_numpy(zero_copy_only=False) == "week"
    quality = {
        "hours": HOURS,
        "by_week_share": float(by_week.sum() / known.size),
        "by_day_share": float((~by_week).sum() / known.size),
        "recent_share": float(1 - known.mean()),
    }
    return Coming(leader, follower, ((_NAME, quality),))


def held_seconds(moment: Moment[ReplicasPipelineSettings], placement: Placement) -> FloatArray:
    """How long each replica has been on its broker, if it came within `SEEN_SECONDS`; shape of `replicas`.

    Arrivals are known by the hour: a replica that came in an hour is deemed to have come at its beginning or
    since then.
    """
    parts, tick = placement.partitions, moment.tick
    if not moment.settings.profile_weeks:
        return np.zeros((0, 0))
    found = np.full(parts.replicas.shape, np.inf)
    columns = ("window_end", "topic", "partition", "broker")
    rows = moment.rows("arrivals", tick - SEEN_SECONDS * SECOND, tick + _HOUR, columns)
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


def filled(coming: FloatArray, recent: FloatArray) -> FloatArray:
    """The expected loads, with the recent ones where none is known; disks stay as they are.

    Parameters
    ----------
    coming
        Shape (partitions, hours, resources); NaN where nothing is known.
    recent
        Shape (partitions, resources).
    """
    found = np.where(np.isfinite(coming), coming, recent[:, None])
    found[..., DISK] = recent[:, None, DISK]
    return found
