"""The public Python face: one function a verb, whatever the balancer."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import trimtab
from simulate.instances import lognormal_skew, skewed_bundles
from support.key_snapshots import a_key
from support.key_snapshots import a_snapshot as a_topic
from support.master_snapshots import a_group
from support.master_snapshots import a_snapshot as a_store
from support.queue_snapshots import a_class, a_queue, a_snapshot
from trimtab_common import extras

API: Any = trimtab
"""The same without types, for what a checker of types would refuse."""
SNAPSHOTS: dict[str, Any] = {
    "replicas": lognormal_skew(brokers=6, replicas=120, seed=3),
    "bundles": skewed_bundles(3, 24, 1, views=2),
    "queues": a_snapshot(
        a_queue(0, 90, 90.0),
        a_queue(1, 0, 0.0, speed=0.5, speed_error=0.01),
        classes=(
            a_class("vote", weight=1.0, mean_seconds=3.0, standard_error_seconds=0.01, samples=100),
            a_class("report", weight=1.0, published=1.0),
        ),
        scheduling={"cycle_seconds": 5.0, "limits": "share"},
    ),
    "keys": a_topic(
        {0: 90.0, 4: 30.0, **dict.fromkeys((1, 2, 3), 20.0)}, a_key("ann", 0, 90.0, 0), capacity=100.0
    ),
    "masters": a_store(*(a_group(number, 0, 50.0 + number) for number in range(6))),
}


def test_importing_it_imports_nothing_else() -> None:
    """A notebook, or a service's start, does not wait for what it may never use."""
    program = (
        "import sys; before = set(sys.modules); import trimtab; found = set(sys.modules) - before; "
        "print([name for name in found if name.split('.')[0] not in {'trimtab', *sys.stdlib_module_names}], "
        "sorted(name for name in found if name.startswith('trimtab')))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[] ['trimtab']\n"


def test_every_public_name_is_there() -> None:
    """And is offered where one asks what there is; none is hidden by a module of the same name."""
    for name in trimtab.__all__:
        assert not isinstance(getattr(trimtab, name), type(sys))
        assert name in dir(trimtab)
    missing = "plam"
    with pytest.raises(AttributeError, match="module 'trimtab' has no attribute 'plam'"):
        getattr(trimtab, missing)


@pytest.mark.parametrize("level", list(trimtab.BALANCERS))
def test_from_a_snapshot_file_to_a_plan_file(tmp_path: Path, level: str) -> None:
    """The balancer is found by the file and by the value; the plan is the one that the command makes."""
    trimtab.write_snapshot(SNAPSHOTS[level], tmp_path / "snapshot.json")
    snapshot = trimtab.read_snapshot(tmp_path / "snapshot.json")
    plan = trimtab.make_plan(snapshot, epsilon=0.4)
    assert plan.balancer == level
    trimtab.write_plan(plan, tmp_path / "plan.json")
    assert trimtab.read_plan(str(tmp_path / "plan.json")) == plan
    command = [
        "plan",
        level,
        "--snapshot",
        "snapshot.json",
        "--set",
        f"{level}.epsilon=0.4",
        "--out",
        "same.json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "trimtab", *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (tmp_path / "same.json").read_bytes() == (tmp_path / "plan.json").read_bytes()
    assert done.stdout == trimtab.plan_text(plan, snapshot)


@pytest.mark.parametrize("level", list(trimtab.BALANCERS))
def test_frames_contain_the_values(level: str) -> None:
    """Rows and columns by name: the order of an array need not be known."""
    snapshot = SNAPSHOTS[level]
    found = snapshot.imbalance()
    usage, measures = trimtab.usage(snapshot), trimtab.measures(snapshot)
    assert list(usage.columns) == list(measures.index) == list(found.resources)
    assert list(usage.index) == list(snapshot.row_names)
    assert usage.to_numpy() == pytest.approx(found.usage)
    assert list(measures["sigma"]) == list(found.sigma)
    plan = trimtab.make_plan(snapshot, epsilon=0.4)
    moves, predicted = trimtab.moves(plan), trimtab.predicted(plan)
    assert list(moves["order"]) == [move.order for move in plan.moves]
    assert list(moves["kind"]) == [move.kind.value for move in plan.moves]
    assert list(moves["reason_text"]) == [move.reason.text for move in plan.moves]
    assert dict(predicted["sigma_before"]) == plan.predicted.before.sigma
    assert dict(predicted["peak_usage_after"]) == plan.predicted.after.peak_usage


def test_resources_without_capacity_are_nan() -> None:
    """A load without a capacity has no usage, and is not taken for an idle broker."""
    snapshot = SNAPSHOTS["replicas"]
    capacity = snapshot.brokers.capacity.copy()
    capacity[:, 0] = float("inf")
    unlimited = replace(snapshot, brokers=replace(snapshot.brokers, capacity=capacity))
    assert trimtab.usage(unlimited)["cpu"].isna().all()
    assert trimtab.measures(unlimited).loc["cpu"].isna()["mean"]


def test_a_plan_without_moves_is_an_empty_frame() -> None:
    """A loop over plans does not trip over the one that has nothing to do."""
    plan = trimtab.make_plan(SNAPSHOTS["replicas"], epsilon=0.99, theta=1.0)
    assert not plan.moves
    assert trimtab.moves(plan).empty


def test_overrides_go_before_the_file_and_the_environment_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same call gives the same plan on every machine; tables, lists and switches are taken too."""
    monkeypatch.setenv("TRIMTAB_REPLICAS_SEED", "7")
    (tmp_path / "mine.toml").write_text("[replicas]\nepsilon = 0.5\nmax_moves = 3\n")
    plan = trimtab.make_plan(
        SNAPSHOTS["replicas"],
        tmp_path / "mine.toml",
        epsilon=0.4,
        theta={"cpu": 0.9},
        excluded_topics=["t1", '*"b"'],
    )
    assert plan.seed == 0
    assert plan.settings["epsilon"]["cpu"] == 0.4
    assert plan.settings["max_moves"] == 3
    assert plan.settings["theta"] == {"cpu": 0.9, "disk": 0.8, "network_in": 0.8, "network_out": 0.8}
    assert plan.settings["excluded_topics"] == ["t1", '*"b"']


def test_a_strategy_is_chosen_by_name() -> None:
    """Where a balancer has several planners."""
    assert trimtab.make_plan(SNAPSHOTS["replicas"], strategy="role_aware").strategy == "role_aware"
    with pytest.raises(trimtab.TrimtabError, match="trimm"):
        trimtab.make_plan(SNAPSHOTS["replicas"], strategy="trimm")


def test_errors_have_the_sentences_of_the_commands() -> None:
    """Subject, value, limit, remedy: the commands' own sentences."""
    with pytest.raises(trimtab.TrimtabError, match=r"replicas\.epsilom.*epsilon"):
        trimtab.make_plan(SNAPSHOTS["replicas"], epsilom=0.1)
    with pytest.raises(trimtab.TrimtabError, match="int is no snapshot"):
        API.make_plan(3)
    with pytest.raises(trimtab.TrimtabError, match="recordings are replayed of bundles"):
        trimtab.replay("nowhere.jsonl", ["trim"], balancer="replicas")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda plan: API.plan_text(1), r"int is no plan: make one by trimtab\.make_plan"),
        (lambda plan: API.write_plan(None, "plan.json"), "NoneType is no plan"),
        (lambda plan: API.moves("plan.json"), "str is no plan"),
        (lambda plan: trimtab.predicted(SNAPSHOTS["replicas"]), "ReplicasSnapshot is no plan"),
        (
            lambda plan: trimtab.plan_text(plan, SNAPSHOTS["bundles"]),
            "plan is of balancer replicas.*of bundles",
        ),
        (lambda plan: API.plan_text(plan, "snapshot.json"), "str is no snapshot"),
        (lambda plan: trimtab.measures(plan), "ReplicasPlan is no snapshot"),
        (lambda plan: API.usage(3), "int is no snapshot"),
        (lambda plan: API.read_snapshot(3), "path is of type int, expected text or a Path"),
        (lambda plan: API.read_plan(None), "path is of type NoneType, expected text or a Path"),
        (lambda plan: API.make_plan(SNAPSHOTS["replicas"], 3), "settings is of type int, expected text"),
        (
            lambda plan: trimtab.make_plan(SNAPSHOTS["replicas"], epsilon=object()),
            "replicas.epsilon is of type",
        ),
        (
            lambda plan: trimtab.replay("r.jsonl", "trim"),
            r"strategies is 'trim', expected a list.*\['trim'\]",
        ),
        (
            lambda plan: trimtab.replay("r.jsonl", ["trim"], foo=1),
            "foo is no choice of replays of bundles.*seed",
        ),
        (lambda plan: trimtab.replay("r.jsonl", ["trim"], varaint="x"), "did you mean variant"),
        (lambda plan: API.replay(3, ["trim"]), "recording is of type int"),
    ],
)
def test_wrong_arguments_are_errors_that_a_user_can_mend(call: Any, said: str) -> None:
    """A call with a value of the wrong kind, as one writes it by mistake; no fault of trimtab's."""
    plan = trimtab.make_plan(SNAPSHOTS["replicas"], epsilon=0.99, theta=1.0)
    with pytest.raises(trimtab.TrimtabError, match=said):
        call(plan)


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are made without it; DataFrames are not."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(trimtab.TrimtabError, match=r"\(extra pandas\).* pip install .*'pandas[^']*'"):
        trimtab.measures(SNAPSHOTS["replicas"])
