"""Groups and their masters in virtual time: faults from seeds, and a checker for each invariant."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from simulate.masters import world
from simulate.masters.machine import DriftingClock
from simulate.masters.run import run
from tiers import by_tier
from trimtab_store.core.node import ENGINES
from trimtab_store.core.stored import ConsensusEngine

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "simulate"
SEEDS = by_tier(3, 8, 8)
BEYOND = 3
SHOWED = {26: 0, 27: 0, 31: 0, 39: 0, 164: 0, 444: 0, 690: 0, 1095: 0, 4692: 1, 5026: 0}
"""Seeds that catch mistakes of `tests/mutants.toml` which the first ones let pass, or caught some of ours.

With each the number of histories that are too long for the checker, and given up.
"""


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_no_seed_breaks_an_invariant(engine: ConsensusEngine) -> None:
    """Crashes, torn logs, cuts, losses, late messages, pauses and drifting clocks: I1 to I9 hold.

    Where the log is in a store, that one is away now and then, too.
    """
    transfers = stored = clean = 0
    for seed in range(SEEDS):
        told = run(seed, engine=engine)
        assert not told.violation, f"seed {seed}: {told.violation}"
        assert told.undecided == 0, f"seed {seed}: {told.undecided} histories were given up"
        transfers, stored, clean = transfers + len(told.transfers), stored + told.stored, clean + told.clean
    # Faults that let nothing happen would find nothing either.
    assert transfers > 3 * SEEDS and stored > 250 * SEEDS and clean > 2 * SEEDS


def test_injected_faults_are_counted() -> None:
    """The page states the number of faults: kinds of the seed alone, and each end of a node once."""
    told = run(0)
    drawn = told.setting.partition("faults ")[2].split()
    assert {"kill"} <= told.faults.keys() <= {*drawn}
    ended = [what for _, what in told.story if "is killed" in what or "loses power" in what]
    assert told.ends == len(ended) > 0
    assert told.maps == sum("the preferred map is" in what for _, what in told.story) > 0


@pytest.mark.parametrize("seed", SHOWED)
def test_seeds_at_which_mistakes_showed(seed: int) -> None:
    """A mastership transferred during a renewal, a token of two nodes, an early answer of a log. At 444 and
    4692 a slow node requested entries again before applying them, and stayed behind. At 690 and 1095 a
    consumer ended without a message, and the first answer to the next one was lost. At 5026 late messages
    of a consumer's previous incarnation replaced those of the current one.
    """
    told = run(seed)
    assert not told.violation, told.violation
    assert told.undecided == SHOWED[seed], f"{told.undecided} histories were given up"


@pytest.mark.parametrize("seed", range(BEYOND))
@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_nothing_is_lost_under_arbitrary_clocks(engine: ConsensusEngine, seed: int) -> None:
    """Two nodes may both believe to be master then; logs, messages and offsets hang on no clock."""
    assert not run(seed, engine=engine, beyond=True).violation


@pytest.mark.parametrize("seed", [12, 23])
def test_nodes_that_read_a_clock_which_is_set_are_caught(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of the wall clock have an effect: with terms counted by it there are two masters."""
    monkeypatch.setattr(world, "DriftingClock", partial(DriftingClock, reads_wall=True))
    assert run(seed).violation.startswith("I1 ")


def test_a_seed_is_replayed_by_the_command_with_the_same_log() -> None:
    """The same seed, the same story, to the letter."""
    command: list[str | Path] = [sys.executable, SCRIPT, "masters", "--seed", "3"]
    stories = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    lines = [story.splitlines()[:-1] for story in stories]  # the last tells how fast it was
    assert lines[0] == lines[1]
    assert "by a transfer" in stories[0] and stories[0].splitlines()[-1].startswith("0 broken")
