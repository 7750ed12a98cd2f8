"""The balancer `keys`: its snapshot, its plan and the receipt of an execution, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from trimtab.model.documents import Amount, Order, Quality, Receipt, SnapshotReference, StepOutcome
from trimtab.model.load import FloatArray, Imbalance, imbalance
from trimtab.model.plan import Plan, Prediction
from trimtab_common.documents import Count, Name
from trimtab_common.errors import InputError
from trimtab_keys.core.routing import group_count

if TYPE_CHECKING:
    from numpy.typing import NDArray


HEX: Final = "0x"
HASHED: Final = "hmac:"
"""Before a keyed hash, from which nobody gets the key back."""
MAX_KEY_LENGTH: Final = 40
"""Characters of a key that people are shown: a key may be a megabyte long."""


def short_key_text(text: str) -> str:
    """The text of a key, short enough for a sentence or a table; of a long one its beginning and length."""
    return text if len(text) <= MAX_KEY_LENGTH else f"{text[:MAX_KEY_LENGTH]}… ({len(text):,} characters)"


def key_text(key: bytes) -> str:
    """The text of a key; no two keys have the same."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    plain = text.isprintable() and text == text.strip() and not text.startswith((HEX, HASHED))
    return text if text and plain else HEX + key.hex()


def key_bytes(text: str) -> bytes:
    """The key of a text.

    Raises
    ------
    InputError
        If it is a hash, or no text of a key.
    """
    if text.startswith(HASHED):
        raise InputError(
            f"key {text} is a hash, which names no key to a producer: observe the topic again without "
            "pipeline.keys.hash_keys"
        )
    if not text.startswith(HEX):
        return text.encode("utf-8")
    try:
        return bytes.fromhex(text.removeprefix(HEX))
    except ValueError:
        raise InputError(
            f"key {text} begins with {HEX} and is not hexadecimal: write the bytes of the key so"
        ) from None


@dataclass(frozen=True, eq=False)
class KeyedRecords:
    """Records with a key, in the order in which they were sent.

    Attributes
    ----------
    at
        Shape (records,), seconds since 1970 or since any other beginning, ascending.
    which
        Shape (records,), places in `keys`.
    keys
        Different from one another, in the order of their bytes.
    keyless
        Records without a key that were left out: they may go anywhere.
    """

    at: FloatArray
    which: NDArray[np.int64]
    keys: tuple[bytes, ...]
    keyless: int = 0

    def __len__(self) -> int:
        return len(self.at)

    def between(self, since: float | None, until: float | None) -> KeyedRecords:
        """Those from `since` on and before `until`, in the units of `at`."""
        first = 0 if since is None else int(np.searchsorted(self.at, since))
        last = len(self) if until is None else int(np.searchsorted(self.at, until))
        part = slice(first, max(first, last))
        return replace(self, at=self.at[part], which=self.which[part])


RESOURCES: Final = ("records",)
"""What is balanced between partitions: records a second, of what the partition's consumer can do."""


@dataclass(frozen=True, slots=True)
class PartitionLoad:
    """One partition.

    Attributes
    ----------
    records_per_second
        That arrive.
    backlog
        Records that the group has not committed.
    record_bytes
        Mean size of key and value.
    served_per_second
        Records committed; None where no group reads the topic.
    isc, isc_literal
        Instant service consumption, repaired and by the printed formula; None where no capacity is known.
    ps_content, ps_load
        Its distance from every partition by what lies there and by load, shape (partitions,); empty where
        there are too many.
    """

    partition: Count
    records_per_second: Amount
    backlog: Count
    record_bytes: Amount
    served_per_second: Amount | None = None
    isc: Amount | None = None
    isc_literal: Amount | None = None
    ps_content: tuple[Amount, ...] = ()
    ps_load: tuple[Amount, ...] = ()

    @property
    def name(self) -> str:
        """Name of the partition in tables."""
        return f"partition {self.partition}"


@dataclass(frozen=True, slots=True)
class HotKey:
    """One of the most frequent keys.

    Attributes
    ----------
    key
        As `trimtab.model.keys` writes it, or a keyed hash of it.
    group
        Its key group.
    records_per_second, share
        Of it, and as a share of the topic's.
    partitions
        To which its records go by the table in force.
    consumer
        Share of one consumer's capacity that it takes; None where no capacity is known.
    """

    key: Name
    group: Count
    records_per_second: Amount
    share: Amount
    partitions: tuple[Count, ...]
    consumer: Amount | None = None


@dataclass(frozen=True, slots=True)
class KeyGroupLoad:
    """One key group: where it goes by the table in force, and its records a second, hot keys included."""

    group: Count
    partition: Count
    records_per_second: Amount


@dataclass(frozen=True)
class KeysSnapshot:
    """One topic at a moment.

    Attributes
    ----------
    topic, topic_id
        Its name, and the id that a topic made anew does not have.
    consumers
        The consumer group whose commits count; empty where there is none.
    version
        Of the routing table in force; 0 is the plain hash.
    base
        Partitions that the hash divides by.
    hashed
        Whether hot keys are told by a keyed hash only.
    capacity, consumer_capacity
        Records a second that consumers can do in one partition, and that one consumer can do in all of its
        own; None where none was ever seen at its limit.
    added_seconds
        Since partitions were last added, by whomever; None where earlier readings do not tell.
    """

    reference: SnapshotReference
    quality: Quality
    topic: Name
    topic_id: Name
    consumers: str
    version: Count
    base: Count
    hashed: bool
    capacity: Amount | None = None
    consumer_capacity: Amount | None = None
    added_seconds: Amount | None = None
    partitions: tuple[PartitionLoad, ...] = ()
    groups: tuple[KeyGroupLoad, ...] = ()
    keys: tuple[HotKey, ...] = ()

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows of `imbalance().usage`."""
        return tuple(one.name for one in self.partitions)

    @property
    def group_number(self) -> int:
        """Key groups that there are."""
        return group_count(self.base)

    @property
    def keyless_share(self) -> float:
        """Of the records read, those without a key; 0 where the reading does not tell."""
        found = dict(self.quality.extra).get("x_keyless_share", 0.0)
        return float(found) if isinstance(found, int | float) else 0.0

    @property
    def placed_share(self) -> float | None:
        """Of the records with a key, those that lie where the table in force puts them.

        None where the reading does not tell: an older one, or without records since that table.
        """
        found = dict(self.quality.extra).get("x_placed_share")
        return float(found) if isinstance(found, int | float) else None

    def imbalance(self, rates: FloatArray | None = None) -> Imbalance:
        """The measures of the records that arrive, or of other rates, shape (partitions,).

        Without a known capacity each partition has all of the load as its capacity: the same for all.
        """
        found = np.array([one.records_per_second for one in self.partitions]) if rates is None else rates
        each = self.capacity or max(1.0, float(found.sum()))
        return imbalance(
            found[:, None], np.full((len(found), 1), each), np.ones(len(found), dtype=np.bool_), RESOURCES
        )


Places = tuple[Count, ...]
"""Partitions."""


class RoutingMoveKind(StrEnum):
    """The kind of a move."""

    ADD = "add_partitions"
    GROUP = "move_group"
    KEY = "split_key"
    """Also to another number of partitions, down to one."""


@dataclass(frozen=True, slots=True)
class RoutingReason:
    """Why a route changes.

    Attributes
    ----------
    goal
        `theta`, `epsilon`, `hot_key`, `capacity`, or `asked` of what is taken back.
    resource
        Of the goal; None for a hot key.
    """

    goal: Name
    resource: Name | None
    text: str


@dataclass(frozen=True, slots=True)
class RoutingMove:
    """One change.

    Attributes
    ----------
    name
        Number of the key group, text of the hot key (`trimtab.model.keys`), or the topic.
    before, after
        Partitions that its records go to; of a topic, how many it has.
    records_per_second
        Of the group or key; 0 of a topic.
    """

    order: Order
    kind: RoutingMoveKind
    name: Name
    before: Places
    after: Places
    records_per_second: Amount
    reason: RoutingReason


@dataclass(frozen=True, slots=True)
class RouteAssignment:
    """One entry that the plan changes, before and after all of it."""

    kind: RoutingMoveKind
    name: Name
    before: Places
    after: Places


@dataclass(frozen=True, slots=True)
class PartitionDrain:
    """One partition before and after the plan.

    Attributes
    ----------
    before_per_second, after_per_second
        Records that arrive.
    drain_before_seconds, drain_after_seconds
        Until its backlog is worked off; None where it never is, or no capacity is known.
    """

    partition: Count
    backlog: Count
    before_per_second: Amount
    after_per_second: Amount
    drain_before_seconds: Amount | None = None
    drain_after_seconds: Amount | None = None


@dataclass(frozen=True, slots=True)
class RoutingCost:
    """How much changes; `records_per_second` go to other partitions than before."""

    groups: Count
    keys: Count
    partitions: Count
    records_per_second: Amount


@dataclass(frozen=True, slots=True)
class RoutingBound:
    """How much any plan has to move that meets the goals with as many partitions."""

    records_per_second: Amount
    proof: str


@dataclass(frozen=True, kw_only=True)
class KeysPlan(Plan[RoutingMove]):
    """A plan of this balancer.

    Attributes
    ----------
    topic, topic_id, consumers
        As in the snapshot.
    version
        Of the table in force when it was made.
    base, partitions
        Partitions that the hash divides by, and those there after the plan.
    drains
        One for each partition there after the plan.
    """

    topic: Name
    topic_id: Name
    consumers: str
    version: Count
    base: Count
    partitions: Count
    assignments: tuple[RouteAssignment, ...]
    cost: RoutingCost
    bound: RoutingBound
    drains: tuple[PartitionDrain, ...] = ()

    @property
    def max_over_mean(self) -> tuple[float, float] | None:
        """The fullest partition against their mean, before and after; None where nothing is told of them.

        Before, partitions that the plan adds do not count.
        """
        before = [one.before_per_second for one in self.drains[: self.partitions - self.cost.partitions]]
        after = [one.after_per_second for one in self.drains]
        if not sum(before) or not sum(after):
            return None
        return max(before) * len(before) / sum(before), max(after) * len(after) / sum(after)


def reverted(plan: KeysPlan) -> KeysPlan:
    """The plan that leads back: routes as they were before; partitions that were added stay."""
    moves = [move for move in plan.moves if move.kind is not RoutingMoveKind.ADD]
    back = tuple(
        replace(
            move,
            order=order,
            before=move.after,
            after=move.before,
            reason=RoutingReason("asked", None, "as it was before the plan that is taken back"),
        )
        for order, move in enumerate(moves, 1)
    )
    return replace(
        plan,
        moves=back,
        assignments=tuple(RouteAssignment(one.kind, one.name, one.before, one.after) for one in back),
        predicted=Prediction(plan.predicted.after, plan.predicted.before),
        problems=(),
        cost=replace(plan.cost, partitions=0),
        bound=RoutingBound(0.0, "nothing has to be taken back"),
        drains=(),
    )


@dataclass(frozen=True, slots=True)
class RoutingOutcome(StepOutcome):
    """The end of one step.

    Attributes
    ----------
    name
        What was done.
    version
        Of the table that it published; None where it published none.
    """

    name: str
    version: int | None


KeysReceipt = Receipt[RoutingOutcome]
