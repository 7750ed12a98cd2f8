"""Optional packages of an installation, the extra that brings each, and the command that installs one.

A package of the workspace imports its optional packages where it uses them. If one is missing, one sentence
names it and the command that installs it.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from trimtab_common.errors import TrimtabError


class MissingExtraError(TrimtabError, ImportError):
    """A package is needed that the installation came without; the message says how to add it."""


class Extras:
    """The optional packages of one distribution.

    Parameters
    ----------
    distribution
        Its name: `trimtab`, `trimtab-store`.
    packages
        Extra by the name under which Python imports a package; its `pyproject.toml` lists what each installs.
    """

    def __init__(self, distribution: str, packages: Mapping[str, str]) -> None:
        self.distribution = distribution
        self.packages = packages

    def remedy(self, extra: str) -> str:
        """The command that installs the packages of an extra for the running Python.

        It names the packages, not `trimtab[extra]`: trimtab is on no package index, and the packages are. It
        names the running Python, so that no other environment is changed.
        """
        wanted = [
            requirement.strip()
            for requirement, _, marker in (line.partition(";") for line in _requirements(self.distribution))
            if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker)
        ]
        lacking = [one for one in wanted if not _is_installed(one)] or wanted or [*self._packages_of(extra)]
        if find_spec("pip") is None:  # uv makes environments without pip
            return shlex.join(["uv", "pip", "install", "--python", sys.executable, *lacking])
        return shlex.join([sys.executable, "-m", "pip", "install", *lacking])

    @contextmanager
    def missing_named(self) -> Iterator[None]:
        """An optional package that cannot be imported inside becomes one sentence that names its extra.

        Also a decorator. Any other import that fails is a fault of trimtab and passes as it is.

        Raises
        ------
        MissingExtraError
            If one of the optional packages is missing.
        """
        try:
            yield
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package not in self.packages or find_spec(package) is not None:
                raise
            raise self._missing(package, self.packages[package]) from error

    def require(self, extra: str) -> None:
        """Refuse early, where a command would otherwise find out only after minutes of work.

        Parameters
        ----------
        extra
            One of the extras, or `lab`, which brings the packages of all of them.

        Raises
        ------
        MissingExtraError
            If one of its packages is missing.
        """
        for package in self._packages_of(extra):
            if find_spec(package) is None:
                raise self._missing(package, extra)

    def _packages_of(self, extra: str) -> Iterator[str]:
        yield from (package for package, brought_by in self.packages.items() if extra in ("lab", brought_by))

    def _missing(self, package: str, extra: str) -> MissingExtraError:
        return MissingExtraError(
            f"this needs the package {package} (extra {extra}), which is not installed: {self.remedy(extra)}",
            name=package,
        )


def _requirements(name: str) -> list[str]:
    """Requirements by a distribution's metadata; none for a source tree that is not installed."""
    try:
        return distribution(name).requires or []
    except PackageNotFoundError:
        return []


def _is_installed(requirement: str) -> bool:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    try:
        distribution(match[0])
    except PackageNotFoundError:
        return False
    return True
