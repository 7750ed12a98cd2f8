"""Journals that an older trimtab has written, whose codecs named every field by hand: recorded as SQL."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from support.bundle_trials import BROKERS, Bed
from support.fake_port import FakeCluster
from support.journals import CODECS
from trimtab.act.bundles.port import OFF, SWITCHES
from trimtab.act.bundles.state import BundlesExecutionState
from trimtab.act.control import Runner
from trimtab.act.execution.state import AnyExecution, ExecutionStatus
from trimtab.act.journal import Journal
from trimtab.act.replicas.machine import ReplicasMachine
from trimtab.act.replicas.port import ThrottleConfig, TopicPartition
from trimtab.act.replicas.state import ReplicasExecutionState, ReplicaStepState

RECORDED = Path(__file__).with_name("journals")


def recorded(balancer: str, folder: Path) -> Journal:
    """A journal with one interrupted execution of that balancer."""
    path = folder / "journal.sqlite"
    db = sqlite3.connect(path)
    db.executescript((RECORDED / f"{balancer}.sql").read_text(encoding="utf-8"))
    db.execute("PRAGMA user_version=2")
    db.close()
    return Journal(path, CODECS)


def test_an_execution_of_replicas_resumes(tmp_path: Path) -> None:
    """It was killed between writing down that it would set the throttle, and setting it."""
    cluster = FakeCluster()
    cluster.add("t", 0, [1, 2], size=300_000_000)
    cluster.add("t", 1, [3, 1], size=100_000_000)
    with recorded("replicas", tmp_path) as journal:
        state = journal.state(1)
        assert isinstance(state, ReplicasExecutionState)
        assert state.throttle.original == ThrottleConfig(None, None, {"t": None}, {"t": None})
        assert state.throttle.rates_touched
        assert (state.settings.throttle, state.rate_bytes_per_second) == ("50000000", 50e6)
        assert (state.brokers, state.baseline) == (frozenset(range(1, 7)), frozenset())
        assert [r.state for r in state.records] == [
            ReplicaStepState.PENDING,
            ReplicaStepState.PENDING,
            ReplicaStepState.DONE,
        ]
        assert state.records[2].step.partition == TopicPartition("t", 1)
        machine = ReplicasMachine(cluster, cluster.clock)
        ended = Runner(machine, journal, None, 1, state, clock=cluster.clock, sleep=cluster.sleep).run()
    assert ended.status is ExecutionStatus.FINISHED
    assert cluster.parts[TopicPartition("t", 0)].replicas == [4, 2]
    assert (cluster.rates, cluster.lists) == ({}, {"leader": {}, "follower": {}})


def test_an_execution_of_bundles_resumes(tmp_path: Path) -> None:
    """It was killed between writing down what it would unload, and unloading; the switches were off."""
    bed = Bed()
    bed.cluster.overrides.update(dict.fromkeys(SWITCHES, OFF))
    first, second, *_ = bed.keys
    with recorded("bundles", tmp_path) as journal:
        state = journal.state(1)
        assert isinstance(state, BundlesExecutionState)
        assert (state.hold, state.brokers) == (dict.fromkeys(SWITCHES), frozenset(BROKERS))
        assert state.settings.limits.external_change_cooldown_seconds == 75.0
        assert [record.step.bundle for record in state.records] == [first, second]
        ended = bed.runner(journal, 1, state).run()
    assert ended.status is ExecutionStatus.FINISHED
    assert (bed.cluster.owners[first], bed.cluster.owners[second]) == (BROKERS[1], BROKERS[2])
    bed.assert_given_back()


@pytest.mark.parametrize("balancer", ["replicas", "bundles"])
def test_a_state_is_written_back_unchanged(balancer: str, tmp_path: Path) -> None:
    """No key of steps and head is lost or changed, so that an older trimtab can read them, too."""
    with recorded(balancer, tmp_path) as journal:
        state: AnyExecution = journal.state(1)
        codec = CODECS.of(balancer)
        db = sqlite3.connect(journal.path)
        for (step, record), found in zip(
            db.execute("SELECT step, record FROM steps ORDER BY number"), state.records, strict=True
        ):
            assert _plain(codec.step_to_json(found)) == json.loads(step)
            assert json.loads(record).items() <= _plain(codec.record_to_json(found)).items()
        ((head,),) = db.execute("SELECT head FROM executions")
        before, after = json.loads(head), _plain(codec.head_to_json(state))
        was, now = before.pop("settings"), after.pop("settings")
        assert before.items() <= after.items()
        # What warns of old plans was a setting of one balancer once.
        assert was.pop("limits", {}).items() - now.pop("limits", {}).items() <= {
            ("max_plan_age_seconds", 3600.0)
        }
        assert was.items() <= now.items()
        db.close()


def _plain(value: object) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(value))
    return plain
