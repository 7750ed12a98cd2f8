"""How Spark starts for one run over history: by the samples of the period, unless the user has chosen."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.parquet import write_rows
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.spark.session import SessionSettings
from trimtab.observe.steps import batch
from trimtab.observe.steps.batch import batch_settings

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)
HERE = SessionSettings(cores=2)


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LARGE_BATCH_SAMPLES", 10)


def land(path: Path, samples: int, at: datetime.datetime = NOON, level: BalancerPipeline = REPLICAS) -> Lake:
    """A lake with one more file of samples of one tick."""
    lake = Lake(path, level)
    kind = level.raw.kinds[0]
    table = pa.table({
        "tick": pa.array([at] * samples, pa.timestamp("us", "UTC")), "kind": [kind] * samples,
    })  # fmt: skip
    write_rows(lake.raw / f"date={at:%Y-%m-%d}" / f"{at:%H%M}.parquet", table)
    return lake


def test_a_large_batch_is_a_large_job(tmp_path: Path) -> None:
    """More samples than the limit, in one file or several, of one balancer or several."""
    lake = land(tmp_path / "one", 10)
    assert batch_settings(HERE, [lake]) == replace(HERE, large_job=False)
    land(tmp_path / "one", 1, NOON + HOUR)
    assert batch_settings(HERE, [lake]) == replace(HERE, large_job=True)
    both = [land(tmp_path / "r", 6), land(tmp_path / "b", 5, level=BUNDLES)]
    assert [batch_settings(HERE, lakes).large_job for lakes in (both[:1], both[1:], both)] == [
        False, False, True,
    ]  # fmt: skip


def test_only_samples_of_the_period_count(tmp_path: Path) -> None:
    """The end of the period is exclusive."""
    lake = land(tmp_path, 9)
    land(tmp_path, 9, NOON + HOUR)
    assert batch_settings(HERE, [lake], NOON, NOON + HOUR).large_job is False
    assert batch_settings(HERE, [lake], NOON, NOON + 2 * HOUR).large_job is True
    assert batch_settings(HERE, [lake], NOON + HOUR).large_job is False
    assert batch_settings(HERE, [lake], None, NOON + HOUR).large_job is False


def test_files_that_cannot_be_read_count_as_nothing(tmp_path: Path) -> None:
    """The run itself reports them."""
    lake = land(tmp_path, 5)
    (tmp_path / "raw" / f"date={NOON:%Y-%m-%d}" / "cut.parquet").write_bytes(b"PAR1")
    assert batch_settings(HERE, [lake]).large_job is False


@pytest.mark.parametrize(
    "own",
    [
        SessionSettings(large_job=False),
        SessionSettings(large_job=True),
        SessionSettings(master="spark://one:7077"),
        SessionSettings(master="sc://one"),
    ],
)
def test_the_choice_of_the_user_and_a_cluster_stay(tmp_path: Path, own: SessionSettings) -> None:
    """Whatever the lake holds."""
    assert batch_settings(own, [land(tmp_path, 11)]) is own
