"""The newest tables to snapshots of the level `bundles`, by pyarrow and numpy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from trimtab.files.bundles.snapshot import write_bundles_snapshot
from trimtab.model.bundles.snapshot import RESOURCES, BundleBrokers, Bundles, BundlesSnapshot
from trimtab.model.errors import ObserveError
from trimtab.model.snapshot import Quality, SnapshotReference
from trimtab.observe.bundles.cluster_state import ClusterState, cluster_state
from trimtab.observe.bundles.forecast_error import forecast_error
from trimtab.observe.bundles.views import Views, views_at
from trimtab.observe.columns import SECOND
from trimtab.observe.lake import instant
from trimtab.observe.snapshot_folders import newest_ticks, write_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.model.load import FloatArray
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest

CPU: Final = RESOURCES.index("cpu")


def write_newest_snapshots(lake: Lake, manifest: Manifest, settings: BundlesPipelineSettings) -> list[Path]:
    """Write a snapshot of every cluster's newest tick.

    Returns
    -------
    list of Path
        One folder per cluster that has brokers.
    """
    ticks = newest_ticks(lake, manifest, settings, "brokers", pc.field("broker_state") == "alive")

    def write(cluster: str, tick: int, path: Path) -> None:
        write_bundles_snapshot(snapshot_at(lake, manifest, settings, cluster, tick), path)

    return write_snapshots(lake, manifest, ticks, write)


def snapshot_at(
    lake: Lake, manifest: Manifest, settings: BundlesPipelineSettings, cluster: str, tick: int
) -> BundlesSnapshot:
    """The snapshot of one cluster at one tick.

    Parameters
    ----------
    lake, manifest
        The tables.
    settings
        Gives the number of views and how far departures are known.
    cluster, tick
        Which one; the tick in microseconds.

    Returns
    -------
    BundlesSnapshot
        With how it was made in `quality`. Bundles that no broker has are there too, as far as their
        namespace's boundaries are known.

    Raises
    ------
    ObserveError
        If the cluster has no brokers at that tick.
    """
    state = cluster_state(lake, manifest, settings, cluster, tick)
    if not state.brokers:
        raise ObserveError(f"cluster {cluster!r} has no brokers at {instant(tick)}: name another tick")
    views = views_at(lake, manifest, settings, cluster, tick, state)
    capacity, nominal = _capacities(state, views)
    error = forecast_error(lake, manifest, settings, cluster, views.newest_end)
    extra: list[tuple[str, object]] = [
        ("x_window_seconds", settings.window_seconds),
        ("x_usage", state.usage),
        ("x_extrapolated_share", views.extrapolated_share),
        ("x_bundles_without_load", views.unknown),
    ]
    if nominal:
        extra.append(("x_nominal_capacity", list(nominal)))
    if views.model:
        extra.append(("x_cpu_model", views.model))
    if error:
        extra.append(("x_forecast_error", error))
    if state.unreadable_policies:
        extra.append(("x_namespaces_with_unreadable_policies", list(state.unreadable_policies)))
    taken_at = instant(tick)
    text = taken_at.isoformat().replace("+00:00", "Z")
    return BundlesSnapshot(
        reference=SnapshotReference(cluster, text, ""),
        quality=Quality(
            valid_share=views.valid_share,
            oldest_sample_seconds=(tick - views.begin) / SECOND,
            cpu=views.method,
            extra=tuple(extra),
        ),
        taken_at=taken_at.timestamp(),
        views=views.names,
        brokers=BundleBrokers(
            name=state.brokers,
            in_service=state.in_service,
            capacity=capacity,
            base=views.base,
        ),
        bundles=Bundles(
            key=state.bundles,
            owner=state.owner,
            load=views.load,
            sessions=state.sessions,
            topics=state.topics,
            movable=state.movable,
        ),
        topics=views.topics,
        departures=state.departures,
        boundaries=state.boundaries,
        policies=state.policies,
        load_manager=state.load_manager,
        usage=state.usage,
    )


def _capacities(state: ClusterState, views: Views) -> tuple[FloatArray, tuple[str, ...]]:
    """Capacity of every broker, and the resources for which no real one is known.

    What has no capacity is not levelled (Pulsar limits no message rate); but where nothing has one, all
    brokers get the same large one, so that σ and γ are levelled and θ cannot bind.
    """
    capacity = np.where(np.isfinite(state.capacity) & (state.capacity > 0), state.capacity, np.inf)
    known = np.asarray(np.isfinite(capacity[state.in_service]).all(axis=0))
    if views.method == "absent":
        known[CPU] = False
    capacity[:, ~known] = np.inf
    if known.any():
        return capacity, ()
    nominal = []
    for resource, name in enumerate(RESOURCES):
        twice = 2 * float(views.load[0, :, resource].sum() + views.base[:, resource].sum())
        if resource != CPU and twice > 0:
            capacity[:, resource] = 2.0 ** np.ceil(np.log2(twice))
            nominal.append(name)
    return capacity, tuple(nominal)
