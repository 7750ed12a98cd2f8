"""The newest tables to snapshots of the balancer `replicas`, by pyarrow and numpy alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trimtab.files.replicas.snapshot import write_snapshot
from trimtab.model.documents import Quality
from trimtab.model.errors import ObserveError
from trimtab.model.load import FloatArray
from trimtab.model.replicas.settings import CPU, RESOURCES
from trimtab.model.replicas.snapshot import Partitions, ReplicaBrokers, ReplicasSnapshot
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.lake.lake import instant
from trimtab.observe.lake.snapshots import SnapshotInputs, write_snapshots
from trimtab.observe.replicas.loads import held_seconds, load_forecast, role_loads
from trimtab.observe.replicas.placement import consistent_tick, placement_at
from trimtab.observe.steps.cpu_fit import newest_cpu_fit

if TYPE_CHECKING:
    from trimtab.files.store import Location
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest
    from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings


def write_newest_snapshots(
    lake: Lake, manifest: Manifest, settings: ReplicasPipelineSettings
) -> list[Location]:
    """A snapshot of every cluster's newest tick that has partitions; returns a folder per cluster."""

    def write(inputs: SnapshotInputs[ReplicasPipelineSettings], path: Path) -> None:
        write_snapshot(snapshot_at(inputs), path)

    return write_snapshots(lake, manifest, settings, "growth", write, consistent=consistent_tick)


def snapshot_at(inputs: SnapshotInputs[ReplicasPipelineSettings]) -> ReplicasSnapshot:
    """The snapshot of one cluster at one tick, with how it was made in `quality`.

    Raises
    ------
    ObserveError
        If the cluster has no partitions at that tick.
    """
    settings, tick = inputs.settings, inputs.tick
    placement = placement_at(inputs)
    if not len(placement.partitions):
        raise ObserveError(
            f"cluster {inputs.cluster!r} has no partitions at {instant(tick)}: name another tick"
        )
    fit = newest_cpu_fit(inputs)
    loads = role_loads(inputs, placement, fit["model"])
    base = np.array([fit["base"].get(int(one), 0.0) for one in placement.brokers.id])
    coming = load_forecast(inputs, placement, loads, fit["model"])
    partitions = replace(
        placement.partitions,
        leader_load=loads.leader,
        follower_load=loads.follower,
        leader_forecast=coming.leader,
        follower_forecast=coming.follower,
        held_seconds=held_seconds(inputs, placement),
    )
    if settings.cpu_base == "replicas":
        partitions = _with_base(partitions, base)
    capacity, nominal = _capacities(placement.brokers, partitions, base, loads.method, settings.cpu_base)
    extra: list[tuple[str, object]] = [
        ("x_value", settings.load_value),
        ("x_windows", len(loads.ends)),
        ("x_window_seconds", settings.window_seconds),
        ("x_extrapolated_share", loads.extrapolated_share),
        ("x_partitions_without_rates", loads.unknown),
        ("x_partitions_estimated", loads.estimated),
        ("x_cpu_base", settings.cpu_base),
        *coming.quality,
    ]
    if inputs.ahead is not None:
        extra.append(("x_samples_ahead_until", instant(inputs.ahead).isoformat().replace("+00:00", "Z")))
    if nominal:
        # No capacity is known: all brokers get the same large one, so σ and γ are balanced and θ cannot bind.
        extra.append(("x_nominal_capacity", list(nominal)))
    if loads.method != "absent":
        extra.append(("x_cpu_model", fit["model"]))
    quality = Quality(
        valid_share=loads.valid_share,
        oldest_sample_seconds=(tick - loads.begin) / SECOND,
        cpu=loads.method,
        extra=tuple(extra),
    )
    idle = {str(int(one)): float(cores) for one, cores in zip(placement.brokers.id, base, strict=True)}
    return ReplicasSnapshot(
        reference=inputs.reference,
        quality=quality,
        brokers=replace(placement.brokers, capacity=capacity),
        log_dirs=placement.log_dirs,
        partitions=partitions,
        extra=(("x_base_load", {"cpu": idle}),) if base.any() else (),
    )


def _with_base(partitions: Partitions, base: FloatArray) -> Partitions:
    """Each broker's idle CPU spread evenly over the replicas it holds: sums equal what was measured."""
    replicas = partitions.replicas
    held = replicas >= 0
    count = np.bincount(replicas[held], minlength=len(base))
    share = np.append(base / np.maximum(count, 1), 0.0)
    leads = held & (replicas == partitions.leader[:, None])
    each = np.where(held, share[replicas], 0.0)
    followers = held & ~leads
    leader, follower = partitions.leader_load.copy(), partitions.follower_load.copy()
    led, followed = (each * leads).sum(axis=1), (each * followers).sum(axis=1)
    followed /= np.maximum(followers.sum(axis=1), 1)
    leader[:, CPU] += led
    follower[:, CPU] += followed
    leader_coming, follower_coming = partitions.leader_forecast.copy(), partitions.follower_forecast.copy()
    leader_coming[..., CPU] += led[: len(leader_coming), None]
    follower_coming[..., CPU] += followed[: len(follower_coming), None]
    return replace(
        partitions,
        leader_load=leader,
        follower_load=follower,
        leader_forecast=leader_coming,
        follower_forecast=follower_coming,
    )


def _capacities(
    brokers: ReplicaBrokers, partitions: Partitions, base: FloatArray, method: str, cpu_base: str
) -> tuple[FloatArray, tuple[str, ...]]:
    """Capacity left for role loads, and the resources for which no broker's real one is known."""
    capacity = brokers.capacity.copy()
    if cpu_base == "apart":
        capacity[:, CPU] = np.where(capacity[:, CPU] > 2 * base, capacity[:, CPU] - base, capacity[:, CPU])
    followers = (partitions.replicas >= 0).sum(axis=1) - 1
    total = partitions.leader_load.sum(axis=0) + (partitions.follower_load * followers[:, None]).sum(axis=0)
    nominal = []
    for resource, name in enumerate(RESOURCES):
        if resource == CPU and method == "absent":
            capacity[:, CPU] = np.inf
            continue
        if np.isfinite(capacity[brokers.in_service, resource]).all():
            continue
        twice = 2 * total[resource]
        capacity[:, resource] = 2.0 ** np.ceil(np.log2(twice)) if twice > 0 else np.inf
        nominal.append(name)
    return capacity, tuple(nominal)
