"""What a load did, read back while it is still being written."""

from demos.accuracy import traffic_between
from trimtab.lab.sandbox.load import failures_text, summarize
from trimtab.lab.sandbox.truth import Traffic, TruthTick, read_truth

TICKS = [
    TruthTick("producer", 9.5, 0.5, {"t:0": Traffic(1, 10)}, {"t:0": Traffic(1, 10)}, latency_p99_ms=3.0),
    TruthTick("producer", 10.0, 1.0, {"t:0": Traffic(3, 30)}, {"t:0": Traffic(2, 20)}, 1, 1, 2.0, 9.0),
    TruthTick("producer", 11.0, 1.0, {"t:1": Traffic(2, 20)}, {"t:1": Traffic(2, 20), "t:0": Traffic(1, 10)}),
    TruthTick("reader-1", 10.0, 1.0, done={"t:0": Traffic(3, 30)}),
]


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path):
    """A load that was killed in mid-line leaves truth that can be read up to there."""
    (tmp_path / "producer.truth.jsonl").write_text(
        "".join(tick.to_line() for tick in TICKS[:3]) + '{"client":'
    )
    (tmp_path / "reader-1.truth.jsonl").write_text(TICKS[3].to_line())
    assert list(read_truth(tmp_path)) == TICKS


def test_only_whole_ticks_count_between_two_times():
    """A comparison window takes the ticks that lie in it, and adds them per client and partition."""
    assert traffic_between(TICKS, 10.0, 12.0) == {
        "producer": {"t:0": Traffic(3, 30), "t:1": Traffic(2, 20)},
        "reader-1": {"t:0": Traffic(3, 30)},
    }


def test_a_summary_counts_planned_confirmed_and_lost_records():
    """A user sees at the end of a load whether it kept its plan."""
    done = summarize(TICKS)
    assert (done.seconds, done.planned_records, done.produced_records) == (2.5, 6, 6)
    assert (done.produced_bytes, done.consumed_bytes) == (60, 30)
    assert (done.late_records, done.errors, done.latency_p99_ms) == (1, 1, 9.0)
    assert (done.failed_records, done.unacknowledged_records) == (1, -1)
    stuck = summarize(
        [TruthTick("producer", 0.0, 1.0, {"t": Traffic(5, 50)}, {"t": Traffic(2, 20)}, errors=1)]
    )
    assert stuck.unacknowledged_records == 2
    assert failures_text(stuck) == "1 errors, 2 never answered"


def test_a_load_that_did_nothing_has_an_empty_summary():
    """A load stopped before its first tick is no error."""
    assert summarize([]).planned_records == 0
