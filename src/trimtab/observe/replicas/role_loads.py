"""Load of each partition's roles as a snapshot carries it, from the recent windows, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from trimtab.model.load import FloatArray
from trimtab.model.replicas.loadvalue import load_value
from trimtab.model.replicas.resources import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES
from trimtab.observe.snapshots import fields_of

if TYPE_CHECKING:
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
    from trimtab.observe.replicas.placement import SnapshotPlacement
    from trimtab.observe.snapshots import SnapshotInputs


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
    inputs: SnapshotInputs[ReplicasPipelineSettings], placement: SnapshotPlacement, model: dict[str, Any]
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
