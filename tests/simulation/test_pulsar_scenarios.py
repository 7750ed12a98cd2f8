"""A broker joins, an owner dies, a broker is too full, a bundle is hot: what Pulsar makes of it."""

import pytest

from simulate.checkers.pulsar import at_rest
from simulated_clusters.leader import LeaderSettings, WorldSettings
from simulated_clusters.scenarios import (
    broker_joins,
    broker_overloaded,
    lone_hot_bundle,
    outcome,
    owner_dies,
)

IDLE = "broker-9:8080"


def settings_of(shedder: str = "ThresholdShedder", *, first: bool = True, seed: int = 0) -> WorldSettings:
    """AvgShedder wants to be the placement too."""
    placer = "AvgShedder" if shedder == "AvgShedder" else "LeastLongTermMessageRate"
    return WorldSettings(LeaderSettings(shedder, placer, destination_first=first), seed=seed)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("shedder", "acts"),
    [
        ("OverloadShedder", False),
        ("ThresholdShedder", False),
        ("UniformLoadShedder", True),
        ("AvgShedder", True),
        ("TransferShedder", True),
    ],
)
def test_a_broker_joins_nine_at_60_percent(shedder: str, acts: bool, first: bool) -> None:
    """The default shedder leaves it idle: no broker is 10 points above the average of 54 %, or above 85 %."""
    world = broker_joins(settings_of(shedder, first=first))
    found = outcome(world)
    assert at_rest(world) == []
    assert (found.unloads > 0) == acts
    assert (found.usage[IDLE] > 0) == acts
    assert sum(found.usage.values()) == pytest.approx(9 * 0.6, abs=1e-4)
    assert found.returned == 0


@pytest.mark.parametrize("first", [True, False])
def test_the_bundles_of_a_dead_owner_are_assigned_once_its_session_is_over(first: bool) -> None:
    """For 30 s its locks stand and every lookup fails; then the next lookup of each finds it a new owner."""
    world = owner_dies(settings_of(first=first))
    (died,) = [one for one in world.history if one.what == "died"]
    again = [one for one in world.history if one.what == "connected"]
    assert at_rest(world) == []
    assert len(again) == 8
    assert all(one.broker != died.broker for one in again)
    # Clients double their pause, so that some ask last just before the end and then wait once more.
    assert all(30 < one.seconds < 82 for one in again)


def test_destinations_chosen_first_pile_all_bundles_of_a_round_on_one_broker() -> None:
    """Six bundles leave a broker at 95 %, and none counts on its destination before it has arrived there.

    All go to the idlest, which is at 86 % then. Placed by lookups, each counts for the next: one a broker.
    """
    piled = broker_overloaded(settings_of(first=True), minutes=1.5)
    spread = broker_overloaded(settings_of(first=False), minutes=1.5)
    assert at_rest(piled) == at_rest(spread) == []
    assert outcome(piled).unloads == outcome(spread).unloads == 6
    assert outcome(piled).usage["broker-0:8080"] == pytest.approx(0.29 + 6 * 0.095, abs=1e-6)
    assert max(outcome(spread).usage.values()) == pytest.approx(0.3 + 0.095, abs=1e-6)


def test_with_a_running_mean_bundles_leave_and_return_by_lookup_placement() -> None:
    """The running mean still holds the broker for too full, and placement holds it for the best there is.

    Where the destination is chosen first, a bundle that would come back stays.
    """
    article = outcome(broker_overloaded(settings_of(first=False), minutes=3))
    pulsar = outcome(broker_overloaded(settings_of(first=True), minutes=3))
    assert (article.unloads, article.returned) == (8, 2)
    assert (pulsar.unloads, pulsar.returned) == (6, 0)


@pytest.mark.parametrize("first", [True, False])
def test_a_hot_bundle_alone_on_its_broker_is_not_shed_but_split(first: bool) -> None:
    """Its halves leave the broker, and no broker is overloaded any more."""
    world = lone_hot_bundle(settings_of(first=first), topics=200)
    found = outcome(world)
    assert at_rest(world) == []
    assert found.splits == 1
    assert found.unloads == 2
    assert max(found.usage.values()) < 0.85


@pytest.mark.parametrize("first", [True, False])
def test_a_hot_bundle_of_one_topic_stays_with_a_reason(first: bool) -> None:
    """Neither shedding nor splitting helps; the shedder reports that the sole bundle overloads its broker."""
    world = lone_hot_bundle(settings_of(first=first), topics=1)
    found = outcome(world)
    assert at_rest(world) == []
    assert (found.unloads, found.splits) == (0, 0)
    assert found.usage["broker-0:8080"] == pytest.approx(0.9, abs=1e-6)
    assert (
        world.leader.decision.facts["brokers"]["broker-0:8080"]["outcome"] == "its sole bundle overloads it"
    )
