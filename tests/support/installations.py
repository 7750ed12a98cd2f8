"""Installations with fewer packages than the one that runs the tests.

Building a real environment takes minutes; here the same Python runs with packages hidden from it and from
its children. `tests/integration/test_wheel.py` has a real one, of the base alone.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, distributions, packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
HIDING = ROOT / "tests" / "support" / "hidden_packages"
PACKAGES = ("trimtab-common", "trimtab-keys", "trimtab-queues", "trimtab-store")
"""The packages of the workspace."""
_ALWAYS = frozenset({"pip", "trimtab", *PACKAGES})


def normal(name: str) -> str:
    """A distribution's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(requirements: Iterable[str]) -> frozenset[str]:
    """Distributions that these requirements bring on this machine, with all that they need in turn."""
    found: set[str] = set()
    done: set[tuple[str, str]] = set()
    left = [(Requirement(one), "") for one in requirements]
    while left:
        one, extra = left.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        name = normal(one.name)
        found.add(name)
        for wanted in ("", *one.extras):
            if (name, wanted) in done:
                continue
            done.add((name, wanted))
            try:
                left += [(Requirement(text), wanted) for text in distribution(name).requires or ()]
            except PackageNotFoundError:
                continue
    return frozenset(found)


@cache
def extras_of_project() -> dict[str, tuple[str, ...]]:
    """Requirements of the base, named "", and of each extra but `lab`, by pyproject.toml."""
    project = metadata_of(ROOT)
    extras = {name: tuple(asked) for name, asked in project["optional-dependencies"].items() if name != "lab"}
    base = project["dependencies"]
    for package in PACKAGES:  # they need not be installed: their sources may be on the path
        base = base + metadata_of(ROOT / "packages" / package)["dependencies"]
    return {"": tuple(one for one in base if not one.startswith("trimtab"))} | extras


def metadata_of(folder: Path) -> dict[str, Any]:
    """The table `[project]` of a package."""
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def locked(name: str) -> frozenset[str]:
    """Distributions that a lock of `requirements/` installs."""
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    return frozenset(normal(one) for one in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==", text, re.MULTILINE))


def with_extras(*extras: str) -> dict[str, str]:
    """The environment of a child that sees the base dependencies and those of some extras."""
    asked = extras_of_project()
    return _seeing(closure(one for extra in ("", *extras) for one in asked[extra]))


def runtime() -> dict[str, str]:
    """The environment of a child that sees what `make demo` installs: requirements/runtime.txt."""
    return _seeing(locked("runtime.txt"))


def _seeing(seen: frozenset[str]) -> dict[str, str]:
    modules = sorted(
        module
        for module, brought_by in packages_distributions().items()
        if not {normal(one) for one in brought_by} & (seen | _ALWAYS)
    )
    installed = {normal(one.metadata["Name"]) for one in distributions()}
    path = [str(HIDING), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "HIDDEN_PACKAGES": ",".join(modules),
        "HIDDEN_DISTRIBUTIONS": ",".join(sorted(installed - seen - _ALWAYS)),
        "PYTHONPATH": os.pathsep.join(one for one in path if one),
    }
