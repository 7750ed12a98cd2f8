"""The newest tables to snapshots of the balancer `bundles`, by pyarrow and numpy alone."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from trimtab.files.bundles.snapshot import write_bundles_snapshot
from trimtab.model.bundles.snapshot import CLAIMS, RESOURCES, BundleBrokers, Bundles, BundlesSnapshot
from trimtab.model.errors import ObserveError
from trimtab.model.snapshot import Quality
from trimtab.observe.bundles.cluster_state import ClusterState, cluster_state
from trimtab.observe.bundles.views import LoadViews, views_at
from trimtab.observe.columns import SECOND
from trimtab.observe.lake import instant
from trimtab.observe.snapshots import SnapshotInputs, fields_of, write_snapshots

if TYPE_CHECKING:
    from pathlib import Path

    from trimtab.files.store import Location
    from trimtab.model.load import FloatArray
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.lake import Lake
    from trimtab.observe.manifest import Manifest

CPU: Final = RESOURCES.index("cpu")


def write_newest_snapshots(
    lake: Lake, manifest: Manifest, settings: BundlesPipelineSettings
) -> list[Location]:
    """A snapshot of every cluster's newest tick that has live brokers; returns a folder per cluster."""

    def write(inputs: SnapshotInputs[BundlesPipelineSettings], path: Path) -> None:
        write_bundles_snapshot(snapshot_at(inputs), path)

    alive = pc.field("broker_state") == "alive"
    return write_snapshots(lake, manifest, settings, "brokers", write, alive)


def snapshot_at(inputs: SnapshotInputs[BundlesPipelineSettings]) -> BundlesSnapshot:
    """The snapshot of one cluster at one tick, with how it was made in `quality`.

    Bundles that no broker has are there too, as far as their namespace's boundaries are known.

    Raises
    ------
    ObserveError
        If the cluster has no brokers at that tick.
    """
    tick = inputs.tick
    state = cluster_state(inputs)
    if not state.brokers:
        raise ObserveError(f"cluster {inputs.cluster!r} has no brokers at {instant(tick)}: name another tick")
    views = views_at(inputs, state)
    capacity, nominal = _capacities(state, views)
    error = _forecast_error(inputs, views.newest_end)
    extra: list[tuple[str, object]] = [
        ("x_window_seconds", inputs.settings.window_seconds),
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
    if state.claims:
        extra.append((CLAIMS, state.claims))
    return BundlesSnapshot(
        reference=inputs.reference,
        quality=Quality(
            valid_share=views.valid_share,
            oldest_sample_seconds=(tick - views.begin) / SECOND,
            cpu=views.method,
            extra=tuple(extra),
        ),
        taken_at=instant(tick).timestamp(),
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


def _forecast_error(inputs: SnapshotInputs[BundlesPipelineSettings], end: int) -> dict[str, dict[str, float]]:
    """Σ|forecast − actual| / Σ actual over bundles and the last `trend_windows` windows, by resource.

    `forecast`, and `latest`: what the load at the time of the forecast would have been off. Resources that
    nobody carried are left out; empty where no forecast's time has come.
    """
    columns = ("actual", "error", "error_of_latest")
    begin = end - (inputs.settings.trend_windows - 1) * inputs.settings.slide
    rows = inputs.rows("forecast_errors", begin, end, columns)
    found: dict[str, dict[str, float]] = {}
    if not rows.num_rows:
        return found
    actual, error, latest = (fields_of(rows, column, RESOURCES) for column in columns)
    for place, name in enumerate(RESOURCES):
        # Rounded once, so the same in any order of the rows, which is that of the files they lie in.
        total = fsum(np.nan_to_num(actual[:, place]).tolist())
        if total > 0:
            for kind, off in (("forecast", error), ("latest", latest)):
                found.setdefault(kind, {})[name] = fsum(np.nan_to_num(abs(off[:, place])).tolist()) / total
    return found


def _capacities(state: ClusterState, views: LoadViews) -> tuple[FloatArray, tuple[str, ...]]:
    """Capacity of every broker, and the resources for which no real one is known.

    What has no capacity is not balanced (Pulsar limits no message rate); but where nothing has one, all
    brokers get the same large one, so that σ and γ are balanced and θ cannot bind.
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
