"""The records of `trimtab/replicas-snapshot/1` as they stand in files: a row of a table each.

Fields without a default must be there; `None` is only a value where the format says that null is one.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.refusals import one_of_words
from trimtab.model.replicas.snapshot import BrokerState, LogDirState
from trimtab.model.values import Amount, Id, Limit, Name

UNIQUE = {"uniqueItems": True}


class CapacityRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """The capacity of a broker; a resource left out is not limited and not levelled."""

    cpu: Limit | UnsetType = UNSET
    disk: Limit | UnsetType = UNSET
    network_in: Limit | UnsetType = UNSET
    network_out: Limit | UnsetType = UNSET


class LogDirRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One log dir that a broker declares."""

    path: Name
    state: Annotated[str, one_of_words(*(state.name.lower() for state in LogDirState))]
    capacity: Limit | UnsetType = UNSET


class BrokerRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One broker."""

    id: Id
    state: Annotated[str, one_of_words(*(state.name.lower() for state in BrokerState))]
    host: Name | UnsetType | None = UNSET
    rack: Name | UnsetType | None = UNSET
    capacity: CapacityRecord = msgspec.field(default_factory=CapacityRecord)
    log_dirs: list[LogDirRecord] = msgspec.field(default_factory=list)


class LoadRecord(Struct, forbid_unknown_fields=True, gc=False):
    """The load that a broker carries for one role of one partition."""

    cpu: Amount
    disk: Amount
    network_in: Amount
    network_out: Amount


class PartitionRecord(Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    """One partition."""

    topic: Name
    partition: Id
    replicas: Annotated[list[Id], Meta(min_length=1, extra_json_schema=UNIQUE)]
    leader: Id | None
    in_sync: Annotated[list[Id], Meta(extra_json_schema=UNIQUE)] | UnsetType = UNSET
    log_dirs: list[Name | None] | UnsetType = UNSET
    leader_load: LoadRecord
    follower_load: LoadRecord
