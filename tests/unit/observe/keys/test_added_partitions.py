"""When partitions were last added, as looks at a topic tell."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from trimtab.observe.keys.stages import added_seconds

BEGUN = datetime.datetime(2026, 11, 23, 4, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("counts", "seconds"),
    [
        ((), None),
        ((4,), None),
        ((4, 4, 4), None),
        ((4, 6, 6), 10.0),
        ((4, 6, 6, 7), 0.0),
        ((6, 4, 4), None),
    ],
)
def test_the_last_observed_addition_counts(counts: tuple[int, ...], seconds: float | None) -> None:
    """Observations 10 s apart; of two additions the later; a topic with fewer partitions is another one."""
    at = [BEGUN + datetime.timedelta(seconds=10 * one) for one in range(len(counts))]
    rows = [
        {"tick": when, "partition": part}
        for when, number in zip(at, counts, strict=True)
        for part in range(number)
    ]
    schema = pa.schema([("tick", pa.timestamp("us", "UTC")), ("partition", pa.int32())])
    now = round((at[-1] if at else BEGUN).timestamp() * 1_000_000)
    assert added_seconds(pa.Table.from_pylist(rows, schema), now) == seconds
