"""The settings of plans that answer triggers, for each balancer that the service runs."""

from __future__ import annotations

import pytest

from trimtab.balancers import BALANCERS
from trimtab.balancers.settings import read_settings
from trimtab.serve.target import WIDEST_EPSILON, settings_of_policy

DRIFT = {"epsilon": 0.1, "load": "forecast", "recent_move_hours": 24.0}
LIMIT = {"goals": ("theta",), "load": "recent", "theta.cpu": 0.76}
LOST, ADDED, UNDO = {"fix_offline_replicas": True}, {"add": ("6",)}, {"undo": 3}


@pytest.mark.parametrize("settings", [DRIFT, LIMIT, LOST, ADDED, UNDO])
def test_plans_of_replicas_have_all_settings_of_triggers(settings: dict[str, object]) -> None:
    """The triggers are made for them."""
    configured = read_settings(None, (), {}).of(BALANCERS["replicas"].settings())
    assert settings_of_policy(settings, configured) == settings


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (DRIFT, {"epsilon": 0.1}),
        (LIMIT, {"theta.cpu": 0.76, "epsilon": WIDEST_EPSILON}),
        (LOST, {}),
        (ADDED, {}),
        (UNDO, UNDO),
    ],
)
def test_plans_of_bundles_have_fewer_settings(
    settings: dict[str, object], expected: dict[str, object]
) -> None:
    """No load of other hours, no copies; only θ counts where the widest ε is allowed."""
    section = BALANCERS["bundles"].settings()
    chosen = settings_of_policy(settings, read_settings(None, (), {}).of(section))
    assert chosen == expected
    words = [f"bundles.{name}={value}" for name, value in chosen.items() if name != "undo"]
    read_settings(None, words, {}).of(section)
