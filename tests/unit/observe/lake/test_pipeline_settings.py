"""Settings of the pipeline that no table could be made with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.model.errors import ObserveError
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.pipeline import BundlesPipelineSettings
from trimtab.observe.lake.balancer_pipeline import section_of, settings_of
from trimtab.observe.lake.lake import Lake
from trimtab.observe.lake.manifest import Manifest, ManifestEntry
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.steps.batch import require_same_settings
from trimtab_common.errors import SettingsError


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"window_seconds": -1.0}, "window_seconds is -1.0"),
        ({"window_seconds": float("nan")}, "window_seconds is nan"),
        ({"gap_seconds": 1e12}, "gap_seconds is 1000000000000.0"),
        ({"window_seconds": 60.0, "slide_seconds": 45.0}, "not a multiple"),
        ({"windows": 0}, "windows is 0, expected a whole number, 1 or more"),
        ({"cpu_base": "somewhere"}, "expected one of apart, replicas"),
        ({"profile_weeks": 53}, "profile_weeks is 53, expected a whole number, 0 or more, at most 52"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, object], sentence: str) -> None:
    """Each names the setting, the value and what is expected."""
    with pytest.raises(SettingsError, match=sentence):
        ReplicasPipelineSettings(**values)  # type: ignore[arg-type]


def test_tables_do_not_depend_on_how_snapshots_are_made() -> None:
    """Changing the number of windows or the rule of the load value needs no rebuilding of tables."""
    one = ReplicasPipelineSettings().of_tables()
    other = ReplicasPipelineSettings(windows=3, load_value="literal", cpu_base="replicas").of_tables()
    assert one == other
    assert ReplicasPipelineSettings(gap_seconds=60).of_tables() != one
    assert ReplicasPipelineSettings(profile_weeks=2).of_tables() == one | {"profile_weeks": 2}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"horizon_seconds": 7 * 86400.0},
            "bundles.horizon_seconds is 604800.0, expected a number, 0.001 or more, at most 518400",
        ),
        ({"departure_retention_seconds": float("nan")}, "bundles.departure_retention_seconds is nan"),
        (
            {"recent_windows": 0},
            "bundles.recent_windows is 0, expected a whole number, 1 or more, at most 100",
        ),
        (
            {"trend_windows": 1},
            "bundles.trend_windows is 1, expected a whole number, 2 or more, at most 1000",
        ),
        ({"history_weight": 1.0}, "bundles.history_weight is 1.0, expected a number, 0 or more, below 1"),
        (
            {"usage_weights": (1.0, -1.0, 0.0, 1.0, 1.0)},
            r"usage_weights\[1\] is -1.0, expected a number, 0 or more",
        ),
        ({"usage_weights": (1.0,)}, "give 5 numbers, none below 0"),
    ],
)
def test_impossible_settings_of_bundles_are_refused(values: dict[str, object], sentence: str) -> None:
    """The same for what only that balancer has."""
    with pytest.raises(SettingsError, match=sentence):
        BundlesPipelineSettings(**values)  # type: ignore[arg-type]


def each_balancer(**keys: object) -> list[dict[str, object]]:
    """The settings that tables depend on, by balancer, where the section `[pipeline]` holds some keys."""
    balancers = (REPLICAS, BUNDLES)
    section = section_of(balancers)
    if "bundles" in keys:
        keys["bundles"] = type(section().bundles)(**keys["bundles"])  # type: ignore[arg-type]
    return [one.of_tables() for one in settings_of(section(**keys), balancers).values()]


def test_each_balancer_depends_on_its_own_settings() -> None:
    """A lake with both systems keeps the tables of one when a setting of the other is changed."""
    replicas, bundles = each_balancer()
    forecasts = each_balancer(bundles={"trend_windows": 20})
    assert forecasts[0] == replicas
    assert forecasts[1] != bundles
    assert each_balancer(record_size_window_seconds=60.0)[1] == bundles
    assert each_balancer(record_size_window_seconds=60.0)[0] != replicas
    assert each_balancer(bundles={"recent_windows": 9})[1] == bundles
    assert all(new != old for new, old in zip(each_balancer(gap_seconds=60.0), each_balancer(), strict=True))


def test_tables_of_older_lakes_are_taken() -> None:
    """Their manifests name these settings, and limits of goals, on which tables no longer depend; any further
    name would require a rebuild of all tables.
    """
    shared = {"window_seconds", "slide_seconds", "lateness_seconds", "gap_seconds", "cpu_fit_windows"}
    replicas, bundles = (set(one) for one in each_balancer())
    assert replicas == shared | {"record_size_window_seconds", "traffic_baseline_seconds"}
    own = {"horizon_seconds", "trend_windows", "profile_weeks", "departure_retention_seconds",
           "history_weight", "usage_weights"}  # fmt: skip
    assert bundles == shared | {f"bundles.{name}" for name in own}


def test_a_lake_whose_manifest_names_goals_continues(tmp_path: Path) -> None:
    """Its manifest names arbitrary limits; only settings on which tables still depend must be equal."""
    settings = ReplicasPipelineSettings()
    entries: dict[str, tuple[ManifestEntry, ...]] = {"imbalance": (ManifestEntry("imbalance/a", 0, 1, 0, 1),)}
    older = Manifest(
        tables=entries, settings={**settings.of_tables(), "theta": [0.5] * 4, "epsilon": [0.2] * 4}
    )
    require_same_settings(Lake(tmp_path, REPLICAS), older, settings, whole=False)
    with pytest.raises(ObserveError, match="made with gap_seconds = 300.0, not 60"):
        require_same_settings(Lake(tmp_path, REPLICAS), older, replace(settings, gap_seconds=60), whole=False)


def test_slides_as_long_as_windows_follow_them() -> None:
    """Another window from the command line is refused only where slides were set apart from it."""
    balancers = (REPLICAS, BUNDLES)
    for one in settings_of(section_of(balancers)(), balancers, window_seconds=20.0).values():
        assert (one.window_seconds, one.slide_seconds) == (20.0, 20.0)
    apart = section_of(balancers)(slide_seconds=30.0)
    with pytest.raises(SettingsError, match=r"window_seconds is 20.0, not a multiple of slide_seconds \(30"):
        settings_of(apart, balancers, window_seconds=20.0)


def test_a_forecast_is_for_the_end_of_a_window() -> None:
    """The horizon is rounded up to whole slides, so that actual values can be compared with it."""
    second = 1_000_000
    ahead = {
        seconds: BundlesPipelineSettings(window_seconds=60, slide_seconds=30, horizon_seconds=seconds).horizon
        for seconds in (1.0, 30.0, 31.0, 600.0)
    }
    assert ahead == {1.0: 30 * second, 30.0: 30 * second, 31.0: 60 * second, 600.0: 600 * second}
