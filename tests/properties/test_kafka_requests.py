"""Every verb of Kafka on random clusters (2,000 in the tier `long`), judged by code of its own.

A plan that ends with exit code 0 leaves nothing undone; a verb copies no more than it needs; what is
impossible is called so, and nothing else is. A failing seed is repeated alone by

    python tests/support/judge_plans.py SEED SEED+1 requests
"""

import json
from pathlib import Path

import pytest

from support.exact_plans import witness
from support.judge_plans import judged_request, requested
from support.random_requests import arguments
from support.request_checker import check_request
from tiers import by_tier
from trimtab.cli.app import main

SEEDS = by_tier(100, 600, 2_000)
BLOCK = 50
"""Clusters judged by one test."""

COMMANDS = range(0, SEEDS, 56)
"""Seeds that go through the command line as well."""

pytestmark = pytest.mark.usefixtures("short_search")
"""A plan must be true however good it is."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_plans_for_random_requests_are_true(first: int) -> None:
    """For any request and any cluster the independent checker finds no error."""
    wrong = []
    for seed in range(first, first + BLOCK):
        verdict, faults = judged_request(seed)
        _, asked = requested(seed)
        wrong += [f"seed {seed}, {asked}, {verdict}: {fault}" for fault in faults]
    repeat = f"python tests/support/judge_plans.py {first} {first + BLOCK} requests"
    assert not wrong, "\n".join([f"{len(wrong)} faults; repeat: {repeat}", *wrong])


@pytest.mark.parametrize("seed", COMMANDS)
def test_the_command_line_ends_with_the_exit_code_of_its_plan(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The flags ask for what the settings do, and exit code 0 is for plans that leave nothing undone."""
    document, asked = requested(seed)
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SystemExit) as ended:
        main(["plan", "replicas", "--snapshot", str(path), "--json", *arguments(asked)])
    said = capsys.readouterr()
    code = ended.value.code if isinstance(ended.value.code, int) else 0
    assert code in (0, 3), said.err
    plan = json.loads(said.out)
    for name, value in asked.items():
        if name not in ("goals", "theta", "epsilon"):
            assert plan["settings"][name] == value
    assert check_request(document, plan, code, witness) == [], asked
