"""The public API of each data plane: every name is there, documented, and named by the package's README."""

from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "packages"


@pytest.mark.parametrize("package", ["trimtab_keys", "trimtab_queues", "trimtab_store"])
def test_public_names_can_be_imported(package: str) -> None:
    """They are imported when first used, so a wrong place would be found by users only."""
    module = import_module(package)
    assert sorted(module.__all__) == module.__all__
    for name in module.__all__:
        assert getattr(module, name).__doc__, name
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


@pytest.mark.parametrize("package", ["trimtab_keys", "trimtab_queues", "trimtab_store"])
def test_the_promise_is_in_the_readme_of_each_package(package: str) -> None:
    """The README of a package names the stable API and its deprecation period."""
    text = (PACKAGES / package.replace("_", "-") / "README.md").read_text(encoding="utf-8")
    assert f"`{package}.__all__`" in text
    assert "only after one minor release that warns" in text
