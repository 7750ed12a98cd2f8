"""Jars of a lock list: what a list may say, and that only the bytes that were tried get into the cache."""

import hashlib
import zipfile

import pytest

from trimtab.model.errors import SandboxError
from trimtab.sandbox.locked_jars import (
    PUBLIC_REPOSITORY_CLASS,
    LockedJar,
    fetch_locked,
    public_root,
    read_lock,
)
from trimtab.sandbox.pulsar.runtime import VERSIONS, lock_of

CONTENT = b"a jar"
HASH = hashlib.sha256(CONTENT).hexdigest()
JAR = LockedJar("org.example", "a", "1", "", HASH)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty cache, and a repository that has one jar."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TRIMTAB_MAVEN_ROOT", (tmp_path / "repository").as_uri())
    monkeypatch.setattr("trimtab.sandbox.locked_jars.time.sleep", lambda seconds: None)
    file = tmp_path / "repository" / JAR.path
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    return tmp_path / "repository"


def test_a_line_is_coordinates_and_a_hash():
    """A classifier is part of the coordinates, and of the file's name."""
    plain, native = read_lock(f"org.example:a:1 {HASH}\norg.example:b:2:linux-x86_64 {HASH}\n")
    assert plain == JAR
    assert plain.path == "org/example/a/1/a-1.jar"
    assert native.file == "b-2-linux-x86_64.jar"
    assert str(native) == "org.example:b:2:linux-x86_64"


@pytest.mark.parametrize(
    "line", ["", "org.example:a", f"org.example:a:1 {HASH[:-1]}", f"a:1 {HASH}", f"g:a:1:c:d {HASH}"]
)
def test_a_line_of_another_form_is_named(line):
    """Who edits a list by hand learns which line is wrong."""
    with pytest.raises(SandboxError, match="line 2 of a lock list"):
        read_lock(f"org.example:a:1 {HASH}\n{line}\n")


def test_two_jars_of_one_file_name_cannot_lie_in_one_folder():
    """One would stand in for the other."""
    with pytest.raises(SandboxError, match=r"a-1\.jar twice"):
        read_lock(f"org.example:a:1 {HASH}\norg.other:a:1 {HASH}\n")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_known_pulsar_has_its_brokers_bookie_and_metadata_store(version):
    """The lists that come with trimtab are whole, and hold no address."""
    jars = {jar.name: jar.version for jar in lock_of(version)}
    assert jars["pulsar-broker"] == version
    assert {"bookkeeper-server", "log4j-slf4j2-impl"} <= jars.keys()
    assert any(name.startswith("zookeeper") for name in jars)
    assert not any("/" in str(jar) for jar in lock_of(version))


def test_a_pulsar_without_a_list_is_refused_with_those_that_have_one():
    """No version is started whose jars were never tried."""
    with pytest.raises(SandboxError, match=r"Pulsar 3\.3\.0 cannot be started: .* 4\.0\.7, 4\.2\.4"):
        lock_of("3.3.0")


def test_what_is_in_the_cache_with_the_right_bytes_is_not_fetched(repository):
    """The second start needs no network."""
    (path,) = fetch_locked("set", (JAR,))
    (repository / JAR.path).unlink()
    assert fetch_locked("set", (JAR,)) == [path]
    assert path.read_bytes() == CONTENT


def test_a_jar_that_was_cut_off_in_the_cache_is_fetched_again(repository):
    """A full disk or a kill in the middle does not break all later starts."""
    (path,) = fetch_locked("set", (JAR,))
    path.write_bytes(CONTENT[:3])
    said: list[str] = []
    fetch_locked("set", (JAR,), said.append)
    assert path.read_bytes() == CONTENT
    assert said[0].startswith("fetching 1 jars of set")


def test_other_bytes_than_were_tried_are_refused(repository):
    """A repository that gives something else is named; nothing gets its name in the cache."""
    (repository / JAR.path).write_bytes(b"something else")
    with pytest.raises(SandboxError, match="did not give org.example:a:1 \\(other bytes than were tried\\)"):
        fetch_locked("set", (JAR,))
    assert not list(repository.parent.glob("cache/jars/set/*.jar"))


def test_a_jar_that_the_repository_lacks_is_named_with_the_remedy(repository):
    """One sentence: what is missing, and how to name another repository."""
    absent = LockedJar("org.example", "absent", "1", "", HASH)
    with pytest.raises(SandboxError, match="did not give org.example:absent:1.*TRIMTAB_MAVEN_ROOT"):
        fetch_locked("set", (absent,))


def test_the_public_repository_is_the_one_that_ivy_knows(tmp_path):
    """No host is written by us: Ivy's own jar tells."""
    with zipfile.ZipFile(tmp_path / "ivy.jar", "w") as jar:
        jar.writestr(PUBLIC_REPOSITORY_CLASS, b"\x01\x00\x20https://maven.example/maven2/\x01\x00")
    assert public_root(tmp_path / "ivy.jar") == "https://maven.example/maven2/"
    (tmp_path / "other.jar").write_bytes(b"no jar")
    with pytest.raises(SandboxError, match="does not say where.*TRIMTAB_MAVEN_ROOT"):
        public_root(tmp_path / "other.jar")
