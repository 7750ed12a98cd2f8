"""Snapshots of the balancer `bundles` from the newest tables, by pyarrow and numpy alone.

A snapshot has the state of the cluster as of one tick (brokers, owners of bundles, policies), and the
loads of bundles and topics: of the recent windows, and the forecast ones.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.files.bundles.snapshot import write_bundles_snapshot
from trimtab.model.bundles.policies import BundlePolicies, is_system_namespace
from trimtab.model.bundles.reports import RATE_IN, RATE_OUT, THROUGHPUT_IN, THROUGHPUT_OUT, TRAFFIC
from trimtab.model.bundles.snapshot import (
    CLAIMS,
    NO_OWNER,
    RESOURCES,
    BundleBrokers,
    BundleRange,
    Bundles,
    BundlesSnapshot,
    BundleTopics,
    Departure,
    bundles_between,
    namespace_of,
    parse_bundle,
    topic_hashes,
)
from trimtab.model.documents import Quality
from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import policies_from
from trimtab.observe.lake.columns import SECOND, Row
from trimtab.observe.lake.lake import instant, microseconds
from trimtab.observe.lake.snapshots import SnapshotInputs, fields_of, write_snapshots
from trimtab.observe.steps.cpu_fit import newest_cpu_fit
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from trimtab.files.store import Location
    from trimtab.model.load import BoolArray, FloatArray, IntArray
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.lake.lake import Lake
    from trimtab.observe.lake.manifest import Manifest


_CAPACITIES: Final = tuple(f"{name}_capacity" for name in RESOURCES)
_BROKER: Final = ("broker", "tick", "broker_state", "load_manager", "usage_source", *_CAPACITIES)
_BUNDLE: Final = ("bundle", "tick", "owner", "is_known", "topics", "sessions", "claims")
_CLAIM: Final = ("bundle", "tick", "owner", "position", "has_stats")


@dataclass(frozen=True, eq=False)
class ClusterState:
    """A cluster at one tick, but for its loads.

    Attributes
    ----------
    brokers, in_service, capacity
        As in `BundleBrokers`; capacity is NaN where it is not known. A broker that did not answer is not in
        service, and keeps what it owned.
    bundles, owner, sessions, topics, movable
        As in `Bundles`, by ascending key.
    usage, load_manager, departures, boundaries, policies
        As in `BundlesSnapshot`.
    unreadable_policies
        Namespaces whose policies are no such text.
    claims
        Bundles that several brokers report at the tick, each with these brokers.
    """

    brokers: tuple[str, ...]
    in_service: BoolArray
    capacity: FloatArray
    bundles: tuple[str, ...]
    owner: IntArray
    sessions: NDArray[np.int64]
    topics: NDArray[np.int64]
    movable: BoolArray
    usage: str
    load_manager: str
    departures: tuple[Departure, ...]
    boundaries: dict[str, tuple[int, ...]]
    policies: BundlePolicies
    unreadable_policies: tuple[str, ...]
    claims: dict[str, list[str]]


def cluster_state(inputs: SnapshotInputs[BundlesPipelineSettings]) -> ClusterState:
    """The state of a cluster at a tick; a broker's last word counts for as long as `gap`."""
    settings, tick = inputs.settings, inputs.tick

    def rows(table: str, columns: tuple[str, ...], reach: int, context: Any = None) -> list[Row]:
        found = inputs.rows(table, tick - reach, columns=columns, context=context)
        # A table without any row has no columns to sort by.
        return found.sort_by("tick").to_pylist() if found.num_rows else []

    said = rows("brokers", _BROKER, settings.gap)
    now = {row["broker"]: row for row in said if microseconds(row["tick"]) == tick}
    names = tuple(sorted(now))
    capacity = np.full((len(names), len(RESOURCES)), np.nan)
    for row in said:
        if row["broker"] in now:
            place = names.index(row["broker"])
            for resource, name in enumerate(_CAPACITIES):
                if row[name] is not None:
                    capacity[place, resource] = row[name]
    namespaces = rows(
        "cleaned",
        ("namespace", "tick", "boundaries", "policies"),
        settings.gap,
        pc.field("accepted") & (pc.field("kind") == "pulsar_namespace"),
    )
    newest = max((row["tick"] for row in namespaces), default=None)
    namespaces = [row for row in namespaces if row["tick"] == newest and row["namespace"] is not None]
    boundaries = {
        row["namespace"]: tuple(row["boundaries"]) for row in namespaces if _rising(row["boundaries"])
    }
    policies, unreadable = _policies(namespaces)
    seen = {row["bundle"]: row for row in rows("bundles", _BUNDLE, settings.gap)}
    keys = _keys(set(seen), boundaries)
    owner, topics, sessions = _owned(keys, seen, now, names, tick)
    departed = rows("departures", ("tick", "bundle", "broker"), settings.departure)
    managers = [row["load_manager"] for row in now.values() if row["load_manager"] is not None]
    sources = [row["usage_source"] for row in now.values() if row["usage_source"] is not None]
    return ClusterState(
        brokers=names,
        in_service=np.array([now[name]["broker_state"] == "alive" for name in names], dtype=np.bool_),
        capacity=capacity,
        bundles=keys,
        owner=owner,
        sessions=sessions,
        topics=topics,
        movable=np.array([not is_system_namespace(key.rpartition("/")[0]) for key in keys], dtype=np.bool_),
        usage="declared" if "declared" in sources else "measured",
        load_manager="extensible" if "extensible" in managers else "modular",
        departures=tuple(
            Departure(row["bundle"], row["broker"], row["tick"].timestamp())
            for row in sorted(departed, key=lambda row: (row["tick"], row["bundle"]))
        ),
        boundaries=boundaries,
        policies=policies,
        unreadable_policies=unreadable,
        claims=_claims(inputs, keys, seen),
    )


def _claims(
    inputs: SnapshotInputs[BundlesPipelineSettings], keys: tuple[str, ...], observation: dict[str, Row]
) -> dict[str, list[str]]:
    """Who reports a bundle at the tick, of those that several brokers report."""
    several = [
        key
        for key in keys
        if key in observation
        and microseconds(observation[key]["tick"]) == inputs.tick
        and (observation[key]["claims"] or 0) > 1
    ]
    if not several:
        return {}
    where = pc.field("accepted") & (pc.field("kind") == "pulsar_bundle") & pc.field("bundle").isin(several)
    found: dict[str, set[str]] = {key: set() for key in several}
    for row in inputs.rows("cleaned", inputs.tick, columns=_CLAIM, context=where).to_pylist():
        # As the stage `bundles` has it: figures alone are of a bundle that was just given up.
        if row["owner"] is not None and (row["position"] is not None or not row["has_stats"]):
            found[row["bundle"]].add(row["owner"])
    return {key: sorted(brokers) for key, brokers in found.items()}


def _rising(boundaries: list[int] | None) -> bool:
    return (
        bool(boundaries)
        and len(boundaries or ()) > 1
        and all(low < high for low, high in pairwise(boundaries or ()))
    )


def _policies(namespaces: list[Row]) -> tuple[BundlePolicies, tuple[str, ...]]:
    """The policies, and the namespaces whose text cannot be read: a snapshot must not fail over one."""
    texts, unreadable = {}, []
    for row in namespaces:
        try:
            policies_from({row["namespace"]: row["policies"]})
        except (ValueError, KeyError, TypeError, AttributeError):
            unreadable.append(row["namespace"])
        else:
            texts[row["namespace"]] = row["policies"]
    return policies_from(texts), tuple(sorted(unreadable))


def _keys(observation: set[str], boundaries: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
    """All bundles: those of known boundaries, and of other namespaces those that are seen.

    A bundle that its namespace's boundaries do not make was split meanwhile.
    """
    keys = {one.key for name, cuts in boundaries.items() for one in bundles_between(name, cuts)}
    others: list[BundleRange] = []
    for key in sorted(observation):
        try:
            one = parse_bundle(key)
        except InputError:
            continue
        if one.namespace not in boundaries and not any(one.overlaps(other) for other in others[-1:]):
            others.append(one)
    return tuple(sorted(keys | {one.key for one in others}))


def _owned(
    keys: tuple[str, ...], observation: dict[str, Row], now: dict[str, Row], names: tuple[str, ...], tick: int
) -> tuple[IntArray, NDArray[np.int64], NDArray[np.int64]]:
    """Owner, topics and sessions of each bundle."""
    index = {name: place for place, name in enumerate(names)}
    owner = np.full(len(keys), NO_OWNER, dtype=np.int32)
    topics, sessions = (np.zeros(len(keys), dtype=np.int64) for _ in range(2))
    for place, key in enumerate(keys):
        row = observation.get(key)
        if row is None or row["owner"] not in index:
            continue
        # What a silent broker owned a while ago it owns still; one that answers has told all it owns.
        if microseconds(row["tick"]) == tick or now[row["owner"]]["broker_state"] != "alive":
            owner[place] = index[row["owner"]]
            topics[place], sessions[place] = row["topics"] or 0, row["sessions"] or 0
    return owner, topics, sessions


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
    model: Row
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
