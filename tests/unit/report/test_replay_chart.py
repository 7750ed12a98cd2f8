"""The picture of strategies side by side."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from support.bundle_views import key, report
from trimtab.history.bundles.effect import EffectMeter, MetricSpec, ReplayEffect, StrategyComparison
from trimtab.model.bundles.reports import ReportTick
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.report.bundles.replay import draw_replay

RULER = MetricSpec(weights=(1, 0, 0, 1, 1), overload=0.85)


def effect(*cpu: float, moves: int = 0) -> ReplayEffect:
    """Minutes with a broker at these percentages beside one at 50; a bundle goes to and fro that often."""
    meter = EffectMeter(RULER)
    for minute, usage in enumerate(cpu):
        brokers = {"a": report(cpu=usage), "b": report(cpu=50)}
        source, target = ("a", "b") if minute % 2 == 0 else ("b", "a")
        decision = ShedDecision({source: (key(0),)}, {key(0): target}) if minute < moves else ShedDecision()
        meter.add(ReportTick(minute * 60.0, brokers), decision)
    return meter.effect()


def pixels(path: Path, colour: tuple[int, int, int]) -> int:
    """How many of a picture's pixels have this colour, but for smoothing."""
    with Image.open(path) as picture:
        found = np.asarray(picture.convert("RGB")).astype(int)
    return int((np.abs(found - np.array(colour)).max(axis=2) < 12).sum())


def test_every_strategy_has_panels_of_its_own_next_to_the_recording(tmp_path: Path) -> None:
    """Two that decide alike are both visible: as much of the line's colour again; both files are complete."""
    alike = effect(90, 60, 50)
    one, two = {"one": alike}, {"one": alike, "_two": alike}
    blue, grey = (0x00, 0x72, 0xB2), (0xB8, 0xBF, 0xC7)
    drawn = [
        draw_replay(
            StrategyComparison(RULER, effect(90, 90, 90), effects), tmp_path, f"{len(effects)}", "Strategies"
        )
        for effects in (one, two)
    ]
    (_, first), (svg, second) = drawn
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert pixels(first, blue) > 1000
    assert pixels(second, blue) > 1.6 * pixels(first, blue)
    assert pixels(second, grey) > 1.6 * pixels(first, grey) > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.png", "1.svg", "2.png", "2.svg"]


def test_overload_is_filled_and_returns_are_marked(tmp_path: Path) -> None:
    """What was never overloaded shows none of its colour but in the key and the threshold's line."""
    calm = StrategyComparison(RULER, effect(50, 60, 50, 60), {"one": effect(50, 60, 50, 60)})
    hot = StrategyComparison(RULER, effect(50, 60, 50, 60), {"one": effect(99, 99, 99, 60, moves=3)})
    _, quiet = draw_replay(calm, tmp_path, "calm", "x")
    _, full = draw_replay(hot, tmp_path, "hot", "x")
    filled = (0xEB, 0xB5, 0x8D)
    assert pixels(full, filled) > 2 * pixels(quiet, filled)


def test_of_no_strategy_the_recording_itself_is_drawn(tmp_path: Path) -> None:
    """A recording can be inspected without a strategy."""
    _, png = draw_replay(StrategyComparison(RULER, effect(90, 80), {}), tmp_path, "chart", "x")
    assert pixels(png, (0x00, 0x72, 0xB2)) > 500


def test_the_same_figures_give_the_same_bytes(tmp_path: Path) -> None:
    """Pictures kept in a repository change only when their numbers do."""
    found = StrategyComparison(RULER, effect(90, 80), {"one": effect(90, 60)})
    first = [path.read_bytes() for path in draw_replay(found, tmp_path / "a", "c", "x")]
    assert first == [path.read_bytes() for path in draw_replay(found, tmp_path / "b", "c", "x")]


@pytest.mark.parametrize("cpu", [(90,), ()], ids=["one tick", "none"])
def test_a_short_recording_is_drawn_too(tmp_path: Path, cpu: tuple[float, ...]) -> None:
    """A lone tick is a dot, and no tick is an empty picture; neither is a warning."""
    found = StrategyComparison(RULER, effect(*cpu), {"one": effect(*cpu)})
    _, png = draw_replay(found, tmp_path, "chart", "Strategies")
    assert png.exists()
