"""`trimtab apply` and `trimtab execution` for plans of bundles, against a simulated admin API on sockets."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from simulate.pulsar_admin.server import Fault, PulsarAdminServer, Trouble
from support.bundle_plans import bundle_plan_of, split, unload
from trimtab.cli.app import main
from trimtab.files.bundles.plan import write_bundle_plan
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.documents import SnapshotReference

NAMESPACE = "acme/shop"
FIRST, SECOND = f"{NAMESPACE}/0x00000000_0x40000000", f"{NAMESPACE}/0x40000000_0x80000000"
QUICK = (
    "execution.poll_interval_seconds=0.05",
    "execution.check_interval_seconds=0.1",
    "execution.metadata_lag_seconds=0.3",
    "execution.initial_backoff_seconds=0.05",
    "execution.bundles.batch_pause_seconds=0.05",
    "execution.bundles.assign_after_seconds=0.1",
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PulsarAdminServer]:
    """Three brokers, four bundles with clients, all on the first."""
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    with PulsarAdminServer(3, reconnect_seconds=0.05) as made:
        made.cluster.add_namespace(NAMESPACE)
        for number in range(40):
            made.cluster.add_topic(f"persistent://{NAMESPACE}/t{number}")
        for bundle in made.cluster.bundles_of(NAMESPACE):
            made.cluster.give(bundle.key, made.ids[0])
        yield made


def trimtab(server: PulsarAdminServer, *words: str, quick: bool = True) -> int:
    """Run a command against the simulated brokers; its exit code."""
    sets = [part for word in QUICK for part in ("--set", word)] if quick else []
    with pytest.raises(SystemExit) as ended:
        address = "pulsar+" + ",".join(server.urls)
        main([*words, "--set", f"clusters.a.address={address}", *sets])
    return int(ended.value.code or 0)


def write(folder: Path, plan: BundlePlan, cluster: str = "simulated") -> str:
    """A plan made long ago for a cluster of that name, as a file."""
    path = folder / "plan.json"
    reference = SnapshotReference(cluster, "2020-11-21T05:00:00Z", "0" * 64)
    write_bundle_plan(replace(plan, snapshot=reference), path)
    return str(path)


def test_a_dry_run_shows_every_step_and_changes_nothing(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The take-over, each unload with the clients it disturbs, each cut; and how old the plan is."""
    one, two, _ = server.ids
    plan = bundle_plan_of(split(FIRST, one, 0x10000000), unload(SECOND, one, two, sessions=21))
    assert trimtab(server, "apply", write(tmp_path, plan), "--dry-run") == 0
    told = capsys.readouterr().err
    assert "switches the brokers' own shedding and splitting off, and gives both back" in told
    assert f"split  {FIRST} at 0x10000000" in told
    assert f"unload {SECOND} {one} -> {two}, 21 clients" in told
    assert "warning: the snapshot of 2020-11-21T05:00:00Z is " in told
    assert server.cluster.history == []
    assert {method for _, method, _ in server.brokers.requests} == {"GET"}


def test_a_plan_is_executed_and_the_receipt_reports_it(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As text; and listed afterwards with its balancer."""
    one, two, three = server.ids
    plan = bundle_plan_of(unload(FIRST, one, two, sessions=5), unload(SECOND, one, three, sessions=7))
    assert trimtab(server, "apply", write(tmp_path, plan), "--yes") == 0
    told = capsys.readouterr().out
    assert "execution 1 on simulated: finished" in told
    assert "2 bundles moved, 0 split" in told
    assert "12 clients disconnected for a moment" in told
    assert "2 unloads, 12 clients" in told
    assert "from first unload to new owner" in told
    assert (server.cluster.owners[FIRST], server.cluster.owners[SECOND]) == (two, three)
    assert server.cluster.overrides == {}
    assert server.cluster.namespaces["pulsar/system"].properties == {}
    with pytest.raises(SystemExit):
        main(["execution", "list"])
    assert "bundles   simulated" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["execution", "show"])
    assert f"unload {FIRST} {one} -> {two}, 5 clients  done" in capsys.readouterr().out


def test_the_receipt_as_json(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every outcome with what was measured."""
    one, two, _ = server.ids
    path = write(tmp_path, bundle_plan_of(unload(FIRST, one, two)))
    assert trimtab(server, "apply", path, "--yes", "--json") == 0
    receipt = json.loads(capsys.readouterr().out)
    (outcome,) = receipt["outcomes"]
    assert (receipt["status"], outcome["state"], outcome["target"]) == ("finished", "done", two)
    assert 0 < outcome["in_flight_seconds"] < 10


def test_a_plan_that_the_cluster_has_overtaken_is_refused_and_rebased(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One bundle has another owner, one was split by another process: named; the rest continues with --skip-
    changed.
    """
    one, two, three = server.ids
    third, fourth = f"{NAMESPACE}/0x80000000_0xc0000000", f"{NAMESPACE}/0xc0000000_0xffffffff"
    plan = bundle_plan_of(unload(FIRST, one, two), unload(third, one, two), unload(fourth, one, two))
    server.cluster.give(FIRST, three)
    bundle = server.cluster.bundle_of(NAMESPACE, third)
    assert bundle is not None
    server.cluster.cut(bundle, [0xA0000000], "somebody")
    path = write(tmp_path, plan)
    assert trimtab(server, "apply", path, "--yes") == 1
    told = capsys.readouterr().err
    assert f"unload {FIRST}: moved: {three} owns it, the plan found it with {one}" in told
    assert f"unload {third}: split: it was split at 0xa0000000" in told
    assert "--skip-changed" in told
    assert trimtab(server, "apply", path, "--yes", "--skip-changed") == 0
    assert server.cluster.owners[fourth] == two
    assert server.cluster.owners[FIRST] == three


def test_a_plan_for_another_cluster_is_refused(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its brokers, since names of clusters are not unique."""
    plan = bundle_plan_of(unload(FIRST, "elsewhere1:8080", "elsewhere2:8080"))
    assert trimtab(server, "apply", write(tmp_path, plan), "--yes") == 1
    assert "none of its brokers: check --cluster" in capsys.readouterr().err
    assert server.cluster.history == []


def test_options_of_another_balancer_are_rejected(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A throttle has no meaning for bundles."""
    one, two, _ = server.ids
    path = write(tmp_path, bundle_plan_of(unload(FIRST, one, two)))
    assert trimtab(server, "apply", path, "--throttle", "auto") == 2
    assert "a plan of bundles copies nothing" in capsys.readouterr().err


def test_a_token_is_read_from_its_file_and_a_wrong_one_is_reported(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """401 without, 403 with a wrong one, carried out with the right one."""
    one, two, _ = server.ids
    server.cluster.token = "right"
    path = write(tmp_path, bundle_plan_of(unload(FIRST, one, two)))
    assert trimtab(server, "apply", path, "--yes") == 1
    assert "401" in capsys.readouterr().err
    (tmp_path / "token").write_text("wrong\n")
    assert trimtab(server, "apply", path, "--yes", "--set", f"clusters.a.token_file={tmp_path}/token") == 1
    assert "403" in capsys.readouterr().err
    (tmp_path / "token").write_text("right\n")
    assert trimtab(server, "apply", path, "--yes", "--set", f"clusters.a.token_file={tmp_path}/token") == 0
    assert server.cluster.owners[FIRST] == two


def test_faults_of_real_sockets_are_got_over(server: PulsarAdminServer, tmp_path: Path) -> None:
    """A broken connection, a circle of redirects, a slow answer, a yes that did nothing."""
    one, two, three = server.ids
    for trouble in (Trouble.LOST, Trouble.CIRCLE, Trouble.EMPTY_YES, Trouble.UNHEARD):
        server.faults.append(Fault("PUT", "/unload", trouble))
    server.faults.append(Fault("GET", "/ownedNamespaces", Trouble.LATE, seconds=0.2))
    plan = bundle_plan_of(unload(FIRST, one, two), unload(SECOND, one, three))
    assert trimtab(server, "apply", write(tmp_path, plan), "--yes") == 0
    assert (server.cluster.owners[FIRST], server.cluster.owners[SECOND]) == (two, three)
    assert server.cluster.overrides == {}


def test_a_dead_destination_leaves_its_step_with_a_remedy(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused before it begins; and what it can do without is carried out with --skip-changed."""
    one, two, three = server.ids
    server.kill(three)
    plan = bundle_plan_of(unload(FIRST, one, three), unload(SECOND, one, two))
    path = write(tmp_path, plan)
    assert trimtab(server, "apply", path, "--yes") == 1
    assert f"unload {FIRST}: without its destination: {three}" in capsys.readouterr().err
    assert trimtab(server, "apply", path, "--yes", "--skip-changed") == 0
    assert server.cluster.owners[SECOND] == two


def test_the_only_named_broker_may_die_during_the_execution(
    server: PulsarAdminServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other brokers are used from then on; it dies while the second bundle leaves another broker."""
    one, two, three = server.ids
    server.cluster.session_seconds = 0.5
    for key in (FIRST, SECOND):
        server.cluster.give(key, two)
    server.faults.append(
        Fault("PUT", "/unload", Trouble.MEANWHILE, skip=1, deed=lambda: server.cluster.kill(one))
    )
    path = write(tmp_path, bundle_plan_of(unload(FIRST, two, three), unload(SECOND, two, three)))
    sets = [part for word in (*QUICK, "execution.broker_timeout_seconds=0.3") for part in ("--set", word)]
    with pytest.raises(SystemExit) as ended:
        main(["apply", path, "--yes", "--cluster", f"pulsar+http://{one}", *sets])
    assert not ended.value.code, capsys.readouterr().err
    assert (server.cluster.owners[FIRST], server.cluster.owners[SECOND]) == (three, three)
    assert server.cluster.overrides == {}
