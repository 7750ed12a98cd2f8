"""The Pulsar collector on real brokers under a real load, with the modular load manager."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from support.pulsar_collected import Row, carried, collected, loads_are_known, of, workload
from support.pulsar_trials import bring_back
from trimtab.cli.app import main
from trimtab.files.bundles.reports import read_reports
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces, delete_namespaces
from trimtab.observe.bundles.pipeline import PIPELINE as BUNDLES
from trimtab.observe.bundles.recorded import recent_ticks
from trimtab.observe.lake.lake import Lake
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.http import topic_path

pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(600)]

UNLOADS_MAXIMUM = 5
"""A destination is a wish: where a client asks at the wrong moment, the bundle returns to its owner."""


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
            with SandboxLoad.start(admin.connection, given, tmp_path_factory.mktemp("load")):
                yield three_pulsar_brokers, admin
        finally:
            delete_namespaces(admin, given)


def hot_topic_is_known(rows: list[Row]) -> bool:
    """Whether brokers tell the hot topic from the others.

    A broker's first rate of a topic counts the seconds before its producer had connected, too.
    """
    rates = carried(rows)
    return loads_are_known(rows) and rates["hot-7f3a"] > 2 * max(
        rate for name, rate in rates.items() if name.startswith("warm")
    )


def test_owners_topics_and_rates_are_the_clusters_own(
    loaded: tuple[PulsarSandbox, PulsarAdmin], tmp_path: Path
) -> None:
    """Every bundle has the owner that its broker reports, and the hot topic is found in its bundle."""
    sandbox, admin = loaded
    rows, problems = collected(admin.connection, Lake(tmp_path, BUNDLES), hot_topic_is_known)
    assert problems == ()
    brokers = of(rows, "pulsar_broker")
    assert {row["owner"] for row in brokers} == set(sandbox.brokers)
    assert {row["load_manager"] for row in brokers} == {"modular"}
    assert [row["owner"] for row in brokers if row["is_leader"]] == [admin.leader()]
    assert all(row["cpu_limit"] > 0 and row["memory_usage"] > 0 for row in brokers)
    owners = {row["bundle"]: row["owner"] for row in of(rows, "pulsar_bundle") if "position" in row}
    told = {bundle: broker for broker in sandbox.brokers for bundle in admin.owned_bundles(broker)}
    assert owners == told
    assert carried(rows)["idle-52f1"] == 0
    for row in of(rows, "pulsar_topic"):
        assert bundle_of_topic(admin.leader(), row["topic"]) == row["bundle"]
    spaces = {row["namespace"]: row["boundaries"] for row in of(rows, "pulsar_namespace")}
    assert spaces["collect/loaded"] == list(admin.boundaries("collect/loaded"))


def bundle_of_topic(broker: str, topic: str) -> str:
    """The bundle that a topic falls into, by Pulsar's own lookup."""
    with urlopen(f"http://{broker}/lookup/v2/topic/{topic_path(topic)}/bundle", timeout=10) as answer:
        return "/".join([*topic.partition("://")[2].split("/")[:2], answer.read().decode().strip()])


def test_a_bundle_that_was_unloaded_has_its_new_owner_in_the_next_tick(
    loaded: tuple[PulsarSandbox, PulsarAdmin], tmp_path: Path
) -> None:
    """With its load: actions on measured loads must not use an outdated owner."""
    sandbox, admin = loaded
    topic = "persistent://collect/loaded/hot-7f3a"
    bundle, owner = bundle_of_topic(admin.leader(), topic), admin.topic_owner(topic)
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
    """The broker counts as alive for ten seconds after its death; lake and recording agree."""
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
        bring_back(sandbox, dead)
    recorded = list(read_reports(record))
    assert recorded == list(recent_ticks(lake))
    assert {len(tick.brokers) for tick in recorded} == {2, 3}
    decisions = tmp_path / "decisions.jsonl"
    with pytest.raises(SystemExit) as ended:
        reports = ["--reports", str(record), "--strategy", "ThresholdShedder"]
        main(["replay", "bundles", *reports, "--out", str(decisions)])
    assert not ended.value.code
    assert len(decisions.read_text().splitlines()) == len(recorded)
