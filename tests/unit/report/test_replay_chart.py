"""The picture of strategies side by side."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support.bundle_views import report
from trimtab.history.bundles.compare import Comparison
from trimtab.history.bundles.effect import Effect, EffectMeter, Ruler
from trimtab.model.bundles import ReportTick
from trimtab.plan.bundles.decision import Decision
from trimtab.report.replay_chart import draw_replay

RULER = Ruler(weights=(1, 0, 0, 1, 1), overload=0.85)


def effect(*cpu: float) -> Effect:
    """Minutes with a broker at these percentages beside one at 50."""
    meter = EffectMeter(RULER)
    for minute, usage in enumerate(cpu):
        brokers = {"a": report(cpu=usage), "b": report(cpu=50)}
        meter.add(ReportTick(minute * 60.0, brokers), Decision())
    return meter.effect()


def pixels(path: Path, colour: tuple[int, int, int]) -> int:
    """How many of a picture's pixels have this colour, but for smoothing."""
    with Image.open(path) as picture:
        found = np.asarray(picture.convert("RGB")).astype(int)
    return int((np.abs(found - np.array(colour)).max(axis=2) < 12).sum())


def test_a_line_for_each_strategy_also_where_they_lie_on_one_another(tmp_path: Path) -> None:
    """Two that decide alike are both to be seen, the second within the first; both files are whole."""
    alike = effect(90, 60, 50)
    found = Comparison(RULER, effect(90, 90, 90), {"one": alike, "_two": alike})
    svg, png = draw_replay(found, tmp_path, "chart", "Strategies")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert pixels(png, (0x00, 0x72, 0xB2)) > 500
    assert pixels(png, (0xD5, 0x5E, 0x00)) > 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chart.png", "chart.svg"]


def test_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    """Pictures kept in a repository change only when their numbers do."""
    found = Comparison(RULER, effect(90, 80), {"one": effect(90, 60)})
    first = [path.read_bytes() for path in draw_replay(found, tmp_path / "a", "c", "x")]
    assert first == [path.read_bytes() for path in draw_replay(found, tmp_path / "b", "c", "x")]


@pytest.mark.parametrize("cpu", [(90,), ()], ids=["one tick", "none"])
def test_a_short_recording_is_drawn_too(tmp_path: Path, cpu: tuple[float, ...]) -> None:
    """A lone tick is a dot, and no tick is an empty picture; neither is a warning."""
    found = Comparison(RULER, effect(*cpu), {"one": effect(*cpu)})
    _, png = draw_replay(found, tmp_path, "chart", "Strategies")
    assert png.exists()
