"""What others do meanwhile: brokers die, somebody splits, unloads, or switches the balancing on again."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulate.pulsar_admin.server import Fault, Trouble
from support.bundle_plans import bundle_plan_of, split, unload
from support.bundle_trials import BROKERS, NAMESPACE, SETTINGS, Bed
from trimtab.act.bundles.executor import compare, steps_of
from trimtab.act.bundles.state import BundlesExecutionState, BundleStepState
from trimtab.act.execution.state import ExecutionStatus

ONE, TWO, THREE = BROKERS
SHEDDING = "loadBalancerSheddingEnabled"
ONE_AT_A_TIME = replace(SETTINGS, limits=replace(SETTINGS.limits, max_unloads_per_batch=1))


@pytest.fixture(params=[False, True], ids=["modular", "extensible"])
def bed(request: pytest.FixtureRequest) -> Bed:
    """Four bundles, all on the first of three brokers, under either load manager."""
    return Bed(extensible=request.param)


def meanwhile(bed: Bed, method: str, path: str, deed: object, skip: int = 0) -> None:
    """Somebody does something when such a request comes in."""
    bed.faults.append(Fault(method, path, Trouble.MEANWHILE, skip=skip, deed=deed))  # type: ignore[arg-type]


def test_a_destination_that_dies_takes_only_its_own_steps_with_it(bed: Bed, tmp_path: Path) -> None:
    """The third broker dies between plan and unload: its step fails after the grace, the other is done."""
    first, second, *_ = bed.keys
    state = bed.prepared(bundle_plan_of(unload(first, ONE, THREE), unload(second, ONE, TWO)))
    bed.cluster.kill(THREE)
    began = bed.now
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.INCOMPLETE
    assert [r.state for r in state.records] == [BundleStepState.FAILED, BundleStepState.DONE]
    assert state.records[0].reason == f"{THREE}, its destination, is dead"
    assert bed.now - began >= SETTINGS.broker_timeout_seconds
    assert bed.cluster.owners[first] == ONE
    bed.assert_given_back()


def test_a_destination_that_returns_in_time_is_awaited(bed: Bed, tmp_path: Path) -> None:
    """A restart of eight seconds costs eight seconds."""
    first = bed.keys[0]
    state = bed.prepared(bundle_plan_of(unload(first, ONE, THREE)))
    bed.cluster.kill(THREE)
    bed.cluster.after(8.0, lambda: bed.cluster.revive(THREE))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    assert bed.cluster.owners[first] == THREE


def test_an_owner_that_dies_during_the_request_is_awaited(tmp_path: Path) -> None:
    """The redirect leads to no broker: retried once the session has expired and the bundle has
    a new owner.
    """
    bed = Bed(brokers=("b0:8080", *BROKERS))
    first = bed.keys[0]
    bed.cluster.give(first, TWO)
    state = bed.prepared(bundle_plan_of(unload(first, TWO, THREE)))
    meanwhile(bed, "PUT", "/unload", lambda: bed.cluster.kill(TWO))
    state = bed.run(state, tmp_path)
    (record,) = state.records
    assert (state.status, record.state) == (ExecutionStatus.FINISHED, BundleStepState.DONE), record
    assert bed.cluster.owners[first] == THREE
    bed.assert_given_back()


def test_a_leader_that_dies_is_replaced_before_we_go_on(tmp_path: Path) -> None:
    """Unloads go through the leader under the modular load manager: nothing moves until there is another."""
    bed = Bed(brokers=("b0:8080", *BROKERS))
    first, second, *_ = bed.keys
    for key in bed.keys:
        bed.cluster.give(key, ONE)
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, THREE)), ONE_AT_A_TIME)
    meanwhile(bed, "PUT", "/unload", lambda: bed.cluster.kill("b0:8080"))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED, [(r.state, r.reason) for r in state.records]
    bed.assert_given_back()


def test_a_bundle_split_by_another_process_is_skipped(bed: Bed, tmp_path: Path) -> None:
    """Between plan and unload: the step is skipped and names the split positions; the other is done."""
    first, second, *_ = bed.keys
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, TWO)))
    bundle = bed.cluster.bundle_of(NAMESPACE, first)
    assert bundle is not None
    meanwhile(bed, "POST", "Shedding", lambda: bed.cluster.cut(bundle, [0x11111111], "somebody"))
    state = bed.run(state, tmp_path)
    assert [r.state for r in state.records] == [BundleStepState.SKIPPED, BundleStepState.DONE]
    assert state.records[0].reason == "the bundle is gone: split at 0x11111111"
    bed.assert_given_back()


def test_a_foreign_split_skips_the_steps_of_its_parts(bed: Bed, tmp_path: Path) -> None:
    """A foreign split at other positions: our split is skipped, and so is the unload of the missing part."""
    first = bed.keys[0]
    part = f"{NAMESPACE}/0x00000000_0x10000000"
    plan = bundle_plan_of(split(first, ONE, 0x10000000), unload(part, ONE, TWO))
    state = bed.prepared(plan)
    bundle = bed.cluster.bundle_of(NAMESPACE, first)
    assert bundle is not None
    bed.cluster.cut(bundle, [0x22222222], "somebody")
    state = bed.run(state, tmp_path)
    assert [r.state for r in state.records] == [BundleStepState.SKIPPED, BundleStepState.SKIPPED]
    assert state.records[0].reason == "somebody else has split it at 0x22222222"
    assert bed.verbs("split") == [(first, "0x22222222")]


def test_another_owner_since_the_plan_was_held_against_the_cluster(bed: Bed, tmp_path: Path) -> None:
    """Another process moved the bundle before our step: its move stays."""
    first = bed.keys[0]
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO)))
    bed.cluster.give(first, THREE)
    state = bed.run(state, tmp_path)
    assert state.records[0].reason == f"{THREE} owns it now, the step was made for {ONE}"
    assert bed.verbs("unload") == []


def test_foreign_unloads_are_detected_awaited_and_reported(bed: Bed, tmp_path: Path) -> None:
    """A shedder left on somewhere moves a bundle while we hold the switch: quiet first, then on."""
    first, second, third, _ = bed.keys
    plan = bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, TWO))
    state = bed.prepared(plan, ONE_AT_A_TIME)
    meanwhile(bed, "PUT", "/unload", lambda: bed.cluster.give(third, THREE))
    waited: list[str] = []

    def watch(state: BundlesExecutionState) -> None:
        if state.status is ExecutionStatus.WAITING:
            waited.append(state.reason)

    state = bed.run(state, tmp_path, watch)
    assert state.status is ExecutionStatus.FINISHED
    text = f"somebody else has moved {third} from {ONE} to {THREE}"
    assert text in waited
    assert state.notes == (text,)
    at = [deed.at for deed in bed.cluster.history if deed.verb == "unload"]
    assert at[1] - at[0] >= SETTINGS.limits.external_change_cooldown_seconds
    # The take-over was checked again in every broker before going on.
    runtimes = [path for _, _, path in bed.brokers.requests if path.endswith("/runtime")]
    assert len(runtimes) >= 2 * len(BROKERS)


def test_foreign_unloads_without_end_stop_it(bed: Bed, tmp_path: Path) -> None:
    """Another process sheds every minute: the execution stops, with all settings restored."""
    first, second, third, _ = bed.keys
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, TWO)), ONE_AT_A_TIME)

    def shed() -> None:
        bed.cluster.give(third, TWO if bed.cluster.owners[third] == ONE else ONE)
        bed.cluster.after(60.0, shed)

    meanwhile(bed, "PUT", "/unload", shed)
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.STOPPED
    assert "stopped; resume when it is over" in state.reason
    assert [r.state for r in state.records] == [BundleStepState.DONE, BundleStepState.PENDING]
    bed.assert_given_back()


def test_balancing_switched_on_by_another_process_ends_the_execution_and_stays_on(
    bed: Bed, tmp_path: Path
) -> None:
    """The foreign setting is left unchanged, and the receipt states the previous one."""
    first, second, *_ = bed.keys
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, TWO)), ONE_AT_A_TIME)
    meanwhile(bed, "PUT", "/unload", lambda: bed.cluster.overrides.update({SHEDDING: "true"}))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.STOPPED
    assert state.reason == (
        f"somebody else has changed the brokers' balancing since: {SHEDDING} is true; theirs is left"
    )
    assert state.notes == (
        f"{SHEDDING} was set to true by somebody else meanwhile: left so (before us it was not set)",
    )
    bed.assert_given_back({SHEDDING: "true"})


def test_an_override_deleted_by_another_process_ends_the_execution(bed: Bed, tmp_path: Path) -> None:
    """An operator deletes the override: it is as it was before us, and stays so."""
    first, second, *_ = bed.keys
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO), unload(second, ONE, TWO)), ONE_AT_A_TIME)
    meanwhile(bed, "PUT", "/unload", lambda: bed.cluster.overrides.pop(SHEDDING))
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.STOPPED
    assert f"{SHEDDING} is no longer set" in state.reason
    bed.assert_given_back()


def test_a_namespace_that_is_deleted_is_skipped(bed: Bed, tmp_path: Path) -> None:
    """Its steps do not apply any more."""
    state = bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO)))
    del bed.cluster.namespaces[NAMESPACE]
    state = bed.run(state, tmp_path)
    assert state.records[0].reason == f"namespace {NAMESPACE} is gone"
    bed.assert_given_back()


def test_an_unhealthy_destination_is_waited_for(bed: Bed, tmp_path: Path) -> None:
    """A broker that cannot write is sent nothing until it can."""
    first = bed.keys[0]
    state = bed.prepared(bundle_plan_of(unload(first, ONE, TWO)))
    bed.cluster.brokers[TWO].healthy = False
    bed.cluster.after(20.0, lambda: setattr(bed.cluster.brokers[TWO], "healthy", True))
    began = bed.now
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.FINISHED
    (unloaded,) = [deed for deed in bed.cluster.history if deed.verb == "unload"]
    assert unloaded.at - began >= 20.0


def test_the_wrong_cluster_is_left_alone(bed: Bed, tmp_path: Path) -> None:
    """The execution is resumed against another cluster: nothing is touched there."""
    plan = bundle_plan_of(unload(bed.keys[0], ONE, TWO))
    state = replace(bed.prepared(plan), cluster_id="simulated@another:8080")
    with pytest.raises(Exception, match="this is cluster simulated@b1:8080, the execution belongs to"):
        bed.run(state, tmp_path)
    assert bed.cluster.history == []


def test_a_broker_that_keeps_its_balancing_on_stops_it(bed: Bed, tmp_path: Path) -> None:
    """The broker answers yes and continues: nothing is unloaded, and the error names it."""
    state = bed.prepared(bundle_plan_of(unload(bed.keys[0], ONE, TWO)))
    switch = bed.cluster.switch
    bed.cluster.switch = (  # type: ignore[method-assign]
        lambda broker, name: "true" if broker == THREE and name == SHEDDING else switch(broker, name)
    )
    state = bed.run(state, tmp_path)
    assert state.status is ExecutionStatus.STOPPED
    assert state.reason.startswith(f"broker {THREE} goes on with {SHEDDING} although it is set to false")
    assert bed.verbs("unload") == []
    bed.assert_given_back()


def test_a_step_left_out_takes_its_dependents_along(bed: Bed) -> None:
    """A plan held against a cluster in which its bundle was split elsewhere: split and part both left out."""
    first, second, *_ = bed.keys
    part = f"{NAMESPACE}/0x00000000_0x10000000"
    plan = bundle_plan_of(split(first, ONE, 0x10000000), unload(part, ONE, TWO), unload(second, ONE, TWO))
    bundle = bed.cluster.bundle_of(NAMESPACE, first)
    assert bundle is not None
    bed.cluster.cut(bundle, [0x22222222], "somebody")
    comparison = compare(plan, bed.port.observe([NAMESPACE]))
    assert [str(d.fit) for d in comparison.differences] == ["split", "dependent"]
    assert [step.bundle for step in steps_of(plan, comparison)] == [second]
