"""The size of a routing table: it is one record, which brokers and clients must accept.

Moves key groups until partitions are balanced, with the fewest records per second, the fullest partition
first.

The problems of a plan of the balancer `keys`: causes of missed goals.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product
from typing import Final

from trimtab.files.keys.settings import KeysSettings
from trimtab.model.goals import ROUNDING
from trimtab.model.keys import RESOURCES, HotKey, KeysSnapshot, Places, short_key_text
from trimtab.model.load import Imbalance
from trimtab.model.plan import Problem
from trimtab_keys.core.routing import HASH_SOURCE

SPLIT_KEY_BYTES: Final = 1_024
"""The longest key that is split. Names, numbers and addresses are shorter by far; a table of hundreds of such
keys is still one record, and each client compares it with every record that it sends."""
TABLE_BYTES: Final = 786_432
"""Brokers refuse a record of more than 1,048,588 bytes unless told otherwise (`message.max.bytes`), and
kafka-python one of more than 1,048,576. A quarter is reserved for entries that a snapshot does not list:
split keys that are no longer frequent, and earlier places that the table in force still names.
"""

_HEAD_BYTES: Final = 1_024
"""Everything but routes and offsets; a topic's name has at most 249 bytes."""
_ENTRY_BYTES: Final = 64
"""A route without its key and partitions: names of fields, brackets, the number of a group."""
_PLACE_BYTES: Final = 8
"""A partition in a list, of up to six digits."""
_OFFSET_BYTES: Final = 21
"""An offset in a list, of up to nineteen digits."""


@dataclass
class TableCapacity:
    """Bytes that are left in a table."""

    left: int

    @classmethod
    def remaining(cls, snapshot: KeysSnapshot) -> TableCapacity:
        """Bytes left besides the entries of the table in force, as far as the snapshot lists them."""
        room = cls(TABLE_BYTES - _HEAD_BYTES - _OFFSET_BYTES * len(snapshot.partitions))
        places = {one.group: one.partition for one in snapshot.groups}
        for group, place in places.items():
            if place != group % snapshot.base:
                room.left -= group_bytes()
        for key in snapshot.keys:
            if key.partitions != (places.get(key.group),):
                room.left -= key_bytes(len(key.key.encode()), (), key.partitions)
        return room

    def reserve_key(self, size: int, before: Places, after: Places) -> bool:
        """Reserve space for a key of a given length, if there is enough."""
        needed = key_bytes(size, before, after)
        if needed > self.left:
            return False
        self.left -= needed
        return True

    @property
    def groups(self) -> int:
        """Number of key groups that still fit."""
        return max(0, self.left // group_bytes())


def key_bytes(size: int, before: Places, after: Places) -> int:
    """Bytes of the route of a key: base64, its places, and its earlier places."""
    return _ENTRY_BYTES + 4 * -(-size // 3) + _PLACE_BYTES * (len(before) + len(after))


def group_bytes() -> int:
    """Bytes of the route of a key group: one partition, and one earlier one."""
    return _ENTRY_BYTES + 2 * _PLACE_BYTES


INNER_MARGIN: Final = 0.9
"""Moves aim at nine tenths of ε, so that the next reading needs no further moves."""

TRIES: Final = 256
"""Number of pairs of a group and a partition that are tried at a time."""


@dataclass
class RoutingBoard:
    """Partitions and their loads, changed move by move.

    Attributes
    ----------
    loads
        Records a second by partition.
    places
        The partition of each key group.
    rates
        Records a second of each group, without those of keys that have a route of their own.
    """

    loads: list[float]
    places: list[int]
    rates: list[float]

    @property
    def mean(self) -> float:
        """Mean number of records per second of a partition."""
        return sum(self.loads) / len(self.loads)

    def shift(self, before: tuple[int, ...], after: tuple[int, ...], rate: float) -> float:
        """Split a rate over other partitions than before; returns the rate that is new to its partition."""
        for one in before:
            self.loads[one] -= rate / len(before)
        for one in after:
            self.loads[one] += rate / len(after)
        stays = sum(min(rate / len(before), rate / len(after)) for one in set(before) & set(after))
        return rate - stays

    def least_loaded(self, count: int, retained: tuple[int, ...]) -> tuple[int, ...]:
        """A number of partitions: those that stay, then the emptiest; equal ones by ascending number."""
        others = sorted(set(range(len(self.loads))) - set(retained), key=lambda one: (self.loads[one], one))
        return tuple(sorted((*retained, *others)[:count]))


def board_of(snapshot: KeysSnapshot, count: int) -> RoutingBoard:
    """The current partitions, extended to a given number by empty ones."""
    loads = [one.records_per_second for one in snapshot.partitions]
    loads += [0.0] * (count - len(loads))
    places = [one.partition for one in snapshot.groups]
    rates = [one.records_per_second for one in snapshot.groups]
    for key in snapshot.keys:
        if key.partitions != (places[key.group],):
            rates[key.group] = max(0.0, rates[key.group] - key.records_per_second)
    return RoutingBoard(loads, places, rates)


def keyed_loads(snapshot: KeysSnapshot) -> list[float]:
    """Records a second by partition that key groups and split keys account for."""
    board = board_of(snapshot, len(snapshot.partitions))
    found = [0.0] * len(snapshot.partitions)
    for place, rate in zip(board.places, board.rates, strict=True):
        found[place] += rate
    for key in snapshot.keys:
        if key.partitions != (board.places[key.group],):
            for place in key.partitions:
                found[place] += key.records_per_second / len(key.partitions)
    return found


@dataclass(frozen=True)
class GroupShift:
    """A move of one group, with the loads of both partitions before it."""

    group: int
    source: int
    target: int
    rate: float
    source_load: float
    target_load: float


def rebalance(board: RoutingBoard, epsilon: float, ceiling: float, most: int) -> list[GroupShift]:
    """Move groups until no partition is further than ε from the mean or above the ceiling, or none helps.

    Parameters
    ----------
    board
        Changed.
    epsilon
        Highest deviation from the mean.
    ceiling
        Maximum number of records per second of a partition.
    most
        The most groups to move.

    Notes
    -----
    Each turn moves a group from the fullest partition to the emptiest: the smallest group that suffices,
    otherwise the largest that fits. No group moves twice, so the loop ends.
    """
    mean = board.mean
    band = (mean * (1 - INNER_MARGIN * epsilon), min(ceiling, mean * (1 + INNER_MARGIN * epsilon)))
    free = {group for group, rate in enumerate(board.rates) if rate > 0}
    shifts: list[GroupShift] = []
    while True:
        shifts += _descend(board, band, free, most - len(shifts))
        more = _free_target(board, band, free, most - len(shifts))
        if not more:
            return shifts
        shifts += more


def _descend(board: RoutingBoard, band: tuple[float, float], free: set[int], most: int) -> list[GroupShift]:
    """Take from the fullest and give to the emptiest until loads are in the band or nothing helps."""
    low, high = band
    by_place: dict[int, list[tuple[float, int]]] = {}
    for group in free:
        by_place.setdefault(board.places[group], []).append((board.rates[group], group))
    for its in by_place.values():
        its.sort()
    shifts: list[GroupShift] = []
    barren: set[int] = set()
    while len(shifts) < most:
        loads = board.loads
        target = min(range(len(loads)), key=lambda one: (loads[one], one))
        sources = [one for one in range(len(loads)) if one not in barren and loads[one] > loads[target]]
        if not sources:
            break
        source = min(sources, key=lambda one: (-loads[one], one))
        if loads[source] <= high and loads[target] >= low:
            break
        found = _group(by_place.get(source, []), loads[source], loads[target], band)
        if found is None:
            barren.add(source)
            continue
        by_place[source].remove(found)
        shifts.append(_shifted(board, free, found[1], target))
    return shifts


def _free_target(
    board: RoutingBoard, band: tuple[float, float], free: set[int], most: int
) -> list[GroupShift]:
    """Move a group from the fullest partition that is too large for any other, and move smaller groups back.

    For a partition with few large groups that fit nowhere else. Reverted if the fullest partition is as full
    as before.
    """
    loads = board.loads
    source = min(range(len(loads)), key=lambda one: (-loads[one], one))
    fullest = loads[source]
    if fullest <= band[1] or most < 1:
        return []
    groups = sorted(
        (one for one in free if board.places[one] == source), key=lambda one: (board.rates[one], one)
    )
    targets = sorted(set(range(len(loads))) - {source}, key=lambda one: (loads[one], one))
    for group, target in islice(product(groups, targets), TRIES):
        tried, left = RoutingBoard(list(loads), list(board.places), board.rates), set(free)
        shifts = [_shifted(tried, left, group, target), *_descend(tried, band, left, most - 1)]
        if max(tried.loads) < fullest * (1 - ROUNDING):
            board.loads, board.places = tried.loads, tried.places
            free.intersection_update(left)
            return shifts
    return []


def _shifted(board: RoutingBoard, free: set[int], group: int, target: int) -> GroupShift:
    source, rate = board.places[group], board.rates[group]
    shift = GroupShift(group, source, target, rate, board.loads[source], board.loads[target])
    board.shift((source,), (target,), rate)
    board.places[group] = target
    free.discard(group)
    return shift


def _group(
    there: list[tuple[float, int]], source: float, target: float, band: tuple[float, float]
) -> tuple[float, int] | None:
    """The group to move, out of those there by ascending rate; None where each would make things worse."""
    low, high = band
    if source > high:
        need, room = source - high, high - target
    else:
        need, room = low - target, source - low
    enough = [one for one in there if need <= one[0] <= room]
    if enough:
        return enough[0]
    fitting = [one for one in there if one[0] <= min(need, room)]
    if fitting:
        return fitting[-1]
    # None fits: the smallest still helps if the fuller of the two ends below the previous maximum.
    helps = [one for one in there if target + one[0] < source]
    return helps[0] if helps and source > high else None


def long_key(key: HotKey, size: int) -> Problem:
    """A key that is to be split, and is too long for a table."""
    return Problem(
        "long_key",
        f"key {short_key_text(key.key)} is to be split and has {size:,} bytes, and a table names keys of "
        f"{SPLIT_KEY_BYTES:,} at most, since every client reads the whole table: give its records a shorter "
        "key",
        proof={"key_bytes": size, "most_bytes": SPLIT_KEY_BYTES},
    )


def large_table(text: str, first: HotKey | None = None) -> Problem:
    """The problem of keys and groups that do not fit in a table."""
    named = (
        ""
        if first is None
        else f" {short_key_text(first.key)} with {first.records_per_second:,.0f} records/s"
    )
    return Problem(
        "large_table",
        f"{text}{named}: the table would have more than {TABLE_BYTES:,} bytes, and brokers take a record of "
        "1,048,588 (message.max.bytes): lower pipeline.keys.max_keys or raise keys.split_above, so that "
        "only the hottest are split",
        proof={"most_bytes": TABLE_BYTES},
    )


def serial_key(key: HotKey, capacity: float, count: int) -> Problem:
    """A key whose consumers keep up only if its effects are cheap."""
    return Problem(
        "serial_key",
        f"one key is more than one consumer can do serially: {short_key_text(key.key)} gets "
        f"{key.records_per_second:,.0f} records/s, a consumer does {capacity:,.0f}; over {count} partitions "
        "its records are received and prepared side by side, but effects come one after the other: if these "
        "are what takes the time, no table helps; divide the key, or make its effects cheaper",
        proof={"records_per_second": key.records_per_second, "capacity": capacity},
    )


def unmet_goal(
    snapshot: KeysSnapshot, settings: KeysSettings, found: Imbalance, goal: str, row: int, board: RoutingBoard
) -> Problem:
    """A missed goal at its worst partition, and the largest loads there."""
    if goal == "theta":
        value, limit = f"{found.usage[row, 0]:.1%}", f"{settings.theta[0]:.0%}"
    else:
        value, limit = f"{found.deviation[row, 0]:.1%} from the mean", f"{settings.epsilon[0]:.0%}"
    rates = [rate for rate, place in zip(board.rates, board.places, strict=True) if place == row]
    largest, keyless = max(rates, default=0.0), _keyless(snapshot, row)
    why = (
        f"its largest key group has {largest:,.0f} records/s, and at most {settings.max_groups} groups move "
        "(keys.max_groups)"
    )
    if keyless > largest:
        why = (
            f"{keyless:,.0f} of its {board.loads[row]:,.0f} records/s have no key: they go where their "
            "producers send them, and no table moves them; give them keys, or spread them there"
        )
    return Problem(
        "unmet_goal", f"partition {row}: {value} against {goal} {limit}: {why}", resource=RESOURCES[0]
    )


def _keyless(snapshot: KeysSnapshot, row: int) -> float:
    """Records a second of a partition that no key group or split key accounts for, if any lack a key."""
    if not snapshot.keyless_share or row >= len(snapshot.partitions):
        return 0.0
    return snapshot.partitions[row].records_per_second - keyed_loads(snapshot)[row]


def another_partitioner(snapshot: KeysSnapshot, settings: KeysSettings) -> Problem | None:
    """Records outside the places of the table: a plan would move keys from partitions where they are not.

    If the snapshot does not state this, it is checked for partitions that receive less than the load of their
    key groups. Only then, because after a change of tables older records are at the places of the previous
    table.
    """
    share, least = snapshot.placed_share, settings.min_placed_share
    by = f"table {snapshot.version} puts" if snapshot.version else "murmur2, the plain hash, puts"
    told = "" if share is None else f"{share:.1%} of the records with a key lie where {by} them"
    proof: dict[str, object] = {"min_placed_share": least}
    if share is None:
        keyed = keyed_loads(snapshot)
        missing = [
            max(0.0, rate - part.records_per_second)
            for rate, part in zip(keyed, snapshot.partitions, strict=True)
        ]
        row = max(range(len(missing)), key=lambda one: (missing[one], -one), default=0)
        share = 1 - sum(missing) / sum(keyed) if sum(missing) else 1.0
        if share < least:
            told = (
                f"partition {row} gets {snapshot.partitions[row].records_per_second:,.0f} records/s and its "
                f"key groups have {keyed[row]:,.0f}: {share:.1%} of the records with a key or fewer lie "
                f"where {by} them"
            )
    if share >= least:
        return None
    extra = dict(snapshot.quality.extra)
    name = str(extra.get("x_partitioner", ""))
    which = f": {name} fits ({HASH_SOURCE[name]})" if name in HASH_SOURCE else ", and no known one fits"
    if "x_partitioner" not in extra:
        which = ""
    example = extra.get("x_elsewhere")
    if isinstance(example, list | tuple) and len(example) == 3:
        which += (
            f"; key {short_key_text(str(example[0]))} lies in partition {example[1]}, not in {example[2]}"
        )
    proof |= {"placed_share": share, "partitioner": name}
    return Problem(
        "another_partitioner",
        f"{told}, less than keys.min_placed_share ({least:.0%}): producers go by another partitioner"
        f"{which}. By a table nearly all keys would change their partition at once. Let all producers place "
        "keys by murmur2 over the topic's partitions (murmur2_random with librdkafka), observe again when no "
        "older records are read, and plan then",
        proof=proof,
    )
