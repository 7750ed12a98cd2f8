"""Tables of two engines are compared to the last whole number."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FOLDER = Path(__file__).parents[3] / "benchmarks"
STATISTICS = {"mean": 1.5, "max": 2.0}
ROWS = [
    {"cluster": "a", "tick": 1, "bytes": 10**12, "cpu": STATISTICS, "brokers": [1, 2], "live": True},
    {"cluster": "a", "tick": 2, "bytes": None, "cpu": None, "brokers": [], "live": None},
    {
        "cluster": "b",
        "tick": 1,
        "bytes": 0,
        "cpu": {"mean": None, "max": 0.0},
        "brokers": None,
        "live": False,
    },
]


@pytest.fixture
def difference(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str | None]]:
    """The first difference between `ROWS` and other rows."""
    monkeypatch.syspath_prepend(str(FOLDER))
    same_result: Any = import_module("same_result")
    monkeypatch.setattr(same_result, "KEYS", {"loads": ("cluster", "tick")})

    def found(rows: list[dict[str, Any]]) -> str | None:
        tables = ({"loads": pa.Table.from_pylist(each)} for each in (ROWS, rows))
        answer: str | None = same_result.difference(*tables)
        return answer

    yield found


def _changed(row: int, **values: object) -> list[dict[str, Any]]:
    return [one | values if place == row else one for place, one in enumerate(ROWS)]


def test_order_of_rows_and_last_bits_of_fractions_do_not_count(difference: Callable[..., str | None]) -> None:
    """Engines write rows in any order, and add up fractions in any order."""
    assert difference(ROWS[::-1]) is None
    assert difference(_changed(0, cpu={"mean": 1.5 * (1 + 1e-12), "max": 2.0})) is None


@pytest.mark.parametrize(
    ("row", "values"),
    [
        (0, {"bytes": 10**12 + 1}),
        (1, {"bytes": 0}),
        (2, {"bytes": None}),
        (0, {"cpu": {"mean": 1.5, "max": 2.0 + 1e-6}}),
        (1, {"cpu": {"mean": None, "max": None}}),
        (2, {"cpu": {"mean": 0.0, "max": 0.0}}),
        (0, {"brokers": [2, 1]}),
        (0, {"brokers": [1, 2, 3]}),
        (1, {"brokers": None}),
        (0, {"live": False}),
        (1, {"live": False}),
    ],
)
def test_any_other_value_is_a_difference(
    row: int, values: dict[str, object], difference: Callable[..., str | None]
) -> None:
    """The message names the table, the row and the column."""
    key = (ROWS[row]["cluster"], str(ROWS[row]["tick"]))
    found = difference(_changed(row, **values))
    assert found is not None
    assert found.startswith(f"loads {key} {next(iter(values))}: ")
    assert found.endswith("(1 rows differ)")


def test_rows_and_columns_may_not_be_missing(difference: Callable[..., str | None]) -> None:
    """Fewer rows, and a column that is not there, are differences."""
    assert difference(ROWS[:2]) == "loads: 3 and 2 rows"
    without = [{name: value for name, value in row.items() if name != "live"} for row in ROWS]
    assert difference(without) == "loads: the second has no column live"
    assert difference([row | {"cluster": "c"} for row in ROWS]) is not None
