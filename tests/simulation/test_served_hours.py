"""The whole service in virtual time on a simulated Kafka: no invariant breaks over weeks of faults."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulate.kafka.state import PartitionName
from simulate.served_hours import DirectedHours, play, served
from tiers import by_tier
from trimtab.model.policy import (
    BrokerAdded,
    BrokerLost,
    Budget,
    Drift,
    HardLimit,
    Mode,
    Policy,
    Request,
    Window,
)

pytestmark = pytest.mark.slow
SEEDS, HOURS = by_tier((1, 16.0), (1, 16.0), (5, 500.0))
DAYS, QUIET_DAYS = by_tier((0.2, 0.2), (0.2, 0.2), (2.0, 7.0))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory, where there is one: nothing here is about losing the machine."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(prefix="trimtab-", dir=memory if memory.is_dir() else None))
    yield made
    shutil.rmtree(made)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_no_invariant_breaks_in_hours_of_the_whole_service(seed: int, folder: Path) -> None:
    """Everything fails now and then; afterwards a balanced cluster is left alone."""
    served = play(seed, HOURS, DAYS, QUIET_DAYS, folder)
    kinds = Counter(one.kind for one in served.record.decisions)
    assert kinds["execute"] and kinds["measured"], served.counts


def test_a_seed_repeats_its_trace(folder: Path) -> None:
    """The same seed gives the same decisions and orders at the same times."""
    first, second = (play(2, 12.0, 0.1, 0.05, _made(folder / name)) for name in "ab")
    assert first.record.trace == second.record.trace
    assert first.record.documents > 100


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


# ------------------------------------------------------------ one invariant at a time

POLICY = Policy(
    request=Request(Mode.ACT),
    drift=Drift(Mode.OBSERVE, load="recent"),
    broker_added=BrokerAdded(Mode.OBSERVE),
    broker_lost=BrokerLost(Mode.OBSERVE),
    hard_limit=HardLimit(Mode.OBSERVE),
)
"""Nothing by itself; what a person applies is executed at once."""


def test_a_pause_stops_an_execution(folder: Path) -> None:
    """It begins no further copy, and goes on after the pause."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        hours.apply_plan()
        hours.pass_until(hours.has_begun)
        hours.order("pause", lambda service: service.pause("sim", "replicas", "operator", "works", None))
        hours.play(1.0)
        assert hours.statuses() == ["stopped"]
        hours.order("resume", lambda service: service.resume("sim", "replicas", "operator"))
        hours.pass_until(lambda: hours.statuses() == ["finished"])


def test_one_execution_ends_before_the_next_begins(folder: Path) -> None:
    """Of two plans for one cluster the second waits, and no longer fits once the first has ended."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        hours.apply_plan()
        hours.apply_plan(epsilon=0.3)
        hours.pass_until(hours.has_begun)
        hours.pass_until(
            lambda: {one.state for one in hours.record.plans.values()} == {"executed", "withdrawn"}
        )
        assert hours.statuses() == ["finished"]


def test_an_execution_whose_start_was_not_reported_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is killed right after the journal has it; the next leader resumes it."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        leader = hours.leader()
        assert leader is not None and leader.process is not None
        process, begins = leader.process, hours.record._execution_begins

        def begin_and_die(values: Sequence[Any]) -> None:
            begins(values)
            process.dies_at = 0

        monkeypatch.setattr(hours.record, "_execution_begins", begin_and_die)
        hours.apply_plan()
        hours.pass_until(lambda: hours.statuses() == ["finished"])
        assert not process.is_alive and hours.record.writer is not process


def test_the_end_of_a_window_stops_an_execution(folder: Path) -> None:
    """It goes on in the next window, the day after."""
    policy = replace(POLICY, windows=(Window("08:00", "09:00", "fri,sat"),))
    with served(DirectedHours, 1, folder, policy) as hours:
        hours.play(0.9)
        hours.apply_plan()
        hours.pass_until(hours.has_begun)
        hours.play(1.0)
        assert hours.statuses() == ["stopped"]
        hours.pass_until(lambda: hours.statuses() == ["finished"], 25.0)


def test_a_plan_waits_for_the_work_of_others(folder: Path) -> None:
    """An applied plan is executed once the reassignment of an operator has ended."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        name = PartitionName("archive-1", 0)
        hours.cluster.brokers[8].copy_bytes_per_second = 1e6
        hours.cluster.controller.reassign(*name, [1, 8, 3])
        hours.play(0.15)
        hours.apply_plan()
        hours.play(0.15)
        assert hours.cluster.partitions[name].reassigning and not hours.statuses()
        hours.pass_until(lambda: hours.statuses() == ["finished"])


def test_the_budget_of_a_day_counts_copied_data(folder: Path) -> None:
    """A plan within the budget alone waits for the next day."""
    policy = replace(POLICY, budget=Budget(max_bytes=7_000_000_000))
    with served(DirectedHours, 1, folder, policy) as hours:
        hours.play(0.5)
        hours.apply_plan()
        hours.pass_until(lambda: hours.statuses() == ["finished"])
        hours.add_broker()
        hours.play(1.0)
        hours.apply_plan()
        hours.play(2.0)
        assert hours.statuses() == ["finished"]
        waits = [one.reason for one in hours.record.decisions if one.kind == "wait"]
        assert waits[-1].startswith("budget of bytes"), waits[-1]


def test_a_process_that_was_frozen_writes_nothing_before_its_heartbeat(folder: Path) -> None:
    """Its lease has expired meanwhile, also where nobody has taken it."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        leader = hours.leader()
        assert leader is not None and leader.process is not None
        for one in hours.instances:
            if one is not leader and one.process is not None:
                one.kill(one.process)
        for seconds in range(700, 1000, 50):
            leader.process.frozen_until = hours.threads.now + seconds
            hours.play(0.5)
        assert hours.leader() is leader


def test_an_old_snapshot_is_not_acted_upon(folder: Path) -> None:
    """An applied plan waits for a new one."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        hours.silent_until = hours.threads.now + 2 * 3600
        hours.play(0.5)
        hours.apply_plan()
        hours.play(1.0)
        assert not hours.statuses()
        hours.pass_until(lambda: hours.statuses() == ["finished"])


def test_samples_of_some_partitions_are_not_acted_upon(folder: Path) -> None:
    """An applied plan waits until most of the loads are known."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        hours.incomplete_until = hours.threads.now + 2 * 3600
        hours.play(0.5)
        hours.apply_plan()
        hours.play(1.0)
        assert not hours.statuses()
        hours.pass_until(lambda: hours.statuses() == ["finished"])


def test_an_outage_is_not_healed(folder: Path) -> None:
    """Three of eight brokers are lost for two hours: no plan is executed, also none from before, and both
    receivers are notified.
    """
    policy = replace(POLICY, broker_lost=BrokerLost(Mode.ACT))
    with served(DirectedHours, 1, folder, policy) as hours:
        hours.play(0.5)
        hours.make_plan()
        hours.play(0.1)
        hours._lose([1, 3, 5], 2 * 3600.0)
        hours.play(0.4)
        hours.apply_plan(*hours.record.plans)
        hours.play(1.4)
        assert not hours.statuses()
        hours.play(1.0)
        notices = [one.reason for one in hours.record.decisions if one.kind == "notify"]
        assert any(one.startswith("3 of 8 brokers lost at once") for one in notices), notices
        assert hours.counts["notifications"] >= 2


def test_a_lost_broker_is_waited_for(folder: Path) -> None:
    """One that is away for less than the time of the trigger costs nothing, another instance or not."""
    policy = replace(POLICY, broker_lost=BrokerLost(Mode.ACT, after_seconds=3600.0))
    with served(DirectedHours, 1, folder, policy) as hours:
        hours.play(0.5)
        hours._lose([2], 50 * 60.0)
        hours.play(1.5)
        assert not hours.statuses()
        hours._lose([2], 5 * 3600.0)
        hours.play(0.5)
        leader = hours.leader()
        assert leader is not None and leader.process is not None
        leader.kill(leader.process)
        hours.pass_until(lambda: "finished" in hours.statuses())


def test_drift_rests_after_an_execution(folder: Path) -> None:
    """Also where another instance has taken over, and the load moves again."""
    drift = Drift(Mode.ACT, load="recent", hold_seconds=1800.0, rest_seconds=4 * 3600.0)
    with served(DirectedHours, 1, folder, replace(POLICY, drift=drift)) as hours:
        for jumps in (["t00", "t06", "t12"], ["t01", "t07", "t13"]):
            hours.loads |= dict.fromkeys(hours.loads, 5e5) | dict.fromkeys(jumps, 4e6)
            hours.pass_until(lambda: set(hours.statuses()) == {"finished"})
            leader = hours.leader()
            assert leader is not None and leader.process is not None
            leader.kill(leader.process)
            hours.play(1.0)
            leader.start()
        hours.pass_until(lambda: hours.statuses() == ["finished", "finished"], 6.0)


def test_every_request_ends(folder: Path) -> None:
    """A plan that nobody answers expires after a day."""
    policy = replace(POLICY, drift=Drift(Mode.ASK, load="recent", hold_seconds=1800.0))
    with served(DirectedHours, 1, folder, policy) as hours:
        hours.loads |= dict.fromkeys(["t00", "t06", "t12"], 4e6)
        hours.pass_until(lambda: any(one.state == "asking" for one in hours.record.plans.values()))
        (plan,) = hours.record.plans.values()
        hours.pass_until(lambda: hours.record.plans[plan.digest].state == "withdrawn", 25.5)
        assert not hours.statuses()


def test_a_plan_that_no_longer_fits_is_withdrawn(folder: Path) -> None:
    """An operator has moved one of its partitions while it was on offer."""
    policy = replace(POLICY, drift=Drift(Mode.ASK, load="recent", hold_seconds=1800.0))
    with served(DirectedHours, 1, folder, policy) as hours:
        hours.pass_until(lambda: any(one.state == "asking" for one in hours.record.plans.values()))
        (digest,) = hours.record.plans
        moved = json.loads(hours.record.contents[digest])["assignments"][0]
        name = PartitionName(moved["topic"], moved["partition"])
        others = set(range(1, 9)) - {*moved["before"], *moved["after"]}
        hours.cluster.controller.reassign(*name, [*moved["before"][:2], min(others)])
        hours.pass_until(lambda: hours.record.plans[digest].state == "withdrawn", 1.0)
        assert name.topic in hours.record.plans[digest].state_reason


def test_every_execution_is_measured(folder: Path) -> None:
    """Where samples of a comparable load come, its effect is known."""
    with served(DirectedHours, 1, folder, POLICY) as hours:
        hours.play(0.5)
        hours.apply_plan()
        hours.pass_until(lambda: hours.statuses() == ["finished"])
        hours.pass_until(lambda: not hours.record.unmeasured)
        assert [one.execution for one in hours.record.decisions if one.kind == "measured"] == [1]


def test_a_balanced_cluster_is_left_alone(folder: Path) -> None:
    """One execution spreads the load over new brokers; in the day after it there is no other."""
    drift = Drift(Mode.ACT, load="recent", hold_seconds=1800.0, rest_seconds=4 * 3600.0)
    with served(DirectedHours, 1, folder, replace(POLICY, drift=drift)) as hours:
        hours.add_broker()  # the third of its rack, so that racks do not keep the load uneven
        hours.phases.clear()  # no waves of the day: within twelve hours they are a drift of their own
        for archive in ("archive-1", "archive-2"):  # nor copies that are twenty times as large
            hours.cluster.partitions[PartitionName(archive, 0)].size_bytes = 1e8
        hours.pass_until(lambda: hours.statuses() == ["finished"])
        hours.play(24.0)
        assert hours.statuses() == ["finished"]
