"""What every strategy promises, whatever cluster it is given."""

import json
from pathlib import Path

import pytest

from support.plan_checker import check
from support.random_snapshots import random_snapshot
from tiers import by_tier
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.balancers.settings import read_settings
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import FORMAT
from trimtab.plan.replicas.role_aware import REPAIRS

SEEDS = range(by_tier(6, 12, 24))
WISHES = {
    "default": [],
    "wide": ["replicas.epsilon=0.3", 'replicas.goals=["rack","theta"]'],
    "excluded": ['replicas.excluded_topics=["t0","t1*"]', "replicas.theta=1.0"],
    "few moves": ["replicas.max_moves=10"],
    "low limits": ["replicas.theta=0.5"],
    "literal": ["replicas.role_aware.literal=true"],
}


def planned(seed: int, strategy: str, wishes: list[str]) -> tuple[dict, dict]:
    """A random snapshot and its plan, both as plain JSON."""
    document = random_snapshot(seed)
    settings = read_settings(None, [f"replicas.strategy={strategy}", *wishes], {}).balancers["replicas"]
    snapshot = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    plan = planner_of(BALANCERS["replicas"], strategy)(snapshot, settings)
    return document, json.loads(plan_bytes(plan))


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("turn", range(len(WISHES)), ids=WISHES)
@pytest.mark.parametrize("strategy", BALANCERS["replicas"].planners)
def test_a_plan_can_be_executed_and_ends_as_predicted(strategy: str, turn: int) -> None:
    """An operator applies a plan move by move: each is possible, the end is the one predicted, the verdict
    is true.
    """
    wrong = []
    for seed in SEEDS[turn % 4 :: 6] if turn else SEEDS[::2]:
        document, plan = planned(seed, strategy, list(WISHES.values())[turn])
        # The paper's procedure may end unevenly, but nothing that it says may be wrong.
        wrong += [f"seed {seed}: {fault}" for fault in check(document, plan)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", BALANCERS["replicas"].planners)
def test_the_same_question_has_the_same_answer(strategy: str) -> None:
    """A reviewer who plans again from the same snapshot, settings and seed gets the same plan, byte for
    byte.
    """
    for seed in SEEDS[:6]:
        assert planned(seed, strategy, []) == planned(seed, strategy, [])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", BALANCERS["replicas"].planners)
def test_limits_of_a_plan_are_respected(strategy: str) -> None:
    """An operator allows four moves: the plan has at most four, and reports the moves left out."""
    for seed in SEEDS[:8]:
        _, plan = planned(seed, strategy, ["replicas.max_moves=4", "replicas.max_bytes=100000000000"])
        assert len(plan["moves"]) <= 4
        assert plan["cost"]["bytes"] <= 100_000_000_000


@pytest.mark.parametrize(
    "wishes",
    [
        ["replicas.strategy=trim", "replicas.theta.disk=0.7", 'replicas.excluded_topics=["t1"]'],
        ["replicas.strategy=role_aware", "replicas.role_aware.literal=true"],
        ["replicas.strategy=role_aware", 'replicas.role_aware.repairs=["signed_deviation","in_sync"]'],
        ["replicas.strategy=role_aware", "replicas.epsilon=0.3", "replicas.max_moves=5"],
    ],
    ids=["trim", "literal", "two repairs", "all repairs"],
)
def test_a_plan_can_be_made_again_from_its_file(wishes: list[str]) -> None:
    """A reviewer has the snapshot and the plan file: the settings in it give the same plan."""
    document, plan = planned(4, wishes[0].rpartition("=")[2], wishes[1:])
    told = [
        f"replicas.{key}{one}={json.dumps(value)}"
        for key, found in plan["settings"].items()
        for one, value in (
            {f".{k}": v for k, v in found.items()} if isinstance(found, dict) else {"": found}
        ).items()
        if value is not None
    ]
    assert planned(4, plan["settings"]["strategy"], told) == (document, plan)


@pytest.mark.parametrize("reading", ["literal=true", *(f'repairs=["{name}"]' for name in REPAIRS)])
def test_every_reading_of_the_paper_makes_plans_that_can_be_carried_out(reading: str) -> None:
    """The checker does not know the procedure: a variant may leave brokers uneven, but must not report wrong
    facts.
    """
    wrong = []
    for seed in SEEDS[::4]:
        document, plan = planned(seed, "role_aware", [f"replicas.role_aware.{reading}"])
        wrong += [f"seed {seed}: {fault}" for fault in check(document, plan)]
    assert not wrong, "\n".join(wrong)
