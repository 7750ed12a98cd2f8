"""What the pictures of the benchmarks say in their titles."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks"


def _title(monkeypatch: pytest.MonkeyPatch, **rows_per_second: float) -> str:
    """The title of the picture of engines that build so many rows a second."""
    monkeypatch.syspath_prepend(str(FOLDER))
    pictures: Any = import_module("pictures")
    monkeypatch.setattr(pictures, "_written", lambda figure, name: figure)
    names = {"spark": "spark, same job", "comet": "spark with Comet, same job"}
    engines = {
        names.get(name, name): {"rows_per_second": rows, "median_seconds": 1e6 / rows}
        for name, rows in rows_per_second.items()
    }
    live = {"2000": {"partitions": 2000, "master": "local[2]", "tick_seconds": 4.8}}
    figure = pictures.draw_pipeline({"engines": engines, "partitions": 2000, "ticks": 120}, live)
    return str(figure.texts[0].get_text())


def test_the_title_names_the_fastest_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB is faster than Polars, or Polars than DuckDB: the faster one is held against Spark."""
    found = _title(monkeypatch, duckdb=200.0, polars=150.0, spark=100.0)
    assert found == "DuckDB builds tables 2.0 times as fast as Spark; a tick takes 4.8 s"
    assert _title(monkeypatch, duckdb=150.0, polars=300.0, spark=100.0).startswith(
        "Polars builds tables 3.0 "
    )
    assert _title(monkeypatch, duckdb=150.0, polars=300.0, spark=100.0, comet=200.0).startswith(
        "Polars builds tables 1.5 times as fast as Spark with Comet; a tick"
    )


def test_the_title_states_if_spark_is_the_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is then held against the best of the others too."""
    assert _title(monkeypatch, duckdb=50.0, polars=80.0, spark=100.0).startswith(
        "Spark builds tables 1.2 times as fast as Polars"
    )
