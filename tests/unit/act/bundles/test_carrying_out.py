"""Plans of bundles carried out on a simulated cluster: what goes well, and what Pulsar answers to it."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulate.pulsar_admin.server import Fault, Trouble
from support.bundle_plans import bundle_plan_of, split, unload
from support.bundle_trials import BROKERS, NAMESPACE, SETTINGS, Bed
from support.journals import CODECS
from trimtab.act.bundles.batch import sessions_disturbed
from trimtab.act.bundles.executor import receipt_of
from trimtab.act.bundles.load_check import progress_of
from trimtab.act.bundles.state import BundlesExecutionState, BundleStepState, UnloadLimits
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.report.bundles.renderer import receipt_text

ONE, TWO, THREE = BROKERS
SHEDDING, SPLITTING = "loadBalancerSheddingEnabled", "loadBalancerAutoBundleSplitEnabled"


@pytest.fixture(params=[False, True], ids=["modular", "extensible"])
def bed(request: pytest.FixtureRequest) -> Bed:
    """Four bundles, all on the first of three brokers, under either load manager."""
    return Bed(extensible=request.param)


def test_bundles_move_to_the_brokers_of_the_plan(bed: Bed, tmp_path: Path) -> None:
    """Two unloads in one batch; the brokers' balancing is off meanwhile, and on again at the end."""
    first, second, *_ = bed.keys
    plan = bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, THREE))
    state = bed.run(bed.prepared(plan), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert (bed.cluster.owners[first], bed.cluster.owners[second]) == (TWO, THREE)
    assert bed.verbs("unload") == [(first, ONE), (second, ONE)]
    assert bed.verbs("set") == [(SHEDDING, "false"), (SPLITTING, "false")]
    assert bed.verbs("unset") == [(SHEDDING, ""), (SPLITTING, "")]
    bed.assert_given_back()
    verbs = [deed.verb for deed in bed.cluster.history if deed.verb != "assign"]
    assert verbs == ["set", "set", "unload", "unload", "unset", "unset"]


def test_a_bundle_without_clients_gets_its_owner_by_our_lookup(bed: Bed, tmp_path: Path) -> None:
    """No client requests an empty bundle, so the destination would wait forever."""
    bed.cluster.namespaces[NAMESPACE].topics.clear()
    first = bed.keys[0]
    state = bed.run(bed.prepared(bundle_plan_of(unload(first, ONE, TWO))), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert bed.cluster.owners[first] == TWO


def test_an_unowned_bundle_gets_its_owner_by_a_lookup(bed: Bed, tmp_path: Path) -> None:
    """The plan found it unowned, or its owner has released it since: no client is disconnected."""
    first = bed.keys[0]
    del bed.cluster.owners[first]
    bed.cluster.namespaces[NAMESPACE].topics.clear()
    state = bed.run(bed.prepared(bundle_plan_of(unload(first, None, TWO))), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert bed.cluster.owners[first] == TWO


def test_a_bundle_is_cut_and_a_part_of_it_moved(bed: Bed, tmp_path: Path) -> None:
    """The unload of a part waits for the split that makes it; the other parts stay where they are."""
    whole = bed.keys[0]
    cuts = (0x10000000, 0x20000000)
    for number in range(40):
        bed.cluster.add_topic(f"persistent://{NAMESPACE}/more-{number}")
    part = f"{NAMESPACE}/0x10000000_0x20000000"
    plan = bundle_plan_of(split(whole, ONE, *cuts), unload(part, ONE, THREE))
    state = bed.run(bed.prepared(plan), tmp_path)
    assert state.status is ExecutionStatus.FINISHED, state.records
    assert bed.keys[:3] == [
        f"{NAMESPACE}/0x00000000_0x10000000",
        part,
        f"{NAMESPACE}/0x20000000_0x40000000",
    ]
    assert [bed.cluster.owners[key] for key in bed.keys[:3]] == [ONE, THREE, ONE]
    # One boundary at a time is all that the extensible load manager takes.
    assert len(bed.verbs("split")) == (2 if bed.cluster.extensible else 1)


def test_a_bundle_at_its_destination_is_not_touched(bed: Bed, tmp_path: Path) -> None:
    """The destination owns the bundle by now: nothing is unloaded, not even the balancing is switched."""
    first = bed.keys[0]
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO)))
    bed.cluster.give(first, TWO)
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert [record.reason for record in state.records] == ["was so already"]
    assert bed.cluster.history == []


def test_previous_settings_are_restored(bed: Bed, tmp_path: Path) -> None:
    """An operator's own override is remembered and given back by its value."""
    bed.cluster.overrides[SHEDDING] = "true"
    state = bed.run(bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO))), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    bed.assert_given_back({SHEDDING: "true"})


def test_balancing_that_was_off_stays_off(bed: Bed, tmp_path: Path) -> None:
    """If the balancing was off before, it stays off afterwards."""
    before = {SHEDDING: "false", SPLITTING: "false"}
    bed.cluster.overrides.update(before)
    state = bed.run(bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO))), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    bed.assert_given_back(before)
    assert bed.verbs("set", "unset") == []


def test_unloads_go_in_batches_with_a_pause_between(bed: Bed, tmp_path: Path) -> None:
    """Two at a time, half a second for clients to settle."""
    plan = bundle_plan_of(*(unload(key, ONE, TWO) for key in bed.keys))
    settings = replace(SETTINGS, limits=replace(SETTINGS.limits, max_unloads_per_batch=2))
    state = bed.run(bed.prepared(plan, settings), tmp_path)
    assert (state.status, state.batches) == (ExecutionStatus.FINISHED, 2)
    at = [deed.at for deed in bed.cluster.history if deed.verb == "unload"]
    assert at[1] - at[0] < 0.5 <= at[2] - at[1]


def test_few_clients_a_minute_are_disconnected(bed: Bed, tmp_path: Path) -> None:
    """With a limit of 10 sessions a minute, bundles of 6, 3 and 20: the last goes alone."""
    first, second, third, _ = bed.keys
    plan = bundle_plan_of(
        unload(first, ONE, TWO, sessions=6),
        unload(second, ONE, TWO, sessions=3),
        unload(third, ONE, TWO, sessions=20),
    )
    settings = replace(SETTINGS, limits=UnloadLimits(max_sessions_per_minute=10))
    state = bed.run(bed.prepared(plan, settings), tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    at = [deed.at for deed in bed.cluster.history if deed.verb == "unload"]
    assert at[1] - at[0] < 1.0
    assert at[2] - at[0] >= 60.0


@pytest.mark.parametrize(
    ("path", "method", "trouble", "status"),
    [
        ("/unload", "PUT", Trouble.EMPTY_YES, 0),
        ("/unload", "PUT", Trouble.CIRCLE, 0),
        ("/unload", "PUT", Trouble.LOST, 0),
        ("/unload", "PUT", Trouble.UNHEARD, 0),
        ("/unload", "PUT", Trouble.LOST_HINT, 0),
        ("/unload", "PUT", Trouble.REFUSED, 404),
        ("/unload", "PUT", Trouble.REFUSED, 409),
        ("/unload", "PUT", Trouble.REFUSED, 412),
        ("/unload", "PUT", Trouble.REFUSED, 500),
        ("/unload", "PUT", Trouble.REFUSED, 503),
        ("/configuration/", "POST", Trouble.EMPTY_YES, 0),
        ("/configuration/", "POST", Trouble.LOST, 0),
        ("/configuration/", "POST", Trouble.UNHEARD, 0),
        ("/configuration/", "POST", Trouble.REFUSED, 500),
        ("/configuration/", "DELETE", Trouble.EMPTY_YES, 0),
        ("/configuration/", "DELETE", Trouble.LOST, 0),
        ("/configuration/", "DELETE", Trouble.UNHEARD, 0),
        ("/configuration/", "DELETE", Trouble.REFUSED, 500),
        ("/configuration/values", "GET", Trouble.REFUSED, 500),
        ("/configuration/runtime", "GET", Trouble.LOST, 0),
        ("/ownedNamespaces", "GET", Trouble.REFUSED, 500),
        ("/ownedNamespaces", "GET", Trouble.LOST, 0),
        ("/bundles", "GET", Trouble.LOST, 0),
        ("/lookup/", "GET", Trouble.REFUSED, 503),
        ("/brokers$", "GET", Trouble.LOST, 0),
        ("/leaderBroker", "GET", Trouble.REFUSED, 404),
        ("/health", "GET", Trouble.REFUSED, 500),
    ],
)
def test_the_plan_is_executed_although_every_call_fails_twice(
    bed: Bed, path: str, method: str, trouble: Trouble, status: int, tmp_path: Path
) -> None:
    """Successes without effect, redirect loops, broken connections, rejections: observed, and requested
    again.
    """
    first, second, *_ = bed.keys
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, THREE)))
    bed.faults.append(Fault(method, path, trouble, times=2, status=status))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED, [(r.state, r.reason) for r in state.records]
    assert (bed.cluster.owners[first], bed.cluster.owners[second]) == (TWO, THREE)
    bed.assert_given_back()


@pytest.mark.parametrize(
    ("trouble", "status"),
    [
        (Trouble.EMPTY_YES, 0),
        (Trouble.LOST, 0),
        (Trouble.UNHEARD, 0),
        (Trouble.REFUSED, 412),
        (Trouble.REFUSED, 500),
    ],
)
def test_a_split_that_fails_twice_succeeds_in_the_end(
    bed: Bed, trouble: Trouble, status: int, tmp_path: Path
) -> None:
    """The bundles are read again after every answer, and nothing stays half cut."""
    whole = bed.keys[0]
    for number in range(40):
        bed.cluster.add_topic(f"persistent://{NAMESPACE}/more-{number}")
    state = bed.prepared(bundle_plan_of(split(whole, ONE, 0x10000000, 0x20000000)))
    bed.faults.append(Fault("PUT", "/split", trouble, times=2, status=status))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED, [(r.state, r.reason) for r in state.records]
    assert len(bed.keys) == 6
    bed.assert_given_back()


def test_a_yes_that_never_does_anything_fails_in_the_end(bed: Bed, tmp_path: Path) -> None:
    """After the maximum number of attempts the step reports the observation; the balancing is restored."""
    state = bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO)))
    bed.faults.append(Fault("PUT", "/unload", Trouble.EMPTY_YES, times=10**6))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.INCOMPLETE
    assert state.records[0].state is BundleStepState.FAILED
    assert state.records[0].reason == f"Pulsar left it with {ONE} (8 attempts)"
    bed.assert_given_back()


def test_a_bundle_of_one_topic_cannot_be_cut(bed: Bed, tmp_path: Path) -> None:
    """Pulsar answers yes without a split, or 500; the step that needs the part is skipped with its reason."""
    whole = bed.keys[0]
    bed.cluster.namespaces[NAMESPACE].topics.clear()
    part = f"{NAMESPACE}/0x00000000_0x10000000"
    plan = bundle_plan_of(split(whole, ONE, 0x10000000), unload(part, ONE, TWO))
    state = bed.run(bed.prepared(plan), tmp_path)
    assert state.status is ExecutionStatus.INCOMPLETE
    first, second = state.records
    assert (first.state, second.state) == (BundleStepState.FAILED, BundleStepState.SKIPPED)
    said = "answers PUT" if bed.cluster.extensible else "cuts no bundle of fewer than two topics"
    assert said in first.reason
    assert second.reason == f"step 1 (split {whole}) ended as failed"
    assert len(bed.keys) == 4


def test_a_wrong_token_ends_it_at_once(tmp_path: Path) -> None:
    """401 and 403 are not retried; nothing was changed, so nothing is left behind."""
    bed = Bed(token="right")  # type: ignore[arg-type]
    state = bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO)))
    bed.cluster.token = "another"
    began = bed.now
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.STOPPED
    assert "answers GET brokers with 403" in state.reason
    assert "superuser" in state.reason
    assert bed.now - began < 5.0


def test_every_unload_of_a_bundle_counts(bed: Bed, tmp_path: Path) -> None:
    """A success without effect, a rejection, a lost destination, then the right one."""
    first = bed.keys[0]
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO, sessions=6)))
    bed.faults.append(Fault("PUT", "/unload", Trouble.EMPTY_YES))
    bed.faults.append(Fault("PUT", "/unload", Trouble.REFUSED, status=412))
    bed.faults.append(Fault("PUT", "/unload", Trouble.LOST_HINT))
    bed.cluster.hints[first] = THREE
    disturbed = []

    def watch(after: BundlesExecutionState) -> None:
        disturbed.append(sessions_disturbed(after.records, after.now))

    state = bed.run(state, tmp_path, watch)
    assert state.status is ExecutionStatus.FINISHED, [(r.state, r.reason) for r in state.records]
    assert bed.cluster.owners[first] == TWO
    (record,) = state.records
    assert (record.attempts, len(record.unloaded_at)) == (3, 3)  # but for the refused one of four
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        receipt = receipt_of(journal.entry(1), state, None)
    (outcome,) = receipt.outcomes
    assert (outcome.unloads, outcome.sessions) == (3, 18)
    assert (receipt.unloads, receipt.sessions) == (3, 18)
    assert progress_of(state).sessions_disturbed == max(disturbed) == 18  # all within a minute
    assert record.started_at is not None
    assert record.ended_at is not None
    assert outcome.in_flight_seconds == record.ended_at - record.started_at
    assert outcome.in_flight_seconds > record.unloaded_at[2] - record.unloaded_at[0] > 5
    told = receipt_text(receipt)
    assert "1 bundles moved" in told
    assert "3 unloads, at most 18 clients disconnected for a moment" in told
    assert f"at most {outcome.in_flight_seconds:.2f} s" in told


def test_unloads_tried_again_count_against_the_minute(bed: Bed, tmp_path: Path) -> None:
    """Eight clients a minute: a bundle of four that is unloaded twice leaves the next to the minute after."""
    first, second, *_ = bed.keys
    plan = bundle_plan_of(unload(first, ONE, TWO, sessions=4), unload(second, ONE, THREE, sessions=4))
    pace = replace(SETTINGS.limits, max_unloads_per_batch=1, max_sessions_per_minute=8)
    state = bed.prepared(plan, replace(SETTINGS, limits=pace))
    bed.faults.append(Fault("PUT", "/unload", Trouble.EMPTY_YES))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    times = sorted(at for record in state.records for at in record.unloaded_at)
    assert len(times) == 3
    assert times[2] - times[0] >= 60.0


def test_a_journal_without_unload_counts_reports_one_unload(bed: Bed, tmp_path: Path) -> None:
    """A completed unload was requested at least once."""
    state = bed.run(bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO))), tmp_path)
    (record,) = state.records
    assert replace(record, unloaded_at=()).unloads == 1
    assert replace(record, unloaded_at=(), requested_at=None).unloads == 0
