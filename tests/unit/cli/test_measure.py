"""`trimtab measure`: before, predicted and after of an execution, on every balancer, from a lake by hand."""

import datetime
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import trimtab
from support.bundle_plans import bundle_plan_of
from support.local_paths import local
from support.measured_lake import Loads, journal, publish, rows_at
from support.plans import plan_of
from support.replica_clusters import broker, partition, snapshot
from trimtab.balancers import BALANCERS, Balancer
from trimtab.cli.app import main
from trimtab.executions import ExecutionContext
from trimtab.files.replicas.snapshot import write_snapshot
from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import Prediction
from trimtab.observe.lake.lake import Lake

NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
STEP = 30
BEGUN, ENDED = NOON.timestamp() + 10, NOON.timestamp() + 40
UNEVEN, EVEN = (60.0, 20.0, 40.0), (42.0, 40.0, 38.0)
PLANS: dict[str, Any] = {"replicas": plan_of(("t", 0, (1, 2), (1, 3))), "bundles": bundle_plan_of()}
BROKERS: dict[str, tuple[Any, ...]] = {"replicas": (1, 2, 3), "bundles": ("a:1", "b:1", "c:1")}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's lake or state but the test's."""
    monkeypatch.setenv("TRIMTAB_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def asked(level: Balancer, **settings: Any) -> Any:
    """A plan with goals of .8 and .1 in all resources, and a prediction."""
    resources = level.pipeline().resources
    predicted = ImbalanceSummary(
        dict.fromkeys(resources, 0.0123), dict.fromkeys(resources, 0.0456), dict.fromkeys(resources, 0.51)
    )
    goals = {"theta": dict.fromkeys(resources, 0.8), "epsilon": dict.fromkeys(resources, 0.1)}
    return replace(
        PLANS[level.name], predicted=Prediction(predicted, predicted), settings={**goals, **settings}
    )


def lake_of(
    level: Balancer,
    path: Path,
    before: Loads,
    after: Loads,
    *,
    each: int = 5,
    capacity: float | None = 100.0,
    further: tuple[tuple[int, Loads], ...] = (),
) -> None:
    """Ticks every 30 s up to noon, and from a minute after the execution's end on; others by their second."""
    brokers = BROKERS[level.name]
    at = {-STEP * back: before for back in range(each)}
    # Of 60 and 90 s the intervals are not clear of the execution and of settling; they lie.
    at |= dict.fromkeys((60, 90), before)
    at |= {90 + STEP * (1 + ahead): after for ahead in range(each)}
    at |= dict(further)
    rows = [
        row
        for second, loads in sorted(at.items())
        for row in rows_at(level, NOON + datetime.timedelta(seconds=second), brokers, loads, capacity)
    ]
    publish(path, level, rows)


def everywhere(level: Balancer, loads: tuple[float, ...], **others: tuple[float | None, ...]) -> Loads:
    """The same load in every resource but those that are named."""
    return {**dict.fromkeys(level.pipeline().resources, loads), **others}


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and messages."""
    with pytest.raises(SystemExit) as ended:
        main(["measure", *arguments])
    told = capsys.readouterr()
    return int(ended.value.code or 0), told.out, told.err


@pytest.mark.parametrize("level", [BALANCERS[name] for name in PLANS], ids=list(PLANS))
def test_measures_of_an_execution(
    level: Balancer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: usage .6 .2 .4 becomes .42 .40 .38; mean .40, worst deviation 50 % -> 5 %, peak .6 -> .42.

    Shares of .5, 1/6, 1/3 have σ = sqrt(2/36/3) = .1361; .35, 1/3, .3167 have sqrt(2/3600/3) = .0136.
    """
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN))
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys)
    lines = told.splitlines()
    assert code == 0
    assert lines[0].startswith("execution 1 on orders (finished): 0 ")
    assert lines[1] == "before: 5 samples, 2026-11-21 11:58:00 to 12:00:00Z"
    assert lines[2] == "after: 5 samples, 2026-11-21 12:02:00 to 12:04:00Z"
    table = [line.split() for line in lines[4:9]]
    assert table[0] == ["resource", "figure", "before", "predicted", "after", "goal"]
    assert table[1][-4:] == ["mean", "40%", "–", "40%"]
    assert table[2] == ["peak", "60%", "51%", "42%", "≤", "80%"]
    assert table[3] == ["worst", "deviation", "50.0%", "4.6%", "5.0%", "≤", "10.0%"]
    assert table[4] == ["σ", "0.1361", "0.0123", "0.0136"]
    assert lines[-3].startswith("load of the whole cluster, after against before: ")
    assert lines[-3].count("+0%") == len(level.pipeline().resources)
    assert lines[-1] == "Balanced: every goal holds, by measurement."


@pytest.mark.parametrize("level", [BALANCERS[name] for name in PLANS], ids=list(PLANS))
def test_a_goal_that_is_missed_is_named(
    level: Balancer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One resource is left uneven, another is above theta although even."""
    first, second = level.pipeline().resources[:2]
    before = everywhere(level, UNEVEN, **{second: (85.0, 82.0, 83.0)})
    after = everywhere(level, EVEN, **{first: (50.0, 30.0, 40.0), second: (84.0, 82.0, 84.0)})
    lake_of(level, tmp_path / "lake", before, after)
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys, "1", "--json")
    document = json.loads(told)
    assert (code, document["exit_code"]) == (1, 1)
    assert document["outcome"]["unmet"] == [first, second]
    assert "(25.0% from the mean, goal 10.0%)" in document["conclusion"]
    assert "(peak 84.0%, goal 80.0%)" in document["conclusion"]
    assert document["conclusion"].startswith("It helped: ")
    assert document["after"]["peak_usage"][second] == pytest.approx(0.84)
    assert document["predicted"]["sigma"][first] == 0.0123


def test_resources_that_became_worse_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing more even, disk less even."""
    level = BALANCERS["replicas"]
    lake_of(level, tmp_path / "lake", everywhere(level, EVEN), everywhere(level, EVEN, disk=UNEVEN))
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys)
    assert code == 1
    assert told.splitlines()[-1] == (
        "This did not help: disk became less even. Not within every goal: disk (50.0% from the mean, goal "
        "10.0%)."
    )


def test_an_already_balanced_resource_is_not_called_balanced_by_the_execution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every goal held all along."""
    level = BALANCERS["replicas"]
    lake_of(level, tmp_path / "lake", everywhere(level, EVEN), everywhere(level, EVEN))
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys)
    assert (code, told.splitlines()[-1]) == (0, "Every goal holds, by measurement, and did before.")


def test_another_load_is_not_comparable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half the traffic: the last line reports it, and the exit code is 1, though every goal holds."""
    level = BALANCERS["replicas"]
    after = everywhere(level, EVEN, network_in=(20.0, 21.0, 19.0))
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), after)
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys)
    assert code == 1
    assert told.splitlines()[-1].endswith(
        "But the load has changed (network in -50%): the two are not comparable."
    )


def test_an_idle_resource_has_no_goal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network out of half a percent, uneven and growing: neither a goal nor a sign of another load."""
    level = BALANCERS["replicas"]
    before = everywhere(level, UNEVEN, network_out=(0.1, 0.2, 0.1))
    after = everywhere(level, EVEN, network_out=(0.9, 0.1, 0.5))
    lake_of(level, tmp_path / "lake", before, after)
    journal(level, asked(level, min_utilization=0.01), BEGUN, ENDED)
    code, told, _ = run(capsys)
    assert code == 0
    assert "used too little to be balanced: network out" in told
    assert "network out +" not in told


def test_without_capacity_only_evenness_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither mean nor peak, which would be shares of nothing; and a resource that is not measured."""
    level = BALANCERS["replicas"]
    missing: tuple[None, ...] = (None, None, None)
    lake_of(
        level,
        tmp_path / "lake",
        everywhere(level, UNEVEN, cpu=missing),
        everywhere(level, EVEN, cpu=missing),
        capacity=None,
    )
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys)
    assert code == 0
    assert "not measured" in told
    assert "peak" not in told
    assert "50.0%" in told
    assert told.splitlines()[-1] == "Balanced: every goal holds, by measurement."


def test_brokers_that_were_emptied_count_in_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 3 was drained: 1 and 2 carry 50 each, and are balanced."""
    level = BALANCERS["replicas"]
    lake_of(
        level, tmp_path / "lake", everywhere(level, (60.0, 30.0, 10.0)), everywhere(level, (50.0, 50.0, 0.0))
    )
    brokers = [broker(one, capacity=(100.0,) * 4) for one in (1, 2, 3)]
    emptied = snapshot(brokers, [partition("t", 0, [1, 2], load=(1, 1, 1, 1))])
    folder = (
        local(Lake(tmp_path / "lake", level.pipeline()).snapshot_folder("orders")) / "2026-11-21T12:05:00Z"
    )
    folder.parent.mkdir(parents=True)
    write_snapshot(emptied, folder)
    journal(level, asked(level, drain=[3]), BEGUN, ENDED)
    code, told, _ = run(capsys, "--json")
    document = json.loads(told)
    assert document["after"]["brokers"] == [1, 2]
    assert document["after"]["worst_deviation"]["disk"] == pytest.approx(0.0)
    # Of two brokers with .6 and .3 the mean is .45.
    assert document["before"]["worst_deviation"]["disk"] == pytest.approx(1 / 3)
    assert document["load_change"]["disk"] == pytest.approx(10 / 90)
    assert code == 0


def test_samples_during_other_executions_do_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a later execution another placement is measured, and so it is before an earlier one."""
    level = BALANCERS["replicas"]
    wrong = everywhere(level, (90.0, 5.0, 5.0))
    further = ((-300, wrong), (-330, wrong), (600, wrong), (630, wrong), (660, wrong))
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN), further=further)
    plan = asked(level)
    journal(level, plan, BEGUN - 250, BEGUN - 240)
    journal(level, plan, BEGUN, ENDED)
    journal(level, plan, BEGUN + 500, BEGUN + 510)
    code, told, _ = run(capsys, "2")
    assert code == 0
    assert "before: 4 samples, 2026-11-21 11:58:30 to 12:00:00Z" in told
    assert "after: 5 samples, 2026-11-21 12:02:00 to 12:04:00Z" in told


def test_the_nearest_before_and_the_newest_after_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three of each, as requested."""
    level = BALANCERS["replicas"]
    further = tuple((second, everywhere(level, UNEVEN)) for second in (-1000, -970, -940))
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN), further=further)
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys, "--ticks", "3")
    assert code == 0
    assert "before: 3 samples, 2026-11-21 11:59:00 to 12:00:00Z" in told
    assert "after: 3 samples, 2026-11-21 12:03:00 to 12:04:00Z" in told


def test_another_cluster_in_the_lake_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its ticks neither settle this one's nor stand among them."""
    level = BALANCERS["replicas"]
    rows = []
    for second in (-60, -30, 0, 45, 50, 60, 90, 120, 150, 180):
        loads = everywhere(level, UNEVEN if second <= 90 else EVEN)
        at = NOON + datetime.timedelta(seconds=second)
        cluster = "others" if second in (45, 50) else "orders"
        rows += [{**row, "cluster": cluster} for row in rows_at(level, at, (1, 2, 3), loads, 100.0)]
    publish(tmp_path / "lake", level, rows)
    journal(level, asked(level), BEGUN, ENDED)
    code, told, _ = run(capsys)
    assert code == 0
    assert "after: 3 samples, 2026-11-21 12:02:00 to 12:03:00Z" in told


def test_too_few_samples_are_rejected_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two after the end; or none before the begin."""
    level = BALANCERS["replicas"]
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN), each=3)
    plan = asked(level)
    journal(level, plan, BEGUN, ENDED + 60)
    code, _, told = run(capsys)
    assert code == 1
    assert "holds 1 samples of orders from after it ended (2026-11-21 12:01:40Z), and 3 are needed" in told
    assert "`trimtab collect --ticks 6`, then `trimtab pipeline run`" in told
    journal(level, plan, BEGUN - 600, ENDED - 600)
    code, _, told = run(capsys, "2")
    assert code == 1
    assert "holds 0 samples of orders from before it began" in told


def test_a_running_execution_is_not_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Interrupted: the command to type is printed."""
    level = BALANCERS["replicas"]
    journal(level, asked(level), BEGUN, None)
    code, _, told = run(capsys)
    assert code == 2
    assert "execution 1 is interrupted: wait for its end, or type `trimtab execution resume 1`" in told


def test_the_chart_is_written_to_the_requested_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PNG or SVG by its name; any other name is refused before anything is read."""
    level = BALANCERS["replicas"]
    code, _, told = run(capsys, "--plot", "picture.txt")
    assert (code, told) == (2, "trimtab: --plot is picture.txt: name it .png or .svg\n")
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN))
    journal(level, asked(level), BEGUN, ENDED)
    assert run(capsys, "--plot", "picture.png")[0] == 0
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("level", [BALANCERS[name] for name in PLANS], ids=list(PLANS))
def test_live_samples_replace_missing_ones(
    level: Balancer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake has the samples from before; those from after are taken now, for the requested time. None of
    them stays in the lake.
    """
    lake_of(level, tmp_path / "now", everywhere(level, EVEN), everywhere(level, EVEN))
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, UNEVEN))
    journal(level, asked(level), BEGUN, ENDED)
    taken: list[object] = []

    @contextmanager
    def fresh(found: Balancer, where: ExecutionContext, seconds: float, stop: Event) -> Iterator[Path]:
        taken.append((found.name, seconds))
        yield tmp_path / "now"

    monkeypatch.setattr("trimtab.executions.measuring.fresh_lake", fresh)
    code, told, _ = run(capsys, "--live", "--duration", "2m")
    assert taken == [(level.name, 120.0)]
    assert (code, told.splitlines()[-1]) == (0, "Balanced: every goal holds, by measurement.")
    assert "50.0%" in told, "before is the lake's"


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [(UNEVEN, EVEN, "helped"), (UNEVEN, UNEVEN, "nothing"), (EVEN, EVEN, "nothing"), (EVEN, UNEVEN, "worse")],
)
def test_measure_returns_the_effect_and_prints_nothing(
    before: tuple[float, ...],
    after: tuple[float, ...],
    effect: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`trimtab.measure` prints nothing; the figures are those of the command."""
    level = BALANCERS["replicas"]
    lake_of(level, tmp_path / "lake", everywhere(level, before), everywhere(level, after))
    journal(level, asked(level), BEGUN, ENDED)
    found = trimtab.measure(1, state=tmp_path / "state", lake=tmp_path / "lake")
    assert capsys.readouterr() == ("", "")
    assert (found.effect, found.is_comparable) == (effect, True)
    assert found.meets_every_goal == (after == EVEN)
    assert found.execution.cluster == "orders"
    _, told, _ = run(capsys, "1", "--json")
    assert json.loads(told)["effect"] == effect


def test_live_samples_are_rejected_for_an_earlier_execution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another placement would be measured: refused before anything is sampled."""
    level = BALANCERS["replicas"]
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN))
    journal(level, asked(level), BEGUN, ENDED)
    journal(level, asked(level), ENDED + 3600, ENDED + 3660)
    code, _, told = run(capsys, "1", "--live")
    assert code == 2
    assert "another execution, started at" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--duration", "3s"], "--duration is 3 s, and 12 s or more are needed: give 60s"),
        (["--duration", "soon"], "--duration is 'soon': write seconds, as 10s"),
        (
            ["--cluster", "pulsar+http://127.0.0.1:1"],
            "is a Pulsar cluster, and a Kafka cluster is needed",
        ),
    ],
)
def test_fresh_samples_that_cannot_be_taken(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reported before anything is sampled."""
    level = BALANCERS["replicas"]
    lake_of(level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN))
    journal(level, asked(level), BEGUN, ENDED)
    code, _, told = run(capsys, "--live", *words)
    assert code == 2
    assert sentence in " ".join(told.split())


def _snapshot_of(path: Path, loads: tuple[float, ...], idle: float = 0.0, taken: int = 300) -> None:
    """A snapshot after the execution in which each broker leads a partition of this load."""
    level = BALANCERS["replicas"]
    made = snapshot(
        [broker(one, capacity=(100.0,) * 4) for one in BROKERS["replicas"]],
        [
            partition("t", place, [one], load=(load,) * 4)
            for place, (one, load) in enumerate(zip(BROKERS["replicas"], loads, strict=True))
        ],
    )
    at = NOON + datetime.timedelta(seconds=taken)
    base = {"cpu": {str(one): idle for one in BROKERS["replicas"]}}
    made = replace(
        made,
        reference=replace(made.reference, cluster="orders", taken_at=at.isoformat().replace("+00:00", "Z")),
        quality=replace(made.quality, extra=(("x_cpu_base", "apart"),)),
        extra=(("x_base_load", base),),
    )
    folder = local(Lake(path, level.pipeline()).snapshot_folder("orders")) / f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
    folder.parent.mkdir(parents=True)
    write_snapshot(made, folder)


def test_status_and_measure_do_not_contradict_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If samples and snapshot disagree, both commands name the missed goal. If they agree, both report a
    balanced cluster.
    """
    level = BALANCERS["replicas"]
    journal(level, asked(level), BEGUN, ENDED)
    cases = {"both": (EVEN, EVEN), "samples": (UNEVEN, EVEN), "snapshot": (EVEN, UNEVEN)}
    for name, (samples, loads) in cases.items():
        lake = tmp_path / name
        # No more than ticks since the execution are judged, by either.
        lake_of(level, lake, everywhere(level, UNEVEN), everywhere(level, samples))
        _snapshot_of(lake, loads)
        code, told, _ = run(capsys, "--lake", str(lake))
        with pytest.raises(SystemExit):
            main(["status", "--lake", str(lake)])
        status = capsys.readouterr().out
        level_by_both = name == "both"
        assert (code == 0) == level_by_both, told
        assert ("Balanced: every goal holds, by measurement." in told) == level_by_both
        assert ("Every measured resource is balanced." in status) == level_by_both, status
        if name == "samples":
            assert "by the brokers' own samples" in status
            assert "network in (50.0% from the mean" in told
        if name == "snapshot":
            assert "not by the snapshot that plans use" in told
            assert "network in (50.0%, epsilon 10.0%)" in told


def test_idle_cpu_is_in_no_judgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Brokers take 40 of their 70, 68 and 66 without load: what moves can change is 30, 28 and 26."""
    level = BALANCERS["replicas"]
    lake_of(
        level, tmp_path / "lake", everywhere(level, UNEVEN), everywhere(level, EVEN, cpu=(70.0, 68.0, 66.0))
    )
    journal(level, asked(level), BEGUN, ENDED)
    _snapshot_of(tmp_path / "lake", EVEN, idle=40.0)
    _, told, _ = run(capsys, "--json")
    after = json.loads(told)["after"]
    assert after["peak_usage"]["cpu"] == pytest.approx(0.30)
    assert after["worst_deviation"]["cpu"] == pytest.approx(2 / 28)
