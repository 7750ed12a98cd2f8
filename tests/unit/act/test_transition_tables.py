"""The tables of docs/balancers/replicas-execution.md and bundles-execution.md are those of the code."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from trimtab.act.bundles import state as bundles
from trimtab.act.execution.state import FINAL, STATUS_TRANSITIONS, ExecutionStatus
from trimtab.act.replicas.state import ACTIVE, ENDED, STEP_TRANSITIONS, ReplicaStepState

BALANCERS = Path(__file__).parents[3] / "docs" / "balancers"
PAGE, BUNDLES_PAGE = BALANCERS / "replicas-execution.md", BALANCERS / "bundles-execution.md"


def table(name: str, page: Path = PAGE) -> dict[str, set[str]]:
    """Rows of the table below a marker of a page."""
    text = page.read_text(encoding="utf-8").split(f"<!-- {name} -->")[1]
    lines = text.strip().splitlines()
    rows: dict[str, set[str]] = {}
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        first, rest = line.strip("|").split("|")
        (state,) = re.findall(r"`(\w+)`", first)
        rows[state] = set(re.findall(r"`(\w+)`", rest))
    return rows


@pytest.mark.parametrize(
    ("name", "transitions"),
    [("step transitions", STEP_TRANSITIONS), ("status transitions", STATUS_TRANSITIONS)],
)
def test_the_page_shows_the_transitions_of_the_code(
    name: str, transitions: dict[StrEnum, frozenset[StrEnum]]
) -> None:
    """Neither more nor fewer."""
    assert table(name) == {str(state): set(map(str, to)) for state, to in transitions.items()}


def test_the_page_of_bundles_shows_the_transitions_of_the_code() -> None:
    """Those of its steps; the execution's own are the same for all balancers."""
    found = {str(state): set(map(str, to)) for state, to in bundles.STEP_TRANSITIONS.items()}
    assert table("step transitions", BUNDLES_PAGE) == found
    text = BUNDLES_PAGE.read_text(encoding="utf-8")
    for state in bundles.BundleStepState:
        assert re.search(rf"^\| `{state}` \| [a-zA-Z]", text, re.MULTILINE), state
    assert {state for state, to in bundles.STEP_TRANSITIONS.items() if not to} == bundles.ENDED
    assert not bundles.ACTIVE & bundles.ENDED


def test_every_state_has_a_description() -> None:
    """Each has a row that says what it means."""
    text = PAGE.read_text(encoding="utf-8")
    for state in [*ReplicaStepState, *ExecutionStatus]:
        assert re.search(rf"^\| `{state}` \| [a-zA-Z]", text, re.MULTILINE), state


def test_ends_are_ends() -> None:
    """Final states lead nowhere, but for those that a resumed execution takes up again."""
    assert {s for s, to in STEP_TRANSITIONS.items() if not to} == ENDED - {ReplicaStepState.ROLLED_BACK}
    assert {s for s, to in STATUS_TRANSITIONS.items() if not to} == FINAL - {
        ExecutionStatus.STOPPED,
        ExecutionStatus.CANCELLED,
    }
    assert not ACTIVE & ENDED
