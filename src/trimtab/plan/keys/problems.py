"""The problems of a plan of the balancer `keys`: causes of missed goals."""

from __future__ import annotations

from trimtab.files.keys.settings import KeysSettings
from trimtab.model.keys.snapshot import RESOURCES, HotKey, KeysSnapshot, short_key_text
from trimtab.model.load import Imbalance
from trimtab.model.plan import Problem
from trimtab.plan.keys.rebalance import RoutingBoard, keyed_loads
from trimtab.plan.keys.table_capacity import SPLIT_KEY_BYTES, TABLE_BYTES
from trimtab_keys.core.hashes import HASH_SOURCE


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
