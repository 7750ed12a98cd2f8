"""The section `[bundles]` of the settings."""

from pathlib import Path

import pytest

from trimtab.balancers.settings import read_settings
from trimtab.model.bundles.plan import BundlesSettings
from trimtab_common.errors import SettingsError


def test_defaults_hold_if_nothing_is_set() -> None:
    """Without file and options: the defaults of the dataclass."""
    assert read_settings(None, [], {}).balancers["bundles"] == BundlesSettings()


def test_file_environment_and_options_override_in_this_order(tmp_path: Path) -> None:
    """One number for all resources, then one resource apart; the later wins."""
    path = tmp_path / "trimtab.toml"
    path.write_text('[bundles]\ntheta = 0.7\nunowned_bundles = "assign"\nexcluded_namespaces = ["a/*"]\n')
    environment = {"TRIMTAB_BUNDLES_MAX_UNLOADS": "5", "TRIMTAB_BUNDLES_THETA_CPU": "0.6"}
    found = read_settings(path, ["bundles.epsilon.message_rate=0.4"], environment).balancers["bundles"]
    assert found.theta == (0.6, 0.7, 0.7, 0.7)
    assert found.epsilon == (0.1, 0.1, 0.1, 0.4)
    assert (found.max_unloads, found.unowned_bundles, found.excluded_namespaces) == (5, "assign", ("a/*",))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("theta=1.5", "bundles.theta is 1.5, expected a number, above 0, at most 1"),
        ("epsilon.cpu=0", "bundles.epsilon.cpu is 0, expected a number, above 0, below 1"),
        ("epsilon.disk=0.1", "epsilon.disk"),
        ("unowned_bundles=keep", 'bundles.unowned_bundles is "keep", expected one of leave, assign'),
        ("max_unloads=-1", "bundles.max_unloads is -1, expected a whole number, 0 or more"),
        ("grace_seconds=-3", "bundles.grace_seconds is -3, expected a number, 0 or more"),
        ("max_bundles_per_namespace=0", "expected a whole number, 1 or more"),
        ("grace=3", "is not a setting; known are allow_splits, epsilon"),
    ],
)
def test_invalid_or_unknown_settings_are_rejected(word: str, said: str) -> None:
    """One sentence that names where it was set."""
    with pytest.raises(SettingsError) as refused:
        read_settings(None, [f"bundles.{word}"], {})
    assert said in str(refused.value)
    assert f"bundles.{word.partition('=')[0]}" in str(refused.value)
