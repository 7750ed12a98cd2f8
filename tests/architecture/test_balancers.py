"""A balancer is named by its own folders and by its row alone; whoever adds one edits no other file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "trimtab"
NAMES = tuple(
    sorted(path.name for path in (SOURCE / "balancers").iterdir() if (path / "__init__.py").exists())
)
SYSTEMS = ("kafka", "pulsar", "redis", "paxos")
"""Their folders speak the system's own language, in which a balancer's name may be a word like any other."""
DATA_PLANES = ("trimtab_keys", "trimtab_queues", "trimtab_store")
"""Packages of the workspace, each of one balancer."""
LAB = "lab/"
"""Sandboxes are of particular systems."""
NAMED = re.compile(rf"(^|[.:/]){'|'.join(NAMES).join('()')}($|[.:/])")


def _files() -> Iterator[Path]:
    """Modules that must not know which balancers there are."""
    for path in sorted(SOURCE.rglob("*.py")):
        inside = path.relative_to(SOURCE)
        if not inside.as_posix().startswith(LAB) and not {*NAMES, *SYSTEMS} & set(
            inside.with_suffix("").parts
        ):
            yield path


def _imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """String constants, those of docstrings left out."""
    bodies = [
        node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    told = {id(body[0].value) for body in bodies if body and isinstance(body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.lineno, node.value


def _offences(tree: ast.AST) -> list[str]:
    found = [
        f"line {line}: imports {name}"
        for line, name in _imported(tree)
        if name.startswith(("trimtab.", *DATA_PLANES))
        and ({*NAMES} & set(name.split(".")) or name.startswith(DATA_PLANES))
    ]
    return found + [f"line {line}: says {text!r}" for line, text in _strings(tree) if NAMED.search(text)]


def test_no_shared_file_names_a_balancer() -> None:
    """Rooms take what they need of a balancer as values; commands and the Python face go over all of them.

    An extra may bear the name of the balancer that it is for.
    """
    offenders = {
        str(path.relative_to(SOURCE)): said
        for path in _files()
        if (said := _offences(ast.parse(path.read_text(encoding="utf-8"))))
        and path not in (SOURCE / "balancers" / "__init__.py", SOURCE / "extras.py")
    }
    assert not offenders, "\n".join(f"{name}: {'; '.join(said)}" for name, said in offenders.items())


def test_the_table_of_balancers_names_them_once() -> None:
    """The rows are complete: they name every folder of a balancer."""
    from trimtab.balancers import BALANCER_NAMES

    assert sorted(BALANCER_NAMES) == list(NAMES)
    tree = ast.parse((SOURCE / "balancers" / "__init__.py").read_text(encoding="utf-8"))
    assert sorted(text for _, text in _strings(tree) if NAMED.search(text)) == list(NAMES)


@pytest.mark.parametrize(
    "code",
    [
        "import trimtab.plan.replicas.trim",
        "from trimtab_keys.core.routing import murmur2",
        "from trimtab.model import bundles",
        "def f():\n    from trimtab.files.bundles.plan import FORMAT",
        "kind = 'replicas'",
        "if balancer == 'bundles': pass",
        "x = 'trimtab.plan.bundles.trim:plan'",
        "x = {'replicas.epsilon': 1}",
    ],
)
def test_the_search_finds_names(code: str) -> None:
    """It would catch what it is there for."""
    assert _offences(ast.parse(code))


@pytest.mark.parametrize(
    "code", ["'''Moves replicas.'''", "x = 'replicas to copy'", "import trimtab.plan.search.board"]
)
def test_the_search_ignores_sentences(code: str) -> None:
    """A sentence may speak of what a balancer moves."""
    assert not _offences(ast.parse(code))
