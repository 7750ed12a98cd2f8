"""The partitions of a snapshot file: columns to arrays and back, and what must hold of them.

All checks are made on whole columns: 300,000 replicas take tens of milliseconds.

Replicas snapshots in files: `trimtab/replicas-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder.

A record is a row of a table. Fields without a default must be there; `None` is only a value where the format
says that null is one.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType
from numpy.typing import NDArray  # noqa: TC002

from trimtab.files.columns import LEFT_OUT, Columns, ListColumn, LongArray, TextColumn
from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.documents import Amount, Limit
from trimtab.model.load import FloatArray, IntArray
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import (
    NO_BROKER,
    LogDirs,
    LogDirState,
    Partitions,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab_common.documents import Id, Name, one_of, quote
from trimtab_common.errors import InputError


def checked_partitions(source: SnapshotSource, brokers: ReplicaBrokers, log_dirs: LogDirs) -> Partitions:
    """Partitions as the model has them: broker indices, ordered by (topic, number).

    A leader on a dead broker is offline, whatever the file says; a replica on a dead broker or an offline
    log dir is not in sync. Where the file leaves `in_sync` out, all other replicas are.

    Raises
    ------
    InputError
        If the columns contradict each other or the brokers.
    """
    check = _PartitionsCheck(source, brokers)
    check.loads()
    check.unique_partitions()
    replicas = check.replicas()
    leader = check.leader(replicas)
    in_sync = check.in_sync(replicas)
    log_dir = check.log_dir(replicas, log_dirs)
    dead = brokers.state == ReplicaBrokerState.DEAD
    offline = (replicas != NO_BROKER) & dead[replicas]
    if len(log_dirs):
        offline |= (log_dir != NO_BROKER) & (log_dirs.state == LogDirState.OFFLINE)[log_dir]
    leader = np.where((leader != NO_BROKER) & dead[leader], NO_BROKER, leader).astype(np.int32)

    order = np.lexsort((check.number, check.topic))
    return Partitions(
        topics=check.topics,
        topic=check.topic[order].astype(np.int32),
        number=check.number[order].astype(np.int32),
        replicas=np.ascontiguousarray(replicas[order]),
        leader=leader[order],
        in_sync=np.ascontiguousarray((in_sync & ~offline)[order]),
        log_dir=np.ascontiguousarray(log_dir[order]),
        leader_load=np.ascontiguousarray(check.columns["leader_load"][order]),
        follower_load=np.ascontiguousarray(check.columns["follower_load"][order]),
        leader_forecast=check.forecast("leader_forecast")[order],
        follower_forecast=check.forecast("follower_forecast")[order],
        held_seconds=check.held_seconds(replicas)[order],
    )


def partition_columns(snapshot: ReplicasSnapshot) -> Columns:
    """Columns of partitions for a file; the inverse of `checked_partitions`."""
    partitions, ids = snapshot.partitions, snapshot.brokers.id
    held = partitions.replicas != NO_BROKER
    paths = (*snapshot.log_dirs.path, None)
    known = (partitions.log_dir != NO_BROKER).any(axis=1)
    dirs = partitions.log_dir[held & known[:, None]].tolist()
    return {
        "topic": TextColumn(coded=(partitions.topics, partitions.topic.astype(np.int64))),
        "partition": partitions.number.astype(np.int64),
        "replicas": ListColumn(held.sum(axis=1), ids[partitions.replicas[held]]),
        "leader": np.where(partitions.leader != NO_BROKER, ids[partitions.leader], LEFT_OUT),
        "in_sync": ListColumn(partitions.in_sync.sum(axis=1), ids[partitions.replicas[partitions.in_sync]]),
        "log_dirs": ListColumn(
            np.where(known, held.sum(axis=1), LEFT_OUT), TextColumn([paths[place] for place in dirs])
        ),
        "leader_load": partitions.leader_load,
        "follower_load": partitions.follower_load,
        "leader_forecast": _hours(partitions.leader_forecast, len(partitions)),
        "follower_forecast": _hours(partitions.follower_forecast, len(partitions)),
        "held_seconds": _held_seconds(partitions),
    }


def _hours(forecast: FloatArray, rows: int) -> ListColumn:
    """A list of hours a row, left out where none is told."""
    hours = forecast.shape[1]
    return ListColumn(np.full(rows, hours or LEFT_OUT), forecast.reshape(-1, len(RESOURCES)))


def _held_seconds(partitions: Partitions) -> ListColumn:
    """A list a row, null for a replica that nobody saw come; left out where all are."""
    held, seconds = partitions.replicas != NO_BROKER, partitions.held_seconds
    if not seconds.size:
        return ListColumn(np.full(len(partitions), LEFT_OUT), np.zeros(0, dtype=np.int64))
    known = np.asarray(np.isfinite(seconds).any(axis=1))
    told = seconds[held & known[:, None]]
    whole = np.where(np.isfinite(told), np.round(np.where(np.isfinite(told), told, 0.0)), LEFT_OUT)
    return ListColumn(np.where(known, held.sum(axis=1), LEFT_OUT), whole.astype(np.int64))


class _PartitionsCheck:
    """One method for each thing that can be wrong; each finds the first offender and names its place."""

    def __init__(self, source: SnapshotSource, brokers: ReplicaBrokers) -> None:
        self.source = source
        self.brokers = brokers
        self.columns = source.columns["partitions"]
        self.topics, self.topic = self.columns["topic"].coded
        self.number: LongArray = self.columns["partition"]

    def error(
        self,
        row: int,
        field: str,
        item: int | None,
        found: object,
        expected: str,
        remedy: str = "correct it there",
    ) -> InputError:
        return self.source.error("partitions", row, field, found, expected, item=item, remedy=remedy)

    def loads(self) -> None:
        for field in ("leader_load", "follower_load", "leader_forecast", "follower_forecast"):
            self.source.check_loads("partitions", field, RESOURCES)

    def forecast(self, field: str) -> FloatArray:
        """Shape (rows, hours, resources): as many hours as the longest list of leaders' tells."""
        lists: ListColumn = self.columns[field]
        hours = int(self.columns["leader_forecast"].count.max(initial=0))
        if hours <= 0 and (lists.count <= 0).all():
            return np.zeros((len(lists.count), 0, len(RESOURCES)))
        if (first := _first(lists.count != hours)) is not None:
            found = int(max(lists.count[first], 0))
            expected = f"{hours}, the same number of hours for both roles of all partitions"
            raise self.source.length_error("partitions", first, field, found, expected)
        return np.ascontiguousarray(lists.values).reshape(len(lists.count), hours, len(RESOURCES))

    def held_seconds(self, replicas: IntArray) -> FloatArray:
        """Shape of `replicas`; infinite where nothing is told."""
        lists: ListColumn = self.columns["held_seconds"]
        held: LongArray = self.columns["replicas"].count
        if (first := _first((lists.count != LEFT_OUT) & (lists.count != held))) is not None:
            expected = f"{held[first]}, one for each replica"
            raise self.source.length_error(
                "partitions", first, "held_seconds", int(lists.count[first]), expected
            )
        seconds = np.full(replicas.shape, np.inf)
        seconds[lists.row, lists.column] = np.where(lists.values == LEFT_OUT, np.inf, lists.values)
        return seconds

    def unique_partitions(self) -> None:
        order = np.lexsort((self.number, self.topic))
        twin = (np.diff(self.topic[order]) == 0) & (np.diff(self.number[order]) == 0)
        if (first := _first(twin)) is not None:
            one, other = sorted((int(order[first]), int(order[first + 1])))
            name = f"partition {self.topics[self.topic[one]]}-{self.number[one]}"
            raise self.source.twice("partitions", one, other, name)

    def replicas(self) -> IntArray:
        """Shape (rows, widest list): broker indices, padded with `NO_BROKER`."""
        lists: ListColumn = self.columns["replicas"]
        if (empty := _first(lists.count < 1)) is not None:
            raise self.error(empty, "replicas", None, [], "at least one broker id")
        row, column = lists.row, lists.column
        ids = self.brokers.id
        index = np.minimum(np.searchsorted(ids, lists.values), len(ids) - 1)
        if (first := _first(ids[index] != lists.values)) is not None:
            expected = "the id of a broker in this file"
            remedy = "add the broker (state dead if it is gone) or correct the list"
            found = None if lists.values[first] == LEFT_OUT else int(lists.values[first])
            raise self.error(int(row[first]), "replicas", int(column[first]), found, expected, remedy)
        replicas = np.full((len(lists.count), int(lists.count.max(initial=1))), NO_BROKER, dtype=np.int32)
        replicas[row, column] = index
        for later in range(1, replicas.shape[1]):
            for earlier in range(later):
                same = (replicas[:, later] == replicas[:, earlier]) & (replicas[:, later] != NO_BROKER)
                if (first := _first(same)) is not None:
                    found = int(ids[replicas[first, later]])
                    expected = "each broker once in a list of replicas"
                    raise self.error(first, "replicas", later, found, expected)
        return replicas

    def leader(self, replicas: IntArray) -> IntArray:
        leader: LongArray = self.columns["leader"]
        ids = self.brokers.id
        offline = leader == LEFT_OUT
        index = np.minimum(np.searchsorted(ids, leader), len(ids) - 1).astype(np.int32)
        known = (ids[index] == leader) & (replicas == index[:, None]).any(axis=1)
        if (first := _first(~offline & ~known)) is not None:
            expected = "one of its replicas, or null"
            raise self.error(first, "leader", None, int(leader[first]), expected)
        return np.where(offline, NO_BROKER, index).astype(np.int32)

    def in_sync(self, replicas: IntArray) -> NDArray[np.bool_]:
        lists: ListColumn = self.columns["in_sync"]
        ids = self.brokers.id
        given = lists.count != LEFT_OUT
        in_sync = np.asarray((replicas != NO_BROKER) & ~given[:, None])
        row, column = lists.row, lists.column
        index = np.minimum(np.searchsorted(ids, lists.values), len(ids) - 1)
        known = ids[index] == lists.values
        match = (replicas[row] == index[:, None]) & known[:, None]
        if (first := _first(~match.any(axis=1))) is not None:
            value = int(lists.values[first])
            raise self.error(int(row[first]), "in_sync", int(column[first]), value, "one of its replicas")
        in_sync[row, match.argmax(axis=1)] = True
        if (repeated := _first(given & (in_sync.sum(axis=1) != lists.count))) is not None:
            found = lists.values[row == repeated].tolist()
            raise self.error(repeated, "in_sync", None, found, "each replica at most once")
        return in_sync

    def log_dir(self, replicas: IntArray, log_dirs: LogDirs) -> IntArray:
        lists: ListColumn = self.columns["log_dirs"]
        held: LongArray = self.columns["replicas"].count
        wrong = (lists.count != LEFT_OUT) & (lists.count != held)
        if (first := _first(wrong)) is not None:
            expected = f"{held[first]}, one for each replica"
            raise self.source.length_error("partitions", first, "log_dirs", int(lists.count[first]), expected)
        paths, code = lists.values.coded
        place_of = np.full((len(self.brokers), len(paths) + 1), NO_BROKER, dtype=np.int32)
        code_of = {path: number for number, path in enumerate(paths)}
        for place, path in enumerate(log_dirs.path):
            if path in code_of:
                place_of[log_dirs.broker[place], code_of[path]] = place
        row, column = lists.row, lists.column
        holder = replicas[row, column]
        found = place_of[holder, code]  # null is -1: the last column, which knows no place
        declares = np.bincount(log_dirs.broker, minlength=len(self.brokers)) > 0
        if (first := _first((found == NO_BROKER) & (code != LEFT_OUT) & declares[holder])) is not None:
            expected = f"a log dir that broker {self.brokers.id[holder[first]]} declares"
            remedy = "declare it there or write null"
            path = paths[code[first]]
            raise self.error(int(row[first]), "log_dirs", int(column[first]), path, expected, remedy)
        log_dir = np.full(replicas.shape, NO_BROKER, dtype=np.int32)
        log_dir[row, column] = found
        return log_dir


def _first(offending: NDArray[np.bool_]) -> int | None:
    """The first True, or None."""
    if not len(offending):
        return None
    first = int(offending.argmax())
    return first if offending[first] else None


UNIQUE = {"uniqueItems": True}


class CapacityRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """The capacity of a broker; a resource left out is not limited and not balanced."""

    cpu: Limit | UnsetType = UNSET
    disk: Limit | UnsetType = UNSET
    network_in: Limit | UnsetType = UNSET
    network_out: Limit | UnsetType = UNSET


HOSTS = "x_hosts"
"""The field of the head with declared capacities of hosts; readers of the bare format pass over it."""


class LogDirRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One log dir that a broker declares."""

    path: Name
    state: Annotated[str, one_of(*(state.name.lower() for state in LogDirState))]
    capacity: Limit | UnsetType = UNSET


class ReplicaBrokerRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One broker in a snapshot file."""

    id: Id
    state: Annotated[str, one_of(*(state.name.lower() for state in ReplicaBrokerState))]
    host: Name | UnsetType | None = UNSET
    rack: Name | UnsetType | None = UNSET
    capacity: CapacityRecord = msgspec.field(default_factory=CapacityRecord)
    log_dirs: list[LogDirRecord] = msgspec.field(default_factory=list)


class HostRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A host whose capacity is less than the sum of its brokers': one network interface, one set of cores."""

    name: Name
    capacity: CapacityRecord


class ReplicaLoadRecord(Struct, forbid_unknown_fields=True, gc=False):
    """The load that a broker carries for one role of one partition."""

    cpu: Amount
    disk: Amount
    network_in: Amount
    network_out: Amount


class PartitionRecord(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """One partition in a snapshot file."""

    topic: Name
    partition: Id
    replicas: Annotated[list[Id], Meta(min_length=1, extra_json_schema=UNIQUE)]
    leader: Id | None
    in_sync: Annotated[list[Id], Meta(extra_json_schema=UNIQUE)] | UnsetType = UNSET
    log_dirs: list[Name | None] | UnsetType = UNSET
    leader_load: ReplicaLoadRecord
    follower_load: ReplicaLoadRecord
    leader_forecast: list[ReplicaLoadRecord] | UnsetType = UNSET
    follower_forecast: list[ReplicaLoadRecord] | UnsetType = UNSET
    held_seconds: list[Id | None] | UnsetType = UNSET


def checked_brokers(source: SnapshotSource) -> tuple[ReplicaBrokers, LogDirs]:
    """Brokers and log dirs as arrays, in ascending order of id.

    Raises
    ------
    InputError
        If there is no broker, an id or log dir is there twice, or a capacity is zero.
    """
    records: list[ReplicaBrokerRecord] = source.records["brokers"]
    where = source.file("brokers")
    if not records:
        raise InputError(f"{where}: there are no brokers, expected at least one broker; export it again")
    first_row: dict[int, int] = {}
    for row, record in enumerate(records):
        place = f"{where}: {source.at('brokers', row)}"
        if record.id in first_row:
            twin = source.at("brokers", first_row[record.id])
            raise InputError(f"{place}.id is {record.id}, which {twin} has already; ids are unique, drop one")
        first_row[record.id] = row
        for name in RESOURCES:
            _check_capacity(f"{place}.capacity.{name}", getattr(record.capacity, name))
        paths: set[str] = set()
        for number, log_dir in enumerate(record.log_dirs):
            below = f"{place}.log_dirs[{number}]"
            if log_dir.path in paths:
                raise InputError(f"{below}.path is {quote(log_dir.path)}, declared twice; drop one")
            paths.add(log_dir.path)
            _check_capacity(f"{below}.capacity", log_dir.capacity)
    ordered = sorted(records, key=lambda record: record.id)
    hosts = tuple(record.host or f"broker-{record.id}" for record in ordered)
    brokers = ReplicaBrokers(
        id=np.array([record.id for record in ordered], dtype=np.int64),
        host=hosts,
        rack=tuple(record.rack or host for record, host in zip(ordered, hosts, strict=True)),
        state=np.array([ReplicaBrokerState[record.state.upper()] for record in ordered], dtype=np.int8),
        capacity=np.array(
            [[_limit(getattr(record.capacity, name)) for name in RESOURCES] for record in ordered],
            dtype=np.float64,
        ),
    )
    declared = [(index, log_dir) for index, record in enumerate(ordered) for log_dir in record.log_dirs]
    log_dirs = LogDirs(
        broker=np.array([index for index, _ in declared], dtype=np.int32),
        path=tuple(log_dir.path for _, log_dir in declared),
        state=np.array([LogDirState[log_dir.state.upper()] for _, log_dir in declared], dtype=np.int8),
        capacity=np.array([_limit(log_dir.capacity) for _, log_dir in declared], dtype=np.float64),
    )
    return brokers, log_dirs


def broker_records(brokers: ReplicaBrokers, log_dirs: LogDirs) -> list[ReplicaBrokerRecord]:
    """The inverse of `checked_brokers`: hosts, racks and capacities that were left out are left out again."""
    records = []
    for index, number in enumerate(brokers.id.tolist()):
        host, rack = brokers.host[index], brokers.rack[index]
        capacity = {
            name: value
            for name, value in zip(RESOURCES, brokers.capacity[index].tolist(), strict=True)
            if np.isfinite(value)
        }
        records.append(
            ReplicaBrokerRecord(
                id=number,
                host=UNSET if host == f"broker-{number}" else host,
                rack=UNSET if rack == host else rack,
                state=ReplicaBrokerState(brokers.state[index]).name.lower(),
                capacity=CapacityRecord(**capacity),
                log_dirs=[
                    LogDirRecord(
                        path=log_dirs.path[place],
                        state=LogDirState(log_dirs.state[place]).name.lower(),
                        capacity=float(size) if np.isfinite(size := log_dirs.capacity[place]) else UNSET,
                    )
                    for place in np.flatnonzero(log_dirs.broker == index).tolist()
                ],
            )
        )
    return records


def _check_capacity(place: str, value: float | UnsetType) -> None:
    if value is not UNSET and not (np.isfinite(value) and value > 0):
        remedy = "leave the field out if it is not limited"
        raise InputError(f"{place} is {value:g}, expected a finite number above 0; {remedy}")


def _limit(value: float | UnsetType) -> float:
    return np.inf if value is UNSET else float(value)


def _build(source: SnapshotSource) -> ReplicasSnapshot:
    brokers, log_dirs = checked_brokers(source)
    partitions = checked_partitions(source, brokers, log_dirs)
    hosts = checked_hosts(source, brokers)
    extra = tuple(pair for pair in source.document.extra if pair[0] != HOSTS)
    return ReplicasSnapshot(source.reference, source.quality, brokers, log_dirs, partitions, extra, hosts)


def checked_hosts(
    source: SnapshotSource, brokers: ReplicaBrokers
) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Declared capacities of hosts, in order of name.

    Raises
    ------
    InputError
        If the field is malformed, a host is there twice or has no broker, or a capacity is zero.
    """
    if HOSTS not in dict(source.document.extra):
        return ()
    records: list[HostRecord] = source.document.part(HOSTS, list[HostRecord])
    found: dict[str, tuple[float, ...]] = {}
    for row, record in enumerate(records):
        place = f"{source.document.path}: $.{HOSTS}[{row}]"
        if record.name in found:
            raise InputError(f"{place}.name is {quote(record.name)}, declared twice; drop one")
        if record.name not in brokers.host:
            there = ", ".join(sorted(set(brokers.host)))
            raise InputError(
                f"{place}.name is {quote(record.name)}, expected the host of a broker ({there}); correct it"
            )
        for name in RESOURCES:
            _check_capacity(f"{place}.capacity.{name}", getattr(record.capacity, name))
        found[record.name] = tuple(_limit(getattr(record.capacity, name)) for name in RESOURCES)
    return tuple(sorted(found.items()))


def host_records(hosts: tuple[tuple[str, tuple[float, ...]], ...]) -> list[dict[str, object]]:
    """The inverse of `checked_hosts`, as JSON values."""
    return [
        {
            "name": name,
            "capacity": {
                resource: value
                for resource, value in zip(RESOURCES, capacity, strict=True)
                if np.isfinite(value)
            },
        }
        for name, capacity in hosts
    ]


def _contents(snapshot: ReplicasSnapshot) -> SnapshotContents:
    return SnapshotContents(
        head={**dict(snapshot.extra), **({HOSTS: host_records(snapshot.hosts)} if snapshot.hosts else {})},
        records={"brokers": broker_records(snapshot.brokers, snapshot.log_dirs)},
        columns={"partitions": partition_columns(snapshot)},
    )


def _described(snapshot: ReplicasSnapshot) -> str:
    return (
        f"{len(snapshot.brokers)} brokers, {len(snapshot.partitions)} partitions of "
        f"{snapshot.reference.cluster}, taken at {snapshot.reference.taken_at}"
    )


FORMAT = SnapshotFormat(
    name="trimtab/replicas-snapshot/1",
    kind=ReplicasSnapshot,
    head=(),
    records={"brokers": ReplicaBrokerRecord},
    columns={"partitions": PartitionRecord},
    build=_build,
    contents=_contents,
    described=_described,
)

read_snapshot, write_snapshot = FORMAT.read, FORMAT.write
