"""Plans in files: canonical bytes, strict reading, Kafka's own form."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.files.replicas.plan import kafka_form, plan_bytes, read_plan, write_plan
from trimtab.model.documents import SnapshotReference
from trimtab.model.load import ImbalanceSummary
from trimtab.model.plan import Prediction, Problem, Verdict
from trimtab.model.replicas.plan import (
    Plan,
    ReplicaAssignment,
    ReplicaBound,
    ReplicaCost,
    ReplicaMove,
    ReplicaMoveKind,
    ReplicaReason,
)
from trimtab_common.errors import InputError


def reason(broker: int) -> ReplicaReason:
    """Why a move is made."""
    return ReplicaReason(
        "epsilon", "network_out", broker, 0.61, 0.55, 0.58, f"broker {broker} sends too much"
    )


def a_plan() -> Plan:
    """Three moves of every kind on two partitions, with everything a plan can carry."""
    even = ImbalanceSummary(
        {"cpu": 0.01, "disk": 1e-9}, {"cpu": 0.1, "disk": 0.0}, {"cpu": 1 / 3, "disk": 0.2}
    )
    return Plan(
        balancer="replicas",
        strategy="trim",
        seed=0,
        settings={"epsilon": {"cpu": 0.1}, "goals": ["rack"], "max_moves": None},
        snapshot=SnapshotReference("größe", "2026-11-21T05:00:00Z", "ab" * 32),
        verdict=Verdict.IMPROVED,
        moves=(
            ReplicaMove(1, ReplicaMoveKind.LEADER, "t", 0, 1, 2, 0, reason(1)),
            ReplicaMove(
                2, ReplicaMoveKind.REPLICA, "t", 0, 3, 4, 1_000_000_000, reason(3), target_dir="/data2"
            ),
            ReplicaMove(
                3,
                ReplicaMoveKind.LOG_DIR,
                "t",
                1,
                1,
                1,
                7,
                reason(1),
                source_dir="/data1",
                target_dir="/data2",
            ),
        ),
        assignments=(
            ReplicaAssignment("t", 0, (1, 2, 3), (2, 1, 4), 2),
            ReplicaAssignment("t", 1, (1, 2), (1, 2), None),
        ),
        predicted=Prediction(even, even),
        cost=ReplicaCost(1_000_000_000, 1, 1, 1, 7),
        bound=ReplicaBound(500, "a small linear programme"),
        problems=(
            Problem("add_brokers", "too much", 2, "disk", {"total": 1.5}),
            Problem("unmet_goal", "why"),
        ),
    )


def test_a_plan_is_the_same_after_a_trip_to_disk(tmp_path: Path) -> None:
    """Written and read again, a plan is equal, and so are its bytes."""
    write_plan(a_plan(), tmp_path / "plan.json")
    found = read_plan(tmp_path / "plan.json")
    assert found == a_plan()
    assert plan_bytes(found) == (tmp_path / "plan.json").read_bytes() == plan_bytes(a_plan())


def test_the_bytes_are_those_of_the_format() -> None:
    """Fields stand in the format's order, a move a line, numbers in their shortest exact form."""
    text = plan_bytes(a_plan()).decode()
    document = json.loads(text)
    assert list(document) == [
        *(
            "format",
            "balancer",
            "strategy",
            "seed",
            "settings",
            "snapshot",
            "verdict",
            "moves",
            "assignments",
        ),
        *("predicted", "cost", "bound", "problems"),
    ]
    assert list(document["moves"][0]) == [
        *("order", "kind", "topic", "partition", "source", "target", "bytes", "reason")
    ]
    assert document["cost"] == {
        **{"bytes": 1_000_000_000, "replica_moves": 1, "leader_moves": 1, "x_log_dir_moves": 1},
        "x_log_dir_bytes": 7,
    }
    assert document["problems"][1] == {"kind": "unmet_goal", "text": "why", "proof": {}}
    assert '"cpu": 0.3333333333333333' in text
    assert "größe" in text
    assert text.endswith("}\n")
    assert sum(line.startswith('  {"order"') for line in text.splitlines()) == 3


def test_kafka_gets_the_whole_assignment() -> None:
    """Kafka's own tool takes lists of replicas, and log dirs only on request."""
    document = json.loads(kafka_form(a_plan())[0])
    assert document == {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [2, 1, 4], "log_dirs": ["any", "any", "/data2"]},
            {"topic": "t", "partition": 1, "replicas": [1, 2], "log_dirs": ["/data2", "any"]},
        ],
    }


def test_an_empty_plan_is_a_plan(tmp_path: Path) -> None:
    """Nothing to do is written, read and given to Kafka as nothing to do."""
    plan = replace(a_plan(), moves=(), assignments=(), cost=ReplicaCost(0, 0, 0), verdict=Verdict.BALANCED)
    write_plan(plan, tmp_path / "plan.json")
    assert read_plan(tmp_path / "plan.json") == plan
    assert json.loads(kafka_form(plan)[0]) == {"version": 1, "partitions": []}


def edit(*path: object, value: object) -> Callable[[dict], object]:
    """A change that sets one value deep inside."""

    def change(document: dict) -> None:
        inner = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (edit("verdict", value="fine"), '$.verdict is "fine", expected one of balanced, improved'),
        (edit("balancer", value="bundles"), '$.balancer is "bundles"'),
        (edit("format", value="trimtab/replicas-snapshot/1"), "$.format"),
        (edit("moves", 0, "kind", value="swap"), '$.moves[0].kind is "swap"'),
        (edit("moves", 0, "target", value=9), "$.moves[0].target is 9, expected one of [1, 2, 3]"),
        (edit("moves", 1, "source", value=9), "$.moves[1].source is 9, expected one of [2, 1, 3]"),
        (edit("moves", 1, "target", value=1), "$.moves[1].target is 1, expected none of [2, 1, 3]"),
        (edit("moves", 1, "target", value=5), "$.assignments[0].after is [2, 1, 4], expected [2, 1, 5]"),
        (edit("moves", 1, "topic", value="u"), "moves u-0, which has no assignment"),
        (edit("moves", 2, "target", value=2), "$.moves[2].source is 1, expected 2"),
        (edit("moves", 1, "order", value=1), "$.moves[1].order is 1, expected more than 1"),
        (edit("moves", 1, "bytes", value=-1), "$.moves[1].bytes is -1"),
        (edit("moves", 1, "bytes", value=1.5), "$.moves[1].bytes is 1.5, expected a whole number"),
        (edit("moves", 1, "reason", value={}), "$.moves[1].reason has no field"),
        (edit("moves", 1, "why", value=""), 'unknown field "why"'),
        (edit("moves", 0, "reason", "resource", value="memory"), "$.moves[0].reason.resource"),
        (lambda document: document["moves"].pop(0), "moves and assignments must end alike"),
        (edit("assignments", 0, "leader_after", value=1), "$.assignments[0].leader_after is 1, expected 2"),
        (edit("assignments", 0, "leader_after", value=8), "$.assignments[0].leader_after is 8"),
        (edit("assignments", 1, "partition", value=0), "is a second one for t-0"),
        (edit("assignments", 0, "before", value=[1, 1, 3]), "each broker once"),
        (edit("cost", "bytes", value=5), "$.cost.bytes is 5, expected 1000000000"),
        (edit("cost", "x_log_dir_moves", value=0), "$.cost.x_log_dir_moves is 0, expected 1"),
        (edit("predicted", "after", "sigma", value={"memory": 1}), "$.predicted.after.sigma"),
        (edit("seed", value="one"), "$.seed"),
        (lambda document: document.pop("bound"), 'has no field "bound"'),
    ],
)
def test_a_slip_in_a_hand_edited_plan_is_named(
    change: Callable[[dict], object], told: str, tmp_path: Path
) -> None:
    """An error in a manually edited plan is located before anything touches a cluster."""
    document = json.loads(plan_bytes(a_plan()))
    change(document)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as refused:
        read_plan(path)
    assert told in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_move_may_be_struck_out_by_hand(tmp_path: Path) -> None:
    """Dropping a partition's moves with its assignment and cost leaves a sound plan."""
    document = json.loads(plan_bytes(a_plan()))
    del document["moves"][2], document["assignments"][1]
    del document["cost"]["x_log_dir_moves"], document["cost"]["x_log_dir_bytes"]
    document["x_reviewed_by"] = "Ada"
    document["moves"][0]["x_checked"] = True
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    assert [move.order for move in read_plan(path).moves] == [1, 2]


@pytest.mark.parametrize("where", ["a folder", "in no folder", "below a file"])
def test_a_place_that_cannot_be_written_is_named(where: str, tmp_path: Path) -> None:
    """The reason is one line, and nothing half written is left."""
    path = tmp_path / "plan.json"
    if where == "a folder":
        path.mkdir()
    elif where == "in no folder":
        path = tmp_path / "nowhere" / "plan.json"
    else:
        path.write_text("")
        path = path / "plan.json"
    with pytest.raises(InputError, match="cannot be written") as refused:
        write_plan(a_plan(), path)
    assert "\n" not in str(refused.value)
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []
