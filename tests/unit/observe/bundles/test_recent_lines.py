"""Straight lines through the last windows of every bundle, without Spark."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from trimtab.model.bundles.snapshot import RESOURCES
from trimtab.observe.bundles.forecasts import CLEAR_TREND, MIN_WINDOWS, _pass, recent_lines

SLIDE = 60_000_000
START = 1_795_000_000_000_000
MOST = 5
REACH = (MOST - 1) * SLIDE


def telemetry(seed: int, bundles: int = 7, windows: int = 20) -> pa.RecordBatch:
    """Sorted loads with windows missing, loads unknown, and trends in some of them."""
    rng = np.random.default_rng(seed)
    rows = []
    for bundle in range(bundles):
        slope = rng.normal(0, 2e3) * (bundle % 2)
        for window in np.flatnonzero(rng.random(windows) < 0.8):
            load = 1e6 + slope * window + rng.normal(0, 2e3, len(RESOURCES))
            known = rng.random(len(RESOURCES)) < 0.8
            rows.append(
                {
                    "cluster": f"cluster-{bundle // 4}",
                    # Bundles of two clusters may have one name.
                    "bundle": f"public/space/{bundle % 4}" if bundle != 4 else "public/space/3",
                    "window_end": START + int(window) * SLIDE,
                    **{
                        name: value if told else None
                        for name, value, told in zip(RESOURCES, load.tolist(), known, strict=True)
                    },
                }
            )
    fields = [("cluster", pa.string()), ("bundle", pa.string()), ("window_end", pa.timestamp("us", "UTC"))]
    schema = pa.schema(fields + [(name, pa.float64()) for name in RESOURCES])
    for row in rows:
        row["window_end"] = np.datetime64(row["window_end"], "us").item()
    rows.sort(key=lambda row: (row["cluster"], row["bundle"], row["window_end"]))
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def answers(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """What Spark would get back for the batches of one partition."""
    return pa.Table.from_batches(list(_pass(MOST, REACH)(iter(batches)))).to_pylist()


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_least_squares_through_each_rows_own_windows(seed: int) -> None:
    """Row by row and resource by resource: the textbook's fit, where it is clear; else the mean; else
    nothing.
    """
    batch = telemetry(seed)
    rows = batch.to_pylist()
    clear = 0
    for row, found in zip(rows, answers([batch]), strict=True):
        end = row["window_end"].timestamp()
        near = [
            one
            for one in rows
            if (one["cluster"], one["bundle"]) == (row["cluster"], row["bundle"])
            and end - REACH / 1e6 <= one["window_end"].timestamp() <= end
        ]
        assert found["windows"] == len(near)
        for name in RESOURCES:
            told = [one for one in near if one[name] is not None]
            if not told:
                assert found["intercept"][name] is None
                assert found["trend"][name] is None
                continue
            x = np.array([one["window_end"].timestamp() - end for one in told])
            y = np.array([one[name] for one in told])
            level, trend = y.mean(), 0.0
            if len(near) >= MIN_WINDOWS and len(told) > 1:
                slope, begin = np.polyfit(x, y, 1)
                if np.corrcoef(x, y)[0, 1] ** 2 >= CLEAR_TREND:
                    level, trend, clear = begin, slope, clear + 1
            assert found["intercept"][name] == pytest.approx(level, rel=1e-9)
            assert found["trend"][name] == pytest.approx(trend, rel=1e-6)
    assert clear > 20


@pytest.mark.parametrize("size", [1, 3, 17])
def test_batches_make_no_difference_to_the_bit(size: int) -> None:
    """A bundle's rows come in as many batches as Spark likes, some of them empty."""
    batch = telemetry(9)
    pieces = [batch.slice(begin, size) for begin in range(0, batch.num_rows, size)]
    pieces.insert(2, batch.slice(0, 0))
    assert list(map(repr, answers(pieces))) == list(map(repr, answers([batch])))


def test_rows_before_the_reach_do_not_change_the_result() -> None:
    """A step of the stream reads as far back as it must, a batch over history everything."""
    batch = telemetry(11)
    whole = {(row["cluster"], row["bundle"], row["window_end"]): repr(row) for row in answers([batch])}
    begin = START + 9 * SLIDE
    kept = np.array(batch.column("window_end").cast("int64")) >= begin - REACH
    compared = 0
    for row in answers([batch.filter(pa.array(kept))]):
        if row["window_end"].timestamp() * 1e6 >= begin:
            assert repr(row) == whole[row["cluster"], row["bundle"], row["window_end"]]
            compared += 1
    assert compared > 30


def test_no_rows_make_no_lines() -> None:
    """Spark may hand over nothing, or batches with nothing in them."""
    batch = telemetry(1)
    assert list(_pass(MOST, REACH)(iter([batch.slice(0, 0)]))) == []
    none = recent_lines(
        np.zeros(0, np.int64),
        np.zeros(0, np.int64),
        np.zeros((0, 4)),
        np.zeros((0, 4), bool),
        MOST,
        REACH,
    )
    assert none.intercept.shape == (0, 4)
