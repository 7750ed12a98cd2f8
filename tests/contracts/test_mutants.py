"""Tests that notice: a part of the mutants of tests/mutants.toml, by the command that runs them all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = ("role_aware-never_moves_a_leader", "role_aware-accepts_any_destination", "role_aware-moves_nothing")


def mutants(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The command, as somebody runs it."""
    command = [sys.executable, str(ROOT / "scripts" / "mutants"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(CORE, marks=pytest.mark.long),  # the next one shows the same of others
        pytest.param(("--quick", "--rotation", "20"), marks=pytest.mark.timeout(1800)),
        pytest.param(("--slow", "--rotation", "10"), marks=(pytest.mark.long, pytest.mark.timeout(3600))),
    ],
    ids=["role_aware", "quick", "slow"],
)
def test_mutants_are_killed(arguments: tuple[str, ...]) -> None:
    """A mistake that no test notices is a gap in the tests; ten landings in a row run the whole list."""
    done = mutants(*arguments)
    print(done.stdout.partition("\n")[0])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SURVIVED" not in done.stdout
    assert done.stdout.count("killed ") >= len(CORE)


@pytest.mark.long
def test_a_seed_of_the_simulation_that_catches_a_mutant_is_named() -> None:
    """And the invariant that it broke: a rule of the protocol that is taken away shows there."""
    done = mutants("masters_lease-no_margin_for_drift")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", caught by seed 0: I1 at " in done.stdout
    assert "1 of 1 killed" in done.stdout


def test_a_name_that_no_mutant_has_is_refused() -> None:
    """A misspelt name would otherwise be the best of news: nothing survived."""
    done = mutants("no-such-mutant")
    assert done.returncode == 2
    assert "no mutant is called like no-such-mutant" in done.stderr
