"""Capacity files of Cruise Control as the table `[capacity]` of trimtab.toml.

There are three forms: `capacity.json`, `capacityCores.json` with cores, and `capacityJBOD.json` with the
disks of each log dir. Disks are in MB (2^20 bytes), network rates in KB per second (2^10 bytes). Broker -1
is the default of all others. Source: Cruise Control's wiki page "Capacity Configuration".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from trimtab_common.documents import format_error
from trimtab_common.errors import InputError
from trimtab_common.files import read_bytes

DEFAULT_BROKER: Final = "-1"
_DISK_BYTES: Final = 2**20
_RATE_BYTES: Final = 2**10


class _Cores(Struct):
    cores: float = field(name="num.cores")


class _Capacity(Struct):
    disk: float | dict[str, float] = field(name="DISK")
    cpu: float | _Cores = field(name="CPU")
    network_in: float = field(name="NW_IN")
    network_out: float = field(name="NW_OUT")


class _Broker(Struct):
    broker: str = field(name="brokerId")
    capacity: _Capacity
    doc: str = ""


class _File(Struct):
    brokers: list[_Broker] = field(name="brokerCapacities")


def capacity_tables(path: Path) -> tuple[str, tuple[str, ...]]:
    """The tables `[capacity]` and `[capacity.brokers.ID]` for a capacity file, and what they leave out.

    Raises
    ------
    InputError
        If the file cannot be read, is of another form, or has a capacity that is not above 0.
    """
    data = read_bytes(path)
    try:
        tree = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is no JSON: {error}; name a capacity file of Cruise Control") from None
    try:
        brokers = msgspec.convert(tree, _File, strict=False).brokers
    except msgspec.ValidationError as fault:
        raise format_error(str(path), "$", fault, tree, _File) from None
    tables: dict[str, dict[str, float]] = {}
    notes: list[str] = []
    for one in brokers:
        if not re.fullmatch(r"-1|\d+", one.broker) or one.broker in tables:
            raise InputError(
                f"{path}: brokerId is {one.broker[:40]!r}: write -1 for all brokers or an id, each id once"
            )
        tables[one.broker] = dict(_keys(path, one))
        notes += _notes(one)
    if DEFAULT_BROKER not in tables:
        notes.append(f"no broker {DEFAULT_BROKER}: brokers that are not named have no capacity")
    return _text(tables), tuple(notes)


def _keys(path: Path, one: _Broker) -> Iterator[tuple[str, float]]:
    capacity = one.capacity
    disk = capacity.disk if isinstance(capacity.disk, float) else sum(capacity.disk.values())
    found = {
        "network_in_bytes_per_second": capacity.network_in * _RATE_BYTES,
        "network_out_bytes_per_second": capacity.network_out * _RATE_BYTES,
        "disk_bytes": disk * _DISK_BYTES,
    }
    if isinstance(capacity.cpu, _Cores):
        found["cpu_cores"] = capacity.cpu.cores
    for key, value in found.items():
        if not 0 < value < float("inf"):
            raise InputError(f"{path}: {key} of broker {one.broker} is {value:g}: write a number above 0")
        yield key, value


def _notes(one: _Broker) -> Iterator[str]:
    name = "all brokers" if one.broker == DEFAULT_BROKER else f"broker {one.broker}"
    if isinstance(one.capacity.cpu, float):
        yield (
            f"{name}: CPU is {one.capacity.cpu:g} %, which gives no number of cores. A metrics endpoint of "
            "the broker has it; without one add cpu_cores"
        )
    if isinstance(one.capacity.disk, dict) and len(set(one.capacity.disk.values())) > 1:
        yield (
            f"{name}: log dirs have different sizes, and trimtab spreads disk_bytes evenly. Leave disk_bytes "
            "out where brokers report the sizes of their log dirs"
        )


def _text(tables: Mapping[str, Mapping[str, float]]) -> str:
    """TOML; a broker's table has only what differs from the default."""
    default = tables.get(DEFAULT_BROKER, {})
    lines = ["[capacity]", *(f"{key} = {_number(value)}" for key, value in default.items())]
    for broker, table in tables.items():
        own = {key: value for key, value in table.items() if default.get(key) != value}
        if broker != DEFAULT_BROKER and own:
            lines += ["", f"[capacity.brokers.{broker}]"]
            lines += [f"{key} = {_number(value)}" for key, value in own.items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
