"""Policies side by side over recorded arrivals: figures by hand, and what holds of every policy."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.recordings import replay
from trimtab.history.queues.compare import QueuesScenario, compare, default_schemes
from trimtab.history.queues.simulation import ReplayedMessage, ReplayedQueue
from trimtab.model.queues import Arrivals
from trimtab_common.errors import SettingsError
from trimtab_queues.core.scheduling import SchedulingSettings


def arrivals(*rows: tuple[float, str, float], keys: tuple[str | None, ...] = ()) -> Arrivals:
    """Messages by time, class and seconds of processing."""
    classes = tuple(sorted({name for _, name, _ in rows}))
    return Arrivals(
        np.array([at for at, _, _ in rows]),
        classes,
        np.array([classes.index(name) for _, name, _ in rows]),
        np.array([seconds for _, _, seconds in rows]),
        keys,
    )


def setting(recorded: Arrivals, queues: int = 2, **others: object) -> QueuesScenario:
    """Workers of speed 1, and each message's own weight, unless told otherwise."""
    given = {
        "speed": [1.0] * queues,
        "capacity": 100,
        "weights": recorded.seconds,
        "scheduling": SchedulingSettings(),
    }
    return QueuesScenario(**{**given, **others})  # type: ignore[arg-type]


SHORT_BEHIND_LONG = arrivals(
    (10.0, "long", 4.0), (11.0, "short", 1.0), (12.0, "short", 1.0), (13.0, "short", 1.0)
)


def test_waits_by_hand() -> None:
    """In turn, the short one of 12 s waits for the long one of queue 0 until 14 s; by work it never waits."""
    found = compare(SHORT_BEHIND_LONG, ["round_robin", "least_work_left"], setting(SHORT_BEHIND_LONG))
    in_turn, by_work = found.values()
    assert in_turn.waits["short"].mean == pytest.approx(2 / 3)
    assert in_turn.waits["short"].p50 == 0.0
    assert in_turn.waits["long"].mean == in_turn.waits["long"].p99 == 0.0
    assert in_turn.makespan_seconds == 5.0
    assert in_turn.busiest == pytest.approx(5 / 3.5)
    assert (by_work.overall.mean, by_work.makespan_seconds) == (0.0, 4.0)
    assert by_work.overall.messages == 4


def test_sigma_weighs_moments_by_the_work_that_lies_there() -> None:
    """8 s on one of two queues, nothing on the other: shares 1 and 0, half from the mean, at every
    observation.
    """
    recorded = arrivals((0.0, "a", 8.0))
    (one,) = compare(recorded, ["round_robin"], setting(recorded)).values()
    assert one.sigma == pytest.approx(0.5)
    assert one.work.max() == 8.0


def test_quick_messages_go_first_with_lanes() -> None:
    """One queue, a second of 4 s in line: the short one that arrives later starts before it."""
    recorded = arrivals((0.0, "long", 4.0), (0.0, "long", 4.0), (1.0, "short", 1.0))
    found = compare(recorded, ["round_robin", "round_robin+lanes"], setting(recorded, queues=1))
    plain, lanes = found.values()
    assert (plain.waits["short"].mean, plain.waits["long"].mean) == (7.0, 2.0)
    assert (lanes.waits["short"].mean, lanes.waits["long"].mean) == (3.0, 2.5)


def test_all_of_a_key_are_in_one_lane() -> None:
    """Ann's short message stays behind her long one, which is there already; Bob's goes before both."""
    rows = [(0.0, "long", 4.0), (0.0, "long", 4.0), (1.0, "short", 1.0), (1.0, "short", 1.0)]
    recorded = arrivals(*rows, keys=(None, "ann", "ann", "bob"))
    (one,) = compare(recorded, ["round_robin+lanes"], setting(recorded, queues=1)).values()
    assert one.overtaken == 0
    assert (one.waits["short"].mean, one.waits["long"].mean) == ((8.0 + 3.0) / 2, 2.5)


def test_a_line_knows_its_lanes_after_a_removal() -> None:
    """The quick one and the last other are taken out; who is left is in its lane still."""
    line = ReplayedQueue(30.0)
    for number, quick in enumerate((False, True, False, True)):
        line.append(ReplayedMessage(number, 0.0, 1.0), float(number), quick=quick)
    assert [one.number for one in line] == [1, 3, 0, 2]
    assert [(one.number, quick) for one, quick in line.remove({0, 3})] == [(1, True), (2, False)]
    assert [line.take().number, line.take().number] == [3, 0]
    assert len(line) == 0


def test_no_message_waits_long_for_quick_ones() -> None:
    """A quick message overtakes another that arrived up to 30 s before it, not one of 31 s."""
    for late, first in ((30.0, 1), (31.0, 0)):
        line = ReplayedQueue(30.0)
        line.append(ReplayedMessage(0, 0.0, 1.0), 0.0, quick=False)
        line.append(ReplayedMessage(1, 0.0, 1.0), late, quick=True)
        assert line.take().number == first


def test_a_moved_message_is_overtaken_for_a_while_only() -> None:
    """It was accepted 31 s before the quick one, wherever it stands in its lane."""
    line = ReplayedQueue(30.0)
    line.append(ReplayedMessage(0, 0.0, 1.0), 20.0, quick=False)
    line.append(ReplayedMessage(1, 0.0, 1.0), 0.0, quick=False, moved=True)
    line.append(ReplayedMessage(2, 0.0, 1.0), 31.0, quick=True)
    assert [line.take().number for _ in range(3)] == [0, 1, 2]
    line.append(ReplayedMessage(3, 0.0, 1.0), 20.0, quick=False)
    line.append(ReplayedMessage(4, 0.0, 1.0), 31.0, quick=True)
    assert line.take().number == 4


def test_messages_behind_a_long_one_are_moved_to_idle_workers() -> None:
    """Thirty at a time of one class, three of which take 20 s: no message waits for longer than
    some cycles.
    """
    rows = [(number // 30 * 1.0, "a", 20.0 if number in (120, 121, 122) else 0.01) for number in range(900)]
    recorded = arrivals(*rows)
    by_class = np.full(len(recorded), recorded.seconds.mean())
    four = setting(recorded, queues=4, capacity=10_000, weights=by_class)
    found = compare(recorded, ["least_work_left", "least_work_left+balanced+lanes"], four)
    assert found["least_work_left"].overall.p99 > 10
    balanced = found["least_work_left+balanced+lanes"]
    assert balanced.moved > 0
    assert balanced.overall.p99 < 2.5


def test_full_queues_lose_messages_if_configured_to_drop() -> None:
    """Room for one message in each of two queues: the third is lost, and waits of the others stand."""
    recorded = arrivals((0.0, "a", 5.0), (0.0, "a", 5.0), (1.0, "a", 5.0))
    dropping = setting(recorded, capacity=1, scheduling=SchedulingSettings(when_full="drop"))
    (one,) = compare(recorded, ["marked_round_robin"], dropping).values()
    assert (one.lost, one.overall.messages, one.makespan_seconds) == (1, 2, 5.0)


@pytest.mark.parametrize("name", ["fastest", "round_robin+fast", "", "+lanes"])
def test_an_unknown_policy_is_refused(name: str) -> None:
    """By its name, with those that there are."""
    with pytest.raises(SettingsError, match=r"is not known: write one of round_robin"):
        compare(SHORT_BEHIND_LONG, [name], setting(SHORT_BEHIND_LONG))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.5, 3.0]),
            st.sampled_from(["a", "b"]),
            st.sampled_from([0.0, 1.0, 7.0]),
            st.none() | st.sampled_from(["ann", "bob"]),
        ),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=25, deadline=None)
def test_every_policy_does_all_of_the_work(drawn: list[tuple[float, str, float, str | None]]) -> None:
    """Nothing is lost, no wait is negative, no makespan beats the bound; twice run, the same."""
    now, rows = 0.0, []
    for pause, name, seconds, _ in drawn:
        now += pause
        rows.append((now, name, seconds))
    recorded = arrivals(*rows, keys=tuple(key for *_, key in drawn))
    work, last = float(recorded.seconds.sum()), float(recorded.at[-1] - recorded.at[0])
    whole = setting(
        recorded,
        scheduling=SchedulingSettings(
            window_seconds=2.0, threshold_unit="messages", light_threshold=1, overload_threshold=3
        ),
    )
    found = compare(recorded, default_schemes(), whole)
    for name, one in found.items():
        assert (one.lost, one.overall.messages) == (0, len(recorded)), name
        assert one.overall.mean >= 0, name
        assert one.makespan_seconds >= max(work / 2, last) - 1e-4, name
        if name.endswith("lanes"):
            assert one.overtaken == 0, name
    again = compare(recorded, default_schemes(), whole)
    assert all(again[name].makespan_seconds == one.makespan_seconds for name, one in found.items())


def test_the_command_writes_tables_json_and_a_chart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights as declared send both classes alike; the files are there; a wrong speed is refused."""
    path = tmp_path / "arrivals.csv"
    draw = random.Random(1)
    rows = [(number / 8, draw.random() < 0.2) for number in range(200)]
    lines = [f"{at},{'long' if long else 'short'},{1 if long else 0.01}" for at, long in rows]
    path.write_text("\n".join(["time,class,seconds", *lines]))
    ask = ("--arrivals", path, "--queues", 2)
    assert replay(*ask, "--policy", "least_work_left", "--chart", tmp_path / "replay", level="queues") == 0
    told = capsys.readouterr().out
    assert "200 messages over 25 s; 2 queues, load " in told
    assert "long: mean, p50, p99" in told
    assert (tmp_path / "replay.svg").is_file()
    assert (tmp_path / "replay.png").is_file()
    waits = {}
    for knowing in ("learned", "declared"):
        assert (
            replay(*ask, "--policy", "least_work_left", "--weights", knowing, "--json", level="queues") == 0
        )
        (found,) = json.loads(capsys.readouterr().out)["policies"]
        waits[knowing] = found["wait_seconds"]["short"]["mean"]
    assert waits["learned"] < waits["declared"]
    for wrong, why in (("0", "--speed is '0'"), ("1,1,1", "--speed names 3 workers and --queues 2")):
        assert replay(*ask, "--speed", wrong, level="queues") == 2
        assert why in capsys.readouterr().err
    assert replay(level="queues") == 2
    assert "name a file by --arrivals, or a lake by --lake" in capsys.readouterr().err
