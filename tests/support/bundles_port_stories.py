"""What every cluster behind a `BundlesPort` must do, told once for the simulated one and a real one."""

from collections.abc import Callable
from dataclasses import dataclass

from trimtab.act.bundles.port import AUTO_SPLIT, OFF, SHEDDING, SWITCHES, BundlesObservation, BundlesPort
from trimtab.model.bundles.snapshot import bundles_between


@dataclass(frozen=True)
class Stage:
    """A cluster with one namespace of four bundles, which nobody owns.

    Attributes
    ----------
    wait
        Waits until something is so.
    add_topics
        Makes so many topics.
    """

    port: BundlesPort
    namespace: str
    wait: Callable[[Callable[[], bool]], None]
    add_topics: Callable[[int], None]

    def look(self, *, deep: bool = False) -> BundlesObservation:
        """One look."""
        return self.port.observe([self.namespace], deep=deep)

    @property
    def keys(self) -> list[str]:
        """The bundles, rising."""
        edges = self.look().boundaries[self.namespace]
        return [bundle.key for bundle in bundles_between(self.namespace, edges)]


def looking_assigns_nothing(stage: Stage) -> None:
    """However often one looks, a bundle that nobody asks for has no owner."""
    for _ in range(2):
        seen = stage.look(deep=True)
        assert set(stage.keys) & set(seen.owners) == set()
    assert seen.leader in seen.brokers
    assert seen.alive == seen.brokers
    assert seen.name == seen.cluster.partition("@")[0]
    assert stage.port.observe(["trimtab/no-such"]).boundaries == {}


def a_lookup_assigns_and_an_unload_moves(stage: Stage) -> None:
    """A lookup gives an owner; an unload to another broker, and some more lookups, moves the bundle."""
    key = stage.keys[0]
    assert stage.port.lookup([key]) == {key: None}
    owner = stage.look().owners[key]
    target = sorted(stage.look().brokers - {owner})[0]

    def there() -> bool:
        if stage.look().owners.get(key) not in (None, target):
            assert stage.port.unload({key: target}) == {key: None}
        stage.port.lookup([key])
        return stage.look().owners.get(key) == target

    stage.wait(there)


def what_is_refused(stage: Stage) -> None:
    """A destination that is no broker 409, a range that is no bundle 412, no boundaries 412."""
    key = stage.keys[0]
    stage.port.lookup([key])
    codes = {
        "destination": stage.port.unload({key: "127.0.0.1:7"})[key],
        "range": stage.port.split(f"{stage.namespace}/0x00000000_0x12345678", [0x1234]),
        "boundaries": stage.port.split(key, []),
    }
    assert {name: failure and failure.code for name, failure in codes.items()} == {
        "destination": "409",
        "range": "412",
        "boundaries": "412",
    }
    assert all(failure is not None and failure.message for failure in codes.values())


def a_bundle_stays_with_whom_it_is_sent_to_if_that_is_its_owner(stage: Stage) -> None:
    """The modular manager says yes, the extensible one refuses; either way it is served by the same after."""
    key = stage.keys[0]
    stage.port.lookup([key])
    owner = stage.look().owners[key]
    refused = stage.port.unload({key: owner})[key]
    assert (refused is not None and refused.code == "500") == stage.look(deep=True).extensible

    def back() -> bool:
        stage.port.lookup([key])
        return stage.look().owners.get(key) == owner

    stage.wait(back)


def a_split_cuts_where_it_is_told_or_not_at_all(stage: Stage) -> None:
    """With fewer than two topics yes means nothing; with more the parts stay with their owner.

    The extensible manager refuses what it cannot cut, and takes one boundary at a time.
    """
    key = stage.keys[0]
    stage.port.lookup([key])
    refused = stage.port.split(key, [0x10000000])
    assert (refused is not None and refused.code == "500") == stage.look(deep=True).extensible
    assert stage.keys[0] == key
    stage.add_topics(24)
    owner = stage.look().owners[key]
    if stage.look(deep=True).extensible:
        refused = stage.port.split(key, [0x10000000, 0x30000000])
        assert refused is not None and refused.code == "412"
        assert stage.port.split(key, [0x30000000]) is None
        stage.wait(lambda: len(stage.keys) == 5)
        stage.wait(lambda: stage.look().owners.get(stage.keys[0]) == owner)
        assert stage.port.split(stage.keys[0], [0x10000000]) is None
    else:
        assert stage.port.split(key, [0x10000000, 0x30000000]) is None
    stage.wait(lambda: len(stage.keys) == 6)
    edges = [f"{stage.namespace}/0x{low:08x}_0x{high:08x}" for low, high in _PARTS]
    assert stage.keys[:3] == edges
    stage.wait(lambda: [stage.look().owners.get(part) for part in edges] == [owner] * 3)


_PARTS = ((0, 0x10000000), (0x10000000, 0x30000000), (0x30000000, 0x40000000))


def switches_are_set_and_taken_away(stage: Stage) -> None:
    """For all brokers, each says so; taken away, what their files say holds again."""
    assert stage.port.write_balancing(dict.fromkeys(SWITCHES, OFF)) == {}

    def all_off() -> bool:
        told = stage.port.read_balancing(all_brokers=True)
        values = {value for each in told.in_force.values() for value in each.values()}
        return len(told.in_force) == len(stage.look().brokers) and values == {OFF}

    stage.wait(all_off)
    assert stage.port.read_balancing().overrides == {SHEDDING: OFF, AUTO_SPLIT: OFF}
    assert stage.look(deep=True).overrides == {SHEDDING: OFF, AUTO_SPLIT: OFF}
    assert stage.port.write_balancing(dict.fromkeys(SWITCHES, None)) == {}
    assert stage.port.read_balancing().overrides == {}
    assert stage.port.write_balancing({"loadBalancerEnabled": "false"})["loadBalancerEnabled"].code == "412"


def claims_stand_beside_each_other(stage: Stage) -> None:
    """Two texts do not overwrite one another; taking away one that is not there is no error."""
    stage.port.write_claims(["token=a&user=ä%2F", "token=b"], [])
    assert stage.port.read_claims() == {"token=a&user=ä%2F", "token=b"}
    stage.port.write_claims(["token=c"], ["token=a&user=ä%2F", "token=none"])
    assert stage.port.read_claims() == {"token=b", "token=c"}
    stage.port.write_claims([], ["token=b", "token=c"])
    assert stage.port.read_claims() == frozenset()


STORIES = (
    looking_assigns_nothing,
    a_lookup_assigns_and_an_unload_moves,
    what_is_refused,
    a_bundle_stays_with_whom_it_is_sent_to_if_that_is_its_owner,
    a_split_cuts_where_it_is_told_or_not_at_all,
    switches_are_set_and_taken_away,
    claims_stand_beside_each_other,
)
