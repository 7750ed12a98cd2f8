"""`trimtab demo` runs the demos of the source checkout, and says what is missing where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trimtab.lab.commands import demo
from trimtab.model.errors import SandboxError


def test_the_demos_are_those_of_this_checkout() -> None:
    """They are imported from `examples`, not from the package."""
    module = demo.import_demos()
    assert Path(module.__file__) == Path(__file__).parents[3] / "examples" / "demos" / "run.py"


def test_an_installed_package_reports_that_it_has_no_demos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence: what is missing, where it was looked for, and what to do; nothing is put on the path."""
    monkeypatch.setattr(demo, "EXAMPLES", tmp_path / "examples")
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SandboxError, match="needs a source checkout") as refused:
        demo.import_demos()
    assert str(tmp_path / "examples" / "demos") in str(refused.value) and "make demo" in str(refused.value)
    assert str(tmp_path / "examples") not in sys.path
