"""Loads of bundles and topics as a snapshot carries them: the recent windows, and what is expected."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.model.bundles.range import BundleRange, namespace_of, parse_bundle, topic_hashes
from trimtab.model.bundles.reports import RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT, TRAFFIC
from trimtab.model.bundles.snapshot import NO_OWNER, RESOURCES, BundleTopics
from trimtab.observe.columns import SECOND
from trimtab.observe.cpu_fit import newest_cpu_fit
from trimtab.observe.snapshots import fields_of

if TYPE_CHECKING:
    from trimtab.model.load import FloatArray
    from trimtab.observe.bundles.cluster_state import ClusterState
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.snapshots import SnapshotInputs

MEASURED: Final = ("bandwidth_in", "bandwidth_out", "message_rate")
"""Of which brokers count the whole themselves."""


@dataclass(frozen=True, eq=False)
class LoadViews:
    """Loads at a tick.

    Attributes
    ----------
    names, load, topics
        As in `BundlesSnapshot`.
    base
        As in `BundleBrokers`.
    method, model
        Where CPU comes from, and the fit; empty without one.
    valid_share
        Mean share of the windows that sound samples stand for.
    extrapolated_share
        Share of (bundle, window) pairs in which some tick had no sample.
    unknown
        Owned bundles without any window: what they did at the tick itself counts, or else nothing.
    begin, newest_end
        Start of the oldest window used, and end of the newest, microseconds.
    """

    names: tuple[str, ...]
    load: FloatArray
    topics: BundleTopics
    base: FloatArray
    method: str
    model: dict[str, Any]
    valid_share: float
    extrapolated_share: float
    unknown: int
    begin: int
    newest_end: int


def views_at(inputs: SnapshotInputs[BundlesPipelineSettings], state: ClusterState) -> LoadViews:
    """The views of a cluster at a tick: `settings.views` closed windows and one forecast."""
    settings, tick = inputs.settings, inputs.tick
    rows, end = inputs.windows("windows", settings.recent_windows)
    ends = np.unique(end)
    closed = ends[ends <= tick]
    used = (closed if len(closed) else ends[:1])[-settings.recent_windows :][::-1]
    newest = int(used[0]) if len(used) else tick
    fit = newest_cpu_fit(inputs)
    cost = np.array([fit["model"].get(name, 0.0) for name in TRAFFIC])
    index = {key: place for place, key in enumerate(state.bundles)}

    traffic = np.full((max(1, len(used)), len(index), len(TRAFFIC)), np.nan)
    valid, extrapolated = list[float](), list[float]()
    for view, at in enumerate(used):
        told = rows.filter(pa.array(end == at)).filter(pc.field("kind") == "bundle")
        place, known = _places(told["bundle"], index)
        traffic[view, place] = _traffic(told)[known]
        valid += told["valid_share"].to_numpy()[known].tolist()
        extrapolated += told["extrapolated"].to_numpy(zero_copy_only=False)[known].tolist()
    unknown = int((~np.isfinite(traffic[:, state.owner != NO_OWNER]).all(axis=2).any(axis=0)).sum())
    newest_first = _filled(traffic, _latest(inputs, index))
    load = _load(newest_first, cost)
    expected = _forecast(inputs, newest, index)
    load = np.concatenate([load, np.where(np.isfinite(expected), expected, load[0])[None]])
    newest_rows = rows.filter(pa.array(end == newest)) if rows.num_rows else rows
    return LoadViews(
        names=(
            *(f"window {-number}" if number else "window 0" for number in range(len(load) - 1)),
            f"forecast +{settings.horizon / SECOND:g}",
        ),
        load=load,
        topics=_topics(newest_rows, index, cost),
        base=_base(rows, end, used, load, state, fit["base"]),
        method=fit["model"].get("method", "absent"),
        model=fit["model"],
        valid_share=fmean(valid) if valid else 0.0,
        extrapolated_share=fmean(extrapolated) if extrapolated else 0.0,
        unknown=unknown,
        begin=(int(used[-1]) if len(used) else tick) - settings.window,
        newest_end=newest,
    )


def _places(names: pa.ChunkedArray, index: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """The places of the rows that belong anywhere; and which these are."""
    place = np.array([index.get(name, -1) for name in names.to_pylist()], dtype=np.int64)
    return place[place >= 0], place >= 0


def _traffic(rows: pa.Table) -> FloatArray:
    """Shape (rows, traffic), NaN where it is not known."""
    columns = [rows[name].to_numpy().astype(np.float64) for name in TRAFFIC]
    return np.column_stack(columns) if len(rows) else np.zeros((0, len(TRAFFIC)))


def _load(traffic: FloatArray, cost: FloatArray) -> FloatArray:
    """Loads over `RESOURCES` of what is carried; CPU by the newest fit, which has seen most."""
    return np.stack(
        [
            traffic @ cost,
            traffic[..., THROUGHPUT_IN],
            traffic[..., THROUGHPUT_OUT],
            traffic[..., RATE_IN] + traffic[..., RATE_OUT],
        ],
        axis=-1,
    )


def _filled(traffic: FloatArray, latest: FloatArray) -> FloatArray:
    """Gaps filled by the nearest newer view, then by what was told at the tick itself, then by an older one.

    A bundle that is the half of another has no history: what it does now is the best guess of the past too.
    """
    filled = traffic.copy()
    filled[0] = np.where(np.isfinite(filled[0]), filled[0], latest)
    for view in range(1, len(filled)):
        gap = ~np.isfinite(filled[0])
        filled[0][gap] = filled[view][gap]
    for view in range(1, len(filled)):
        filled[view] = np.where(np.isfinite(filled[view]), filled[view], filled[view - 1])
    return np.nan_to_num(filled, nan=0.0)


def _latest(inputs: SnapshotInputs[BundlesPipelineSettings], index: dict[str, int]) -> FloatArray:
    """Shape (bundles, traffic): what was told last within the gap; NaN where nothing was."""
    columns = ("tick", "bundle", *TRAFFIC)
    rows = inputs.rows("bundles", inputs.tick - inputs.settings.gap, None, columns, pc.field("is_known"))
    found = np.full((len(index), len(TRAFFIC)), np.nan)
    if rows.num_rows:
        rows = rows.sort_by("tick")
        place, known = _places(rows["bundle"], index)
        found[place] = _traffic(rows)[known]
    return found


def _forecast(inputs: SnapshotInputs[BundlesPipelineSettings], end: int, index: dict[str, int]) -> FloatArray:
    """Shape (bundles, resources); NaN where there is none."""
    rows = inputs.rows("forecasts", end, end, ("bundle", "load"))
    found = np.full((len(index), len(RESOURCES)), np.nan)
    if rows.num_rows:
        place, known = _places(rows["bundle"], index)
        found[place] = fields_of(rows, "load", RESOURCES)[known]
    return found


def _base(
    rows: pa.Table,
    end: np.ndarray,
    used: np.ndarray,
    load: FloatArray,
    state: ClusterState,
    idle_cores: dict[str, float],
) -> FloatArray:
    """The load of each broker beyond its bundles: measured minus their sum, the median of the windows."""
    index = {name: place for place, name in enumerate(state.brokers)}
    base = np.zeros((len(index), len(RESOURCES)))
    for name, cores in idle_cores.items():
        if name in index:
            base[index[name], RESOURCES.index("cpu")] = cores
    if state.usage == "declared":
        return base
    owned = state.owner != NO_OWNER
    beyond = np.full((len(used), *base.shape), np.nan)
    for view, at in enumerate(used):
        told = rows.filter(pa.array(end == at)).filter(pc.field("kind") == "broker")
        place, known = _places(told["broker"], index)
        for name in MEASURED:
            resource = RESOURCES.index(name)
            total = fields_of(told, name, ("mean",))[known, 0]
            carried = np.bincount(
                state.owner[owned], weights=load[view, owned, resource], minlength=len(index)
            )
            beyond[view, place, resource] = np.maximum(total - carried[place], 0.0)
    for name in MEASURED:
        resource = RESOURCES.index(name)
        for row in range(len(index)):
            known_views = beyond[np.isfinite(beyond[:, row, resource]), row, resource]
            if len(known_views):
                base[row, resource] = np.median(known_views)
    return base


def _topics(rows: pa.Table, index: dict[str, int], cost: FloatArray) -> BundleTopics:
    """Topics that carried something in a window, each in the bundle that holds its hash now.

    What they carried in a bundle that was split meanwhile counts in the parts.
    """
    if not rows.num_rows:
        return _no_topics()
    told = rows.filter(pc.field("kind") == "topic")
    traffic = np.nan_to_num(_traffic(told), nan=0.0)
    names, keys = told["topic"].to_pylist(), told["bundle"].to_pylist()
    hashes = topic_hashes(names).astype(np.int64)
    parts: dict[str, list[tuple[int, BundleRange, int]]] = {}
    for key, place in index.items():
        one = parse_bundle(key)
        parts.setdefault(one.namespace, []).append((one.low, one, place))
    for found in parts.values():
        found.sort()
    bundle = np.full(len(names), NO_OWNER, dtype=np.int32)
    kept: dict[str, int] = {}
    for row, (name, key) in enumerate(zip(names, keys, strict=True)):
        held = parts.get(namespace_of(key), [])
        at = bisect_right(held, int(hashes[row]), key=lambda part: part[0]) - 1
        if at < 0 or not held[at][1].holds(int(hashes[row])) or not traffic[row].any():
            continue
        bundle[row] = held[at][2]
        # Told of in both the old bundle and the new one: the new one is where it is.
        if name not in kept or key == held[at][1].key:
            kept[name] = row
    if not kept:
        return _no_topics()
    chosen = np.fromiter(kept.values(), dtype=np.int64, count=len(kept))
    label = np.array(names, dtype=object)[chosen]
    order = np.lexsort((label, hashes[chosen], bundle[chosen]))
    chosen = chosen[order]
    sessions = told["sessions"].fill_null(0).to_numpy().astype(np.int64)
    return BundleTopics(
        name=tuple(label[order].tolist()),
        bundle=bundle[chosen],
        hash=hashes[chosen],
        load=_load(traffic[chosen], cost),
        sessions=sessions[chosen],
    )


def _no_topics() -> BundleTopics:
    return BundleTopics(
        (),
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.int64),
        np.zeros((0, len(RESOURCES))),
        np.zeros(0, dtype=np.int64),
    )
