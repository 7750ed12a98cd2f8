"""Looking for every confirmed record: what is lost, doubled or out of order is found, and nothing else."""

import pytest

from trimtab.lab.sandbox.truth import (
    LogCheck,
    ReadBackLog,
    RecordRun,
    RecordRuns,
    check_log,
    number_of,
    pulsar_place,
    stamped,
)

RUN = "00112233445566ff"


def checked(log, confirmed=((0, 9, 100),), *, begin=100, read=(), sent=10, gapless=True) -> LogCheck:
    """One partition of ten records at offsets 100 to 109, with what the log, read back, holds."""
    return check_log(
        {"t:0": sent},
        {"t:0": [RecordRun(*one) for one in confirmed]},
        {"t:0": [RecordRun(*one) for one in read]},
        {"t:0": ReadBackLog(begin, [RecordRun(*one) for one in log], gapless)},
    )


def test_a_whole_log_is_whole():
    """Ten confirmed, ten present: reported in one sentence."""
    found = checked([(0, 9, 100)])
    assert found.ok
    assert found.text("records") == (
        "every one of 10 confirmed records is accounted for: 10 once and in order (10 read back from the log)"
    )


@pytest.mark.parametrize(
    ("log", "lost", "twice"),
    [
        ([(0, 4, 100), (6, 9, 106)], 1, 0),
        ([(0, 8, 100)], 1, 0),
        ([], 10, 0),
        ([(0, 9, 100), (9, 9, 110)], 0, 1),
        ([(0, 9, 100), (3, 3, 110)], 0, 1),
    ],
)
def test_a_missing_or_duplicate_record_is_reported(log, lost, twice):
    """Each fault is counted under its own name, and the sentence does not report success."""
    found = checked(log)
    assert not found.ok
    assert "every one" not in found.text("records")
    assert (sum(found.lost.values()), sum(found.twice.values())) == (lost, twice)
    assert not found.out_of_order


def test_records_that_changed_places_are_out_of_order():
    """All ten are there once, but the broker confirmed and kept 6 before 5."""
    swapped = [(0, 4, 100), (6, 6, 105), (5, 5, 106), (7, 9, 107)]
    found = checked(swapped, swapped)
    assert (found.lost, found.twice, found.out_of_order) == ({}, {}, {"t:0": 1})
    assert found.text("records") == "of 10 confirmed records 1 out of order (first in t:0)"


def test_a_confirmed_place_that_another_record_took_is_a_loss():
    """A new leader without the last record reuses its offset: only both confirmations reveal it."""
    for begin in (109, 110):
        found = checked([(10, 10, 109)], [(0, 9, 100), (10, 10, 109)], begin=begin, sent=11)
        assert found.lost == {"t:0": 1}


def test_records_deleted_by_retention_are_identified_by_reader_or_offset():
    """The log begins at 105: four of the five records before were read by a consumer."""
    found = checked([(5, 9, 105)], begin=105, read=[(1, 4, 101)])
    assert found.ok
    assert (found.read_back, found.read_by_consumers, found.by_place) == (5, 4, 1)
    assert found.text("records") == (
        "every one of 10 confirmed records is accounted for: 9 once and in order (5 read back from the log, "
        "4 read by consumers before retention removed them), 1 removed unread, known by their offsets alone"
    )


def test_a_double_that_retention_removed_leaves_a_gap():
    """Between two confirmed offsets is an unconfirmed one: a duplicate of the same record."""
    found = checked([(5, 9, 106)], [(0, 2, 100), (3, 9, 104)], begin=106)
    assert found.twice == {"t:0": 1}
    given_up = checked([(5, 9, 106)], [(0, 2, 100), (3, 9, 104)], begin=106, sent=11)
    assert given_up.ok, "a record that was given up may have arrived"
    assert checked([(5, 9, 106)], [(0, 2, 100), (3, 9, 104)], begin=106, gapless=False).ok


def test_a_record_handed_out_twice_is_no_double():
    """Pulsar hands out again what was not acknowledged in time; in the topic it is there once."""
    place = pulsar_place(7, 0)
    assert place is not None
    found = checked(
        [(0, 9, place)], [(0, 9, place)], begin=place, read=[(0, 9, place), (8, 9, place + 8)], gapless=False
    )
    assert found.ok


def test_a_record_with_a_failed_send_may_be_in_the_log():
    """Number 5 was not confirmed: both its presence and its absence are correct."""
    confirmed = [(0, 4, 100), (6, 9, 106)]
    assert checked([(0, 9, 100)], confirmed).ok
    assert checked([(0, 4, 100), (6, 9, 106)], confirmed).ok


def test_a_duplicate_that_the_broker_dropped_must_be_there():
    """Pulsar confirms a repeated message without its position."""
    assert pulsar_place(-1, -1) is None
    confirmed = [(0, 4, 100), (5, 5, None), (6, 9, 106)]
    assert checked([(0, 9, 100)], confirmed, gapless=False).ok
    assert checked([(0, 4, 100), (6, 9, 106)], confirmed, gapless=False).lost == {"t:0": 1}


def test_stamps_are_read_as_they_were_written():
    """A value keeps its size; records of other runs, and those that are too small, have no number."""
    value = stamped(RUN, 2**40 + 3, b"x" * 200)
    assert (len(value), number_of(RUN, value)) == (200, 2**40 + 3)
    assert number_of("ffffffffffffffff", value) is None
    assert number_of(RUN, b"x" * 200) is None
    assert number_of(RUN, value[:10]) is None


def test_consecutive_records_are_joined_to_ranges():
    """A gap in either starts a new range, and reported ranges are not reported again."""
    found = RecordRuns()
    for number, place in ((0, 5), (1, 6), (2, 8), (4, 9), (5, None), (6, None)):
        found.add("a", number, place)
    assert found.take() == {"a": [(0, 1, 5), (2, 2, 8), (4, 4, 9), (5, 6, None)]}
    assert found.take() == {}
