"""Settings of the pipeline that no table could be made with."""

from __future__ import annotations

import pytest

from trimtab.model.errors import SettingsError
from trimtab.observe.settings import BundleFigures, PipelineSettings


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"window_seconds": -1.0}, "window_seconds is -1.0"),
        ({"window_seconds": float("nan")}, "window_seconds is nan"),
        ({"gap_seconds": 1e12}, "gap_seconds is 1000000000000.0"),
        ({"window_seconds": 60.0, "slide_seconds": 45.0}, "not a multiple"),
        ({"windows": 0}, "windows is 0: give 1 or more"),
        ({"cpu_base": "somewhere"}, "give apart or replicas"),
        ({"theta": (0.8,)}, "give 4 fractions"),
        ({"epsilon": (0.1, 0.1, 0.1, 2.0)}, "at most 1"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], sentence: str) -> None:
    """Each names the setting, the value and what is expected."""
    with pytest.raises(SettingsError, match=sentence):
        PipelineSettings(**values)  # type: ignore[arg-type]


def test_tables_do_not_depend_on_how_snapshots_are_made() -> None:
    """Changing the number of windows or the rule of the load value needs no rebuilding of tables."""
    one = PipelineSettings().of_tables()
    other = PipelineSettings(windows=3, value="literal", cpu_base="replicas").of_tables()
    assert one == other
    assert PipelineSettings(gap_seconds=60).of_tables() != one


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"horizon_seconds": 7 * 86400.0}, "bundles.horizon_seconds is 604800.0: .*six days"),
        ({"departure_seconds": float("nan")}, "bundles.departure_seconds is nan"),
        ({"views": 0}, "bundles.views is 0: give 1 to 100"),
        ({"trend_windows": 1}, "bundles.trend_windows is 1: give 2 to 1000"),
        ({"history_weight": 1.0}, "bundles.history_weight is 1.0: give a fraction below 1"),
        ({"usage_weights": (1.0, -1.0, 0.0, 1.0, 1.0)}, "give 5 numbers, none below 0"),
        ({"theta": (0.8, 0.8)}, "bundles.theta is .*: give 4 fractions"),
    ],
)
def test_impossible_settings_of_bundles_are_refused(values: dict[str, object], sentence: str) -> None:
    """The same for what only that level has."""
    with pytest.raises(SettingsError, match=sentence):
        BundleFigures(**values)  # type: ignore[arg-type]


def test_each_level_depends_on_its_own_settings() -> None:
    """A lake with both systems keeps the tables of one when a setting of the other is changed."""
    usual = PipelineSettings()
    forecasts = PipelineSettings(bundles=BundleFigures(trend_windows=20))
    assert forecasts.of_tables() == usual.of_tables()
    assert forecasts.of_tables("bundles") != usual.of_tables("bundles")
    kafka = PipelineSettings(learning_seconds=60, theta=(0.5, 0.5, 0.5, 0.5))
    assert kafka.of_tables("bundles") == usual.of_tables("bundles")
    views = PipelineSettings(bundles=BundleFigures(views=9))
    assert views.of_tables("bundles") == usual.of_tables("bundles")


def test_a_forecast_is_for_the_end_of_a_window() -> None:
    """The horizon is rounded up to whole slides, so that what comes can be held against it."""
    second = 1_000_000
    ahead = {
        seconds: PipelineSettings(
            window_seconds=60, slide_seconds=30, bundles=BundleFigures(horizon_seconds=seconds)
        ).horizon
        for seconds in (1.0, 30.0, 31.0, 600.0)
    }
    assert ahead == {1.0: 30 * second, 30.0: 30 * second, 31.0: 60 * second, 600.0: 600 * second}
