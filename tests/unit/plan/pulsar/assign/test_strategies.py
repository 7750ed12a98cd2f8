"""Pulsar's placement strategies, each comparison at its edge."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from support.placement_views import bundle_key, known, load, view_of
from trimtab.model.bundles.reports import BundleStats, ResourceUsage
from trimtab.plan.pulsar import placers
from trimtab.plan.pulsar.decision import BrokerChoice, Placer
from trimtab.plan.pulsar.java import LARGEST
from trimtab.plan.pulsar.options import make_options
from trimtab.plan.pulsar.placers import EXTENSIBLE, MODULAR, LeastResourceState, RoundRobinState
from trimtab.plan.pulsar.view import LeaderLoadView

OPTIONS = make_options({})
BUNDLE = bundle_key("t/new")
SOME = BundleStats(topics=1)


def ask(
    placer: Placer[Any],
    view: LeaderLoadView,
    candidates: Sequence[str] | None = None,
    state: Any = None,
    options: Any = OPTIONS,
    seed: int = 0,
) -> tuple[BrokerChoice, Any]:
    """One choice among all brokers, or some."""
    return placer.choose(
        BUNDLE,
        list(view.brokers) if candidates is None else candidates,
        view,
        placer.initial if state is None else state,
        options,
        np.random.default_rng(seed),
    )


def rates(**rate_of: float) -> LeaderLoadView:
    """Brokers at 10 % with one bundle each of that rate."""
    data = {bundle_key(f"t/{name}"): known(rate) for name, rate in rate_of.items()}
    return view_of({name: load(10, {bundle_key(f"t/{name}"): SOME}) for name in rate_of}, data)


def test_the_least_rate_wins() -> None:
    """The broker with the fewest messages per second gets the bundle."""
    placement, _ = ask(placers.RATE, rates(a=30, b=10, c=20))
    assert placement.broker == "b"
    assert placement.pool == ("b",)
    assert placement.facts["scores"] == {"a": 30, "b": 10, "c": 20}


def test_ties_are_drawn_from_a_reported_pool() -> None:
    """Among equals chance decides, and the pool shows whom else it could have been."""
    view = rates(a=10, b=30, c=10)
    placements = [ask(placers.RATE, view, seed=seed)[0] for seed in range(20)]
    assert {placement.pool for placement in placements} == {("a", "c")}
    assert {placement.broker for placement in placements} == {"a", "c"}


@pytest.mark.parametrize(("usage", "overloaded"), [(85.0, False), (85.01, True)])
def test_overloaded_means_above_the_threshold(usage: float, overloaded: bool) -> None:
    """A broker at exactly 85 % still takes the bundle that its low rate speaks for."""
    view = view_of({"a": load(usage), "b": load(10, {BUNDLE: SOME})}, {BUNDLE: known(9)})
    placement, _ = ask(placers.RATE, view)
    assert placement.broker == ("b" if overloaded else "a")
    assert placement.facts["scores"]["a"] == (None if overloaded else 0)


def test_usage_is_compared_in_single_precision() -> None:
    """85.000001 % of a limit is 85 in single precision, hence not above the threshold."""
    view = view_of({"a": load(85.000001), "b": load(10, {BUNDLE: SOME})}, {BUNDLE: known(9)})
    assert ask(placers.RATE, view)[0].broker == "a"


def test_weights_determine_overloaded_brokers() -> None:
    """Direct memory has weight 0 until an operator gives it another; heap memory never counts here."""
    direct = replace(load(10), report=replace(load(10).report, direct_memory=ResourceUsage(90, 100)))
    heap = replace(load(10), report=replace(load(10).report, memory=ResourceUsage(90, 100)))
    view = view_of({"a": direct, "b": heap})
    assert ask(placers.RATE, view)[0].pool == ("a", "b")
    given = {"loadBalancerDirectMemoryResourceWeight": 1.0, "loadBalancerMemoryResourceWeight": 1.0}
    assert ask(placers.RATE, view, options=make_options(given))[0].pool == ("b",)


def test_any_broker_is_chosen_if_all_are_overloaded() -> None:
    """The bundle must go somewhere; rates do not count any more."""
    view = view_of({"a": load(90), "b": load(99)})
    placement, _ = ask(placers.RATE, view)
    assert placement.pool == ("a", "b")
    assert placement.facts["outcome"] == "every candidate is overloaded"
    assert placement.facts["least"] is None


def test_preallocated_bundles_count_with_their_long_term_rate() -> None:
    """A broker that was just given a bundle is not the emptiest any more; the article's text forgets it."""
    view = rates(a=10, b=12)
    view = view.with_preallocated(BUNDLE, known(5), "a")
    assert ask(placers.RATE, view)[0].broker == "b"
    article = make_options({}, "article")
    assert ask(placers.RATE, view, options=article)[0].broker == "a"


def test_a_bundle_that_nothing_is_known_of_counts_with_the_defaults() -> None:
    """50 messages per second each way."""
    view = view_of({"a": load(0, {BUNDLE: SOME})})
    assert ask(placers.RATE, view)[0].facts["scores"] == {"a": 100.0}


def test_rates_are_added_in_order_for_each_direction() -> None:
    """0.1 + 0.2 + 0.3 is not 0.6 in that order, so these two brokers are no equals."""
    keys = [bundle_key("t/a", number) for number in range(3)]
    other = bundle_key("t/b")
    data = {key: known(rate) for key, rate in zip(keys, (0.1, 0.2, 0.3), strict=True)} | {other: known(0.6)}
    view = view_of({"a": load(0, dict.fromkeys(keys, SOME)), "b": load(0, {other: SOME})}, data)
    placement, _ = ask(placers.RATE, view)
    assert placement.facts["scores"] == {"a": 0.6000000000000001, "b": 0.6}
    assert placement.pool == ("b",)


@pytest.mark.parametrize(
    "placer",
    [
        placers.RATE,
        MODULAR,
        EXTENSIBLE,
        placers.ROUND_ROBIN,
    ],
)
def test_without_candidates_there_is_no_broker(placer: Placer[Any]) -> None:
    """An empty set is answered, not raised at."""
    assert ask(placer, rates(a=1), candidates=[])[0].broker is None


def test_well_below_the_average_wins() -> None:
    """Average .36: with the threshold of 10 points, a broker at .28 is too close to it, one at .1 is not."""
    view = view_of({"a": load(70, {BUNDLE: SOME}), "b": load(28), "c": load(10)})
    placement, state = ask(MODULAR, view)
    assert placement.facts["average"] == pytest.approx(0.36)
    assert placement.pool == ("c",)
    assert set(state.usage) == {"a", "b", "c"}


@pytest.mark.parametrize(("low", "pool"), [(12.5, ("b",)), (12.75, ("a", "b"))])
def test_the_threshold_itself_is_enough(low: float, pool: tuple[str, ...]) -> None:
    """25 points: .125 lies exactly that far below its average with .625; with a bit more any will do."""
    options = make_options({"loadBalancerAverageResourceUsageDifferenceThresholdPercentage": 25})
    view = view_of({"a": load(62.5), "b": load(low)})
    assert ask(MODULAR, view, options=options)[0].pool == pool
    assert ask(EXTENSIBLE, view, options=options)[0].pool == pool


def test_any_broker_is_chosen_if_none_is_below_the_average() -> None:
    """A balancer cluster draws among all, overloaded or not."""
    view = view_of({"a": load(95), "b": load(95)})
    placement, _ = ask(MODULAR, view)
    assert placement.pool == ("a", "b")
    assert placement.facts["outcome"] == "no candidate lies the threshold below the average"


def test_the_mean_takes_a_sample_with_every_choice() -> None:
    """.9 of the past and .1 of now, in doubles as Pulsar computes them; twice in a row counts twice."""
    busy = {BUNDLE: SOME}
    view = view_of({"a": load(50, busy), "b": load(10, busy)})
    _, state = ask(MODULAR, view)
    later = view_of({"a": load(100, busy), "b": load(10, busy)}, at=60)
    _, once = ask(MODULAR, later, state=state)
    assert once.usage["a"] == 0.5 * 0.9 + (1 - 0.9) * 1.0
    _, twice = ask(MODULAR, later, state=once)
    assert twice.usage["a"] == once.usage["a"] * 0.9 + (1 - 0.9) * 1.0


def test_only_candidates_take_a_sample() -> None:
    """A broker that was filtered out keeps its mean, and does not count in the average."""
    view = view_of({"a": load(50, {BUNDLE: SOME}), "b": load(10, {BUNDLE: SOME}), "c": load(90)})
    state = LeastResourceState({"a": 0.9, "b": 0.1, "c": 0.2})
    placement, after = ask(MODULAR, view, ["a", "b"], state)
    assert after.usage["c"] == 0.2
    assert set(placement.facts["usage"]) == {"a", "b"}


@pytest.mark.parametrize("silent", [load(20, {BUNDLE: SOME}, rate=0.0), load(20, {})])
def test_a_broker_without_bundles_or_messages_starts_a_new_history(silent: Any) -> None:
    """Its history is outdated: after a restart, or of load that has moved."""
    state = LeastResourceState({"a": 0.9})
    _, after = ask(MODULAR, view_of({"a": silent}), state=state)
    assert after.usage == {"a": pytest.approx(0.2)}


def test_brokers_that_left_are_forgotten() -> None:
    """One that returns under its old name starts from its report."""
    state = LeastResourceState({"gone": 0.9, "a": 0.2})
    after = MODULAR.noted(state, view_of({"a": load(10)}), OPTIONS)
    assert after.usage == {"a": 0.2}


def test_published_means_take_one_sample_a_report() -> None:
    """However many bundles are placed between two reports, a broker publishes once."""
    view = view_of({"a": load(50), "b": load(10)})
    _, state = ask(EXTENSIBLE, view)
    _, again = ask(EXTENSIBLE, view, state=state)
    assert again == state
    later = view_of({"a": load(100), "b": load(10, updated_at=0.0)}, at=60)
    placement, after = ask(EXTENSIBLE, later, state=state)
    assert placement.facts["usage"] == {
        "a": 0.5 * 0.9 + (1 - 0.9) * 1.0,
        "b": after.published["b"].weighted_max_ema,
    }
    assert after.published["b"] == state.published["b"]


def test_heap_memory_counts_only_under_the_extensible_manager() -> None:
    """The modular manager of Pulsar 4 ignores it, whatever its weight."""
    options = make_options({"loadBalancerMemoryResourceWeight": 1.0})
    full = load(10)
    full = replace(full, report=replace(full.report, memory=ResourceUsage(90, 100)))
    view = view_of({"a": full, "b": load(40)})
    assert ask(MODULAR, view, options=options)[0].pool == ("a",)
    assert ask(EXTENSIBLE, view, options=options)[0].pool == ("b",)


def test_brokers_without_load_data_are_drawn_only_if_none_is_below_the_average() -> None:
    """They do not count in the average; the modular strategy never sees such brokers."""
    view = view_of({"a": load(70), "b": load(30)})
    candidates = ["a", "b", "new"]
    placement, _ = ask(EXTENSIBLE, view, candidates)
    assert placement.pool == ("b",)
    assert placement.facts["average"] == pytest.approx(0.5)
    level = view_of({"a": load(50), "b": load(50)})
    assert ask(EXTENSIBLE, level, candidates)[0].pool == ("a", "b", "new")
    assert ask(EXTENSIBLE, level, ["new"])[0].pool == ("new",)
    assert ask(MODULAR, level, candidates)[0].pool == ("a", "b")


def turns(state: RoundRobinState, *candidate_sets: Sequence[str]) -> list[str | None]:
    """Who gets the bundles, one for each set of candidates."""
    found = []
    for candidates in candidate_sets:
        placement, state = ask(placers.ROUND_ROBIN, rates(a=1), candidates, state)
        found.append(placement.broker)
    return found


def test_turns_go_round() -> None:
    """One after the other, in the order of the candidates, and again from the first."""
    assert turns(RoundRobinState(), *["abc"] * 4) == ["a", "b", "c", "a"]


def test_the_remembered_order_holds_until_a_missing_broker_is_reached() -> None:
    """Another set of the same size is not detected until the turn of a missing broker."""
    assert turns(RoundRobinState(), "abc", "dbc", "dbc", "dbc") == ["a", "b", "c", "d"]
    assert turns(RoundRobinState(), "abc", "cba", "cba") == ["a", "b", "c"]


def test_another_number_of_candidates_is_noticed_at_once() -> None:
    """The count goes on, so that the turn is of the new size."""
    assert turns(RoundRobinState(), "abc", "ab", "ba") == ["a", "b", "a"]
    assert turns(RoundRobinState(), "ab", "abcd") == ["a", "b"]


def test_the_count_restarts_after_javas_largest_int() -> None:
    """It is used once more and becomes zero."""
    placement, state = ask(placers.ROUND_ROBIN, rates(a=1), "ab", RoundRobinState(LARGEST, ("a", "b")))
    assert placement.broker == "b"
    assert state.count == 0
