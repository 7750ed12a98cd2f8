"""Finding the Java that runs brokers and Spark."""

from pathlib import Path

import pytest

from trimtab.jars import find_java, major_version, parse_version
from trimtab.model.errors import JarsError


def _java_home(folder: Path, answer: str) -> Path:
    """A JAVA_HOME whose java only answers -version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("answer", "version", "number"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17.0.15", 17),
        ('java version "1.8.0_392"', "1.8.0_392", 8),
        ('openjdk version "25-ea" 2025-09-16', "25-ea", 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', "21", 21),
    ],
)
def test_versions_of_all_ages_are_read(answer, version, number):
    """Java 8 still calls itself 1.8, previews have a suffix, and a set option is announced first."""
    assert parse_version(answer) == version
    assert major_version(version) == number


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
@pytest.mark.parametrize("what", ["brokers", "Spark"])
def test_an_old_java_is_refused_by_version(tmp_path, monkeypatch, what, version):
    """Spark itself would fail with a page of class file errors: one sentence has version and remedy."""
    monkeypatch.setenv("JAVA_HOME", str(_java_home(tmp_path, f'openjdk version "{version}"')))
    refusal = f"Java 17 or newer is needed to run {what}, and .* is Java {version}: install a newer one"
    with pytest.raises(JarsError, match=refusal):
        find_java(what)


def test_a_missing_java_is_reported_with_its_remedy(tmp_path, monkeypatch):
    """Without Java the message names the package to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsError, match="Java 17 or newer is needed to run Spark, .* install it"):
        find_java("Spark")


def test_a_java_home_that_is_no_java_is_named(tmp_path, monkeypatch):
    """A JAVA_HOME that points at something else is not blamed on the version."""
    monkeypatch.setenv("JAVA_HOME", str(_java_home(tmp_path, "hello")))
    with pytest.raises(JarsError, match="does not answer -version"):
        find_java("brokers")


def test_a_java_that_does_not_run_is_named(tmp_path, monkeypatch):
    """A program for another machine, found as java, is not blamed on its version."""
    program = _java_home(tmp_path, "") / "bin" / "java"
    program.write_text("no program")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JarsError, match="does not run .*: set JAVA_HOME"):
        find_java("brokers")


def test_java_home_precedes_the_path(tmp_path, monkeypatch):
    """JAVA_HOME has precedence over any other installation."""
    monkeypatch.setenv("JAVA_HOME", str(_java_home(tmp_path, 'openjdk version "99.1"')))
    assert find_java("brokers").version == "99.1"
