"""The package's metadata, the lists people edit and the locks say the same."""

import re
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path
from typing import Any

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
