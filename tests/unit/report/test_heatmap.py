"""The picture of brokers × resources."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from support.measured import from_imbalances
from trimtab.model.load import imbalance
from trimtab.model.replicas.settings import RESOURCES
from trimtab.report.charts import save_figure
from trimtab.report.comparison import heatmap_figure
from trimtab.report.measured import MeasuredLoad


def measured(first: float = 0.5) -> MeasuredLoad:
    """Two brokers, three instants, the first broker's CPU as given."""
    load = np.array([[first, 0.4, 0.3, 0.2], [0.5, 0.4, 0.3, 0.2]])
    series = [imbalance(load, np.ones((2, 4)), np.ones(2, dtype=bool), RESOURCES) for _ in range(3)]
    return from_imbalances((1, 2), ("h1", "h2"), series)


def draw_heatmap(
    panels: list[tuple[str, MeasuredLoad]], folder: Path, name: str, title: str, epsilon: float
) -> tuple[Path, Path]:
    """The picture of placements as two files."""
    return save_figure(heatmap_figure(panels, title, epsilon), folder, name)


def test_both_formats_are_whole_files(tmp_path):
    """Both formats are complete pictures, and no partial file is left."""
    svg, png = draw_heatmap([("before", measured(0.9)), ("after", measured())], tmp_path, "heat", "Load", 0.1)
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    with Image.open(png) as picture:
        assert picture.width > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heat.png", "heat.svg"]


def test_an_overloaded_broker_is_red_and_a_balanced_one_pale(tmp_path):
    """The hot cell is the only strongly coloured one, so that the eye finds it."""
    _, png = draw_heatmap([("before", measured(2.0))], tmp_path, "heat", "Load", 0.1)
    with Image.open(png) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    hot = (pixels[..., 0] - pixels[..., 2]) > 100
    assert hot[: hot.shape[0] * 2 // 3, : hot.shape[1] // 3].any()
    assert not hot[: hot.shape[0] * 2 // 3, hot.shape[1] // 2 :].any()


def test_a_failed_drawing_leaves_the_old_picture(tmp_path):
    """A crash while drawing keeps what was there before, whole."""
    (tmp_path / "heat.svg").write_text("old")

    class Broken(Figure):
        def savefig(self, *arguments, **options):
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError):
        save_figure(Broken(), tmp_path, "heat")
    assert [path.name for path in tmp_path.iterdir()] == ["heat.svg"]
    assert (tmp_path / "heat.svg").read_text() == "old"


def test_the_same_figures_give_the_same_bytes(tmp_path):
    """Pictures kept in a repository change only when their numbers do."""
    first = [
        path.read_bytes() for path in draw_heatmap([("x", measured())], tmp_path / "a", "h", "Load", 0.1)
    ]
    second = [
        path.read_bytes() for path in draw_heatmap([("x", measured())], tmp_path / "b", "h", "Load", 0.1)
    ]
    assert first == second


def test_a_long_heading_stays_within_the_picture(tmp_path):
    """What balancing cost is a long line: it is broken, not cut off at the edge."""
    heading = "after: 27 replicas copied (1.03 GB, 18.7 MB/s), 114 leader roles handed over, in 55.5 s"
    _, png = draw_heatmap([("before", measured()), (heading, measured())], tmp_path, "heat", "Load", 0.1)
    with Image.open(png) as picture:
        pixels = np.asarray(picture.convert("L"))
    assert (pixels[:, -12:] > 250).all()
