"""Which bundles came back to a broker that they had been unloaded from, told from the record of moves."""

import pytest

from trimtab.model.bundles.reports import Oscillation, UnloadEvent, oscillations


def record(*moves: tuple[str, str | None], bundle: str = "t/n/one") -> list[UnloadEvent]:
    """A minute apart: from where, to where."""
    return [UnloadEvent(minute * 60.0, bundle, *move) for minute, move in enumerate(moves)]


def test_a_bundle_that_always_moves_on_never_returns() -> None:
    """From a to b to c to d: it returns to none of them."""
    assert list(oscillations(record(("a", "b"), ("b", "c"), ("c", "d")))) == []


def test_a_return_names_brokers_times_and_the_path() -> None:
    """Two minutes after it left a, it is back, by way of b and c."""
    (found,) = oscillations(record(("a", "b"), ("b", "c"), ("c", "a")))
    assert found == Oscillation("t/n/one", "c", "a", 120.0, 120.0, ("b", "c"))
    assert found.left_at == 0


def test_ping_pong_is_a_return_each_time_since_it_last_left() -> None:
    """Between a and b four times: the first arrival at b is none, the other three are, a minute away each."""
    found = list(oscillations(record(("a", "b"), ("b", "a"), ("a", "b"), ("b", "a"))))
    assert [(one.target, one.at, one.away_seconds, one.through) for one in found] == [
        ("a", 60, 60, ("b",)),
        ("b", 120, 60, ("a",)),
        ("a", 180, 60, ("b",)),
    ]


def test_after_one_return_another_to_an_earlier_broker_is_found() -> None:
    """From a to b to c, back to b, back to a."""
    found = list(oscillations(record(("a", "b"), ("b", "c"), ("c", "b"), ("b", "a"))))
    assert [(one.target, one.left_at, one.through) for one in found] == [
        ("b", 60, ("c",)),
        ("a", 0, ("b", "c", "b")),
    ]


def test_a_bundle_returned_by_another_process_is_found_at_its_next_departure() -> None:
    """The plan moved it from a to b; another process returned it to a without notice: it is there at its next
    move.
    """
    (found,) = oscillations(record(("a", "b"), ("a", "c")))
    assert found == Oscillation("t/n/one", "b", "a", 60.0, 60.0, ("b",))


@pytest.mark.parametrize("later", ["a", "b"])
def test_an_unload_to_nowhere_in_particular_is_resolved_by_the_next(later: str) -> None:
    """Placed by a lookup, it may be anywhere: at a it has returned, at b it has not."""
    found = list(oscillations(record(("a", None), (later, None))))
    expected = Oscillation("t/n/one", None, "a", 60.0, 60.0, ())
    assert found == ([expected] if later == "a" else [])


def test_bundles_do_not_know_of_each_other() -> None:
    """One goes from a to b, another from b to a: neither returns."""
    moves = [*record(("a", "b")), *record(("b", "a"), bundle="t/n/two")]
    assert list(oscillations(moves)) == []
