"""The replay as a Spark job: it decides what a local replay decides, to the last byte."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from simulated_clusters.recordings import RecordedCluster, recorded
from support.recordings import replay as replay_command
from synthetic_bundles import SyntheticPulsar, table_of
from synthetic_telemetry import land_by_tick
from trimtab.files.bundles.reports import report_line
from trimtab.history.bundles.effect import ReplayEffect, StrategyComparison, compare, metric_spec
from trimtab.history.bundles.recording import FileReportRecording, LakeReportRecording
from trimtab.history.bundles.replay import ShedderScenario
from trimtab.history.bundles.spark import TaskProgress, replay_on_spark
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.errors import PlanError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import Lake
from trimtab.plan.bundles.strategies import shedder
from trimtab.plan.pulsar.decision import placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab_common.errors import InputError

pytestmark = pytest.mark.spark

CLUSTER = RecordedCluster(brokers=4, bundles=40, ticks=40, hot_seconds=1200, seed=3)
TICKS = list(recorded(CLUSTER))
RULER = metric_spec(PulsarBrokerConfig())
ASKED = {
    "AvgShedder": ("AvgShedder", "AvgShedder", {}, "pulsar-4.2"),
    "as in 4.0": ("UniformLoadShedder", "LeastLongTermMessageRate", {}, "pulsar-4.0"),
    "OverloadShedder": ("OverloadShedder", "RoundRobinBrokerSelector", {}, "pulsar-4.2"),
    "quick/3": (
        "ThresholdShedder",
        "LeastResourceUsageWithWeight",
        {"loadBalancerHistoryResourcePercentage": "0.2", "loadBalancerSheddingGracePeriodMinutes": "3"},
        "article",
    ),
    "TransferShedder": ("TransferShedder", None, {}, "pulsar-4.2"),
}
SCENARIOS = {
    name: ShedderScenario(
        shedder(strategy),
        make_options(options, variant),
        seed=7,
        placer=None if placement is None else placer(placement),
        world_answers=True,
    )
    for name, (strategy, placement, options, variant) in ASKED.items()
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of twenty minutes."""
    folder = tmp_path_factory.mktemp("recording")
    for number, part in enumerate((TICKS[:20], TICKS[20:])):
        (folder / f"{number}.jsonl").write_text("".join(map(report_line, part)), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def on_spark(
    spark: SparkSession, recording: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[StrategyComparison, Path, dict[str, TaskProgress]]:
    """What the job found, the folder of its decisions, and what was heard last of its progress."""
    out = tmp_path_factory.mktemp("out") / "decisions"
    heard: dict[str, TaskProgress] = {}
    found = replay_on_spark(spark, FileReportRecording(recording), SCENARIOS, RULER, out, heard.update)
    return found, out, heard


def same(one: ReplayEffect, other: ReplayEffect) -> bool:
    """Equal to the last bit."""
    return all(
        np.array_equal(here, there, equal_nan=True) if isinstance(here, np.ndarray) else here == there
        for here, there in (
            (getattr(one, field.name), getattr(other, field.name))
            for field in dataclasses.fields(ReplayEffect)
        )
    )


@pytest.mark.parametrize("name", ASKED)
def test_decisions_are_those_of_the_local_replay_byte_for_byte(
    name: str,
    on_spark: tuple[StrategyComparison, Path, dict[str, TaskProgress]],
    recording: Path,
    tmp_path: Path,
) -> None:
    """Each strategy with its settings, variant and seed; each unloads something in this recording."""
    strategy, placement, options, variant = ASKED[name]
    local = tmp_path / "local.jsonl"
    settings = [word for option in options.items() for word in ("--set", "=".join(option))]
    placed = [] if placement is None else ["--placement", placement]
    world = ("--mode", "simulated", "--pulsar-version", variant, "--seed", 7, "--out", local)
    assert replay_command("--reports", recording, "--strategy", strategy, *placed, *settings, *world) == 0
    _, out, _ = on_spark
    found = out / f"{name.replace('/', '%2F')}.jsonl"
    assert found.read_bytes() == local.read_bytes()
    assert len(found.read_bytes().splitlines()) == len(TICKS)
    assert b'"unloads": {"' in found.read_bytes()


def test_figures_are_those_of_the_local_comparison_to_the_last_bit(
    on_spark: tuple[StrategyComparison, Path, dict[str, TaskProgress]],
) -> None:
    """Of every strategy, and of the recording with nothing moved."""
    found, _, _ = on_spark
    local = compare(TICKS, SCENARIOS, RULER)
    assert found.measured_by == local.measured_by
    assert same(found.unmoved, local.unmoved)
    assert list(found.effects) == list(local.effects)
    assert all(same(found.effects[name], one) for name, one in local.effects.items())


def test_the_lake_is_replayed_like_the_files_that_it_was_recorded_from(
    spark: SparkSession, recording: Path, tmp_path: Path
) -> None:
    """Samples of a cluster in Parquet: the same figures as from its reports."""
    cluster = SyntheticPulsar(moves=((2, 3, 1), (3, 4, None)))
    land_by_tick(table_of(cluster.rows(8)), Lake(tmp_path, BUNDLES).raw)
    one = ShedderScenario(
        shedder("OverloadShedder"), PulsarBrokerConfig(), placer=placer("LeastLongTermMessageRate")
    )
    found = replay_on_spark(spark, LakeReportRecording(tmp_path), {"one": one}, RULER)
    local = compare(cluster.reports(8), {"one": one}, RULER)
    assert len(found.unmoved.at) == 8
    assert same(found.unmoved, local.unmoved)
    assert same(found.effects["one"], local.effects["one"])


def test_progress_is_reported_for_every_task(
    on_spark: tuple[StrategyComparison, Path, dict[str, TaskProgress]],
) -> None:
    """At the end all have processed all ticks."""
    _, _, heard = on_spark
    assert heard == dict.fromkeys(
        ["nothing moved", *ASKED], TaskProgress(len(TICKS), TICKS[-1].at, ended=True)
    )


def test_warnings_about_the_recording_are_reported_once(
    spark: SparkSession, recording: Path, tmp_path: Path
) -> None:
    """A bundle reported by two brokers counts at both, and a warning states this."""
    bundle = TICKS[0].brokers["broker-1:8080"].bundles[0]
    other = TICKS[0].brokers["broker-2:8080"]
    moving = {
        **TICKS[0].brokers,
        "broker-2:8080": dataclasses.replace(other, bundles=(*other.bundles, bundle)),
    }
    path = tmp_path / "moving.jsonl"
    path.write_text(report_line(ReportTick(TICKS[0].at, moving)), encoding="utf-8")
    told: list[str] = []
    some = {name: SCENARIOS[name] for name in ("OverloadShedder", "TransferShedder")}
    replay_on_spark(spark, FileReportRecording(path), some, RULER, warned=told.append)
    (sentence,) = told
    assert sentence.startswith("1 of 1 ticks have a bundle at two brokers")


def test_user_errors_have_no_stack_trace(spark: SparkSession, recording: Path, tmp_path: Path) -> None:
    """A scenario that cannot go on is named; a recording that is not sound, with its line."""
    homeless = dataclasses.replace(SCENARIOS["OverloadShedder"], placer=None)
    out = tmp_path / "decisions"
    with pytest.raises(PlanError, match=r"^second: bundle \S+ was unloaded without a destination"):
        replay_on_spark(
            spark,
            FileReportRecording(recording),
            {"first": SCENARIOS["TransferShedder"], "second": homeless},
            RULER,
            out,
        )
    broken = tmp_path / "broken.jsonl"
    broken.write_text(report_line(TICKS[0]) + "{\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"^\S+broken\.jsonl: line 2"):
        replay_on_spark(
            spark, FileReportRecording(broken), {"first": SCENARIOS["TransferShedder"]}, RULER, out
        )
    assert [path.name for path in tmp_path.iterdir()] == ["broken.jsonl"]


def test_a_folder_that_holds_something_is_left_as_it_is(
    spark: SparkSession, recording: Path, tmp_path: Path
) -> None:
    """Yesterday's decisions are not mixed with today's."""
    (tmp_path / "yesterday.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="is there already"):
        replay_on_spark(spark, FileReportRecording(recording), SCENARIOS, RULER, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["yesterday.jsonl"]
