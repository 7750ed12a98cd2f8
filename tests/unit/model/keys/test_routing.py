"""Routing tables: groups that refine the hash, and tables that make no sense."""

import pytest

from trimtab_common.errors import InputError
from trimtab_keys.core.routing import Route, RoutingTable, group_count


def test_a_group_lies_in_one_partition_under_the_plain_hash() -> None:
    """24 partitions have 1,032 groups: hashes that agree on the group agree on the partition."""
    assert [group_count(base) for base in (1, 16, 24, 1000, 1024, 1025)] == [
        1024,
        1024,
        1032,
        2000,
        1024,
        1025,
    ]
    assert {h % 24 for h in range(0, 10**6, 1032)} == {0}


def test_unlisted_keys_stay_at_their_hash() -> None:
    """A hot key goes before its group, and its group before the hash."""
    table = RoutingTable(3, 4, 6, {7: Route((5,), (3,))}, {b"hot": Route((0, 1))})
    assert table.route(7, b"cold") == Route((5,), (3,))
    assert table.route(7, b"hot") == Route((0, 1))
    assert table.route(6, b"cold") == Route((2,))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: RoutingTable(-1, 4, 4), "version is -1, expected 0 or more"),
        (lambda: RoutingTable(1, 0, 4), "base is 0, expected 1 or more"),
        (lambda: RoutingTable(1, 4, 3), "partitions is 3, expected 4 or more"),
        (lambda: RoutingTable(1, 4, 4, {1024: Route((0,))}), "group 1024 is not one of 0 to 1023"),
        (lambda: RoutingTable(1, 4, 4, {0: Route((0, 1))}), "group 0 goes to 2 partitions, expected 1"),
        (
            lambda: RoutingTable(1, 4, 4, {0: Route((4,))}),
            r"group 0 names \(4,\), expected partitions 0 to 3",
        ),
        (lambda: RoutingTable(1, 4, 4, {0: Route((1,), (9,))}), r"group 0 names \(9,\)"),
        (lambda: RoutingTable(1, 4, 4, {}, {b"secret": Route((1, 1))}), "hot key 1 names a partition twice"),
        (lambda: RoutingTable(1, 4, 4, {}, {b"secret": Route(())}), "hot key 1 goes to no partition"),
        (
            lambda: RoutingTable(1, 1, 1, passed=(1, 2)),
            r"passed is \(1, 2\), expected .* 1 partitions at most",
        ),
        (lambda: RoutingTable(1, 1, 1, passed=(-1,)), r"passed is \(-1,\), expected an offset of 0 or more"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(made: object, told: str) -> None:
    """With the version, what is wrong, and never the name of a key."""
    with pytest.raises(InputError, match=rf"routing table -?\d: {told}") as caught:
        made()  # type: ignore[operator]
    assert "secret" not in str(caught.value)
