"""Stop, cancel and resume of executions of bundles, and one trimtab at a time."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from simulate.pulsar_admin.server import Fault, Trouble
from support.bundle_plans import bundle_plan_of, split, unload
from support.bundle_trials import BROKERS, NAMESPACE, SETTINGS, Bed
from support.journals import CODECS
from trimtab.act.bundles.state import BundlesExecutionState, BundleStepRecord, BundleStepState
from trimtab.act.control import Runner
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.act.lease import Lease
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.errors import ActError

ONE, TWO, THREE = BROKERS
ONE_AT_A_TIME = replace(SETTINGS, limits=replace(SETTINGS.limits, max_unloads_per_batch=1))


class Session:
    """An execution with its journal; asks for something when a step is first seen to be so far."""

    def __init__(self, folder: Path, bed: Bed, plan: BundlePlan) -> None:
        self.bed = bed
        self.journal = Journal(folder / "journal.sqlite", CODECS)
        self.journal._db.execute("PRAGMA synchronous=OFF")
        self.journal.create(bed.prepared(plan, ONE_AT_A_TIME), "simulated", "{}", "test", {})
        self.runner: Runner[BundlesExecutionState]

    def live(
        self,
        ask: Callable[[Runner[BundlesExecutionState]], None] | None = None,
        when: Callable[[BundleStepRecord], bool] = lambda record: record.state is BundleStepState.MOVING,
    ) -> BundlesExecutionState:
        """Run until the end."""

        def watch(state: BundlesExecutionState) -> None:
            there = any(when(record) for record in state.records)
            if ask is not None and there and state.status is ExecutionStatus.RUNNING:
                ask(self.runner)

        state = self.journal.state(1)
        assert isinstance(state, BundlesExecutionState)
        self.runner = self.bed.runner(self.journal, 1, state, watch)
        return self.runner.run()


@pytest.fixture(params=[False, True], ids=["modular", "extensible"])
def bed(request: pytest.FixtureRequest) -> Bed:
    """Four bundles, all on the first of three brokers, under either load manager."""
    return Bed(extensible=request.param)


def four_unloads(bed: Bed) -> BundlePlan:
    """Every bundle to the second broker."""
    return bundle_plan_of(*(unload(key, ONE, TWO) for key in bed.keys))


@pytest.mark.parametrize(
    ("ask", "status"), [(Runner.stop, ExecutionStatus.STOPPED), (Runner.cancel, ExecutionStatus.CANCELLED)]
)
def test_steps_in_flight_end_and_the_rest_is_left(
    bed: Bed, ask: Callable[[Runner[BundlesExecutionState]], None], status: ExecutionStatus, tmp_path: Path
) -> None:
    """The first bundle arrives, since an unload cannot be rolled back; three are left; then a resume."""
    session = Session(tmp_path, bed, four_unloads(bed))
    state = session.live(ask)
    assert state.status is status
    assert [r.state for r in state.records] == [BundleStepState.DONE, *[BundleStepState.PENDING] * 3]
    assert [bed.cluster.owners[key] for key in bed.keys] == [TWO, ONE, ONE, ONE]
    bed.assert_given_back()
    state = session.live()
    assert state.status is ExecutionStatus.FINISHED
    assert {bed.cluster.owners[key] for key in bed.keys} == {TWO}
    bed.assert_given_back()


def test_a_cancelled_bundle_without_clients_gets_an_owner(bed: Bed, tmp_path: Path) -> None:
    """No client requests the bundle, and the execution assigns it an owner."""
    bed.cluster.namespaces[NAMESPACE].topics.clear()
    session = Session(tmp_path, bed, four_unloads(bed))
    state = session.live(Runner.cancel)
    assert state.status is ExecutionStatus.CANCELLED
    assert bed.cluster.owners[bed.keys[0]] == TWO


def test_a_cancelled_bundle_that_went_elsewhere_is_not_unloaded_again(tmp_path: Path) -> None:
    """Its destination was lost on the way; it stays where it is until the execution is resumed."""
    bed = Bed()
    session = Session(tmp_path, bed, four_unloads(bed))
    bed.faults.append(Fault("PUT", "/unload", Trouble.LOST_HINT))
    bed.cluster.hints[bed.keys[0]] = THREE  # what somebody else's unload has left
    state = session.live(Runner.cancel)
    (record, *_) = state.records
    assert state.status is ExecutionStatus.CANCELLED
    assert len(bed.verbs("unload")) == 1
    assert record.state is BundleStepState.PENDING
    assert record.reason == f"cancelled; went to {THREE}, not to {TWO}"
    bed.assert_given_back()


def test_a_started_split_is_finished_by_a_cancel(tmp_path: Path) -> None:
    """The extensible load manager cuts one boundary a call: all three are cut, or none."""
    bed = Bed(extensible=True)
    for number in range(60):
        bed.cluster.add_topic(f"persistent://{NAMESPACE}/more-{number}")
    cuts = (0x10000000, 0x20000000, 0x30000000)
    session = Session(tmp_path, bed, bundle_plan_of(split(bed.keys[0], ONE, *cuts)))
    state = session.live(Runner.cancel, when=lambda record: record.cut > 0)
    assert state.status is ExecutionStatus.CANCELLED
    assert set(cuts) <= set(bed.cluster.namespaces[NAMESPACE].boundaries)
    assert state.records[0].state is BundleStepState.DONE


def test_a_token_that_expires_leaves_a_resumable_execution(bed: Bed, tmp_path: Path) -> None:
    """Our switches cannot be restored: this is reported, and done once the token is valid again."""
    session = Session(tmp_path, bed, four_unloads(bed))

    def expire(runner: Runner[BundlesExecutionState]) -> None:
        bed.cluster.token = "another"

    with pytest.raises(ActError, match=r"401.*the brokers' own balancing is still switched off by us"):
        session.live(expire)
    assert bed.cluster.overrides
    bed.cluster.token = None
    state = session.live()
    assert state.status is ExecutionStatus.FINISHED
    bed.assert_given_back()


def test_two_trimtabs_with_folders_of_their_own_do_not_both_act(bed: Bed, tmp_path: Path) -> None:
    """The second is given the name of the first; the claim is removed when the first ends."""
    first = Lease(bed.port, tmp_path / "a", "c", 60.0, bed.clock, bed.sleep, "first")
    second = Lease(bed.connect(), tmp_path / "b", "c", 60.0, bed.clock, bed.sleep, "second")
    first.acquire()
    assert len(bed.cluster.namespaces["pulsar/system"].properties) == 1
    with pytest.raises(ActError, match="is acting on cluster c"):
        second.acquire()
    first.release()
    assert second.acquire() == []
    second.release()
    assert bed.cluster.namespaces["pulsar/system"].properties == {}


def test_without_the_right_to_claim_it_continues_with_a_note(bed: Bed, tmp_path: Path) -> None:
    """Where properties cannot be written, only the lock file keeps others out."""
    bed.faults.append(Fault("GET", "/properties", Trouble.REFUSED, times=9, status=403))
    lease = Lease(bed.port, tmp_path, "c", 60.0, bed.clock, bed.sleep, "first")
    (note,) = lease.acquire()
    assert "no lease in the cluster" in note
    assert "use a token of a superuser for more" in note
    lease.release()
