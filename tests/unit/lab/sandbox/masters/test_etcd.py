"""Which etcd a sandbox takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.lab.sandbox.masters.sandbox import etcd_program, member_command
from trimtab.model.errors import SandboxError


def told(folder: Path, version: str) -> Path:
    """A program `etcd` that says its version, in a folder."""
    folder.mkdir(exist_ok=True)
    program = folder / "etcd"
    program.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["3.4.23", "3.5.6", "3.6.1"])
def test_the_one_on_path_is_taken(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any is fetched."""
    program = told(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert etcd_program() == str(program)


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("3.5.1", "lose committed writes when they are killed under load"),
        ("3.3.25", "expected 3.4 or later"),
        ("of late", "tells no version"),
    ],
)
def test_an_etcd_that_may_lose_commits_is_rejected(
    version: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members are killed under load here; the error states the reason."""
    told(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match=sentence):
        etcd_program()


def test_a_downloaded_etcd_is_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched a second time."""
    program = told(tmp_path / "made", "3.4.23")
    kept = tmp_path / "cache" / "etcd" / "debian" / "usr" / "bin"
    kept.mkdir(parents=True)
    program.rename(kept / "etcd")
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.lab.sandbox.masters.sandbox.shutil.which", lambda name: None)
    assert etcd_program() == str(kept / "etcd")


def test_without_etcd_the_installation_command_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without apt-get."""
    monkeypatch.setenv("TRIMTAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("trimtab.lab.sandbox.masters.sandbox.shutil.which", lambda name: None)
    with pytest.raises(SandboxError, match=r"install etcd 3\.4\.22 or later"):
        etcd_program()


def test_members_find_one_another(tmp_path: Path) -> None:
    """Each by its second port; elections have the stated duration."""
    command = member_command("etcd", 1, (1, 2, 3, 4, 5, 6), tmp_path, 0.5)
    assert "m0=http://127.0.0.1:2,m1=http://127.0.0.1:4,m2=http://127.0.0.1:6" in command
    assert command[command.index("--listen-client-urls") + 1] == "http://127.0.0.1:3"
    assert command[command.index("--election-timeout") + 1] == "500"
