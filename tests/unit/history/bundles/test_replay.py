"""Replay: ticks in, decisions out, a state that can be kept, and a world that answers."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.bundle_views import MB, key, report, stats
from trimtab.history.bundles.replay import ReplayedCluster, ReplayState, ShedderScenario, replay
from trimtab.history.bundles.spark import read_state, write_state
from trimtab.model.bundles.reports import BundleStats, ReportTick, ResourceUsage
from trimtab.model.errors import PlanError
from trimtab.plan.bundles.strategies import SHEDDERS, shedder
from trimtab.plan.pulsar.decision import PLACERS, BrokerChoice, Placer, ShedDecision, Shedder, placer
from trimtab.plan.pulsar.options import PulsarBrokerConfig, make_options
from trimtab.plan.pulsar.view import LeaderLoadView
from trimtab_common.errors import InputError

THRESHOLD = ShedderScenario(shedder("ThresholdShedder"), make_options({}))


def skewed(minute: int, hot: float = 90.0) -> ReportTick:
    """One broker with three bundles, another with one."""
    return ReportTick(
        minute * 60.0,
        {
            "hot:1": report(
                {key(0): stats(100 * MB), key(1): stats(300 * MB), key(2): stats(200 * MB)}, cpu=hot
            ),
            "cold:1": report({key(3): stats(10 * MB)}, cpu=20),
        },
    )


def unloads(
    ticks: list[ReportTick], scenario: ShedderScenario = THRESHOLD
) -> list[dict[str, tuple[str, ...]]]:
    """What is unloaded at each tick."""
    return [dict(decision.unloads) for _, decision, _ in replay(ticks, scenario)]


@pytest.mark.parametrize(
    ("name", "option", "told"),
    [
        ("ThresholdShedder", {}, True),
        ("ThresholdShedder", {"loadBalancerSheddingEnabled": "false"}, True),
        ("ThresholdShedder", {"loadBalancerAutoBundleSplitEnabled": "false"}, False),
        ("trim", {}, False),
    ],
)
def test_splits_of_pulsar_are_reported_and_not_performed(
    name: str, option: dict[str, str], told: bool
) -> None:
    """By the modular manager's leader; `trim` takes Pulsar's place.

    Shedding goes on as if nothing were split, at every tick.
    """
    large = BundleStats(topics=2, msg_rate_in=30_001.0, msg_throughput_in=300.0 * MB)
    brokers = {**skewed(0).brokers, "hot:1": report({key(0): stats(100 * MB), key(1): large}, cpu=90)}
    ticks = [ReportTick(minute * 60.0, brokers) for minute in range(3)]
    decided = [one for _, one, _ in replay(ticks, ShedderScenario(shedder(name), make_options(option)))]
    sizes = {"topics": 2, "sessions": 0, "msg_rate": 30_001.0, "msg_throughput": 300.0 * MB}
    split = {key(1): {**sizes, "reason": "MsgRate", "namespace_bundles": 3, "outcome": "split"}}
    assert [one.splits for one in decided] == [split if told else {}] * 3
    off = make_options({**option, "loadBalancerAutoBundleSplitEnabled": "false"})
    assert [one.unloads for one in decided] == unloads(ticks, ShedderScenario(shedder(name), off))
    assert all(told == ("splits" in one.facts) for one in decided)


def test_owners_split_with_transfer_shedder_after_four_cycles_in_a_row(tmp_path: Path) -> None:
    """Under the extensible manager: hits are counted from tick to tick, through a saved state too."""
    large = BundleStats(topics=2, msg_rate_in=30_001.0, msg_throughput_in=300.0 * MB)
    brokers = {**skewed(0).brokers, "hot:1": report({key(0): stats(100 * MB), key(1): large}, cpu=90)}
    ticks = [ReportTick(minute * 60.0, brokers) for minute in range(4)]
    scenario = ShedderScenario(shedder("TransferShedder"), make_options({}))
    decided = list(replay(ticks, scenario))
    outcomes = [one.facts["splits"][key(1)]["outcome"] for _, one, _ in decided]
    assert outcomes == ["not above a limit in enough cycles in a row"] * 3 + ["split"]
    assert [list(one.splits) for _, one, _ in decided] == [[], [], [], [key(1)]]
    path = tmp_path / "state.json"
    write_state(decided[2][2], scenario, "TransferShedder", path)
    ((_, last, _),) = replay(ticks[3:], scenario, read_state(scenario, "TransferShedder", path))
    assert list(last.splits) == [key(1)]
    off = make_options({"loadBalancerAutoBundleSplitEnabled": "false"})
    assert all(
        "splits" not in one.facts
        for _, one, _ in replay(ticks, ShedderScenario(shedder("TransferShedder"), off))
    )


@pytest.mark.parametrize("name", ["TransferShedder", "ThresholdShedder"])
def test_the_extensible_placement_uses_the_filters_of_the_extensible_manager(name: str) -> None:
    """It places what a shedder leaves without a destination: a broker at its limit of topics is full.

    The modular manager's filter would let a broker with exactly that many topics have the bundle.
    """
    full = {key(3): BundleStats(topics=4, msg_throughput_in=1.0)}
    brokers = {**skewed(0).brokers, "full:1": report(full, cpu=25), "free:1": report({}, cpu=25)}
    options = {
        "loadBalancerTransferEnabled": "false",
        "loadBalancerSheddingConditionHitCountThreshold": 0,
        "loadBalancerBrokerMaxTopics": 4,
    }
    scenario = ShedderScenario(
        shedder(name),
        make_options(options),
        placer("extensions.LeastResourceUsageWithWeight"),
        world_answers=True,
    )
    ticks = [ReportTick(minute * 60.0, brokers) for minute in range(3)]
    found = [one for _, one, _ in replay(ticks, scenario) if one.unloads]
    assert found
    for one in found:
        for owner, bundles in one.unloads.items():
            for bundle in bundles:
                left = one.facts["placements"][bundle]["candidates_left"]
                assert left["available"] == 3  # the owner is not among them
                assert left["max_topics"] < left["available"]
                assert one.destinations[bundle] not in (owner, "full:1")


def test_a_placement_of_the_modular_manager_is_not_used_for_transfer_shedder() -> None:
    """What it leaves open stays open, as before: the two managers do not mix."""
    options = make_options(
        {"loadBalancerTransferEnabled": "false", "loadBalancerSheddingConditionHitCountThreshold": 0}
    )
    scenario = ShedderScenario(shedder("TransferShedder"), options, placer("LeastLongTermMessageRate"))
    decided = [one for _, one, _ in replay([skewed(minute) for minute in range(3)], scenario) if one.unloads]
    assert decided
    assert all(not one.destinations for one in decided)


def test_a_forbidden_split_is_no_split() -> None:
    """Its namespace has as many bundles as it may: noted among the numbers, and that is all."""
    options = make_options({"loadBalancerNamespaceMaximumBundles": 1})
    large = BundleStats(topics=1001)
    brokers = {"a:1": report({key(0): large}), "b:1": report({})}
    ((_, decision, _),) = replay(
        [ReportTick(0.0, brokers)], ShedderScenario(shedder("ThresholdShedder"), options)
    )
    assert decision.splits == {}
    assert decision.facts["splits"][key(0)]["outcome"] == "its namespace has as many bundles as it may"


def test_a_bundle_rests_for_the_grace_time() -> None:
    """Unloaded at minute 0, it is left alone until minute 30 included, and chosen again at 31."""
    found = unloads([skewed(minute) for minute in (0, 1, 2, 30, 31)])
    assert found[0] == {"hot:1": (key(1),)}
    assert found[1] == {"hot:1": (key(2),)}
    assert found[2] == {"hot:1": (key(0),)}
    assert found[3] == {}
    assert found[4] == {"hot:1": (key(1),)}


def test_a_lone_broker_sheds_nothing() -> None:
    """There is no destination, and the strategy is not called: its history stays empty."""
    tick = ReportTick(0.0, {"hot:1": skewed(0).brokers["hot:1"]})
    ((_, decision, state),) = replay([tick], THRESHOLD)
    assert decision.unloads == {}
    assert decision.facts == {"outcome": "a lone broker sheds nothing"}
    assert state.shedder.usage == {}


def test_a_broker_that_returns_starts_a_new_history() -> None:
    """Also if nothing was requested meanwhile: the load manager drops histories of missing brokers."""
    calm, alone = skewed(0, hot=20), ReportTick(60.0, {"cold:1": skewed(1).brokers["cold:1"]})
    *_, (_, _, state) = replay([calm, alone], THRESHOLD)
    assert list(state.shedder.usage) == ["cold:1"]
    *_, (_, decision, _) = replay([calm, alone, skewed(2)], THRESHOLD)
    assert decision.facts["brokers"]["hot:1"]["history"] == decision.facts["brokers"]["hot:1"]["usage"]


def test_brokers_publish_also_while_nothing_is_decided() -> None:
    """Under the extensible manager each broker computes its own means, independent of the leader."""
    off = ShedderScenario(shedder("TransferShedder"), make_options({"loadBalancerSheddingEnabled": "false"}))
    *_, (_, _, state) = replay([skewed(0, hot=50), skewed(1, hot=100)], off)
    assert state.shedder.published["hot:1"].weighted_max_ema == 0.5 * 0.9 + (1 - 0.9) * 1.0


def test_excluded_namespaces_stay_without_a_placement_too() -> None:
    """The load manager of 4.2 skips them whatever the shedder decides; 4.0 has no such option."""
    given = {"loadBalancerSheddingExcludedNamespaces": "t/n"}
    ((_, decision, state),) = replay([skewed(0)], ShedderScenario(THRESHOLD.shedder, make_options(given)))
    assert (decision.unloads, state.recently_unloaded) == ({}, {})
    assert "loadBalancerSheddingExcludedNamespaces" in decision.facts["refused"][key(1)]
    ((_, decision, _),) = replay(
        [skewed(0)], ShedderScenario(THRESHOLD.shedder, make_options(given, "pulsar-4.0"))
    )
    assert decision.unloads == {"hot:1": (key(1),)}


def test_a_moving_bundle_is_sampled_in_the_order_of_javas_map() -> None:
    """Two brokers report it: the mean depends on which of them is last in Pulsar's map."""
    names = ("broker-0:8080", "broker-1:8080", "broker-2:8080")
    brokers = {name: report({key(0): stats(float(10**place))}) for place, name in enumerate(names)}
    ((_, _, state),) = replay([ReportTick(0.0, brokers)], THRESHOLD)
    turned = ReportTick(0.0, dict(reversed(brokers.items())))
    ((_, _, other),) = replay([turned], THRESHOLD)
    assert state.bundles[key(0)] == other.bundles[key(0)]


@pytest.mark.parametrize("option", ["loadBalancerSheddingEnabled", "loadBalancerEnabled"])
def test_shedding_that_is_off_sheds_nothing(option: str) -> None:
    """The option that a take-over sets: brokers are measured on, and nothing moves."""
    off = dataclasses.replace(THRESHOLD, options=make_options({option: "false"}))
    ((_, decision, state),) = replay([skewed(0)], off)
    assert decision.facts == {"outcome": f"{option} is false"}
    assert state.bundles[key(1)].short.samples == 1


def test_bundle_data_are_updated_before_the_decision() -> None:
    """The first decision knows the first reports already, as the leader that has just read them."""
    ((_, _, state),) = replay([skewed(0)], THRESHOLD)
    assert state.bundles[key(1)].short.throughput == 300 * MB


def tied() -> ReportTick:
    """Two bundles of equal throughput, of which one suffices."""
    bundles = {key(7): stats(300 * MB), key(2): stats(300 * MB)}
    return ReportTick(0.0, {"hot:1": report(bundles, cpu=90), "cold:1": report(cpu=70)})


def test_equals_come_in_the_order_of_javas_maps_or_of_the_file() -> None:
    """Pulsar takes the bundle that its hash map has first; the file's order is to be had instead."""
    in_file = unloads([tied()], dataclasses.replace(THRESHOLD, java_order=False))
    assert in_file == [{"hot:1": (key(7),)}]
    turned = ReportTick(
        0.0,
        {
            "hot:1": report({key(2): stats(300 * MB), key(7): stats(300 * MB)}, cpu=90),
            "cold:1": report(cpu=70),
        },
    )
    assert unloads([turned], dataclasses.replace(THRESHOLD, java_order=False)) == [{"hot:1": (key(2),)}]
    assert unloads([tied()]) == unloads([turned])


@pytest.mark.parametrize("name", sorted(SHEDDERS))
def test_a_replay_stopped_and_resumed_decides_alike(name: str, tmp_path: Path) -> None:
    """The state of any strategy can be written, read and continued, at every tick."""
    scenario = ShedderScenario(
        shedder(name), make_options({"loadBalancerHistoryResourcePercentage": 0.5}), seed=5
    )
    ticks = [skewed(minute, hot) for minute, hot in enumerate((30, 95, 60, 95, 95, 90, 95))]
    whole = [(decision, state) for _, decision, state in replay(ticks, scenario)]
    assert any(decision.unloads for decision, _ in whole)
    state: ReplayState | None = None
    for number, tick in enumerate(ticks):
        ((_, decision, after),) = replay([tick], scenario, state)
        assert decision == whole[number][0]
        write_state(after, scenario, name, tmp_path / "state.json")
        state = read_state(scenario, name, tmp_path / "state.json")
        assert state.shedder == after.shedder
        assert state.recently_unloaded == after.recently_unloaded
        assert state.order == after.order
        assert np.array_equal(state.bundles.long, after.bundles.long)


@pytest.mark.parametrize(
    ("name", "placement"),
    [
        *(("ThresholdShedder", placement) for placement in sorted(PLACERS)),
        ("AvgShedder", "AvgShedder"),
        ("TransferShedder", "LeastLongTermMessageRate"),
    ],
)
def test_a_replay_with_placement_stopped_and_resumed_decides_alike(
    name: str, placement: str, tmp_path: Path
) -> None:
    """Also what placements remember, and where the bundles went in the simulated world."""
    options = {"loadBalancerHistoryResourcePercentage": 0.2, "loadBalancerAvgShedderHitCountHighThreshold": 1}
    scenario = ShedderScenario(
        shedder(name), make_options(options), seed=5, placer=placer(placement), world_answers=True
    )
    ticks = [skewed(minute * 4, hot) for minute, hot in enumerate((30, 95, 95, 95, 95, 90, 95))]
    whole = [(seen, decision) for seen, decision, _ in replay(ticks, scenario)]
    assert any(decision.destinations for _, decision in whole)
    state: ReplayState | None = None
    for number, tick in enumerate(ticks):
        ((seen, decision, after),) = replay([tick], scenario, state)
        assert (seen, decision) == whole[number]
        write_state(after, scenario, name, tmp_path / "state.json")
        state = read_state(scenario, name, tmp_path / "state.json")


def test_the_extensible_manager_lets_a_broker_cool_down() -> None:
    """After an unload from a broker nothing is decided for three minutes of its reports."""
    scenario = ShedderScenario(
        shedder("TransferShedder"), make_options({"loadBalancerSheddingConditionHitCountThreshold": 0})
    )
    decisions = [decision for _, decision, _ in replay([skewed(minute) for minute in range(5)], scenario)]
    assert "hot:1" in decisions[0].unloads
    assert [decision.facts.get("skipped") for decision in decisions[1:3]] == ["CoolDown", "CoolDown"]
    assert decisions[3].facts.get("skipped") != "CoolDown"


def test_the_state_of_another_replay_is_not_taken(tmp_path: Path) -> None:
    """Another seed, strategy or option would go on with histories that are not its own."""
    path = tmp_path / "state.json"
    ((_, _, state),) = replay([skewed(0)], THRESHOLD)
    write_state(state, THRESHOLD, "ThresholdShedder", path)
    other = ShedderScenario(THRESHOLD.shedder, make_options({"maxUnloadPercentage": 0.5}), seed=1)
    with pytest.raises(InputError, match="another seed and options"):
        read_state(other, "ThresholdShedder", path)
    with pytest.raises(InputError, match="another strategy"):
        read_state(THRESHOLD, "OverloadShedder", path)


@pytest.mark.parametrize("text", ["", "{}", '{"format": "trimtab/plan/1"}', "[1]", "nonsense"])
def test_an_invalid_state_is_rejected(tmp_path: Path, text: str) -> None:
    """With the file's name and what to do."""
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"state\.json: is not a sound state of a replay"):
        read_state(THRESHOLD, "ThresholdShedder", path)


def test_a_truncated_state_is_refused(tmp_path: Path) -> None:
    """A state that was edited until it lacks a part is no state."""
    path = tmp_path / "state.json"
    ((_, _, state),) = replay([skewed(0)], THRESHOLD)
    write_state(state, THRESHOLD, "ThresholdShedder", path)
    document = json.loads(path.read_text())
    del document["bundles"]["short"]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="is not a sound state"):
        read_state(THRESHOLD, "ThresholdShedder", path)


def test_the_world_takes_the_load_along() -> None:
    """A bundle with half of its broker's traffic takes half of its CPU; memory stays where it was."""
    tick = ReportTick(
        0.0,
        {
            "a:1": report({key(0): stats(50.0, rate=5), key(1): stats(50.0, rate=7)}, cpu=80, memory=30),
            "b:1": report({key(2): stats(10.0, rate=1)}, cpu=10, memory=20),
        },
    )
    seen = ReplayedCluster().moved({key(1): "b:1"}).answered(tick)
    left, gained = seen.brokers["a:1"], seen.brokers["b:1"]
    assert left.bundles == (key(0),)
    assert gained.bundles == (key(2), key(1))
    assert (left.cpu.usage, gained.cpu.usage) == (40.0, 50.0)
    assert (left.memory.usage, gained.memory.usage) == (30.0, 20.0)
    assert (left.msg_throughput_in, gained.msg_throughput_in) == (50.0, 60.0)
    assert (left.msg_rate_in, gained.msg_rate_in) == (5.0, 8.0)
    assert gained.last_stats[key(1)] == tick.brokers["a:1"].last_stats[key(1)]


def test_the_world_neither_makes_nor_loses_load() -> None:
    """However bundles are moved, totals over all brokers stay, and every bundle has one owner."""
    tick = skewed(0)
    seen = ReplayedCluster().moved({key(0): "cold:1", key(3): "hot:1", key(2): "cold:1"}).answered(tick)
    for total in ("msg_throughput_in", "msg_rate_in"):
        before = sum(getattr(one, total) for one in tick.brokers.values())
        assert sum(getattr(one, total) for one in seen.brokers.values()) == pytest.approx(before)
    assert sorted(bundle for one in seen.brokers.values() for bundle in one.bundles) == [
        key(number) for number in range(4)
    ]


def test_a_dead_broker_gives_its_bundles_back() -> None:
    """A bundle whose new owner is not in the tick is where the recording has it."""
    tick = skewed(0)
    assert ReplayedCluster().moved({key(0): "gone:1"}).answered(tick) == tick


def test_a_bundle_may_return() -> None:
    """Moved there and back, the world is as recorded."""
    there = ReplayedCluster().moved({key(0): "cold:1"})
    assert there.moved({key(0): "hot:1"}).answered(skewed(0)) == skewed(0)


def first_other(
    bundle: str,
    candidates: Sequence[str],
    view: LeaderLoadView,
    state: None,
    options: PulsarBrokerConfig,
    chance: object,
) -> tuple[BrokerChoice, None]:
    """A placement that takes the broker with the fewest bundles, preallocated ones included."""
    held = {
        name: len(view.brokers[name].report.bundles) + len(view.brokers[name].preallocated)
        for name in candidates
    }
    return BrokerChoice(min(candidates, key=lambda name: held[name]), tuple(candidates)), None


def test_with_a_placement_the_world_answers_and_calm_returns() -> None:
    """The hot broker's busiest bundle moves to the cold one immediately, and its load is counted there."""
    scenario = ShedderScenario(
        THRESHOLD.shedder,
        make_options({"loadBalancerHistoryResourcePercentage": 0.0}),
        placer=Placer(first_other, None),
        world_answers=True,
    )
    steps = list(replay([skewed(minute) for minute in range(4)], scenario))
    assert steps[0][1].destinations == {key(1): "cold:1"}
    assert steps[0][1].facts["placements"][key(1)]["broker"] == "cold:1"
    assert key(1) in steps[1][0].brokers["cold:1"].bundles
    assert steps[1][0].brokers["cold:1"].cpu.usage == pytest.approx(20 + 45)
    assert [dict(decision.unloads) for _, decision, _ in steps[1:]] == [{}, {}, {}]


def test_a_placement_that_would_put_it_back_cancels_the_unload() -> None:
    """As Pulsar's load manager: same broker or none, and the bundle stays; it is not remembered as moved."""

    def stay(
        bundle: str,
        candidates: Sequence[str],
        view: LeaderLoadView,
        state: None,
        options: PulsarBrokerConfig,
        chance: object,
    ) -> tuple[BrokerChoice, None]:
        return BrokerChoice("hot:1"), None

    scenario = dataclasses.replace(THRESHOLD, placer=Placer(stay, None))
    ((_, decision, state),) = replay([skewed(0)], scenario)
    assert decision.unloads == {}
    assert decision.facts["refused"] == {key(1): "the placement would put it back on its broker"}
    assert state.recently_unloaded == {}


def test_without_a_destination_the_world_cannot_answer() -> None:
    """The error names the strategy and the missing part, instead of guessing a broker."""
    scenario = dataclasses.replace(THRESHOLD, world_answers=True)
    with pytest.raises(PlanError, match="name a placement strategy too"):
        list(replay([skewed(0)], scenario))


def test_the_random_generator_continues_from_its_state() -> None:
    """The same seed draws the same numbers, tick after tick and not the same one again."""

    def draw(
        view: LeaderLoadView, state: None, options: PulsarBrokerConfig, chance: np.random.Generator
    ) -> tuple[ShedDecision, None]:
        return ShedDecision(facts={"drawn": int(chance.integers(1 << 30))}), None

    scenario = ShedderScenario(Shedder(draw, None), make_options({}), seed=3)
    drawn = [decision.facts["drawn"] for _, decision, _ in replay([skewed(at) for at in range(5)], scenario)]
    again = [decision.facts["drawn"] for _, decision, _ in replay([skewed(at) for at in range(5)], scenario)]
    assert drawn == again
    assert len(set(drawn)) == 5


def test_a_share_of_nothing_is_nothing() -> None:
    """A broker without traffic, or without a limit, has no usage that could go along."""
    silent = ReportTick(
        0.0,
        {
            "a:1": dataclasses.replace(report({key(0): stats()}, cpu=80), bandwidth_in=ResourceUsage(-1, -1)),
            "b:1": report(cpu=10),
        },
    )
    seen = ReplayedCluster().moved({key(0): "b:1"}).answered(silent)
    assert seen.brokers["a:1"].cpu.usage == 80
    assert seen.brokers["b:1"].cpu.usage == 10
