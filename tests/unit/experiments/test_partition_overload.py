"""The experiment on brokers, but for the brokers: who sends what, workers that take their time, measures."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trimtab.history.keys.simulation import ConsumerCapacity, KeysSimulationRun, KeyStream, SimulatedConsumers

FOLDER = Path(__file__).parents[3] / "experiments" / "partition_overload"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of the experiment by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def found(name: str) -> ModuleType:
        return import_module(name)

    return found


def stream(seconds: float, per_second: float = 100.0, keys: int = 4) -> KeyStream:
    """Keys in turn, at equal distances."""
    count = int(seconds * per_second)
    return KeyStream(
        [one / per_second for one in range(count)],
        [one % keys for one in range(count)],
        [b"%d" % one for one in range(keys)],
    )


def test_producers_share_the_records_of_a_stream_and_begin_it_when_it_is_time(named: Any) -> None:
    """Records before the measurement have no numbers; each measured record has one producer, at its time."""
    control, senders = named("control"), named("senders")
    told: dict[int, float] = {}
    for one in range(3):
        task = control.Task("t", "", "", "hash", 1.0, 200, 4.0, 1, one)
        answers = iter([None] * 5)
        begins = 160.0
        sent = list(
            senders.numbered(task, task.before(), task.stream(), 100.0, lambda: next(answers, begins))  # noqa: B023
        )
        before = [due for due, number, _ in sent if number < 0]
        assert before
        assert max(before) < begins
        for due, number, which in sent:
            if number >= 0:
                assert number not in told
                assert which == task.stream().which[number]
                told[number] = due - begins
    assert [told[one] for one in sorted(told)] == pytest.approx(task.stream().at)


def test_the_name_of_a_policy_states_the_differences_of_its_run(named: Any) -> None:
    """Who may have partitions added and how often, who shares a worker, who is assigned by load."""
    control, senders = named("control"), named("senders")
    tasks = [control.Task("t", "", "", name, 1.0, 200, 4.0, 1) for name in senders.POLICIES]
    by = {one.policy: one for one in tasks}
    assert {name for name, one in by.items() if one.by_load} == {"CL", "paper: CL"}
    assert all(one.shared == name.startswith("paper: ") for name, one in by.items())
    assert {name for name, one in by.items() if not one.adds} == {
        "hash", "BL", "CL", "D-Choices", "D-Choices, again", "PKG", "paper: kafka", "paper: BL", "paper: CL"
    }  # fmt: skip
    slow = "IPOOA, candidate by content, added every 10 s"
    assert {name for name, one in by.items() if one.add_seconds != 1.0} == {slow}
    assert by[slow].add_seconds == 10.0


class Message:
    """A record or the end of a partition, as confluent-kafka tells it."""

    def __init__(self, partition: int, offset: int, end: bool = False) -> None:
        self._told = partition, offset, end

    def partition(self) -> int:
        """Its partition."""
        return self._told[0]

    def error(self) -> object | None:
        """The end is told as an error."""
        return "end" if self._told[2] else None


class Client:
    """Hands over what it has."""

    def __init__(self, messages: list[Message]) -> None:
        self.messages = messages

    def poll(self, seconds: float) -> Message | None:
        """The next."""
        return self.messages.pop(0) if self.messages else None


def test_a_worker_hands_a_partition_over_in_order_and_its_end_last(named: Any) -> None:
    """Two partitions side by side; what is revoked is not handed over any more."""
    takers = named("takers")
    first = [Message(0, one) for one in range(3)] + [Message(0, 3, end=True)]
    other = [Message(1, 0), Message(1, 1)]
    paced = takers.Paced(
        Client([*first, *other]), SimulatedConsumers(24, ConsumerCapacity(100.0)), takers.time.monotonic()
    )
    taken = [paced.poll(5.0) for _ in range(2)]
    assert {one.partition() for one in taken} == {0, 1}
    paced.forget({1})
    assert all(one[2].partition() == 0 for one in paced._due)
    taken += [paced.poll(5.0) for _ in range(3)]
    assert [one for one in taken if one.partition() == 0] == first
    assert paced.poll(0.0) is None


def test_partitions_that_share_a_worker_wait_for_one_another(named: Any) -> None:
    """Three records in three partitions are done at once, or by a shared worker one after the other."""
    takers = named("takers")
    for shared, begins in ((None, [0.0, 0.0, 0.0]), (1, [0.0, 100.0, 200.0])):
        workers = SimulatedConsumers(24, ConsumerCapacity(0.01))
        paced = takers.Paced(Client([Message(one, 0) for one in range(3)]), workers, 0.0, shared)
        assert paced.poll(0.0) is None
        due = sorted(at for at, _, _ in paced._due)
        assert [at - due[0] for at in due] == pytest.approx(begins, abs=50.0)


def test_work_removed_from_a_worker_was_not_done(named: Any) -> None:
    """Partition 1 is revoked and returns: its worker starts immediately, not after its previous work."""
    takers = named("takers")
    workers = SimulatedConsumers(24, ConsumerCapacity(0.01))
    paced = takers.Paced(Client([Message(1, one) for one in range(3)]), workers, takers.time.monotonic())
    assert paced.poll(0.0) is None
    paced.forget({1})
    paced._client.messages = [Message(1, 0)]
    assert paced.poll(0.0) is None
    assert [due - takers.time.monotonic() for due, _, _ in paced._due] == pytest.approx([100.0], abs=50.0)


def test_partitions_are_assigned_to_the_least_loaded_worker(named: Any) -> None:
    """The largest first: 7, 5 and 4, then 3 to the 4, and 2 to the 5."""
    found = named("on_brokers").by_load({0: 3, 1: 7, 2: 5, 3: 4, 4: 2}, 3)
    assert found == [[1], [2, 4], [3, 0]]


def course(done: Any, seconds: float = 30.0) -> KeysSimulationRun:
    """All in one partition, each done as said."""
    own = stream(seconds)
    return KeysSimulationRun(own, [0] * len(own.at), [done(at) for at in own.at], 1)


def test_a_load_has_converged_when_no_partition_is_overloaded_for_ten_seconds(named: Any) -> None:
    """Never above; above until what waited is done; to the end, or nearly."""

    def converged(done: Any) -> float | None:
        told = named("measured").convergence(course(done), 100.0, 200.0)
        found: float | None = told["converged_seconds"]
        return found

    assert converged(lambda at: at + 0.01) == 0.0
    # Half of what the consumer can do arrives, and for eight seconds nothing is done.
    assert converged(lambda at: max(8.0, at)) == pytest.approx(8.0, abs=0.5)
    assert converged(lambda at: max(25.0, at)) is None
    assert converged(lambda at: at + 40.0) is None


def test_a_load_has_recovered_when_hardly_a_record_waits_longer_than_the_deadline(named: Any) -> None:
    """Half a second late each; 8 s of standstill; 1.5 times as slow; the last record only."""

    def recovered(done: Any, until: float = 100.0) -> float | None:
        told = named("measured").convergence(course(done), until, 200.0)
        found: float | None = told["recovered_seconds"]
        return found

    assert recovered(lambda at: at + 0.5) == 0.0
    assert recovered(lambda at: max(8.0, at)) == pytest.approx(8.0, abs=0.25)
    assert recovered(lambda at: 1.5 * at) == pytest.approx(45.0, abs=0.25), "it goes on when all are sent"
    assert recovered(lambda at: 1.5 * at, until=40.0) is None, "the run was over before"
    assert recovered(lambda at: 90.0 if at > 29.985 else at) == 0.0, "one record is not one in a hundred"


def test_a_stall_now_and_then_keeps_a_load_from_converging_and_not_from_recovering(named: Any) -> None:
    """0.9 of eight seconds stalled: never converged, recovered at once, overloaded for a small share."""
    found = named("measured").convergence(course(lambda at: max(at, at // 8 * 8 + 0.9)), 100.0, 100.0)
    assert found["converged_seconds"] is None
    assert found["recovered_seconds"] == 0.0
    assert 0.02 < found["overloaded"] < 0.15
    fallen_behind = named("measured").convergence(course(lambda at: 1.5 * at), 100.0, 200.0)
    assert fallen_behind["overloaded"] > 0.8


def test_overloaded_partitions_are_counted(named: Any) -> None:
    """Two of three stand still from the beginning to the end; of the third half is used."""
    own = stream(30.0, per_second=300.0, keys=3)
    done = [100.0 if which else at for at, which in zip(own.at, own.which, strict=True)]
    found = named("measured").convergence(KeysSimulationRun(own, list(own.which), done, 3), 100.0, 200.0)
    assert found["overloaded"] == pytest.approx(2.0, abs=0.2)


def test_partitions_that_the_topic_has_in_the_end_were_added(named: Any) -> None:
    """24 at first, 26 in the end; a record went to one of them."""
    measured, takers = named("measured"), named("takers")
    own = stream(0.02)
    effects = np.zeros(2, takers.EFFECT)
    for place, number in enumerate([0, 1]):
        effects[place] = (number, number, 1, 7.0, 24 * place, 7.5)
    assert measured.figures(own, effects, 7.0, 20.0, [0] * 13 + [1] * 13)["added"] == 2
    assert measured.figures(own, effects, 7.0, 20.0, [0] * 13 + [1] * 12)["added"] == 1
    effects["sent"][1] = 9.5
    assert measured.figures(own, effects, 7.0, 20.0, [0] * 26)["used_seconds"] == [2.5, None]


def test_effects_reveal_lost_duplicate_and_overtaken_records(named: Any) -> None:
    """Ten records; the fourth twice, the last never; and of key 1 an earlier one arrived later."""
    measured, takers = named("measured"), named("takers")
    own = stream(0.1)
    effects = np.zeros(10, takers.EFFECT)
    for place, number in enumerate([0, 1, 2, 3, 3, 4, 5, 6, 7, 8]):
        effects[place] = (number, number % 4, number // 4 + 1, 7.0 + own.at[number], number % 2, 7.5 + place)
    assert measured.overtaken_of_all(effects) == 0
    found = measured.figures(own, effects, 7.0, 20.0, [0] * 12 + [1] * 12)
    assert (found["lost"], found["twice"], found["overtaken"]) == (1, 1, 0.0)
    assert found["brokers_max_over_mean"] == 2.0
    # The record at 0.09 s waits for 12.91 s at least, and may be on its way when the run was cut short.
    assert (found["unfinished"], found["censored_seconds"]) == (1, 12.91)
    # Cut short: read from the topic, the tenth lies in partition 1 with the fourth, which came twice.
    places = np.array([one % 2 for one in range(10)])
    cut = measured.figures(own, effects, 7.0, 20.0, [0] * 12 + [1] * 12, places)
    assert (cut["lost"], cut["unfinished"], cut["overtaken"]) == (None, 1, 0.0)
    assert cut["max_over_mean"] == 12.0, "five of ten records, 24 partitions"
    # Records 1 and 5 are of key 1.
    effects["done"][1], effects["done"][6] = effects["done"][6], effects["done"][1]
    assert measured.overtaken_of_all(effects) == 1
    assert measured.figures(own, effects, 7.0, 20.0, [0] * 12 + [1] * 12)["overtaken"] == pytest.approx(0.1)
    # Record 1 takes effect while the members stop: 5 was before it, and 9, of the same key too, is not yet.
    effects["done"][1] = 22.0
    assert measured.figures(own, effects, 7.0, 20.0, [0] * 12 + [1] * 12, places)[
        "overtaken"
    ] == pytest.approx(0.1)
