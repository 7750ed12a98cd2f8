"""A producer's clock and the pauses that clients notice."""

import random
import threading
import time

from demos.interruptions import ClientInterruption, interruptions, summarize_interruptions
from trimtab.lab.sandbox.clients import ProducerTick, RecordStream, send_on_time
from trimtab.lab.sandbox.truth import LongestPauses, TruthTick, read_truth


def test_every_record_is_sent_in_turn_and_counted(tmp_path):
    """A stream of twice the rate is sent twice as often, and each tick records planned and
    confirmed records.
    """
    streams = (RecordStream("a", 0.01, 100), RecordStream("b", 0.02, 10))
    stopped = threading.Event()
    sent: list[int] = []

    def send(tick: ProducerTick, index: int, number: int) -> None:
        sent.append(index)
        tick.confirm(streams[index].key, number, None, time.monotonic())
        if len(sent) == 60:
            stopped.set()

    send_on_time(streams, send, lambda: None, tmp_path / "producer.truth.jsonl", stopped, random.Random(1))
    ticks = list(read_truth(tmp_path))
    done = {key: sum(tick.done[key].records for tick in ticks if key in tick.done) for key in ("a", "b")}
    assert done == {"a": sent.count(0), "b": sent.count(1)}
    assert abs(sent.count(0) - 40) <= 1
    stamps = [one for tick in ticks for one in tick.stamps.get("b", [])]
    assert [number for first, last, _ in stamps for number in range(first, last + 1)] == [*range(done["b"])]
    assert sum(tick.planned["a"].bytes for tick in ticks if "a" in tick.planned) == 100 * done["a"]


def test_failed_records_are_counted_by_cause_and_not_confirmed():
    """An error differs from a pause: the tick records number, cause, and the wait of the first one."""
    tick = ProducerTick(100.0, (RecordStream("a", 1.0, 10),))
    tick.scheduled["a"] += 4
    now = time.monotonic()
    for cause, waited in (("KafkaTimeoutError", 30.0), ("NotLeaderError", 1.0), ("KafkaTimeoutError", 20.0)):
        tick.fail(cause, now - waited)
    tick.confirm("a", 3, 70, now)
    told = tick.close(101.0)
    assert (told.errors, told.done["a"].records, told.planned["a"].records) == (3, 1, 4)
    assert told.causes == {"KafkaTimeoutError": 2, "NotLeaderError": 1}
    assert told.stamps == {"a": [(3, 3, 70)]}
    assert told.waited_since is not None
    assert abs(time.time() - told.waited_since - 30) < 5
    after = tick.close(102.0)
    assert (after.errors, after.causes, after.waited_since) == (0, {}, None)


def test_the_longest_pause_is_recorded_in_the_tick_in_which_it_ends():
    """A pause over several ticks is recorded once, completely."""
    pauses = LongestPauses()
    for at in (10.01, 10.05, 10.42, 10.44, 10.45):
        pauses.add("t", at)
    assert pauses.take() == {"t": [(10.01, 10.05), (10.05, 10.42)]}
    assert pauses.take() == {}
    pauses.add("t", 13.55)
    assert pauses.take() == {"t": [(10.45, 13.55)]}


def test_a_longer_pause_just_before_it_does_not_hide_an_interruption():
    """A busy machine stops a client for 0.4 s; the unload in the same second takes 0.15 s and is recorded."""
    pauses = LongestPauses()
    for at in (10.0, 10.4, 10.44, 10.59, 10.63):
        pauses.add("t", at)
    told = [TruthTick("producer", 10.0, 1.0, pauses=pauses.take())]
    assert interruptions(told, ["t"], 10.45, 10.58) == (ClientInterruption("producer", "t", 10.44, 10.59),)


def test_a_pause_at_the_end_of_a_client_is_recorded():
    """A topic that never returned counts as interrupted."""
    pauses = LongestPauses()
    pauses.add("t", 10.0)
    assert pauses.take(14.0) == {"t": [(10.0, 14.0)]}


TICKS = [
    TruthTick("producer", 9.0, 1.0, pauses={"t": [(9.0, 9.1)], "other": [(9.0, 9.9)]}),
    TruthTick("producer", 10.0, 1.0, pauses={"t": [(10.2, 10.5)]}),
    TruthTick("producer", 11.0, 1.0, pauses={"t": [(10.9, 11.1)]}),
    TruthTick("reader-1", 10.0, 1.0, pauses={"t": [(9.9, 10.8)], "u": [(10.0, 10.3)]}),
]


def test_interruptions_are_the_longest_pauses_that_touch_the_span():
    """Each client and topic counts once, and what was before or elsewhere does not."""
    found = interruptions(TICKS, ["t", "u"], 10.0, 10.6)
    assert found == (
        ClientInterruption("producer", "t", 10.2, 10.5),
        ClientInterruption("reader-1", "t", 9.9, 10.8),
        ClientInterruption("reader-1", "u", 10.0, 10.3),
    )
    summary = summarize_interruptions(found)
    assert summary is not None
    assert (summary.count, round(summary.p50_seconds, 6), round(summary.max_seconds, 6)) == (3, 0.3, 0.9)


def test_without_clients_there_are_no_interruptions():
    """Idle clients are recorded as such, not as an interruption of zero seconds."""
    assert summarize_interruptions(interruptions(TICKS, ["absent"], 0.0, 99.0)) is None
