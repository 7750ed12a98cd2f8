"""The records of `trimtab/replicas-snapshot/1` as they stand in files, and what must hold of brokers.

Fields without a default must be there; `None` is only a value where the format says that null is one.
"""

import datetime
import re
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.document import shown
from trimtab.model.errors import InputError
from trimtab.model.load import RESOURCES
from trimtab.model.replicas import Brokers, BrokerState, LogDirs, LogDirState
from trimtab.model.snapshot import Quality

FORMAT = "trimtab/replicas-snapshot/1"
TOP_LEVEL = ("format", "cluster", "taken_at", "brokers", "partitions", "quality")

Amount = Annotated[float, Meta(ge=0)]
Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Name = Annotated[str, Meta(min_length=1)]

CPU_SIGNALS = ("measured", "shares", "absent")


class CapacityRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """What a broker can carry; a resource left out is not limited and not levelled."""

    cpu: Amount | UnsetType = UNSET
    disk: Amount | UnsetType = UNSET
    network_in: Amount | UnsetType = UNSET
    network_out: Amount | UnsetType = UNSET


class LogDirRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One log dir that a broker declares."""

    path: Name
    state: str
    capacity: Amount | UnsetType = UNSET


class BrokerRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One broker."""

    id: Id
    state: str
    host: Name | UnsetType | None = UNSET
    rack: Name | UnsetType | None = UNSET
    capacity: CapacityRecord = msgspec.field(default_factory=CapacityRecord)
    log_dirs: list[LogDirRecord] = msgspec.field(default_factory=list)


class LoadRecord(Struct, forbid_unknown_fields=True, gc=False):
    """What a broker carries for one role of one partition."""

    cpu: Amount
    disk: Amount
    network_in: Amount
    network_out: Amount


class PartitionRecord(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """One partition."""

    topic: Name
    partition: Id
    replicas: Annotated[list[Id], Meta(min_length=1)]
    leader: Id | None
    in_sync: list[Id] | UnsetType = UNSET
    log_dirs: list[Name | None] | UnsetType = UNSET
    leader_load: LoadRecord
    follower_load: LoadRecord


NAMES = tuple(
    {
        *TOP_LEVEL,
        *("valid_share", "oldest_sample_seconds"),
        *BrokerRecord.__struct_fields__,
        *LogDirRecord.__struct_fields__,
        *PartitionRecord.__struct_fields__,
        *RESOURCES,
    }
)
"""Every field name of the format, for "did you mean"."""


def checked_head(where: str, cluster: object, taken_at: object) -> tuple[str, str]:
    """Check which cluster a snapshot is of, and of when.

    Parameters
    ----------
    where
        The file, for messages.
    cluster, taken_at
        As found in the file.

    Returns
    -------
    tuple of str
        `cluster` and `taken_at`.

    Raises
    ------
    InputError
        If the cluster has no name, or the time is no RFC 3339 timestamp.
    """
    if not isinstance(cluster, str) or not cluster:
        raise InputError(
            f"{where}: $.cluster is {shown(cluster)}, expected the cluster's name; correct it there"
        )
    return cluster, checked_time(where, "$.taken_at", taken_at)


def checked_format(where: str, found: object, expected: str) -> None:
    """Refuse a file of another format or version."""
    if found == expected:
        return
    family, _, version = expected.rpartition("/")
    if isinstance(found, str) and found.startswith(f"{family}/"):
        remedy = f"this trimtab reads version {version}; use the trimtab that wrote it"
    else:
        remedy = "name a file of that format"
    raise InputError(f"{where}: $.format is {shown(found)}, expected {shown(expected)}; {remedy}")


def checked_time(where: str, at: str, found: object) -> str:
    """Return `found` if it is an RFC 3339 timestamp with its offset, else refuse it."""
    if isinstance(found, str) and re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", found, re.ASCII
    ):
        try:
            datetime.datetime.fromisoformat(
                found[:19] + "+00:00" if found.endswith("Z") else found[:19] + found[-6:]
            )
            return found
        except ValueError:
            pass
    raise InputError(
        f"{where}: {at} is {shown(found)}, expected a time like 2026-11-21T05:00:00Z; correct it there"
    )


def checked_quality(where: str, found: object) -> Quality:
    """The quality of a snapshot, with the user's own `x_` facts.

    Raises
    ------
    InputError
        If a field is missing, unknown, or out of its range.
    """
    if not isinstance(found, dict):
        raise InputError(f"{where}: $.quality is {shown(found)}, expected an object; correct it there")
    known = ("valid_share", "oldest_sample_seconds", "cpu")
    for name in found:
        if name not in known and not name.startswith("x_"):
            raise InputError(
                f'{where}: $.quality has an unknown field "{name}"; fields of your own begin with x_'
            )
    for name in known:
        if name not in found:
            raise InputError(f'{where}: $.quality has no field "{name}"; add it')
    share, age, cpu = (found[name] for name in known)
    if not _is_number(share) or not 0 <= share <= 1:
        raise InputError(
            f"{where}: $.quality.valid_share is {shown(share)}, expected a number from 0 to 1; correct it"
        )
    if not _is_number(age) or not 0 <= age < np.inf:
        raise InputError(
            f"{where}: $.quality.oldest_sample_seconds is {shown(age)}, expected 0 or more; correct it there"
        )
    if cpu not in CPU_SIGNALS:
        raise InputError(
            f"{where}: $.quality.cpu is {shown(cpu)}, expected one of {', '.join(CPU_SIGNALS)}; correct it"
        )
    extra = tuple((name, found[name]) for name in sorted(found) if name.startswith("x_"))
    return Quality(float(share), float(age), str(cpu), extra)


def checked_brokers(where: str, at: str, records: list[BrokerRecord]) -> tuple[Brokers, LogDirs]:
    """Brokers and log dirs as arrays, in ascending order of id.

    Parameters
    ----------
    where
        The file, for messages.
    at
        The path of a record with its number as `{}`, for messages: `$.brokers[{}]`.
    records
        As they stand in the file.

    Raises
    ------
    InputError
        If there is no broker, an id or log dir is there twice, a state is unknown, or a capacity is zero.
    """
    if not records:
        raise InputError(
            f"{where}: {at.partition('[')[0]} is empty, expected at least one broker; export it again"
        )
    first_row: dict[int, int] = {}
    for row, record in enumerate(records):
        place = f"{where}: {at.format(row)}"
        if record.id in first_row:
            twin = at.format(first_row[record.id])
            raise InputError(f"{place}.id is {record.id}, which {twin} has already; ids are unique, drop one")
        first_row[record.id] = row
        _check_state(place, record.state, BrokerState)
        for name in RESOURCES:
            _check_capacity(f"{place}.capacity.{name}", getattr(record.capacity, name))
        paths: set[str] = set()
        for number, log_dir in enumerate(record.log_dirs):
            below = f"{place}.log_dirs[{number}]"
            if log_dir.path in paths:
                raise InputError(f"{below}.path is {shown(log_dir.path)}, declared twice; drop one")
            paths.add(log_dir.path)
            _check_state(below, log_dir.state, LogDirState)
            _check_capacity(f"{below}.capacity", log_dir.capacity)
    ordered = sorted(records, key=lambda record: record.id)
    hosts = tuple(record.host or f"broker-{record.id}" for record in ordered)
    brokers = Brokers(
        id=np.array([record.id for record in ordered], dtype=np.int64),
        host=hosts,
        rack=tuple(record.rack or host for record, host in zip(ordered, hosts, strict=True)),
        state=np.array([BrokerState[record.state.upper()] for record in ordered], dtype=np.int8),
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


def broker_records(brokers: Brokers, log_dirs: LogDirs) -> list[BrokerRecord]:
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
            BrokerRecord(
                id=number,
                host=UNSET if host == f"broker-{number}" else host,
                rack=UNSET if rack == host else rack,
                state=BrokerState(brokers.state[index]).name.lower(),
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


def quality_record(quality: Quality) -> dict[str, Any]:
    """The inverse of `checked_quality`."""
    return {
        "valid_share": quality.valid_share,
        "oldest_sample_seconds": quality.oldest_sample_seconds,
        "cpu": quality.cpu,
        **dict(quality.extra),
    }


def _check_state(place: str, state: str, kind: type[BrokerState] | type[LogDirState]) -> None:
    names = [member.name.lower() for member in kind]
    if state not in names:
        raise InputError(
            f"{place}.state is {shown(state)}, expected one of {', '.join(names)}; correct it there"
        )


def _check_capacity(place: str, value: float | UnsetType) -> None:
    if value is not UNSET and not (np.isfinite(value) and value > 0):
        remedy = "leave the field out if it is not limited"
        raise InputError(f"{place} is {value:g}, expected a finite number above 0; {remedy}")


def _limit(value: float | UnsetType) -> float:
    return np.inf if value is UNSET else float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
