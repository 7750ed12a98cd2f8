"""`trimtab demo` and `trimtab simulate` are in the source checkout; an installed package says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trimtab.cli import app, commands


@pytest.mark.parametrize(("command", "package"), [("demo", "demos"), ("simulate", "simulated_clusters")])
def test_the_commands_are_those_of_this_checkout(command: str, package: str) -> None:
    """They are imported from `examples`, not from the package."""
    app.COMMANDS[command][0]()
    module = sys.modules[f"{package}.command"]
    assert module.__file__ is not None
    assert Path(module.__file__) == Path(__file__).parents[3] / "examples" / package / "command.py"


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["demo", "--help"], "demos/command.py"),
        (["simulate", "--help"], "simulated_clusters/command.py"),
        (["pipeline", "accuracy", "."], "demos/accuracy.py"),
    ],
    ids=["demo", "simulate", "accuracy"],
)
def test_an_installed_package_names_the_missing_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    module: str,
) -> None:
    """The message names the file and the remedy; the path of imports is not changed."""
    monkeypatch.setattr(commands, "EXAMPLES", tmp_path / "examples")
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as ended:
        app.main(words)
    error = capsys.readouterr().err
    assert ended.value.code == 1
    assert "needs a source checkout" in error and "make demo" in error
    assert str(tmp_path / "examples" / module) in error
    assert str(tmp_path / "examples") not in sys.path
