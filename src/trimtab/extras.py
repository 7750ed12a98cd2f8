"""Packages that an installation may leave out, and the extra that brings each.

`pip install trimtab` brings what plans and applies. Everything else is imported where it is used, and a
package that is not there becomes one sentence that says what to install.
"""

from collections.abc import Iterator
from contextlib import contextmanager
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
}
"""Extra by the name under which Python imports a package; `pyproject.toml` lists what each installs."""


class MissingExtraError(TrimtabError, ImportError):
    """A package is needed that the installed trimtab came without; the message says how to add it."""


def _missing(package: str, extra: str) -> MissingExtraError:
    return MissingExtraError(
        f"this needs the package {package}, which is not installed: pip install 'trimtab[{extra}]'",
        name=package,
    )


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
