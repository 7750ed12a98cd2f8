"""Load sensed again between batches of unloads: what is no longer needed, and what would do harm."""

from dataclasses import replace
from pathlib import Path

import pytest

from support.bundle_plans import messages_plan, split, unload
from support.bundle_snapshots import message_snapshot
from support.bundle_trials import BROKERS, NAMESPACE, Bed
from support.journals import CODECS
from trimtab.act.bundles.executor import receipt_of
from trimtab.act.bundles.load_check import BundleLoadCheck
from trimtab.act.bundles.port import BundleTraffic
from trimtab.act.bundles.state import BundleStepRecord, BundleStepState
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.snapshot import RESOURCES, BundlesSnapshot
from trimtab.report.bundles import renderer
from trimtab.report.bundles.renderer import receipt_text
from trimtab.report.renderer import execution_text
from trimtab.systems.pulsar.port import bundle_traffic

ONE, TWO, THREE = BROKERS
MESSAGES = RESOURCES.index("message_rate")
ENDS = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
KEYS = tuple(f"{NAMESPACE}/{one}" for one in ENDS)
BEFORE = {KEYS[0]: 30.0, KEYS[1]: 30.0, KEYS[2]: 30.0, KEYS[3]: 10.0}


def snapshot_of(messages: dict[str, float], owners: dict[str, str]) -> BundlesSnapshot:
    """Brokers that can carry 100 messages/s each, and nothing else that is limited."""
    return message_snapshot(BROKERS, messages, owners)


def told(messages: dict[str, float]) -> dict[str, BundleTraffic]:
    """What brokers tell of their bundles."""
    return {bundle: BundleTraffic(0.0, 0.0, rate) for bundle, rate in messages.items()}


def records_of(bed: Bed, plan: BundlePlan) -> tuple[BundleStepRecord, ...]:
    """The steps of a plan, none of them begun."""
    return bed.prepared(plan).records


@pytest.fixture
def bed() -> Bed:
    """Four bundles, all on the first of three brokers."""
    return Bed()


ALL_ON_ONE = dict.fromkeys(KEYS, ONE)


@pytest.mark.parametrize(
    ("now", "unneeded"),
    [
        (BEFORE, set()),
        ({**BEFORE, KEYS[2]: 20.0}, set()),  # 90 is still above 80
        ({**BEFORE, KEYS[2]: 5.0, KEYS[3]: 5.0}, {1, 2}),  # 70 is not
    ],
)
def test_unloads_are_dropped_once_their_goal_holds(
    bed: Bed, now: dict[str, float], unneeded: set[int]
) -> None:
    """Of 100 messages/s on the first broker two times 30 were to go, to bring it below 80."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO), unload(KEYS[1], ONE, THREE))
    sense = BundleLoadCheck(plan, snapshot_of(BEFORE, ALL_ON_ONE))
    found = sense(records_of(bed, plan), 1.0, told(now))
    assert set(found.unneeded) == unneeded
    assert found.harmful == {}
    assert all(
        why == f"no longer needed: {ONE} meets its goal for message rate already"
        for why in found.unneeded.values()
    )


def test_an_unload_that_another_goal_needs_stays(bed: Bed) -> None:
    """The first broker is below .8, but without the unload one would be further than ε from the mean."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO), epsilon=dict.fromkeys(RESOURCES, 0.5))
    owners = {KEYS[0]: ONE, KEYS[1]: ONE, KEYS[2]: THREE, KEYS[3]: TWO}
    sense = BundleLoadCheck(plan, snapshot_of(BEFORE, owners))
    # 60, 10 and 30 of a mean of 33: only the move, to 30, 40 and 30, keeps all within a half of it.
    assert sense(records_of(bed, plan), 1.0, {}).unneeded == {}
    alone = BundleLoadCheck(messages_plan(ONE, unload(KEYS[0], ONE, TWO)), snapshot_of(BEFORE, owners))
    assert set(alone(records_of(bed, plan), 1.0, {}).unneeded) == {1}


def test_of_two_that_could_go_alone_one_stays(bed: Bed) -> None:
    """60, 10 and 30 of a mean of 33 are not all within a half of it; 45, 25 and 30 are, whichever stays."""
    other = "z/z/0x00000000_0xffffffff"
    messages = {KEYS[0]: 15.0, KEYS[1]: 15.0, KEYS[2]: 30.0, KEYS[3]: 10.0, other: 30.0}
    owners = {**ALL_ON_ONE, KEYS[3]: TWO, other: THREE}
    moves = (unload(KEYS[0], ONE, TWO), unload(KEYS[1], ONE, TWO))
    plan = messages_plan(ONE, *moves, epsilon=dict.fromkeys(RESOURCES, 0.5))
    sense = BundleLoadCheck(plan, snapshot_of(messages, owners))
    assert set(sense(records_of(bed, plan), 1.0, {}).unneeded) == {1}


@pytest.mark.parametrize("goal", ["hot", "policy"])
def test_moves_for_other_goals_are_never_dropped(bed: Bed, goal: str) -> None:
    """The result does not depend on the load."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO), goal=goal)
    sense = BundleLoadCheck(plan, snapshot_of(BEFORE, ALL_ON_ONE))
    assert sense(records_of(bed, plan), 1.0, told(dict.fromkeys(KEYS, 1.0))).unneeded == {}


def test_an_unload_that_would_overload_its_destination_is_left_out(bed: Bed) -> None:
    """The second broker had 10, and has 60 now: 30 more would be 90; the third takes its own."""
    owners = {**ALL_ON_ONE, KEYS[3]: TWO}
    before = {**BEFORE, KEYS[2]: 35.0}
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO), unload(KEYS[1], ONE, THREE))
    sense = BundleLoadCheck(plan, snapshot_of(before, owners))
    assert sense(records_of(bed, plan), 1.0, told(before)).harmful == {}
    found = sense(records_of(bed, plan), 1.0, told({**before, KEYS[3]: 60.0}))
    assert found.unneeded == {}
    assert found.harmful == {
        1: f"would now push {TWO} to 90.0% of its message rate, limit 80.0%: load has changed"
    }


def test_a_destination_that_the_plan_itself_overloads_is_accepted(bed: Bed) -> None:
    """Where nothing better was found, the plan's own end is the limit."""
    owners = {**ALL_ON_ONE, KEYS[3]: TWO}
    before = {**BEFORE, KEYS[2]: 35.0, KEYS[3]: 60.0}
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO))
    sense = BundleLoadCheck(plan, snapshot_of(before, owners))
    assert sense(records_of(bed, plan), 1.0, told(before)).harmful == {}


def test_a_recently_moved_bundle_is_not_considered_idle(bed: Bed) -> None:
    """Its new broker starts its statistics from zero: 30 are still present, and 60 more are too many."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO), unload(KEYS[1], ONE, TWO))
    first, second = records_of(bed, plan)
    first = replace(first, state=BundleStepState.DONE, requested_at=0.5, ended_at=0.6)
    owners = {**ALL_ON_ONE, KEYS[3]: TWO}
    sense = BundleLoadCheck(plan, snapshot_of({**BEFORE, KEYS[2]: 90.0}, owners))
    found = sense((first, second), 1.0, told({KEYS[0]: 0.0, KEYS[3]: 45.0}))
    assert set(found.harmful) == {2}


def test_a_newer_snapshot_precedes_that_of_the_plan(bed: Bed) -> None:
    """From after the last change; an older one does not."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO))
    calm = snapshot_of(dict.fromkeys(KEYS, 1.0), ALL_ON_ONE)
    records = records_of(bed, plan)
    assert BundleLoadCheck(plan, snapshot_of(BEFORE, ALL_ON_ONE), lambda: (5.0, calm))(
        records, 9.0, {}
    ).unneeded
    assert not BundleLoadCheck(plan, snapshot_of(BEFORE, ALL_ON_ONE), lambda: (-1.0, calm))(
        records, 9.0, {}
    ).unneeded


def test_parts_of_a_split_carry_the_load_of_their_range(bed: Bed) -> None:
    """Half of a bundle of 80 is 40: on a taker of 45 it is harmful, on one of 10 it is not."""
    part = f"{NAMESPACE}/0x00000000_0x20000000"
    plan = messages_plan(ONE, split(KEYS[0], ONE, 0x20000000), unload(part, ONE, TWO))
    owners = {**ALL_ON_ONE, KEYS[3]: TWO}
    sense = BundleLoadCheck(plan, snapshot_of({**BEFORE, KEYS[0]: 80.0}, owners))
    records = records_of(bed, plan)
    assert sense(records, 1.0, {}).harmful == {}
    assert set(sense(records, 1.0, told({KEYS[3]: 45.0})).harmful) == {2}


def test_a_step_dropped_between_batches_is_reported(bed: Bed, tmp_path: Path) -> None:
    """The load falls during the first batch: the second is dropped, and this is reported."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO), unload(KEYS[1], ONE, THREE))
    for key in KEYS:
        topics = bed.cluster.topics_in(next(b for b in bed.cluster.bundles_of(NAMESPACE) if b.key == key))
        for number, topic in enumerate(topics):
            bed.cluster.rates[topic] = (0.0, 0.0) if number else (BEFORE[key], 0.0)
    bed.sense = BundleLoadCheck(plan, snapshot_of(BEFORE, ALL_ON_ONE))
    state = bed.prepared(plan)
    state = replace(
        state,
        settings=replace(
            state.settings,
            check_interval_seconds=0.1,
            limits=replace(state.settings.limits, max_unloads_per_batch=1),
        ),
    )

    def watch(now: object) -> None:
        if bed.verbs("unload"):
            bed.cluster.rates.update(dict.fromkeys(bed.cluster.rates, (1.0, 0.0)))

    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        execution = journal.create(state, "simulated", "{}", "test", {})
        ended = bed.runner(journal, execution, state, watch).run()
        receipt = receipt_of(journal.entry(execution), ended, None)
        listed = execution_text(renderer, journal.entry(execution), ended, "finished", journal.log(execution))
        kept = journal.state(execution).records[1]
    assert ended.status is ExecutionStatus.FINISHED
    assert bed.verbs("unload") == [(KEYS[0], ONE)]
    assert [record.state for record in ended.records] == [BundleStepState.DONE, BundleStepState.DROPPED]
    assert kept.state is BundleStepState.DROPPED
    why = f"no longer needed: {ONE} meets its goal for message rate already"
    assert f"dropped: unload {KEYS[1]} {ONE} -> {THREE}: {why}" in receipt_text(receipt)
    assert f"dropped: {why}" in listed
    bed.assert_given_back()


def test_without_the_setting_no_load_is_read(bed: Bed, tmp_path: Path) -> None:
    """`check_load = false`: every step is carried out."""
    plan = messages_plan(ONE, unload(KEYS[0], ONE, TWO))
    bed.sense = BundleLoadCheck(plan, snapshot_of(dict.fromkeys(KEYS, 1.0), ALL_ON_ONE))
    state = bed.prepared(plan)
    state = replace(
        state, settings=replace(state.settings, limits=replace(state.settings.limits, check_load=False))
    )
    assert bed.run(state, tmp_path).records[0].state is BundleStepState.DONE


def test_traffic_of_bundles_is_the_sum_of_their_topics() -> None:
    """Bytes in, bytes out and messages together; a bundle with an invalid topic is left out."""
    one = {"msgThroughputIn": 10.0, "msgThroughputOut": 20.0, "msgRateIn": 1.0, "msgRateOut": 2.0}
    stats = {
        "t/n": {
            "0x0_0x1": {"persistent": {"a": one, "b": one}, "non-persistent": {"c": one}},
            "0x1_0x2": {"persistent": {"a": {**one, "msgRateIn": "NaN"}}},
            "0x2_0x3": {},
        },
        "t/m": "nonsense",
    }
    assert bundle_traffic(stats) == {
        "t/n/0x0_0x1": BundleTraffic(30.0, 60.0, 9.0),
        "t/n/0x2_0x3": BundleTraffic(0.0, 0.0, 0.0),
    }
