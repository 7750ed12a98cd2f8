"""What every key policy keeps, whatever it prefers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab_common.errors import InputError, SettingsError
from trimtab_keys.core.load import PartitionLoadView
from trimtab_keys.core.policies import POLICIES, KeyPolicy, KeyPolicyInputs, policy_named
from trimtab_keys.core.routing import Route, RoutingTable

RECORDS = st.lists(
    st.one_of(st.none(), st.integers(0, 9).map(lambda number: b"key %d" % number), st.binary(max_size=80)),
    max_size=60,
)
SIZES = st.tuples(st.integers(1, 30), st.integers(0, 3), st.sampled_from([1.0, 4.0, 1e9]))
"""Partitions, spare ones, and what their consumers can do: with little IPOOA diverts and adds."""

every_policy = pytest.mark.parametrize("name", POLICIES)


def made(name: str, partitions: int) -> KeyPolicy:
    """The policy; the table moves a group and splits a key."""
    last = partitions - 1
    table = RoutingTable(1, partitions, partitions, {0: Route((last,))}, {b"key 1": Route(tuple({0, last}))})
    return policy_named(name, KeyPolicyInputs(table=table, batch_records=3))


def played(name: str, sizes: tuple[int, int, float], keys: list[bytes | None]) -> list[int]:
    """Choices over these records; the view is looked at anew after each ten."""
    partitions, spare, capacity = sizes
    view, policy, chance = (
        PartitionLoadView(partitions, spare=spare, capacity=capacity),
        made(name, partitions),
        3,
    )
    draw, found = random.Random(chance).random, []
    for number, key in enumerate(keys):
        if number % 10 == 9:
            view.reset_counts([one / 2 for one in view.load], [one / 10 for one in view.load])
        before = list(view.load)
        found.append(policy.choose(key, view, draw))
        before += [0.0] * (len(view) - len(before))
        before[found[-1]] += 1
        assert view.load == before, "each record counts once, where it went"
    return found


@every_policy
@given(sizes=SIZES, keys=RECORDS)
def test_every_record_is_put_in_an_existing_partition(
    name: str, sizes: tuple[int, int, float], keys: list[bytes | None]
) -> None:
    """Also those without a key, with an empty one, and into a topic of one partition."""
    partitions, spare, _ = sizes
    assert all(0 <= place < partitions + spare for place in played(name, sizes, keys))


@every_policy
@given(sizes=SIZES, keys=RECORDS)
def test_the_same_records_and_the_same_chance_lead_to_the_same_partitions(
    name: str, sizes: tuple[int, int, float], keys: list[bytes | None]
) -> None:
    """No clock, no chance of its own."""
    assert played(name, sizes, keys) == played(name, sizes, keys)


@every_policy
@given(sizes=SIZES, keys=RECORDS)
def test_a_policy_that_keeps_order_puts_all_records_of_a_key_together(
    name: str, sizes: tuple[int, int, float], keys: list[bytes | None]
) -> None:
    """That is what gives a key its order."""
    if made(name, 1).keeps_order:
        pairs = {pair for pair in zip(keys, played(name, sizes, keys), strict=True) if pair[0] is not None}
        assert len(pairs) == len({key for key, _ in pairs})


@every_policy
def test_its_name_is_the_one_in_the_catalogue(name: str) -> None:
    """Settings and figures speak of the same."""
    assert made(name, 2).name == name


def test_a_policy_that_is_not_there_or_lacks_something_is_refused() -> None:
    """The error names the setting and what it may be, or what is missing."""
    with pytest.raises(SettingsError, match="^policy is 'fair', expected one of hash, "):
        policy_named("fair")
    with pytest.raises(SettingsError, match="'key_groups' needs a routing table"):
        policy_named("key_groups")
    with pytest.raises(SettingsError, match="^batch_records is 0"):
        policy_named("sticky", KeyPolicyInputs(batch_records=0))
    with pytest.raises(SettingsError, match="^head is 1"):
        policy_named("d_choices", KeyPolicyInputs(head=1))
    with pytest.raises(SettingsError, match="keys.epsilon is 0"):
        policy_named("bounded_loads", KeyPolicyInputs(epsilon=0))
    with pytest.raises(InputError, match="a topic has 0 partitions"):
        PartitionLoadView(0)
