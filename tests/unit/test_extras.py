"""The sentence about a package that the installation came without."""

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import Any

import pytest

from trimtab.extras import EXTRAS, missing_extra_named, remedy, require
from trimtab_common import extras
from trimtab_common.errors import TrimtabError
from trimtab_common.extras import MissingExtraError


def test_a_missing_optional_package_is_reported_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a part of the package is imported; the sentence can be typed as it stands."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "pyspark" else find_spec(name))
    with pytest.raises(MissingExtraError) as told, missing_extra_named():
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql")
    assert re.fullmatch(
        r"this needs the package pyspark \(extra spark\), which is not installed: "
        rf"{re.escape(shlex.quote(sys.executable))} -m pip install 'pandas[^' ]+' 'pyspark[^' ]+'",
        str(told.value),
    )
    assert told.value.name == "pyspark"
    assert isinstance(told.value, TrimtabError)
    assert isinstance(told.value, ImportError)


@pytest.mark.parametrize("name", ["trimtab.no_such_module", "msgspec", "pandas.no_such_part", None])
def test_other_failed_imports_stay_as_they_are(name: str | None) -> None:
    """A module of ours, a base dependency, or a part that an installed package lacks: faults."""
    with pytest.raises(ModuleNotFoundError) as told, missing_extra_named():
        raise ModuleNotFoundError("No module named so", name=name)
    assert not isinstance(told.value, MissingExtraError)


def test_it_also_decorates() -> None:
    """A function of the public face is wrapped in one line, and called as often as one likes."""

    @missing_extra_named()
    def draw() -> None:
        raise ModuleNotFoundError(name="trimtab.gone")

    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            draw()


def test_later_requirements_are_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo takes minutes to reach its picture: it asks for everything before it starts."""
    require("lab")
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "matplotlib" else object())
    require("spark")
    with pytest.raises(
        MissingExtraError, match=r"package matplotlib \(extra lab\).* install 'aetcd.*'matplotlib[^']*' "
    ):
        require("lab")
    with pytest.raises(MissingExtraError, match=r" -m pip install 'matplotlib[^']*'$"):
        require("plot")
    assert set(EXTRAS.values()) == {
        "delta", "keys-aiokafka", "keys-confluent", "masters-etcd", "object-store", "pandas", "plot",
        "pulsar", "queues-server", "serve", "spark",
    }  # fmt: skip


def test_only_missing_packages_are_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two packages of an extra is missing: the command names that one."""

    def found(name: str) -> Any:
        if name == "pulsar-client":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(extras, "distribution", found)
    assert re.search(r" -m pip install 'pulsar-client[^']+'$", remedy("pulsar"))


def test_environments_without_pip_get_a_command_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments of uv have no pip; the command still names the Python that lacks the package."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    start = f"uv pip install --python {shlex.quote(sys.executable)} 'matplotlib"
    assert remedy("plot").startswith(start)
