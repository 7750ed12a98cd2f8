"""Clusters by name and by address: which one a command means, and errors for all else."""

from pathlib import Path

import pytest

from trimtab.balancers.clusters import cluster_named, clusters_of, only_cluster
from trimtab.balancers.settings import read_settings
from trimtab.balancers.systems import KAFKA, PAXOS, PULSAR, REDIS
from trimtab.cli.context import CommandContext
from trimtab_common.errors import SettingsError
from trimtab_common.settings import Settings

TWO = """
[clusters.prod]
address = "kafka://a:1,b:2"
timeout_seconds = 3
id = "KO3LuVSKRCW9ZeOYF7fRMg"
[clusters.events]
address = "pulsar+https://p:8443,q:8443"
"""


def settings(folder: Path, text: str = TWO) -> Settings:
    """The settings of a file."""
    (folder / "trimtab.toml").write_text(text, encoding="utf-8")
    return read_settings(folder / "trimtab.toml", [], {})


def context(folder: Path, cluster: str | None, text: str = TWO) -> CommandContext:
    """A command with `--cluster` in a folder with settings."""
    (folder / "trimtab.toml").write_text(text, encoding="utf-8")
    return CommandContext(folder / "lake", folder / "trimtab.toml", (), cluster)


def test_a_name_is_a_table_of_the_settings(tmp_path: Path) -> None:
    """With all its keys; the beginning of the address says what it is."""
    found = cluster_named(settings(tmp_path), "prod")
    assert (found.system, found.name, found.id) == (KAFKA, "prod", "KO3LuVSKRCW9ZeOYF7fRMg")
    connection = found.connection()
    assert (connection.bootstrap, connection.timeout_seconds) == (("a:1", "b:2"), 3.0)
    events = clusters_of(settings(tmp_path))["events"].connection()
    assert events.admin == ("https://p:8443", "https://q:8443")


def test_an_address_is_accepted_in_place_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each system; a file is relative to the working folder, not to the settings."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "etc").mkdir()
    read = settings(tmp_path / "etc")
    assert cluster_named(read, "kafka://c:3").connection().bootstrap == ("c:3",)
    assert cluster_named(read, "pulsar+http://c:8080").connection().admin == ("http://c:8080",)
    assert cluster_named(read, "redis://c:6379/2").connection().url == "redis://c:6379/2"
    assert cluster_named(read, "paxos:node.json").connection().node == tmp_path / "node.json"
    systems = [cluster_named(read, one).system for one in ("rediss://c:1", "redis+cluster://c:1", "paxos:x")]
    assert systems == [REDIS, REDIS, PAXOS]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("prd", "--cluster is 'prd': did you mean prod?"),
        ("staging", "the settings name prod, events; or write an address: kafka://"),
        ("http://b:8080", "--cluster is 'http://b:8080': write it like kafka://"),
        ("ftp://ann:hush@b", "--cluster is 'ftp://...@b': write it like"),
        ("kafka://b", "bootstrap address 'b' is not host:port"),
    ],
)
def test_a_cluster_that_there_is_not(choice: str, message: str, tmp_path: Path) -> None:
    """The error names what was given, and what to write; no password."""
    with pytest.raises(SettingsError) as caught:
        cluster_named(settings(tmp_path), choice).connection()
    assert message in str(caught.value)


def test_without_a_choice_there_must_be_one(tmp_path: Path) -> None:
    """One cluster of the system for a command of one system, one cluster at all for the others."""
    read = settings(tmp_path)
    assert only_cluster(read, PULSAR).name == "events"
    with pytest.raises(SettingsError, match=r"no Redis cluster is named: give --cluster redis://"):
        only_cluster(read, REDIS)
    with pytest.raises(SettingsError, match="name 2 clusters: choose one with --cluster prod or events"):
        context(tmp_path, None).only(read)
    with pytest.raises(SettingsError, match="no cluster is named: give --cluster kafka://"):
        context(tmp_path, None, "").only(settings(tmp_path, ""))


def test_the_environment_chooses_the_cluster_and_the_option_precedes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator's shell may name the cluster once."""
    monkeypatch.setenv("TRIMTAB_CLUSTER", "events")
    read = settings(tmp_path)
    assert context(tmp_path, None).only(read).name == "events"
    assert context(tmp_path, "prod").only(read).name == "prod"
    with pytest.raises(SettingsError, match="TRIMTAB_CLUSTER events is a Pulsar cluster, and a Kafka"):
        context(tmp_path, None).connection(KAFKA, read)


def test_a_lake_is_queried_by_the_id_of_a_cluster(tmp_path: Path) -> None:
    """A name stands for the id in the settings; without one nothing is guessed."""
    assert context(tmp_path, "prod").lake_cluster() == "KO3LuVSKRCW9ZeOYF7fRMg"
    assert context(tmp_path, "an-id").lake_cluster() == "an-id"
    assert context(tmp_path, "queues at redis://b:6379/0").lake_cluster() == "queues at redis://b:6379/0"
    assert context(tmp_path, None).lake_cluster() is None
    with pytest.raises(SettingsError, match=r"add its id to \[clusters.events\]"):
        context(tmp_path, "events").lake_cluster()
    with pytest.raises(SettingsError, match="samples of a lake are named by the id"):
        context(tmp_path, "kafka://a:1").lake_cluster()
