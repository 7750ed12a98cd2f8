"""Which tier a test is of, and that make knows the tiers."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import tiers

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Item:
    """A test as pytest has collected it, as far as its tier depends on it."""

    path: Path
    markers: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> bool:
        """Whether it has the marker."""
        return name in self.markers


@pytest.mark.parametrize(
    ("file", "markers", "tier"),
    [
        ("unit/test_loop.py", (), "check"),
        ("unit/test_loop.py", ("slow",), "test"),
        ("unit/observe/spark/test_tables.py", ("spark",), "test"),
        ("contracts/test_cluster_port.py", ("kafka",), "test"),
        ("integration/test_wheel.py", (), "test"),
        ("integration/test_demo.py", ("kafka", "alone"), "test"),
        ("integration/test_tutorial.py", ("kafka", "long"), "long"),
    ],
)
def test_a_test_has_a_tier(
    file: str, markers: tuple[str, ...], tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in its own tier and in all that are larger."""
    item = Item(ROOT / "tests" / file, markers)
    assert tiers.tier_of(item) == tier  # type: ignore[arg-type]
    for current in tiers.TIERS:
        monkeypatch.setattr(tiers, "_current", current)
        runs = tiers.TIERS.index(current) >= tiers.TIERS.index(tier)
        assert tiers.is_in_tier(item) == runs  # type: ignore[arg-type]


def test_make_runs_every_tier() -> None:
    """A target for each, by the names of `tiers.py`."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^[\w-]+: tier := (\w+)$", makefile, re.MULTILINE)) == tiers.TIERS
