"""The Pulsar collector on real brokers under a real load, with both load managers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.pulsar_trials import NAMESPACE
from trimtab.cli.app import main
from trimtab.connect.pulsar.admin import PulsarAdmin, PulsarAdminError, PulsarConnection
from trimtab.files.bundles.reports import read_reports
from trimtab.lab.sandbox.load import Load
from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces, delete_namespaces
from trimtab.lab.sandbox.pulsar.workload import NamespaceLoad, PulsarWorkload, TopicLoad
from trimtab.model.bundles.policies import is_system_namespace
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.collect import run
from trimtab.observe.collect.pulsar.collector import COLLECTING
from trimtab.observe.collect.pulsar.recorded import recent_ticks
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, PulsarCollectSettings
from trimtab.observe.lake import Lake

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(600)]

TICKS_MAXIMUM = 100
"""Of a second each: how long a busy machine may take for anything."""
UNLOADS_MAXIMUM = 5
"""A destination is a wish: where a client asks at the wrong moment, the bundle returns to its owner."""
Row = dict[str, Any]


def workload(namespace: str) -> PulsarWorkload:
    """One topic that carries much more than the others, and one that carries nothing."""
    rates = {"hot-7f3a": 60.0, "warm-19c2": 12.0, "warm-b04d": 12.0, "warm-e5aa": 12.0, "idle-52f1": 0.0}
    topics = tuple(TopicLoad(name, rate, 400, 1) for name, rate in rates.items())
    return PulsarWorkload((NamespaceLoad(namespace, 4, topics),))


def connection_of(sandbox: PulsarSandbox) -> PulsarConnection:
    """To all brokers of a sandbox."""
    return PulsarConnection(tuple(sandbox.web_urls.values()), service_url=sandbox.service_url)


@pytest.fixture(scope="module")
def loaded(
    three_pulsar_brokers: PulsarSandbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[PulsarSandbox, PulsarAdmin]]:
    """Three brokers under load."""
    given = workload("collect/loaded")
    with PulsarAdmin(connection_of(three_pulsar_brokers)) as admin:
        create_namespaces(admin, given)
        try:
            with Load.start(admin.connection, given, tmp_path_factory.mktemp("load")):
                yield three_pulsar_brokers, admin
        finally:
            delete_namespaces(admin, given)


def collected(
    connection: PulsarConnection, lake: Lake, enough: Callable[[list[Row]], bool], record: Path | None = None
) -> tuple[list[Row], tuple[str, ...]]:
    """The rows of the first tick that are enough, and what it had to say."""
    settings = CollectSettings(
        interval_seconds=1, timeout_seconds=1, pulsar=PulsarCollectSettings(usage="measured")
    )
    with (
        COLLECTING.open(connection, settings, CapacitySettings()) as collector,
        run.lake_landing(lake.raw, COLLECTING.columns) as below,
        COLLECTING.recording(below, record) as landing,
    ):
        for outcome in run.collect(collector, landing, 1.0, threading.Event(), TICKS_MAXIMUM):
            assert outcome.problem is None and outcome.sample is not None
            rows = [row for batch in outcome.sample.batches for row in batch.rows()]
            if enough(rows):
                return rows, outcome.sample.problems
    raise AssertionError(f"not enough after {TICKS_MAXIMUM} ticks: {rows}")


def of(rows: list[Row], kind: str) -> list[Row]:
    """Rows of one kind."""
    return [row for row in rows if row["kind"] == kind]


def carried(rows: list[Row]) -> dict[str, float]:
    """Messages per second into each topic, by the last part of its name."""
    return {row["topic"].rpartition("/")[2]: row["msg_rate_in"] for row in of(rows, "pulsar_topic")}


def loads_are_known(rows: list[Row]) -> bool:
    """Whether brokers have counted the load, and forgotten the topics of a namespace that is gone."""
    rates = carried(rows)
    if any(row["topic"].startswith(f"persistent://{NAMESPACE}/") for row in of(rows, "pulsar_topic")):
        return False
    return all(rates.get(one, 0) > 0 for one in ("hot-7f3a", "warm-19c2", "warm-b04d", "warm-e5aa")) and any(
        row["has_stats"] and row.get("msg_rate_in", 0) > 0 for row in of(rows, "pulsar_bundle")
    )


def test_owners_topics_and_rates_are_the_clusters_own(
    loaded: tuple[PulsarSandbox, PulsarAdmin], tmp_path: Path
) -> None:
    """Every bundle has the owner that its broker tells, and the hot topic is found in its bundle."""
    sandbox, admin = loaded
    rows, problems = collected(admin.connection, Lake(tmp_path, BUNDLES), loads_are_known)
    assert problems == ()
    brokers = of(rows, "pulsar_broker")
    assert {row["owner"] for row in brokers} == set(sandbox.brokers)
    assert {row["load_manager"] for row in brokers} == {"modular"}
    assert [row["owner"] for row in brokers if row["is_leader"]] == [admin.leader()]
    assert all(row["cpu_limit"] > 0 and row["memory_usage"] > 0 for row in brokers)
    owners = {row["bundle"]: row["owner"] for row in of(rows, "pulsar_bundle") if "position" in row}
    told = {bundle: broker for broker in sandbox.brokers for bundle in admin.owned_bundles(broker)}
    assert owners == told
    rates = carried(rows)
    assert rates["hot-7f3a"] > 2 * max(rates[name] for name in rates if name.startswith("warm"))
    assert rates["idle-52f1"] == 0
    for row in of(rows, "pulsar_topic"):
        assert admin.bundle_of_topic(row["topic"]) == row["bundle"]
    spaces = {row["namespace"]: row["boundaries"] for row in of(rows, "pulsar_namespace")}
    assert spaces["collect/loaded"] == list(admin.boundaries("collect/loaded"))


def test_a_bundle_that_was_unloaded_has_its_new_owner_in_the_next_tick(
    loaded: tuple[PulsarSandbox, PulsarAdmin], tmp_path: Path
) -> None:
    """With its load: whoever acts on what was measured must not act on where it was."""
    sandbox, admin = loaded
    topic = "persistent://collect/loaded/hot-7f3a"
    bundle, owner = admin.bundle_of_topic(topic), admin.topic_owner(topic)
    target = next(broker for broker in sandbox.brokers if broker != owner)
    for _ in range(UNLOADS_MAXIMUM):
        admin.unload(bundle, target)
        if admin.topic_owner(topic) != owner:
            break

    def has_moved(rows: list[Row]) -> bool:
        return any(
            row["bundle"] == bundle and row["owner"] != owner and row.get("msg_rate_in", 0) > 0
            for row in of(rows, "pulsar_bundle")
        )

    rows, _ = collected(admin.connection, Lake(tmp_path, BUNDLES), has_moved)
    (now,) = [row for row in of(rows, "pulsar_bundle") if row["bundle"] == bundle and "position" in row]
    assert now["owner"] == admin.topic_owner(topic)


def test_a_killed_broker_does_not_lose_the_others_and_the_recording_replays(
    loaded: tuple[PulsarSandbox, PulsarAdmin], tmp_path: Path
) -> None:
    """Believed in for ten seconds after its death; the lake and the recording tell the same of it."""
    sandbox, admin = loaded
    lake, record = Lake(tmp_path, BUNDLES), tmp_path / "reports.jsonl"
    collected(admin.connection, lake, loads_are_known, record)
    dead = next(one for one in sandbox.brokers if one != admin.leader())
    sandbox.kill(dead)
    try:

        def is_unreachable(rows: list[Row]) -> bool:
            states = {row["owner"]: row["broker_state"] for row in of(rows, "pulsar_broker")}
            return states.get(dead) == "unreachable" and len(states) == 3

        rows, problems = collected(admin.connection, lake, is_unreachable, record)
        assert any(f"broker {dead} is unreachable" in one for one in problems)
        assert {row["owner"] for row in of(rows, "pulsar_bundle")} == set(sandbox.brokers) - {dead}

        def is_forgotten(rows: list[Row]) -> bool:
            return dead not in {row["owner"] for row in of(rows, "pulsar_broker")} and loads_are_known(rows)

        rows, _ = collected(admin.connection, lake, is_forgotten, record)
        assert set(carried(rows)) >= {"hot-7f3a", "warm-19c2", "warm-b04d", "warm-e5aa"}
    finally:
        sandbox.restart(dead)
        sandbox.wait_until_serving()
    recorded = list(read_reports(record))
    assert recorded == list(recent_ticks(lake))
    assert {len(tick.brokers) for tick in recorded} == {2, 3}
    decisions = tmp_path / "decisions.jsonl"
    with pytest.raises(SystemExit) as ended:
        reports = ["--reports", str(record), "--strategy", "ThresholdShedder"]
        main(["replay", "bundles", *reports, "--out", str(decisions)])
    assert not ended.value.code
    assert len(decisions.read_text().splitlines()) == len(recorded)


@pytest.fixture(scope="module")
def secured() -> Iterator[PulsarSandbox]:
    """Two brokers under the extensible load manager, which let in tokens over TLS only."""
    with PulsarSandbox.start(2, load_manager="extensible", secured=True) as sandbox:
        yield sandbox


def test_the_extensible_load_manager_is_heard_on_its_own_topics(
    secured: PulsarSandbox, tmp_path: Path
) -> None:
    """No load report over the admin API: what brokers publish, with owners and topics asked; all over TLS."""
    given = workload("collect/published")
    with PulsarAdmin(secured.connection) as admin:
        create_namespaces(admin, given)
        with Load.start(admin.connection, given, tmp_path):

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
        ({"token": None}, "set pulsar.token_file", 401),
        ({"token": "e30.e30.e30"}, "set pulsar.token_file", 401),
        ({"tls_ca": None}, "its certificate is not trusted", None),
    ],
)
def test_who_is_not_let_in_is_told_why(
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
