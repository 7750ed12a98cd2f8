"""What a user is told when Java is not as Spark needs it; no JVM is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.model.errors import ObserveError
from trimtab.observe.session import SessionSettings, require_java, session_options


def fake_java(folder: Path, says: str) -> None:
    """A program called java that only tells its version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21" 2023-09-19', 21)],
)
def test_new_enough_java_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, version: int
) -> None:
    """Vendors print the version in several forms."""
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert require_java() == version


@pytest.mark.parametrize("says", ['java version "1.8.0_402"', 'openjdk version "11.0.2" 2019-01-15'])
def test_old_java_is_one_sentence_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    """Spark itself would fail with a page of class file errors."""
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ObserveError, match=r"Java (8|11), Spark needs 17 or newer: install"):
        require_java()


def test_no_java_is_one_sentence_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing to go wrong on a fresh laptop."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ObserveError, match="none found: install a Java 17"):
        require_java()


def test_local_spark_listens_on_loopback_only_and_has_no_web_page() -> None:
    """A laptop in a café must not offer a Spark page to the room."""
    options = session_options(SessionSettings())
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.driver.host"] == "127.0.0.1"
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.sql.session.timeZone"] == "UTC"


def test_short_sessions_have_room_for_compiled_code() -> None:
    """With the default code cache of the fast mode the JVM stops compiling after a minute of stream."""
    assert (
        "ReservedCodeCacheSize"
        in session_options(SessionSettings(short=True))["spark.driver.extraJavaOptions"]
    )
