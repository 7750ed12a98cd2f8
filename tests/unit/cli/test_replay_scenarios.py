"""Which strategies a replay is asked for, and whose settings are whose."""

import pytest

from trimtab.history.bundles.replay import StrategyRequest, strategy_requests
from trimtab_common.errors import SettingsError


def test_settings_are_for_all_or_for_one() -> None:
    """Options of one precede options of all, in any order."""
    chosen, common = strategy_requests(
        ["ThresholdShedder", "AvgShedder"],
        ["AvgShedder=AvgShedder", "LeastLongTermMessageRate"],
        ["AvgShedder.x=2", "x=1", "ThresholdShedder.y = 3"],
    )
    assert common == {"x": "1"}
    assert chosen == {
        "ThresholdShedder": StrategyRequest(
            "ThresholdShedder", "LeastLongTermMessageRate", {"x": "1", "y": "3"}
        ),
        "AvgShedder": StrategyRequest("AvgShedder", "AvgShedder", {"x": "2"}),
    }


def test_one_strategy_twice_has_names() -> None:
    """The same shedder with two thresholds is two rows."""
    chosen, _ = strategy_requests(["ThresholdShedder", "tight=ThresholdShedder"], [], ["tight.threshold=5"])
    assert chosen == {
        "ThresholdShedder": StrategyRequest("ThresholdShedder", None, {}),
        "tight": StrategyRequest("ThresholdShedder", None, {"threshold": "5"}),
    }


def test_a_java_class_is_named_by_its_last_part() -> None:
    """Copied from broker.conf, it need not be cut: neither in the strategy nor in what is set for it."""
    java = "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder"
    chosen, _ = strategy_requests(
        [java], [f"{java}=extensions.LeastResourceUsageWithWeight"], [f"{java}.x=1"]
    )
    assert chosen == {
        "ThresholdShedder": StrategyRequest(java, "extensions.LeastResourceUsageWithWeight", {"x": "1"})
    }


@pytest.mark.parametrize(
    ("strategies", "placements", "overrides", "message"),
    [
        (["A", "b.A"], [], [], "there is another by the name A; give one a name of its own"),
        (["A"], ["B=P"], [], "--placement B=P: no strategy has the name B; those named are A"),
        (["A", "B"], ["P", "Q"], [], "--placement Q: P was named for all already"),
        (["A", "B"], ["A=P", "A=Q"], [], "--placement A=Q: P was named for A already"),
        (["A", "B"], [], ["C.x=1"], "--set C.x=1: no strategy has the name C; those named are A, B"),
        (["A"], [], [".x=1"], "--set .x=1: no strategy has the name ''"),
        (["A"], [], ["A.x"], "is not name=value"),
        (["A"], [], ["A.=1"], "is not name=value"),
    ],
)
def test_ambiguous_scenarios_are_rejected(
    strategies: list[str], placements: list[str], overrides: list[str], message: str
) -> None:
    """A setting that applies to no scenario, or one of two contradicting settings, is an error."""
    with pytest.raises(SettingsError) as refused:
        strategy_requests(strategies, placements, overrides)
    assert message in str(refused.value)
