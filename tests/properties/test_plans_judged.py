"""Every plan of every strategy, judged by the independent checker on random clusters."""

import json
from pathlib import Path

import pytest

from support.plan_checker import check
from support.random_snapshots import random_snapshot
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import FORMAT
from trimtab.levels import LEVELS
from trimtab.levels.planning import planner_of
from trimtab.levels.settings import read_settings

OVERRIDES = (
    [],
    ["replicas.epsilon=0.3"],
    ["replicas.excluded_topics=t0,t1*"],
    ["replicas.max_moves=10"],
    ["replicas.theta=0.5"],
    ["replicas.role_aware.literal=true"],
)


@pytest.mark.parametrize("strategy", LEVELS["replicas"].planners)
@pytest.mark.parametrize("seed", range(24))
def test_a_plan_keeps_its_promises(seed: int, strategy: str) -> None:
    """Moves can be carried out and end in the assignments; predictions, cost and verdict are true."""
    document = random_snapshot(seed)
    snapshot = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    overrides = [f"replicas.strategy={strategy}", *OVERRIDES[seed % len(OVERRIDES)]]
    settings = read_settings(None, overrides, {}).levels["replicas"]
    plan = planner_of(LEVELS["replicas"], strategy)(snapshot, settings)
    assert check(document, json.loads(plan_bytes(plan))) == []
