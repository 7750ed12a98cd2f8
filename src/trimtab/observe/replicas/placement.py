"""Who holds what at a tick: brokers, log dirs and partitions as the samples of that tick show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.resources import DISK, RESOURCES
from trimtab.model.replicas.snapshot import NOBODY, Brokers, BrokerState, LogDirs, LogDirState, Partitions
from trimtab.observe.columns import SECOND

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.observe.settings import PipelineSettings
    from trimtab.observe.snapshots import Moment

_MEMORY = 86400 * SECOND
"""The host, rack and capacity of a broker that is gone are remembered so long, microseconds."""

_STATES = {"offline": LogDirState.OFFLINE, "cordoned": LogDirState.CORDONED}
_SLOTS = 1 << 24
"""More partitions than any topic has: topic and number as one sortable figure."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Brokers, log dirs and partitions as in the model's snapshot, but for loads, which are NaN.

    Attributes
    ----------
    size_bytes
        Shape (partitions,): size of the largest complete replica; NaN where unknown.
    """

    brokers: Brokers
    log_dirs: LogDirs
    partitions: Partitions
    size_bytes: FloatArray

    def index_of(self, topic: pa.ChunkedArray, partition: pa.ChunkedArray) -> NDArray[np.int64]:
        """Row of each (topic, partition) here; -1 for those that are not."""
        known = self.partitions
        own = known.topic.astype(np.int64) * _SLOTS + known.number
        code = pc.fill_null(pc.index_in(topic, value_set=pa.array(known.topics, pa.string())), -1)
        asked = code.to_numpy().astype(np.int64) * _SLOTS + partition.to_numpy()
        place = np.searchsorted(own, asked)
        found = (place < len(own)) & (own[np.minimum(place, len(own) - 1)] == asked)
        return np.where(found, place, -1)


def placement_at(moment: Moment[PipelineSettings]) -> Placement:
    """The placement of a cluster at a tick; empty of partitions where the tick has none.

    A broker is dead where it is fenced, or neither a member at that tick nor in sync for any partition that
    has a leader; its host, rack and capacity are then what they last were. A live broker without replicas
    is new. Sizes and log dirs count for as long as `gap` after they were told.
    """
    tick = moment.tick
    recent = moment.rows(
        "rates",
        tick - moment.settings.gap,
        columns=("tick", "kind", "broker", "topic", "partition", "log_dir", "is_future", "dir_state",
                 "disk_total_bytes", "size_bytes", "leader", "replicas", "in_sync", "adding"),
        where=pc.field("kind").isin(["partition", "replica", "log_dir"]),
    )  # fmt: skip
    members = moment.rows(
        "brokers",
        tick - _MEMORY,
        columns=("tick", "broker", "host", "rack", "broker_state", "live", "cpu_capacity", "disk_capacity",
                 "network_in_capacity", "network_out_capacity"),
    )  # fmt: skip
    at = pa.scalar(tick, pa.timestamp("us", tz="UTC"))
    rows = recent.filter(pc.and_(pc.equal(recent["kind"], "partition"), pc.equal(recent["tick"], at)))
    rows = rows.sort_by([("topic", "ascending"), ("partition", "ascending")])
    topics = tuple(sorted(set(rows["topic"].to_pylist())))
    topic = pc.index_in(rows["topic"], value_set=pa.array(topics, pa.string())).to_numpy().astype(np.int32)
    number = rows["partition"].to_numpy().astype(np.int32)
    held = rows["replicas"].to_pylist()
    copied_to = [set(copies or ()) for copies in rows["adding"].to_pylist()]
    insync = [set(those or ()) for those in rows["in_sync"].to_pylist()]
    leaders = rows["leader"].to_pylist()

    known = _known_brokers(members)
    ids = np.array(sorted(set(known) | {one for those in held for one in those or ()}), dtype=np.int64)
    index = {int(one): place for place, one in enumerate(ids)}
    width = max((len(those or ()) for those in held), default=0)
    replicas = np.full((len(held), width), NOBODY, dtype=np.int32)
    in_sync = np.zeros(replicas.shape, dtype=bool)
    for row, those in enumerate(held):
        for column, one in enumerate(those or ()):
            replicas[row, column] = index[one]
            in_sync[row, column] = one in insync[row]
    leader = np.array([index.get(one, NOBODY) for one in leaders], dtype=np.int32)

    alive = {one for one, led in zip(insync, leaders, strict=True) if led is not None for one in one}
    host, rack, state, capacity = [], [], [], []
    for one in ids.tolist():
        facts = known.get(one, {})
        present = facts.get("tick") == tick and facts.get("broker_state") == "alive"
        fenced = facts.get("broker_state") == "fenced" and facts.get("tick") == tick
        dead = fenced or not (present or one in alive)
        empty = not (replicas == index[one]).any()
        state.append(BrokerState.DEAD if dead else BrokerState.NEW if empty else BrokerState.ALIVE)
        host.append(facts.get("host") or f"broker-{one}")
        rack.append(facts.get("rack") or host[-1])
        capacity.append(
            [facts.get("cpu") or np.inf, np.inf, facts.get("in") or np.inf, facts.get("out") or np.inf]
        )
    limits = np.array(capacity, dtype=float).reshape(len(ids), 4)
    dirs, totals = _log_dirs(recent, index)
    limits[:, DISK] = np.where(
        totals > 0, totals, [known.get(one, {}).get("disk") or np.inf for one in ids.tolist()]
    )

    log_dir, size = _replica_dirs(recent, rows, dirs, replicas, ids, copied_to)
    loads = np.full((len(held), len(RESOURCES)), np.nan)
    return Placement(
        Brokers(ids, tuple(host), tuple(rack), np.array(state, dtype=np.int8), limits),
        dirs,
        Partitions(topics, topic, number, replicas, leader, in_sync, log_dir, loads, loads),
        size,
    )


def _known_brokers(members: pa.Table) -> dict[int, dict[str, Any]]:
    """The newest facts about every broker that was a member lately."""
    names = {
        "cpu_capacity": "cpu",
        "disk_capacity": "disk",
        "network_in_capacity": "in",
        "network_out_capacity": "out",
    }
    known: dict[int, dict[str, Any]] = {}
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


def _replica_dirs(
    recent: pa.Table,
    rows: pa.Table,
    dirs: LogDirs,
    replicas: IntArray,
    ids: NDArray[np.int64],
    copied_to: list[set[int]],
) -> tuple[IntArray, FloatArray]:
    """The log dir of every replica, and the size of each partition's largest complete replica."""
    log_dir = np.full(replicas.shape, NOBODY, dtype=np.int32)
    size = np.full(len(replicas), np.nan)
    kept = recent.filter(
        pc.and_(pc.equal(recent["kind"], "replica"), pc.invert(pc.fill_null(recent["is_future"], False)))
    ).sort_by("tick")
    row_of = {
        key: row
        for row, key in enumerate(zip(rows["topic"].to_pylist(), rows["partition"].to_pylist(), strict=True))
    }
    dir_of = {
        (int(ids[broker]), path): place
        for place, (broker, path) in enumerate(zip(dirs.broker, dirs.path, strict=True))
    }
    column_of = [
        {int(ids[one]): column for column, one in enumerate(those) if one != NOBODY}
        for those in replicas.tolist()
    ]
    latest: dict[tuple[int, int], float] = {}
    for broker, topic, partition, path, weight in zip(
        *(kept[name].to_pylist() for name in ("broker", "topic", "partition", "log_dir", "size_bytes")),
        strict=True,
    ):
        row = row_of.get((topic, partition))
        if row is None or broker not in column_of[row]:
            continue
        log_dir[row, column_of[row][broker]] = dir_of.get((broker, path), NOBODY)
        if weight is not None and broker not in copied_to[row]:
            latest[(row, broker)] = float(weight)
    for (row, _), weight in latest.items():
        size[row] = weight if np.isnan(size[row]) else max(size[row], weight)
    return log_dir, size
