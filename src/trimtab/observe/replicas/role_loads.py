"""Load of each partition's roles as a snapshot carries it, from the recent windows, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from trimtab.model.load import FloatArray
from trimtab.model.replicas.loadvalue import load_value
from trimtab.model.replicas.resources import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES
from trimtab.observe.snapshots import fields_of

if TYPE_CHECKING:
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
    from trimtab.observe.replicas.placement import Placement
    from trimtab.observe.snapshots import Moment


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
        Mean share of the windows that measured intervals cover.
    extrapolated_share
        Share of (partition, window) pairs that are partly extrapolated.
    unknown
        Partitions without any window: their rates count as 0.
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
    begin: int
    ends: list[int]


def role_loads(
    moment: Moment[ReplicasPipelineSettings], placement: Placement, model: dict[str, Any]
) -> RoleLoads:
    """The load value of every partition's roles at a tick; `model` is of `newest_cpu_fit`, maybe empty."""
    settings, tick = moment.settings, moment.tick
    columns = ("topic", "partition", "leader_load", "follower_load", "valid_share", "extrapolated")
    rows, end = moment.windows("attributed", settings.windows, columns)
    number = len(placement.partitions)
    ends = np.unique(end)
    closed = ends[ends <= tick]
    used = (closed if len(closed) else ends)[-settings.windows :]
    leader = np.full((len(used), number, len(RESOURCES)), np.nan)
    follower = leader.copy()
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
            # Rows come in the order of the files that they lie in; rounded once, the mean is the same in any.
            valid = fmean(rows["valid_share"].to_numpy()[known].tolist())
            extrapolated = float(rows["extrapolated"].to_numpy(zero_copy_only=False)[known].mean())
    if model:
        # The newest fit has seen most: the windows' own would mix costs, and fixed shares at the start.
        leader[..., CPU] = leader[..., [NETWORK_IN, NETWORK_OUT]] @ [model["leader_in"], model["leader_out"]]
        follower[..., CPU] = follower[..., NETWORK_IN] * model["follower_in"]
    # Newer sizes than the last window's are there: a snapshot shows the disks as they are now.
    nothing = np.full((number, len(RESOURCES)), np.nan)
    value = [load_value(one, settings.value) if len(used) else nothing.copy() for one in (leader, follower)]
    for one in value:
        one[:, DISK] = np.where(np.isfinite(placement.size_bytes), placement.size_bytes, one[:, DISK])
    unknown = int((~np.isfinite(value[0][:, NETWORK_IN])).sum())
    clean = [np.nan_to_num(one, nan=0.0, posinf=0.0, neginf=0.0) for one in value]
    method = model.get("method", "absent")
    begin = int(used[0]) - settings.window if len(used) else tick
    return RoleLoads(
        clean[0], clean[1], method, valid, extrapolated, unknown, begin, [int(one) for one in used]
    )
