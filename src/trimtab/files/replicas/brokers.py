"""Brokers and log dirs of a snapshot file: records to arrays and back, and what must hold of them."""

import numpy as np
from msgspec import UNSET, UnsetType

from trimtab.files.refusals import shown
from trimtab.files.replicas.records import BrokerRecord, CapacityRecord, LogDirRecord
from trimtab.files.snapshot_source import Source
from trimtab.model.errors import InputError
from trimtab.model.replicas.resources import RESOURCES
from trimtab.model.replicas.snapshot import Brokers, BrokerState, LogDirs, LogDirState


def checked_brokers(source: Source) -> tuple[Brokers, LogDirs]:
    """Brokers and log dirs as arrays, in ascending order of id.

    Raises
    ------
    InputError
        If there is no broker, an id or log dir is there twice, or a capacity is zero.
    """
    records: list[BrokerRecord] = source.records["brokers"]
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
                raise InputError(f"{below}.path is {shown(log_dir.path)}, declared twice; drop one")
            paths.add(log_dir.path)
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


def _check_capacity(place: str, value: float | UnsetType) -> None:
    if value is not UNSET and not (np.isfinite(value) and value > 0):
        remedy = "leave the field out if it is not limited"
        raise InputError(f"{place} is {value:g}, expected a finite number above 0; {remedy}")


def _limit(value: float | UnsetType) -> float:
    return np.inf if value is UNSET else float(value)
