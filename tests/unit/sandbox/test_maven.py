"""Jars by coordinates: what Ivy is told, which mirror is used, and what a failure says."""

import pytest

from trimtab.model.errors import SandboxError
from trimtab.sandbox import jars, maven
from trimtab.sandbox.maven import Coordinate, JarSet, fetch, ivy_modules, scratch_beside
from trimtab.sandbox.maven_settings import maven_root, proxy_properties

KNOWN_SETS = [jars.KAFKA_SERVER, jars.PROMETHEUS_AGENT, jars.SPARK_KAFKA_EXACT, jars.SPARK_KAFKA_FALLBACK]

MIRRORS = """<settings xmlns="{}"><mirrors>
<mirror><mirrorOf>external:http:*</mirrorOf><url>blocker</url><blocked>true</blocked></mirror>
<mirror><mirrorOf>*</mirrorOf><url>blocked too</url><blocked>true</blocked></mirror>
<mirror><mirrorOf>some-repository</mirrorOf><url>other</url></mirror>
<mirror><mirrorOf>central,another</mirrorOf><url> the mirror </url></mirror>
</mirrors></settings>"""


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("jar_set", KNOWN_SETS, ids=lambda jar_set: jar_set.name)
def test_ivy_is_told_coordinates_and_no_address(jar_set):
    """Where jars come from is the machine's affair: no host stands in what we write."""
    text = ivy_modules(jar_set)
    assert "://" not in text
    assert all(f'name="{part.name}" rev="{part.version}"' in text for part in jar_set.coordinates)


def test_other_coordinates_mean_another_folder(own_cache):
    """A new version of one jar never mixes with the old set in the cache."""
    old = JarSet("kafka", (Coordinate("g", "a", "1"),))
    assert old.folder != JarSet("kafka", (Coordinate("g", "a", "2"),)).folder
    assert old.folder != JarSet("kafka", (Coordinate("g", "a", "1", transitive=True),)).folder


def test_what_is_cached_needs_no_java(own_cache, monkeypatch):
    """Once fetched, jars come from the cache even on a machine that has lost its Java and its network."""
    jar_set = JarSet("set", (Coordinate("g", "a", "1"),))
    jar_set.folder.mkdir(parents=True)
    (jar_set.folder / "a-1.jar").write_text("")
    monkeypatch.setenv("JAVA_HOME", "/absent")
    assert [jar.name for jar in fetch(jar_set)] == ["a-1.jar"]


def test_a_failed_fetch_leaves_nothing_that_looks_complete(own_cache, monkeypatch):
    """When the repository cannot be reached, the next try starts from nothing."""
    monkeypatch.setenv("TRIMTAB_MAVEN_ROOT", f"file:{own_cache}/no-such-repository")
    jar_set = JarSet("absent", (Coordinate("org.example", "absent", "1"),))
    with pytest.raises(SandboxError, match="did not give org.example#absent;1.*TRIMTAB_MAVEN_ROOT"):
        fetch(jar_set)
    assert not jar_set.folder.exists()
    assert not list(own_cache.glob("jars/.making-*"))


def test_what_a_killed_fetch_left_is_cleared_away(own_cache):
    """Kill -9 in mid-download leaves a folder of pieces, which the next fetch removes."""
    folder = own_cache / "jars" / "set-1"
    leftover = folder.parent / ".making-set-1-abc"
    leftover.mkdir(parents=True)
    other = folder.parent / ".making-set-2-abc"
    other.mkdir()
    with scratch_beside(folder) as scratch:
        assert scratch.is_dir()
        assert not leftover.exists()
        assert other.exists()
    assert not scratch.exists()


def test_a_mirror_of_files_serves(own_cache, monkeypatch):
    """A site without network keeps its jars in a folder laid out like a repository."""
    place = own_cache / "repository" / "org" / "example" / "here" / "1"
    place.mkdir(parents=True)
    (place / "here-1.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>here</artifactId><version>1</version></project>"
    )
    (place / "here-1.jar").write_bytes(b"PK\x05\x06" + bytes(18))
    monkeypatch.setenv("TRIMTAB_MAVEN_ROOT", f"file:{own_cache}/repository")
    said: list[str] = []
    fetched = fetch(JarSet("here", (Coordinate("org.example", "here", "1"),)), said.append)
    assert [jar.name for jar in fetched] == ["here-1.jar"]
    assert "fetching here" in said[0]


@pytest.mark.parametrize("namespace", ["", "urn:any-version-of-maven"])
def test_the_mirror_of_mavens_settings_is_used(tmp_path, namespace):
    """Behind a company's mirror, what Maven is configured for works for us as well."""
    file = tmp_path / "settings.xml"
    file.write_text(MIRRORS.format(namespace))
    assert maven_root({}, [tmp_path / "absent.xml", file]) == "the mirror"


def test_our_own_variable_wins_over_mavens_settings(tmp_path):
    """A user can point trimtab alone elsewhere."""
    file = tmp_path / "settings.xml"
    file.write_text(MIRRORS.format(""))
    assert maven_root({"TRIMTAB_MAVEN_ROOT": "ours"}, [file]) == "ours"


def test_broken_maven_settings_are_no_concern_of_ours(tmp_path):
    """A settings file that Maven itself could not read does not stop the sandbox."""
    file = tmp_path / "settings.xml"
    file.write_text("<settings><mirr")
    assert maven_root({}, [file]) is None


def test_the_proxy_of_the_environment_reaches_java():
    """Java does not read https_proxy, so people behind one would wait for nothing."""
    scheme = "http"
    flags = proxy_properties({"https_proxy": f"{scheme}://proxy.example:3128", "HTTP_PROXY": "other.example"})
    assert flags == [
        "-Dhttp.proxyHost=other.example",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]


def test_the_fallback_connector_is_taken_from_the_cache_without_asking_again(own_cache, monkeypatch):
    """Where the exact connector was not to be had once, the next start does not look for it again."""
    folder = jars.SPARK_KAFKA_FALLBACK.folder
    folder.mkdir(parents=True)
    (folder / "connector.jar").write_text("")
    monkeypatch.setattr(maven, "_resolve", lambda *_: pytest.fail("it asked the repository"))
    assert [jar.name for jar in jars.spark_kafka_jars()] == ["connector.jar"]
