"""The records of `trimtab/replicas-snapshot/1` as they stand in files.

Fields without a default must be there; `None` is only a value where the format says that null is one.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.model.load import RESOURCES

FORMAT = "trimtab/replicas-snapshot/1"
TOP_LEVEL = ("format", "cluster", "taken_at", "brokers", "partitions", "quality")

Amount = Annotated[float, Meta(ge=0)]
Id = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Name = Annotated[str, Meta(min_length=1)]


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
