"""Settings of the pipeline that no table could be made with."""

from __future__ import annotations

import pytest

from trimtab.model.errors import SettingsError
from trimtab.observe.settings import PipelineSettings


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
