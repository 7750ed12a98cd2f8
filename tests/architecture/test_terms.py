"""One word for one thing: names use the terms of docs/terms.md, and docstrings state something."""

import ast
import collections
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "src" / "trimtab", *sorted((ROOT / "packages").glob("*/src/*")))
TABLE = ROOT / "docs" / "terms.md"

LISTS = tomllib.loads((Path(__file__).parent / "banned_terms.toml").read_text(encoding="utf-8"))

BANNED = frozenset(LISTS["words"])
BANNED_PHRASES = frozenset(LISTS["phrases"])
BANNED_IN_TESTS = BANNED.union(LISTS["test_words"]) - set(LISTS["allowed_in_tests"])
PENDING = frozenset(LISTS["pending"])

MIN_DOCSTRING_WORDS = 5
"""A shorter docstring repeats the name or refers to another place."""

STANDARD_PHRASES = re.compile(r"(log|top)_level")
"""Terms of the field that contain a banned word."""

FLAG = re.compile(r"--[a-z][a-z-]+")

STANDARD_NAMES = frozenset(
    {("files.object_store", "tell"), ("trimtab_keys.clients.aiokafka", "muted_partitions")}
)
"""Names that others have given: `io.RawIOBase.tell`, and a parameter of aiokafka's accumulator."""

QUANTITY_LAST = re.compile(r"(?i)_(most|least|maximum|minimum)$")
"""A limit starts with its quantity: `max_moves`, `min_gain`."""

MAX_SHARED_CLASS_NAMES = 30
"""Class names that several classes may have, where their contexts are parallel."""


class Identifier(NamedTuple):
    """A name that the package defines, and where."""

    kind: str
    name: str
    module: str
    line: int


def words(name: str) -> list[str]:
    """The words of an identifier or flag, in lower case."""
    parted = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name))
    return [word for word in re.split(r"[_-]+", parted.lower()) if word]


def fault(name: str) -> str | None:
    """The banned word in a name, if there is one."""
    parts = words(STANDARD_PHRASES.sub("", name))
    pairs = {"_".join(parts[i : i + size]) for size in (2, 3) for i in range(len(parts) - size + 1)}
    found = sorted(BANNED.intersection(parts)) or sorted(BANNED_PHRASES & pairs)
    last = QUANTITY_LAST.search(name)
    return found[0] if found else last.group() if last else None


def _targets(node: ast.stmt) -> Iterator[ast.Name]:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (one for one in ast.walk(target) if isinstance(one, ast.Name))


def identifiers(tree: ast.Module, module: str) -> Iterator[Identifier]:
    """Classes, functions, parameters, fields, constants and flags of one module, and the module itself."""
    yield Identifier("module", module.rpartition(".")[2], module, 1)
    for constant in tree.body:
        for target in _targets(constant):
            yield Identifier("constant", target.id, module, target.lineno)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield Identifier("class", node.name, module, node.lineno)
            for part in node.body:
                for target in _targets(part):
                    yield Identifier("field", target.id, module, target.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield Identifier("field", node.attr, module, node.lineno)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Identifier("function", node.name, module, node.lineno)
        elif isinstance(node, ast.arg):
            yield Identifier("parameter", node.arg, module, node.lineno)
        elif isinstance(node, ast.Constant) and FLAG.fullmatch(str(node.value)):
            yield Identifier("flag", str(node.value), module, node.lineno)


def all_identifiers() -> Iterator[Identifier]:
    """Those of every module of the packages; names in the control plane go without its own."""
    for source in SOURCES:
        base = source if source.name == "trimtab" else source.parent
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield from identifiers(ast.parse(path.read_text(encoding="utf-8")), module)


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Path and syntax tree of every module of the packages."""
    for source in SOURCES:
        for path in sorted(source.rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))


def package_of(module: str) -> str:
    """The package that is renamed at once: a room, or a folder or module in one."""
    return ".".join(module.split(".")[:2])


def test_renamed_packages_have_no_banned_word() -> None:
    """A package that is not pending uses the words of the table everywhere."""
    found = [
        f"{one.module}:{one.line}: {one.kind} {one.name}: {word}"
        for one in all_identifiers()
        if package_of(one.module) not in PENDING
        and (one.module, one.name) not in STANDARD_NAMES
        and (word := fault(one.name)) is not None
    ]
    assert found == []


def test_pending_packages_have_banned_words() -> None:
    """The list of pending packages only shrinks: a package without a banned word is not on it."""
    left = {package_of(one.module) for one in all_identifiers() if fault(one.name) is not None}
    assert sorted(PENDING - left) == []


def test_every_banned_word_has_a_row_in_the_table() -> None:
    """A banned word is listed with its replacement."""
    old = {
        word
        for line in TABLE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
        for word in (*words(name.replace(".", "_")), name)
    }
    assert sorted((BANNED | BANNED_PHRASES) - old) == []


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("PlanAsked", "asked"),
        ("go_on", "go_on"),
        ("takeovers_most", "takeovers"),
        ("keys_most", "_most"),
        ("--mute", "mute"),
        ("LevelledBroker", "levelled"),
        ("backoff_maximum_seconds", None),
        ("copies_per_broker_maximum", "_maximum"),
        ("lookup_owner", None),
        ("heartbeat_timeout_seconds", None),
        ("least_work_left", None),
    ],
)
def test_banned_words_are_found_in_every_notation(name: str, word: str | None) -> None:
    """CapWords, snake case and flags are split into words; a longer word is another word."""
    assert fault(name) == word


def test_a_class_name_stands_for_one_thing() -> None:
    """Parallel contexts, such as clients of one library each, may share a few names."""
    names = collections.Counter(one.name for one in all_identifiers() if one.kind == "class")
    assert len([name for name, count in names.items() if count > 1]) <= MAX_SHARED_CLASS_NAMES


def test_names_of_tests_use_the_terms() -> None:
    """A test's file and function are named by a behaviour: `test_apply_rejects_a_plan_of_another_cluster`."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = (
            node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        names = [path.stem, *(one.name for one in functions if one.name.startswith("test_"))]
        found += [
            f"{path.relative_to(ROOT)}: {one}" for one in names if BANNED_IN_TESTS.intersection(words(one))
        ]
    assert found == []


def test_docstrings_have_at_least_five_words() -> None:
    """A docstring states what its name does not; without anything to state there is none."""
    short = [
        f"{path}:{node.body[0].lineno}: {text}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node)) is not None
        and len(text.split()) < MIN_DOCSTRING_WORDS
    ]
    assert short == []
