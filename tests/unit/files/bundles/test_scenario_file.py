"""Scenarios of a replay as a TOML file."""

from pathlib import Path

import pytest

from trimtab.files.bundles.recording import ScenarioSettings, read_scenarios
from trimtab_common.errors import SettingsError


def test_common_and_individual_options_of_scenarios(tmp_path: Path) -> None:
    """Values are kept as broker.conf would hold them; a table without a strategy is named for it."""
    path = tmp_path / "scenarios.toml"
    path.write_text(
        """
        seed = 3
        [options]
        a = 1
        b = true
        [strategies.AvgShedder]
        [strategies."my own"]
        strategy = "ThresholdShedder"
        variant = "article"
        options = { c = ["x", "y"], d = 0.5, e = "text" }
        """
    )
    assert read_scenarios(path) == (
        ScenarioSettings(seed=3, options={"a": "1", "b": "true"}),
        {
            "AvgShedder": ScenarioSettings("AvgShedder"),
            "my own": ScenarioSettings(
                "ThresholdShedder", variant="article", options={"c": "x,y", "d": "0.5", "e": "text"}
            ),
        },
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no strategy; add a table such as [strategies.ThresholdShedder]"),
        ("[strategies", "is not sound TOML"),
        (
            "plcement = 'x'\n[strategies.A]",
            "plcement is not a setting of a scenario; did you mean placement?",
        ),
        ("[strategies.A]\nsede = 1", "strategies.A.sede is not a setting of a scenario; did you mean seed?"),
        ("[strategies.A]\nseed = -1", "strategies.A.seed is -1, expected a whole number, 0 or more"),
        ("seed = 'a'\n[strategies.A]", 'seed is "a", expected a whole number'),
        ("strategies = 3", "strategies is 3, expected an object"),
        ("[strategies.A]\noptions = { a = [1] }", "strategies.A.options.a is [1], expected a number, text"),
    ],
)
def test_an_invalid_scenario_is_named_with_its_location(tmp_path: Path, text: str, message: str) -> None:
    """The file, the key, the value, what was expected."""
    path = tmp_path / "scenarios.toml"
    path.write_text(text)
    with pytest.raises(SettingsError) as refused:
        read_scenarios(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)
