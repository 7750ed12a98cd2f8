"""The figures of the demo of queues, worked out by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from demos.queues import waits_by_class
from trimtab_queues.format.documents import WAIT_BUCKETS


class Lake:
    """Rows of the table `classes`."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def table(self, name: str, columns: list[str], **period: object) -> pa.Table:
        assert name == "classes"
        return pa.Table.from_pylist(self.rows)


def row(name: str, waited: float, **counts: int) -> dict[str, Any]:
    """What one process did of a class: so many waits in each bucket."""
    buckets = [counts.get(f"b{number}", 0) for number in range(WAIT_BUCKETS)]
    return {"message_class": name, "processed": sum(buckets), "waited_seconds": waited, "waits": buckets}


def test_waits_of_all_processes_count_together() -> None:
    """98 waits of a millisecond in one process, two of 16 ms in the other: the 99th of a hundred is long."""
    lake: Any = Lake([row("vote", 0.098, b0=98), row("vote", 0.032, b8=2), row("report", 0.0)])
    found = waits_by_class(lake, 0.0, 1.0)
    assert found == {
        "vote": {"messages": 100, "mean": pytest.approx(0.0013), "p50": 0.001, "p99": 0.016}
    }  # fmt: skip
