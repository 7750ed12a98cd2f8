"""The records of `trimtab/bundles-snapshot/1` as they stand in files: a row of a table each, and the head's.

Fields without a default must be there; `None` is only a value where the format says that null is one.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from trimtab.files.head import TIME_PATTERN
from trimtab.files.refusals import one_of_words
from trimtab.model.values import Amount, Bundle, Hash, Limit, Name

Stored = Annotated[int, Meta(ge=0, le=2**62)]
"""A number of things, as a column of 64-bit numbers holds it."""

LoadManager = Annotated[str, one_of_words("modular", "extensible")]
Usage = Annotated[str, one_of_words("measured", "declared")]


class LimitRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """The capacity of a broker; a resource left out is not limited and not levelled."""

    cpu: Limit | UnsetType = UNSET
    bandwidth_in: Limit | UnsetType = UNSET
    bandwidth_out: Limit | UnsetType = UNSET
    message_rate: Limit | UnsetType = UNSET


class LoadRecord(Struct, forbid_unknown_fields=True, gc=False):
    """The load that a bundle or a topic brings along, in one view."""

    cpu: Amount
    bandwidth_in: Amount
    bandwidth_out: Amount
    message_rate: Amount


class BaseRecord(Struct, forbid_unknown_fields=True, gc=False, omit_defaults=True):
    """The load of a broker that owns nothing; a resource left out is 0."""

    cpu: Amount = 0.0
    bandwidth_in: Amount = 0.0
    bandwidth_out: Amount = 0.0
    message_rate: Amount = 0.0


class BrokerRecord(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One broker."""

    name: Name
    in_service: bool
    capacity: LimitRecord = msgspec.field(default_factory=LimitRecord)
    base: BaseRecord = msgspec.field(default_factory=BaseRecord)


class BundleRecord(Struct, forbid_unknown_fields=True, gc=False):
    """One bundle; a load for every view."""

    bundle: Bundle
    owner: Name | None
    movable: bool
    sessions: Stored
    topics: Stored
    load: list[LoadRecord]


class TopicRecord(Struct, forbid_unknown_fields=True, gc=False):
    """One topic that carries traffic."""

    topic: Name
    bundle: Name
    hash: Hash
    sessions: Stored
    load: LoadRecord


class DepartureRecord(Struct, forbid_unknown_fields=True):
    """A bundle that left a broker."""

    bundle: Name
    broker: Name
    at: Annotated[str, Meta(extra_json_schema={"pattern": TIME_PATTERN})]
