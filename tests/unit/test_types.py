"""Python in the documentation passes a strict type check, and the public types are those of the balancers."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

import trimtab
from trimtab.balancers import BALANCERS

pytestmark = pytest.mark.slow  # mypy reads pages and the package again

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src", *sorted((ROOT / "packages").glob("*/src")))
STUB = ROOT / "src" / "trimtab" / "__init__.pyi"
PAGES = [ROOT / "README.md", ROOT / "docs" / "python.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]

USE = """
import trimtab

snapshot = trimtab.read_snapshot("snapshot.json")
plan = trimtab.make_plan(snapshot)
reveal_type(snapshot.reference)
reveal_type(snapshot.quality)
reveal_type(plan.moves)
reveal_type(plan.cost)
plan.no_such_attribute
"""


def _program(page: Path) -> str:
    """The Python blocks of a page as one module; blocks that wait at top level stand in a function."""
    blocks = []
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    ):
        waits = any(isinstance(one, ast.Await) for part in ast.parse(block).body for one in _own(part))
        blocks.append(
            f"async def _block_{number}() -> None:\n{textwrap.indent(block, '    ')}" if waits else block
        )
    return "\n\n".join(blocks)


def _own(part: ast.AST) -> list[ast.AST]:
    """What a statement holds, without the bodies of functions."""
    if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    return [part, *(inner for child in ast.iter_child_nodes(part) for inner in _own(child))]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy --strict says of all pages and of `USE`, with trimtab's sources as an installed package."""
    folder = tmp_path_factory.mktemp("typed")
    for page in PAGES:
        if program := _program(page):
            (folder / f"page_{page.stem.lower().replace('-', '_')}.py").write_text(program, encoding="utf-8")
    (folder / "use.py").write_text(USE, encoding="utf-8")
    names = sorted(path.name for path in folder.glob("*.py"))
    assert {"page_install.py", "page_python.py", "page_queues.py", "page_keys.py"} <= {*names}
    words = [
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        "--no-error-summary",
        "--cache-dir=cache",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, *names],
        cwd=folder,
        env=os.environ | {"MYPYPATH": os.pathsep.join(map(str, SOURCES))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_python_of_the_pages_is_typed(checked: str) -> None:
    """A copied block passes a strict type checker."""
    assert [line for line in checked.splitlines() if line.startswith("page_")] == []


def test_attributes_of_plans_and_snapshots_are_known(checked: str) -> None:
    """An editor completes them, and a wrong one is an error."""
    told = [line for line in checked.splitlines() if line.startswith("use.py")]
    for line, types in (
        ("6", ["SnapshotReference"]),
        ("7", ["Quality"]),
        ("8", ["ReplicaMove", "BundleMove", "MastershipTransfer"]),
        ("9", ["ReplicaCost", "BundleCost", "TransferCost"]),
    ):
        (said,) = (one for one in told if one.startswith(f"use.py:{line}: note"))
        assert all(f".{name}" in said for name in types), said
    wrong = [one for one in told if one.startswith("use.py:10: error")]
    assert len(wrong) == len(BALANCERS), told


def test_the_public_types_are_those_of_the_balancers() -> None:
    """A balancer that is added is added to the unions, and to the overloads."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    unions = {
        one.target.id: {name.id for name in ast.walk(one.value) if isinstance(name, ast.Name)}
        for one in tree.body
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.value is not None
    }
    imported = {
        alias.name: getattr(import_module(one.module or ""), alias.name)
        for one in tree.body
        if isinstance(one, ast.ImportFrom) and str(one.module).startswith("trimtab.model.")
        for alias in one.names
    }
    kinds = {level.snapshot().kind for level in BALANCERS.values()}
    assert {imported[name] for name in unions["Snapshot"]} == kinds
    assert {imported[name] for name in unions["Plan"]} == {level.plan().kind for level in BALANCERS.values()}
    made = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "make_plan"]
    taken = {ast.unparse(one.args.args[0].annotation or one) for one in made}
    assert {imported[name] for name in taken} == kinds


def test_the_public_names_and_parameters_are_those_at_run_time() -> None:
    """The file of types lists what is there, and calls the parameters what they are called."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    (listed,) = (
        ast.literal_eval(one.value)
        for one in tree.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__all__"
    )
    assert listed == trimtab.__all__
    for one in tree.body:
        if isinstance(one, ast.FunctionDef):
            its = one.args
            names = [arg.arg for arg in (*its.args, *its.kwonlyargs, *([its.kwarg] if its.kwarg else []))]
            assert names == [*inspect.signature(getattr(trimtab, one.name)).parameters], one.name
