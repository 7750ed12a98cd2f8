"""The page about Python: its examples run as they stand, and its promises name what is there."""

import re
from pathlib import Path

import pytest

import trimtab
from simulate.instances import lognormal_skew
from support.recordings import skewed, tick, written
from support.small_lake import NOON, imbalance_rows, publish

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after another, as in a notebook, over a small cluster and three minutes of a hot broker."""
    trimtab.write_snapshot(lognormal_skew(brokers=6, replicas=120, seed=3), tmp_path / "snapshot.json")
    written(tmp_path / "reports.jsonl", [tick(minute, skewed()) for minute in range(3)])
    publish(tmp_path / "lake", {"imbalance": [imbalance_rows(NOON, {1: (0.2, 0.2, 0.2, 0.2)})]})
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 4
    for block in blocks:
        exec(block, names)
    shown = capsys.readouterr().out
    assert "Plan by trim" in shown
    assert "did you mean" in shown
    assert (tmp_path / "plan.json").exists()


def test_the_stable_names_are_the_public_ones() -> None:
    """The table of the page and `trimtab.__all__` are one list."""
    table = PAGE.partition("| name | what it is |")[2].partition("\n\n")[0]
    named = {
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1:2][0] if "|" in row else "")
    }
    assert named == {*trimtab.__all__} - {"__version__"}
