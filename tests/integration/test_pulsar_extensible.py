"""Two real brokers under the extensible load manager, which let in tokens over TLS only: heard, and acted on.

The traps of this manager on the way of a plan: one boundary a split, and an unload to the owner itself is
refused.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.bundle_plans import bundle_plan_of, split, unload
from support.bundles_port_stories import STORIES, Stage
from support.pulsar_collected import Row, collected, loads_are_known, of, workload
from support.pulsar_trials import PulsarTrial
from trimtab.act.bundles.port import OFF, SHEDDING
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces
from trimtab.lab.sandbox.pulsar.workload import NamespaceLoad, PulsarTopicLoad, PulsarWorkload
from trimtab.model.bundles.policies import is_system_namespace
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.lake.lake import Lake
from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError
from trimtab.systems.pulsar.port import PulsarAdminPort

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def secured() -> Iterator[PulsarSandbox]:
    """Such a cluster, shared by the module; tests leave their namespaces, and no dynamic setting."""
    with PulsarSandbox.start(2, load_manager="extensible", secured=True) as sandbox:
        yield sandbox


def test_reports_of_the_extensible_load_manager_are_read_from_its_topics(
    secured: PulsarSandbox, tmp_path: Path
) -> None:
    """No load report over the admin API: brokers publish them, owners and topics are requested;
    all over TLS.
    """
    given = workload("collect/published")
    with PulsarAdmin(secured.connection) as admin:
        create_namespaces(admin, given)
        with SandboxLoad.start(admin.connection, given, tmp_path):

            def all_are_heard(rows: list[Row]) -> bool:
                return loads_are_known(rows) and all(
                    "weighted_max_ema" in row and "cpu_usage" in row for row in of(rows, "pulsar_broker")
                )

            lake = Lake(tmp_path / "lake", BUNDLES)
            rows, problems = collected(admin.connection, lake, all_are_heard)
            told = {bundle: broker for broker in secured.brokers for bundle in admin.owned_bundles(broker)}
    assert problems == ()
    assert {row["load_manager"] for row in of(rows, "pulsar_broker")} == {"extensible"}
    owners = {
        row["bundle"]: row["owner"]
        for row in of(rows, "pulsar_bundle")
        if "position" in row and not is_system_namespace(row["bundle"].rpartition("/")[0])
    }
    assert owners == {key: one for key, one in told.items() if key.startswith("collect/published")}
    rates = {
        kind: sum(row["msg_rate_in"] for row in of(rows, kind) if row["bundle"].startswith("collect/"))
        for kind in ("pulsar_bundle", "pulsar_topic")
    }
    assert rates["pulsar_bundle"] == pytest.approx(rates["pulsar_topic"])


@pytest.mark.parametrize(
    ("change", "said", "status"),
    [
        ({"token": None}, "set the cluster's token_file", 401),
        ({"token": "e30.e30.e30"}, "set the cluster's token_file", 401),
        ({"tls_ca": None}, "its certificate is not trusted", None),
    ],
)
def test_a_rejected_client_learns_the_reason(
    secured: PulsarSandbox, change: dict[str, Any], said: str, status: int | None
) -> None:
    """No token, a false one, an authority that we do not know; none is worth another try."""
    with (
        PulsarAdmin(replace(secured.connection, **change)) as admin,
        pytest.raises(PulsarAdminError) as caught,
    ):
        admin.brokers()
    assert said in str(caught.value)
    assert (caught.value.status, caught.value.transient) == (status, False)
    assert str(change.get("token")) not in str(caught.value)


@pytest.fixture
def empty(secured: PulsarSandbox, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PulsarTrial]:
    """A namespace that nobody has had before: brokers remember the bundles of one that was deleted.

    Split again, such a bundle's parts may be without an owner until a client comes, and 4.2.4 may refuse for
    half a minute to delete a namespace.
    """
    with PulsarAdmin(secured.connection) as admin:
        made = PulsarTrial(secured, tmp_path, admin, f"trimtab/{request.node.name.translate(_WORDS)}")
        made.create(topics=0)
        yield made
        made.end()


_WORDS = str.maketrans("[]", "..")


@pytest.fixture
def trial(empty: PulsarTrial) -> PulsarTrial:
    """Four bundles with some topics, all owned by the leader."""
    empty.add_topics(24)
    for key in empty.keys:
        empty.place(key, empty.brokers[0])
    return empty


def test_a_plan_is_carried_out_while_clients_work(trial: PulsarTrial, tmp_path: Path) -> None:
    """Unloads, a bundle cut in three by one boundary after the other, a part moved; no message is lost."""
    leader, other = trial.brokers
    one, two, three, four = trial.keys
    part = f"{trial.namespace}/0x80000000_0x88000000"
    plan = bundle_plan_of(
        unload(one, leader, other, sessions=4),
        unload(two, leader, other, sessions=5),
        split(three, leader, 0x88000000, 0x90000000),
        unload(part, leader, other, sessions=2),
    )
    path = trial.write("plan", plan)
    topics = tuple(PulsarTopicLoad(f"t{number}", 10.0, 200, 1) for number in range(24))
    given = PulsarWorkload((NamespaceLoad(trial.namespace, 4, topics),))
    with SandboxLoad.start(trial.admin.connection, given, tmp_path / "load") as load:
        said = trial.run("apply", path, "--yes")
        load.stop()
        found = load.read_back()
    assert "3 bundles moved, 1 split" in said
    assert "11 clients disconnected for a moment" in said
    assert [trial.owner(key) for key in (one, two, part, four)] == [other, other, other, leader]
    rest = [f"{trial.namespace}/0x88000000_0x90000000", f"{trial.namespace}/0x90000000_0xc0000000"]
    assert trial.keys == [one, two, part, *rest, four]
    trial.wait("the parts served", lambda: [trial.owner(key) for key in rest] == [leader] * 2)
    trial.assert_given_back()
    assert "nothing to do" in trial.run("apply", path, "--dry-run")
    assert found.ok, found.text("messages")
    assert found.confirmed > 0


@pytest.mark.long
@pytest.mark.parametrize(("write", "what"), [("5", "resume"), ("10", "resume"), ("9", "cancel")])
def test_killed_in_the_middle_it_is_resumed_or_cancelled(trial: PulsarTrial, write: str, what: str) -> None:
    """`kill -9` leaves the balancing off; a resume continues from the state of the cluster."""
    leader, other = trial.brokers
    one, two, three, four = trial.keys
    plan = bundle_plan_of(
        unload(one, leader, other),
        split(two, leader, 0x50000000, 0x60000000),
        unload(three, leader, other),
        unload(four, leader, other),
    )
    path = trial.write("plan", plan)
    trial.run(
        "apply", path, "--yes", crash_at=write, expect=-signal.SIGKILL, bundles__max_unloads_per_batch="1"
    )
    assert trial.admin.configuration_overrides()[SHEDDING] == OFF
    trial.run("execution", what)
    trial.assert_given_back()
    if what == "resume":
        assert trial.status() == "finished"
        assert [trial.owner(key) for key in (one, three, four)] == [other] * 3
        assert len(trial.keys) == 6
    else:
        assert trial.status() == "cancelled"
        assert trial.owner(four) == leader
        trial.wait("every bundle served", lambda: None not in map(trial.owner, trial.keys))


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_real_brokers_behave_like_the_simulated_ones(
    empty: PulsarTrial, story: Callable[[Stage], None]
) -> None:
    """The stories of tests/contracts/test_bundles_port.py."""
    port = PulsarAdminPort(empty.admin, time.time)
    story(Stage(port, empty.namespace, lambda condition: empty.wait("so", condition), empty.add_topics))
