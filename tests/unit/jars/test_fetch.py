"""Jars of a lock list: what a list may say, what Ivy is told, and that only tried bytes are kept."""

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab import jars as fetching
from trimtab.jars import Jar, fetch, ivy_modules, read_lock, scratch_sibling
from trimtab.lab.sandbox.kafka import runtime as kafka
from trimtab.lab.sandbox.pulsar import runtime as pulsar
from trimtab.model.errors import JarsError, SandboxError

CONTENT = b"PK\x05\x06" + bytes(18)
HASH = hashlib.sha256(CONTENT).hexdigest()
JAR = Jar("org.example", "a", "1", "", HASH)
KNOWN_LISTS = {
    "kafka": kafka.lock_of(kafka.KAFKA_VERSION),
    "agent": (kafka.PROMETHEUS_AGENT,),
    **{version: pulsar.lock_of(version) for version in pulsar.VERSIONS},
    **{
        name: fetching.connector_jars(name)
        for kind in (fetching.KAFKA, fetching.S3, fetching.COMET)
        for name in fetching.spark_lists(kind, "99.0")
    },
}


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def repository(tmp_path, own_cache, monkeypatch):
    """An empty cache, and a repository in a folder, as a site without network has it, that holds one jar."""
    monkeypatch.setenv("TRIMTAB_MAVEN_ROOT", (tmp_path / "repository").as_uri())
    place = tmp_path / "repository" / "org" / "example" / "a" / "1"
    place.mkdir(parents=True)
    (place / JAR.file).write_bytes(CONTENT)
    return place


def test_a_line_is_coordinates_and_a_hash():
    """A classifier is part of the coordinates, and of the file's name."""
    plain, native, unknown = read_lock(
        f"org.example:a:1 {HASH}\norg.example:b:2:linux-x86_64 {HASH}\norg.example:c:3 -\n"
    )
    assert plain == JAR
    assert plain.file == "a-1.jar"
    assert native.file == "b-2-linux-x86_64.jar"
    assert str(native) == "org.example:b:2:linux-x86_64"
    assert unknown.sha256 == "-"


@pytest.mark.parametrize(
    "line", ["", "org.example:a", f"org.example:a:1 {HASH[:-1]}", f"a:1 {HASH}", f"g:a:1:c:d {HASH}"]
)
def test_a_line_of_another_form_is_named(line):
    """Who edits a list by hand learns which line is wrong."""
    with pytest.raises(JarsError, match="line 2 of a lock list"):
        read_lock(f"org.example:a:1 {HASH}\n{line}\n")


def test_two_jars_of_one_file_name_cannot_lie_in_one_folder():
    """One would stand in for the other."""
    with pytest.raises(JarsError, match=r"a-1\.jar twice"):
        read_lock(f"org.example:a:1 {HASH}\norg.other:a:1 {HASH}\n")


@pytest.mark.parametrize("name", KNOWN_LISTS)
def test_ivy_receives_coordinates_and_no_address(name):
    """Where jars come from is the machine's affair: no host stands in what we write."""
    jars = KNOWN_LISTS[name]
    text = ivy_modules(jars) + fetching.SETTINGS
    assert "://" not in text
    assert all(f'name="{jar.name}" rev="{jar.version}"' in text for jar in jars)


@pytest.mark.parametrize("version", pulsar.VERSIONS)
def test_every_known_pulsar_has_its_brokers_bookie_and_metadata_store(version):
    """The lists that come with trimtab are whole, and hold no address."""
    jars = {jar.name: jar.version for jar in pulsar.lock_of(version)}
    assert jars["pulsar-broker"] == version
    assert {"bookkeeper-server", "log4j-slf4j2-impl"} <= jars.keys()
    assert any(name.startswith("zookeeper") for name in jars)
    assert not any("/" in str(jar) for jar in pulsar.lock_of(version))


def test_kafka_has_its_server_and_the_logging_that_fits_it():
    """Kafka brings slf4j 1.7, whose binding has another name than the one for slf4j 2."""
    jars = {jar.name: jar.version for jar in kafka.lock_of(kafka.KAFKA_VERSION)}
    assert jars["kafka_2.13"] == kafka.KAFKA_VERSION
    assert jars["slf4j-api"].startswith("1.7")
    assert "log4j-slf4j-impl" in jars


def test_a_pulsar_without_a_list_is_refused_with_those_that_have_one():
    """No version is started whose jars were never tried."""
    with pytest.raises(SandboxError, match=r"Pulsar 3\.3\.0 cannot be started: .* 4\.0\.7, 4\.2\.4"):
        pulsar.lock_of("3.3.0")


def test_a_cached_jar_needs_no_java_and_no_network(repository, monkeypatch):
    """Once fetched, jars come from the cache even on a machine that has lost both."""
    said: list[str] = []
    (path,) = fetch("set", (JAR,), said.append)
    assert path.name == "a-1.jar"
    assert said[0].startswith("fetching 1 jars of set")
    (repository / JAR.file).unlink()
    monkeypatch.setenv("JAVA_HOME", "/absent")
    assert fetch("set", (JAR,)) == [path]
    assert path.read_bytes() == CONTENT


def test_a_classifier_is_another_file_of_the_same_module(repository):
    """Native parts are next to the jar that they belong to."""
    (repository / "a-1-linux.jar").write_bytes(CONTENT)
    native = replace(JAR, classifier="linux")
    assert [path.name for path in fetch("set", (JAR, native))] == ["a-1.jar", "a-1-linux.jar"]


def test_a_jar_that_was_cut_off_in_the_cache_is_fetched_again(repository):
    """A full disk or a kill in the middle does not break all later starts."""
    (path,) = fetch("set", (JAR,))
    path.write_bytes(CONTENT[:3])
    fetch("set", (JAR,))
    assert path.read_bytes() == CONTENT


def test_other_bytes_than_were_tried_are_refused(repository, own_cache):
    """A repository that gives something else is named; nothing gets its name in the cache."""
    (repository / JAR.file).write_bytes(b"something else")
    with pytest.raises(JarsError, match="did not give org.example:a:1 \\(other bytes than were tried\\)"):
        fetch("set", (JAR,))
    assert not list(own_cache.glob("jars/set/*.jar"))


def test_a_failed_fetch_leaves_no_partial_folder(repository, own_cache):
    """A jar that the repository lacks is named with the remedy, and the next try starts from nothing."""
    absent = Jar("org.example", "absent", "1", "", HASH)
    with pytest.raises(JarsError, match="did not give org.example:absent:1: .*TRIMTAB_MAVEN_ROOT"):
        fetch("absent", (absent,))
    assert not list(own_cache.glob("jars/absent/*"))
    assert not list(own_cache.glob("jars/.making-*"))


def test_leftovers_of_a_killed_fetch_are_removed(own_cache):
    """Kill -9 during a download leaves a partial folder, which the next fetch removes."""
    folder = own_cache / "jars" / "set-1"
    leftover = folder.parent / ".making-set-1-abc"
    leftover.mkdir(parents=True)
    other = folder.parent / ".making-set-2-abc"
    other.mkdir()
    with scratch_sibling(folder) as scratch:
        assert scratch.is_dir()
        assert not leftover.exists()
        assert other.exists()
    assert not scratch.exists()


def test_the_fallback_connector_is_read_from_the_cache_without_a_request(own_cache, monkeypatch):
    """After one failure of the exact connector, the next start does not search for it again."""
    monkeypatch.setattr(fetching, "connector_jars", lambda name: (replace(JAR, name=name),))
    monkeypatch.setattr(fetching, "spark_lists", lambda kind: ["newer", "older"])
    folder = own_cache / "jars" / "older"
    folder.mkdir(parents=True)
    (folder / "older-1.jar").write_bytes(CONTENT)
    monkeypatch.setattr(fetching, "_download", lambda *_: pytest.fail("it asked the repository"))
    assert [jar.name for jar in fetching.spark_kafka_jars()] == ["older-1.jar"]


def test_jars_are_those_of_the_installed_spark(own_cache, monkeypatch):
    """A connector of a newer Spark does not load; Comet has builds for some versions only."""
    assert fetching.spark_lists(fetching.KAFKA, "4.1.4") == ["spark-kafka-4.1"]
    assert fetching.spark_lists(fetching.KAFKA, "4.3.0")[:2] == ["spark-kafka-4.3", "spark-kafka-4.2"]
    assert fetching.spark_lists(fetching.S3, "4.3.0")[0] == "spark-s3-4.2"
    monkeypatch.setattr(fetching, "fetch", lambda name, jars, _: [Path(name)])
    monkeypatch.setattr(sys, "platform", "linux")
    found = {}
    for spark in ("4.1.4", "4.3.0"):
        monkeypatch.setattr(fetching, "version", lambda _, spark=spark: spark)
        found[spark] = fetching.spark_comet_jars()
    assert found == {"4.1.4": [Path("spark-comet-4.1")], "4.3.0": []}
