"""Strategies side by side on a recording, by Spark: figures by hand, and a drawn week."""

from __future__ import annotations

import datetime
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hand_written_tables import lake_with
from simulated_clusters.weeks import SimulatedWeeks
from support.replays import course, move, planner
from trimtab.cli.app import main
from trimtab.files.replicas.recording import COLUMNS, opened_recording, write_recording
from trimtab.history.replicas.recording import LakeLoadRecording
from trimtab.history.replicas.replay import PlanningScenario, ReplicaMetricSpec, effects_of, trace_scenario
from trimtab.history.replicas.spark import trace_bytes, trace_from
from trimtab.model.errors import ObserveError
from trimtab.model.load import imbalance
from trimtab.model.replicas.plan import ReplicaMoveKind
from trimtab.model.replicas.settings import RESOURCES, ReplicasSettings
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.replicas.snapshot import write_newest_snapshots
from trimtab.observe.spark.session import SessionSettings
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = ReplicasSettings()
SMALL = SimulatedWeeks(weeks=1, step_seconds=3600, brokers=4, topics=8, seed=3)


@pytest.mark.spark
def test_measures_are_the_models_own(spark: SparkSession) -> None:
    """θ, γ and σ of every step as `model.load` has them; brokers above θ by hand: the capacity is 10, so
    that 5 cores are 50 %, and 8 are 80 %.
    """
    there = course(capacity=10.0, disk=1.0)
    plan = planner([move(ReplicaMoveKind.LEADER, 0, 1, 2)], [move(ReplicaMoveKind.REPLICA, 0, 1, 3)])
    traces = {
        "no": trace_scenario(there, PlanningScenario(None, SETTINGS)),
        "one": trace_scenario(there, PlanningScenario(plan, SETTINGS)),
    }
    found = effects_of(spark, there, traces, ReplicaMetricSpec((0.45, 1.0, 0.95, 1.0), 0.0))
    # Network in of broker 2 is twice the step: 100 % in step 5. Its CPU is 50 %, and 80 % from step 1 on.
    assert found["no"].above.tolist() == [1, 1, 1, 1, 1, 1]
    assert found["one"].replicas.tolist() == [0, 0, 1, 0, 0, 0]
    assert found["one"].leaders.tolist() == [0, 1, 0, 0, 0, 0]
    assert found["no"].peak.tolist() == [0.5, 0.5, 0.5, 0.6, 0.8, 1.0]
    assert found["one"].seconds_above == 6 * 900
    serving = np.ones(3, dtype=np.bool_)
    for name, trace in traces.items():
        for step in range(6):
            judged = imbalance(trace.load[step], there.initial.brokers.capacity, serving, RESOURCES)
            assert found[name].gamma[step] == pytest.approx(judged.worst_deviation.max(), rel=1e-12)
            assert found[name].sigma[step] == pytest.approx(judged.sigma.max(), rel=1e-12)


def test_a_trace_is_read_back_unchanged() -> None:
    """To the last bit."""
    trace = trace_scenario(
        course(), PlanningScenario(planner([move(ReplicaMoveKind.REPLICA, 0, 1, 3)]), SETTINGS)
    )
    back = trace_from(trace_bytes(trace))
    for name in ("load", "copied_bytes", "plans", "leaders", "moves"):
        assert getattr(back, name).tobytes() == getattr(trace, name).tobytes()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drawn week of a small cluster."""
    folder = tmp_path_factory.mktemp("week")
    assert SMALL.write(folder) == 168
    return folder


@pytest.mark.spark
def test_a_drawn_week_from_the_command_line(
    spark: SparkSession,
    recording: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its second half, replanned every twelve hours: what is moved costs bytes and lowers γ, the unmoved row
    is the load as it was drawn, and the picture is there.
    """
    monkeypatch.setattr("trimtab.observe.spark.session.spark_session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    chart = tmp_path / "chart.svg"
    words = ["--step", "60", "--plan-interval", "720", "--since", "2026-11-06T00:00"]
    words += ["--load", "recent", "--load", "peak"]
    with pytest.raises(SystemExit) as ended:
        main(["replay", "replicas", f"--recording={recording}", *words, "--json", f"--chart={chart}"])
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    rows: dict[str, Any] = {one["name"]: one for one in told["strategies"]}
    assert list(rows) == ["nothing moved", "trim, recent", "trim, peak"]
    snapshot, loads = SMALL.drawn()
    last = replace(
        snapshot,
        partitions=replace(
            snapshot.partitions, leader_load=loads.leader[-1], follower_load=loads.follower[-1]
        ),
    )
    unmoved = rows["nothing moved"]
    assert len(unmoved["over_time"]["at"]) == 72
    assert unmoved["over_time"]["at"][-1] == "2026-11-09T00:00:00Z"
    assert unmoved["over_time"]["gamma"][-1] == pytest.approx(last.imbalance().worst_deviation.max())
    assert unmoved["copied_bytes"] == 0
    for name in ("trim, recent", "trim, peak"):
        assert rows[name]["plans"] == 6
        assert rows[name]["gamma_mean"] < unmoved["gamma_mean"]
        assert rows[name]["copied_bytes"] > 0
    assert rows["trim, recent"] != rows["trim, peak"], "profiles are known from the third day on"
    assert chart.with_suffix(".png").exists()
    assert chart.read_text().startswith("<?xml")


def test_spark_starts_with_the_configured_options(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By section [spark] of the settings file; `--master` goes before it."""
    asked: list[SessionSettings] = []

    def refused(settings: SessionSettings, **_: Any) -> None:
        asked.append(settings)
        raise ObserveError("enough")

    monkeypatch.setattr("trimtab.observe.spark.session.spark_session", refused)
    file = tmp_path / "trimtab.toml"
    file.write_text('[spark]\nmaster = "spark://there:7077"\nmemory = "3g"\n', encoding="utf-8")
    words = ["replay", "replicas", f"--recording={recording}", f"--settings={file}"]
    for further in ([], ["--master", "local[1]"]):
        with pytest.raises(SystemExit):
            main([*words, *further])
    assert "enough" in capsys.readouterr().err
    assert [(one.master, one.memory) for one in asked] == [("spark://there:7077", "3g"), ("local[1]", "3g")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--recording", "nowhere"], "has no file snapshot.json.gz"),
        ([], "nothing to replay"),
        (["--recording", "nowhere", "--lake", "x"], "name one"),
        (["--recording", "x", "--plan-interval", "50"], "--plan-interval 50 is not a multiple of --step 15"),
        (["--recording", "x", "--load", "most"], "--load most is not known"),
        (["--recording", "x", "--strategy", "best"], "strategy 'best' is not known"),
    ],
)
def test_an_unusable_replay_is_rejected(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before Spark starts."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", "replicas", *words])
    assert ended.value.code == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_recording_is_read_as_it_was_written(recording: Path, tmp_path: Path) -> None:
    """And one without loads, or with other columns, is refused with what is missing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    snapshot, path = opened_recording(recording)
    drawn, loads = SMALL.drawn()
    np.testing.assert_array_equal(snapshot.partitions.replicas, drawn.partitions.replicas)
    rows = pq.read_table(path).slice(len(snapshot.partitions), len(snapshot.partitions)).to_pylist()
    assert [row["leader_load"]["disk"] for row in rows] == loads.leader[1, :, 1].tolist()
    assert rows[0]["window_end"].isoformat() == "2026-11-02T02:00:00+00:00"
    write_recording(tmp_path, drawn, iter(()))
    pq.write_table(pa.table({"window_end": pa.array([], pa.timestamp("us"))}), tmp_path / "loads.parquet")
    with pytest.raises(InputError, match='has no column "topic"'):
        opened_recording(tmp_path)
    milliseconds = {"window_end": pa.array([1_764_136_800_000], pa.int64())}
    others = {name: pa.nulls(1) for name in COLUMNS if name != "window_end"}
    pq.write_table(pa.table(milliseconds | others), tmp_path / "loads.parquet")
    with pytest.raises(InputError, match="window_end is of type int64, expected a timestamp"):
        opened_recording(tmp_path)


def test_the_same_numbers_draw_the_same_weeks() -> None:
    """Another seed draws others; loads are never negative, and at the busiest step brokers are as full in the
    mean as declared.
    """
    one, again, other = (replace(SMALL, seed=seed).drawn()[1] for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.leader, again.leader)
    assert one.leader.shape != other.leader.shape or (one.leader != other.leader).any()
    assert (one.leader >= 0).all()
    total = (one.leader + one.follower).sum(axis=1) / 4 / one.capacity(4)
    np.testing.assert_allclose(total.max(axis=0), [0.70, 0.65, 0.55, 0.60])


@pytest.mark.spark
def test_a_lake_is_replayed_from_its_first_placement(spark: SparkSession, tmp_path: Path) -> None:
    """Two windows; the second has a replica that another process moved. The replay starts before that."""
    start = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
    load = dict.fromkeys(RESOURCES, 5.0)

    def at(minutes: int, column: str = "tick") -> dict[str, Any]:
        return {"cluster": "c", column: start + datetime.timedelta(minutes=minutes)}

    placed = {"topic": "t", "partition": 0}
    roles = {"leader_load": load, "follower_load": load, "valid_share": 1.0, "extrapolated": False}
    held = {"leader": 3, "replicas": [3, 2], "in_sync": [3, 2], "adding": []}
    lake = lake_with(
        tmp_path,
        {
            "rates": [{**at(2), "kind": "partition", **placed, **held}],
            "growth": [{**at(2), "topic": "t"}],
            "brokers": [
                {**at(2), "broker": one, "broker_state": "alive", "live": True, "host": f"h{one}"}
                for one in (1, 2, 3)
            ],
            "attributed": [
                {**at(1, "window_end"), **placed, **roles, "leader": 1, "replicas": [1, 2]},
                {**at(2, "window_end"), **placed, **roles, "leader": 3, "replicas": [3, 2]},
            ],
        },
    )
    write_newest_snapshots(lake, lake.manifest(), ReplicasPipelineSettings())
    recording = LakeLoadRecording(tmp_path)
    begun = recording.initial_snapshot(spark)
    ids = begun.brokers.id
    assert ids[begun.partitions.replicas[0]].tolist() == [1, 2]
    assert ids[begun.partitions.leader[0]] == 1
    assert recording.loads(spark).count() == 2
