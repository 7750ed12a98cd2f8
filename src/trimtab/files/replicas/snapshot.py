"""Replicas snapshots in files: `trimtab/replicas-snapshot/1`, as `.json`, `.json.gz` or a Parquet folder.

A record is a row of a table. Fields without a default must be there; `None` is only a value where the format
says that null is one.
"""

from typing import Annotated

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.replicas.partitions import checked_partitions, partition_columns
from trimtab.files.snapshot_format import SnapshotContents, SnapshotFormat
from trimtab.files.snapshot_source import SnapshotSource
from trimtab.model.documents import Amount, Limit
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import (
    LogDirs,
    LogDirState,
    ReplicaBrokers,
    ReplicaBrokerState,
    ReplicasSnapshot,
)
from trimtab_common.documents import Id, Name, one_of, quote
from trimtab_common.errors import InputError

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
