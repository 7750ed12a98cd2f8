"""Who holds what at a tick: brokers, log dirs and partitions as the samples of that tick show them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.settings import DISK, RESOURCES
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    LogDirState,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
)
from trimtab.observe.lake.columns import SECOND, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.lake.snapshots import SnapshotInputs

_MEMORY = 86400 * SECOND
"""The host, rack and capacity of a broker that is gone are remembered so long, microseconds."""

_STATES = {"offline": LogDirState.OFFLINE, "cordoned": LogDirState.CORDONED}
_HELD = ("replica", "log_dir")
"""Kinds of samples that tell what a broker holds."""

_SLOTS = 1 << 24
"""More partitions than any topic has: topic and number as one sortable figure."""

_TEXTS, _NUMBERS, _BROKERS = (pa.string(), pa.int64(), pa.list_(pa.int32()))
_NOTHING = pa.schema(
    [("tick", pa.timestamp("us", tz="UTC")), ("kind", _TEXTS), ("broker", pa.int32()), ("topic", _TEXTS),
     ("partition", pa.int32()), ("log_dir", _TEXTS), ("is_future", pa.bool_()), ("dir_state", _TEXTS),
     ("disk_total_bytes", _NUMBERS), ("size_bytes", _NUMBERS), ("leader", pa.int32()),
     ("replicas", _BROKERS), ("in_sync", _BROKERS), ("adding", _BROKERS)]
).empty_table()  # fmt: skip
"""Rows of `rates` as they are read here, of a tick that has none."""


@dataclass(frozen=True, eq=False)
class SnapshotPlacement:
    """Brokers, log dirs and partitions as in the model's snapshot, but for loads, which are NaN.

    Attributes
    ----------
    size_bytes
        Shape (partitions,): size of the largest complete replica; NaN where unknown.
    """

    brokers: ReplicaBrokers
    log_dirs: LogDirs
    partitions: Partitions
    size_bytes: FloatArray

    def index_of(self, topic: pa.ChunkedArray, partition: pa.ChunkedArray) -> NDArray[np.int64]:
        """Row of each (topic, partition) here; -1 for those that are not."""
        return rows_of(self.partitions, topic, partition)


def rows_of(partitions: Partitions, topic: pa.ChunkedArray, partition: pa.ChunkedArray) -> NDArray[np.int64]:
    """Row of each (topic, partition) among `partitions`; -1 for those that are not."""
    own = partitions.topic.astype(np.int64) * _SLOTS + partitions.number
    code = pc.fill_null(pc.index_in(topic, value_set=pa.array(partitions.topics, pa.string())), -1)
    number = pc.fill_null(partition, -1).to_numpy()
    return _place(own, np.where(number < 0, -1, code.to_numpy().astype(np.int64) * _SLOTS + number))


def placement_at(inputs: SnapshotInputs[PipelineSettings]) -> SnapshotPlacement:
    """The placement of a cluster at a tick; empty of partitions where the tick has none.

    A broker is dead where it is fenced, or neither a member at that tick nor in sync for any partition that
    has a leader; its host, rack and capacity are then what they last were. A live broker without replicas
    is new. Sizes and log dirs count for as long as `gap` after they were told.
    """
    tick = inputs.tick
    kind, columns = pc.field("kind"), _NOTHING.column_names
    newest = inputs.rows("rates", tick, None, columns, kind.isin(["partition", *_HELD]))
    members = inputs.rows(
        "brokers",
        tick - _MEMORY,
        columns=("tick", "broker", "host", "rack", "broker_state", "live", "cpu_capacity", "disk_capacity",
                 "network_in_capacity", "network_out_capacity"),
    )  # fmt: skip
    if not newest.num_rows:
        newest = _NOTHING
    rows = newest.filter(pc.equal(newest["kind"], "partition"))
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")])
    topics = tuple(sorted(pc.unique(rows["topic"]).to_pylist()))
    topic = pc.index_in(rows["topic"], value_set=pa.array(topics, pa.string())).to_numpy().astype(np.int32)
    number = rows["partition"].to_numpy().astype(np.int32)
    held, insync, adding = (_BrokerLists.of(rows[name]) for name in ("replicas", "in_sync", "adding"))
    leaders = pc.fill_null(rows["leader"], NO_BROKER).to_numpy()
    led = pc.is_valid(rows["leader"]).to_numpy(zero_copy_only=False)

    known = _known_brokers(members)
    ids = np.unique(np.concatenate([np.array(sorted(known), dtype=np.int64), held.values]))
    index = {int(one): place for place, one in enumerate(ids)}
    replicas = np.full((len(rows), held.longest), NO_BROKER, dtype=np.int32)
    replicas[held.row, held.column] = _place(ids, held.values)
    in_sync = np.zeros(replicas.shape, dtype=bool)
    in_sync[held.row, held.column] = np.isin(held.codes(ids), insync.codes(ids))
    leader = np.where(led, _place(ids, leaders), NO_BROKER).astype(np.int32)

    alive = set(np.unique(insync.values[led[insync.row]]).tolist())
    holding = np.bincount(replicas[replicas != NO_BROKER], minlength=len(ids))
    host, rack, state, capacity = [], [], [], []
    for one in ids.tolist():
        facts = known.get(one, {})
        present = facts.get("tick") == tick and facts.get("broker_state") == "alive"
        fenced = facts.get("broker_state") == "fenced" and facts.get("tick") == tick
        dead = fenced or not (present or one in alive)
        empty = not holding[index[one]]
        state.append(
            ReplicaBrokerState.DEAD if dead else ReplicaBrokerState.NEW if empty else ReplicaBrokerState.ALIVE
        )
        host.append(facts.get("host") or f"broker-{one}")
        rack.append(facts.get("rack") or host[-1])
        capacity.append(
            [facts.get("cpu") or np.inf, np.inf, facts.get("in") or np.inf, facts.get("out") or np.inf]
        )
    limits = np.array(capacity, dtype=float).reshape(len(ids), 4)

    loads = np.full((len(rows), len(RESOURCES)), np.nan)
    nowhere = np.full(replicas.shape, NO_BROKER, dtype=np.int32)
    partitions = Partitions(topics, topic, number, replicas, leader, in_sync, nowhere, loads, loads)
    recent = newest
    copied = np.zeros(replicas.shape, dtype=bool)
    copied[held.row, held.column] = np.isin(held.codes(ids), adding.codes(ids))
    reported = _reported_replicas(recent, partitions, ids)
    silent = _unreported(recent, replicas, ids, reported.sizes(copied))
    if len(silent):
        # What was told at the tick wins in any case: only brokers that left something out are looked up.
        before = inputs.rows(
            "rates",
            tick - inputs.settings.gap,
            tick - 1,
            columns,
            kind.isin(list(_HELD)) & pc.field("broker").isin(silent.tolist()),
        )
        if before.num_rows:
            recent = pa.concat_tables([before, recent])
            reported = _reported_replicas(recent, partitions, ids)
    dirs, totals = _log_dirs(recent, index)
    limits[:, DISK] = np.where(
        totals > 0, totals, [known.get(one, {}).get("disk") or np.inf for one in ids.tolist()]
    )
    size = np.fmax.reduce(reported.sizes(copied), axis=1, initial=np.nan)
    partitions = replace(partitions, log_dir=reported.log_dirs(dirs, replicas.shape))
    return SnapshotPlacement(
        ReplicaBrokers(ids, tuple(host), tuple(rack), np.array(state, dtype=np.int8), limits),
        dirs,
        partitions,
        size,
    )


_DAY = 86400 * SECOND
"""How far a clock may have been ahead for its samples to be told from those of a new cluster."""
_HOLES = 8
"""Holes between ticks that are looked at, the newest first."""


def consistent_tick(inputs: SnapshotInputs[PipelineSettings]) -> int:
    """The tick of the newest samples of a cluster: an earlier one where a clock was ahead.

    The offsets of logs only grow, so they tell the order of two ticks whatever their clocks say. Samples that
    were stamped ahead of time come after a hole, with offsets below those before it; or they lie between the
    others. A cluster that was made anew under the same name has lower offsets than any before: it is not
    ahead.
    """
    told = inputs.rows("quality", inputs.tick - _DAY, None, ("tick",), pc.field("kind") == "partition")
    ticks = np.unique(told["tick"].cast(pa.int64()).to_numpy()) if told.num_rows else np.zeros(0, np.int64)
    if len(ticks) < 3:
        return inputs.tick
    apart = np.diff(ticks)
    holes = np.flatnonzero(apart > 1.5 * np.median(apart))[::-1][:_HOLES] + 1
    newest = len(ticks)
    for place in dict.fromkeys([len(ticks) - 1, *holes.tolist()]):
        before, after = _offsets(inputs, int(ticks[place - 1])), _offsets(inputs, int(ticks[place]))
        if _are_behind(after, before) and not _are_behind(after, _offsets(inputs, int(ticks[0]))):
            newest = place
    return int(ticks[newest - 1])


def _offsets(inputs: SnapshotInputs[PipelineSettings], tick: int) -> pa.Table:
    """The end of each partition's log at a tick, where it is known."""
    columns = ("topic", "partition", "end_offset")
    rows = inputs.rows("rates", tick, tick, columns, pc.field("kind") == "partition")
    return rows.filter(pc.is_valid(rows["end_offset"]))


def _are_behind(one: pa.Table, other: pa.Table) -> bool:
    """Whether more offsets of `one` are below those of `other` than above."""
    both = one.join(other, ["topic", "partition"], join_type="inner", right_suffix="_other")
    ends, others = both["end_offset"].to_numpy(), both["end_offset_other"].to_numpy()
    return bool((ends < others).sum() > (ends > others).sum())


@dataclass(frozen=True, eq=False)
class _BrokerLists:
    """A column of lists of brokers as flat arrays: `values`, each with its row and its place there."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    values: NDArray[np.int64]
    longest: int

    @classmethod
    def of(cls, lists: pa.ChunkedArray) -> _BrokerLists:
        length = pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
        row = np.repeat(np.arange(len(length)), length)
        begin = np.cumsum(length) - length
        column = np.arange(len(row)) - begin[row]
        values = pc.list_flatten(lists).to_numpy().astype(np.int64)
        return cls(row, column, values, int(length.max(initial=0)))

    def codes(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row and broker of each value as one figure; brokers that are not among `ids` have none."""
        place = _place(ids, self.values)
        return np.where(place != NO_BROKER, self.row * len(ids) + place, -1 - self.row)


def _place(ids: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.int64]:
    """Place of each value in the sorted `ids`; `NO_BROKER` for those that are not there."""
    if not len(ids):
        return np.full(len(values), NO_BROKER, dtype=np.int64)
    place = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
    return np.where(ids[place] == values, place, NO_BROKER)


def _unreported(
    samples: pa.Table, replicas: IntArray, ids: NDArray[np.int64], sizes: FloatArray
) -> NDArray[np.int64]:
    """Brokers that told nothing of their log dirs, or not the size of each replica that counts."""
    lacking = (replicas != NO_BROKER) & np.isnan(sizes)
    of_dir = pc.and_(pc.equal(samples["kind"], "log_dir"), pc.not_equal(samples["log_dir"], ""))
    described = pc.unique(samples.filter(of_dir)["broker"]).drop_null().to_numpy()
    return np.union1d(ids[replicas[lacking]], np.setdiff1d(ids, described))


def _known_brokers(members: pa.Table) -> dict[int, Row]:
    """The newest facts about every broker that was a member lately."""
    names = {
        "cpu_capacity": "cpu",
        "disk_capacity": "disk",
        "network_in_capacity": "in",
        "network_out_capacity": "out",
    }
    known: dict[int, Row] = {}
    if not members.num_rows:
        return known
    members = members.set_column(0, "tick", members["tick"].cast(pa.int64()))
    # The newest row of each distinct description is enough: there are few, though ticks are many.
    facts = [name for name in members.column_names if name != "tick"]
    latest = members.group_by(facts).aggregate([("tick", "max")]).sort_by("tick_max")
    for row in latest.to_pylist():
        of_broker = known.setdefault(row["broker"], {})
        for name, value in row.items():
            if name == "tick_max":
                of_broker["tick"] = value
            elif name == "broker_state":
                of_broker[name] = value
            elif value is not None and name not in ("broker", "live"):
                of_broker[names.get(name, name)] = value
    return known


def _log_dirs(recent: pa.Table, index: dict[int, int]) -> tuple[LogDirs, FloatArray]:
    """Every broker's log dirs as last described, and the disk they give it (without offline ones)."""
    newest: dict[tuple[int, str], dict[str, object]] = {}
    rows = recent.filter(pc.equal(recent["kind"], "log_dir")).sort_by("tick").to_pylist()
    described: dict[int, object] = {}
    for row in rows:
        if row["broker"] in index and row["log_dir"]:
            newest[(index[row["broker"]], row["log_dir"])] = row
            described[index[row["broker"]]] = row["tick"]
    # A dir that the broker's last description no longer names is gone.
    kept = sorted(key for key, row in newest.items() if row["tick"] == described[key[0]])
    state = [_STATES.get(str(newest[key]["dir_state"]), LogDirState.ONLINE) for key in kept]
    total = [float(newest[key]["disk_total_bytes"] or np.inf) for key in kept]  # type: ignore[arg-type]
    broker = np.array([one for one, _ in kept], dtype=np.int32)
    online = np.array([one != LogDirState.OFFLINE for one in state], dtype=bool)
    finite = np.where(online & np.isfinite(total), total, 0.0) if kept else np.zeros(0)
    totals = np.zeros(len(index))
    np.add.at(totals, broker, finite)
    paths = tuple(path for _, path in kept)
    return LogDirs(broker, paths, np.array(state, dtype=np.int8), np.array(total, dtype=float)), totals


@dataclass(frozen=True, eq=False)
class _ReportedReplicas:
    """Samples of replicas that lie where their partition's own sample says, in order of time."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    broker: NDArray[np.int64]
    log_dir: pa.ChunkedArray
    size_bytes: FloatArray

    def log_dirs(self, dirs: LogDirs, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """The log dir of every replica; `NO_BROKER` where it is not known."""
        found = np.full(shape, NO_BROKER, dtype=np.int32)
        # Of several samples for one place numpy keeps the last.
        found[self.row, self.column] = _dirs_of(dirs, self.broker, self.log_dir)
        return found

    def sizes(self, copied: NDArray[np.bool_]) -> FloatArray:
        """The size of every replica, but for those that are being copied; NaN where it is not known."""
        counts = np.isfinite(self.size_bytes) & ~copied[self.row, self.column]
        found = np.full(copied.shape, np.nan)
        found[self.row[counts], self.column[counts]] = self.size_bytes[counts]
        return found


def _reported_replicas(recent: pa.Table, partitions: Partitions, ids: NDArray[np.int64]) -> _ReportedReplicas:
    """The samples of replicas among those of a few ticks."""
    kept = recent.filter(
        pc.and_(pc.equal(recent["kind"], "replica"), pc.invert(pc.fill_null(recent["is_future"], False)))
    )
    times = pc.min_max(kept["tick"])
    if times["min"] != times["max"]:
        kept = kept.sort_by("tick")
    row = rows_of(partitions, kept["topic"], kept["partition"])
    broker = _place(ids, pc.fill_null(kept["broker"], NO_BROKER).to_numpy())
    column = np.full(len(row), NO_BROKER)
    for place in range(partitions.replicas.shape[1]):
        column[(row != NO_BROKER) & (broker != NO_BROKER) & (partitions.replicas[row, place] == broker)] = (
            place
        )
    here = column != NO_BROKER
    kept = kept.select(["log_dir", "size_bytes"]).filter(pa.array(here))
    size = pc.cast(kept["size_bytes"], pa.float64(), safe=False).to_numpy()
    return _ReportedReplicas(row[here], column[here], broker[here], kept["log_dir"], size)


def _dirs_of(dirs: LogDirs, broker: NDArray[np.int64], path: pa.ChunkedArray) -> NDArray[np.int64]:
    """Place of each log dir, told by its broker's place and its path; `NO_BROKER` where it is not there."""
    paths = pa.array(sorted(set(dirs.path)), pa.string())
    told = pc.index_in(pa.array(dirs.path, pa.string()), value_set=paths).to_numpy()
    own = dirs.broker.astype(np.int64) * len(paths) + told
    code = pc.fill_null(pc.index_in(path, value_set=paths), NO_BROKER).to_numpy()
    # Dirs are sorted by broker and path, and so are their figures.
    return np.where(code != NO_BROKER, _place(own, broker * len(paths) + code), NO_BROKER)
