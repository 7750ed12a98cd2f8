"""The state of a cluster as of one tick: brokers, owners of bundles, policies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from trimtab.model.bundles.policies import BundlePolicies, is_system_namespace
from trimtab.model.bundles.range import BundleRange, bundles_between, parse_bundle
from trimtab.model.bundles.snapshot import NO_OWNER, RESOURCES, Departure
from trimtab.observe.bundles.raw import policies_from
from trimtab.observe.lake import microseconds
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.model.load import BoolArray, FloatArray, IntArray
    from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
    from trimtab.observe.snapshots import SnapshotInputs

Row = dict[str, Any]

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
