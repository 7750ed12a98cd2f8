"""The list of tests that are run again: each is there, and no other test is repeated."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

from flaky import FLAKY, cause_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("nodeid", FLAKY)
def test_each_is_one_test_that_is_there(nodeid: str) -> None:
    """A renamed test would lose its second run, or a whole file would have one."""
    file, _, name = nodeid.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert file.startswith("tests/integration/")
    assert len(FLAKY[nodeid].split()) > 5, "name the cause"


def test_no_other_test_is_repeated(request: pytest.FixtureRequest) -> None:
    """Neither by an option for all tests, nor by a mark of its own."""
    assert not request.config.getoption("reruns", None)
    marked = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if "mark.flaky" in path.read_text(encoding="utf-8")
        and path.name not in ("conftest.py", "test_flaky.py")
    ]
    assert marked == []
    assert cause_of("tests/integration/test_faults.py::test_killed_and_cancelled") is None
    name = next(iter(FLAKY))
    assert cause_of(f"{name}[1]") == FLAKY[name]


def test_every_repetition_is_printed_with_its_cause() -> None:
    """At the end of the run, also where the second run passed."""
    from conftest import pytest_terminal_summary

    name, printed = next(iter(FLAKY)), []
    reporter = SimpleNamespace(
        stats={"rerun": [SimpleNamespace(nodeid=name, longreprtext="the failure")]},
        section=lambda title, **_: printed.append(title),
        write_line=printed.append,
    )
    pytest_terminal_summary(reporter)  # type: ignore[arg-type]
    assert any(name in line for line in printed)
    assert f"known cause: {FLAKY[name]}" in printed
    assert "the failure" in printed
