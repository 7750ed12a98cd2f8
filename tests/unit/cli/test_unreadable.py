"""Places that may not be read: one sentence, no traceback."""

from pathlib import Path

import pytest

from support.object_store import ObjectStore
from trimtab.cli.app import main


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a command."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0), capsys.readouterr().err


def forbidding(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder unreadable, to whoever runs the tests."""
    listed = Path.iterdir

    def iterdir(self: Path) -> object:
        if self == place:
            raise PermissionError(13, "Permission denied", str(self))
        return listed(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)


def test_a_lake_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`snapshot export` searches for clusters in it."""
    (tmp_path / "snapshots").mkdir()
    forbidding(tmp_path / "snapshots", monkeypatch)
    code, told = said(capsys, "snapshot", "export", f"--out={tmp_path / 's.json'}", f"--lake={tmp_path}")
    assert code == 2
    assert told == (
        f"trimtab: {tmp_path / 'snapshots'}: Permission denied: let this user read and write there, or name "
        "another place\n"
    )


@pytest.mark.parametrize("command", [("status",), ("pipeline", "compact")])
def test_a_lake_that_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    """Named, in one line."""
    (tmp_path / "lake").write_text("no lake")
    code, told = said(capsys, *command, f"--lake={tmp_path / 'lake'}")
    assert code in (1, 2)
    assert str(tmp_path / "lake") in told
    assert told.count("\n") == 1


def test_a_state_folder_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in its place, or a journal that cannot be opened."""
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "file" / "state"))
    code, told = said(capsys, "execution", "list")
    assert code == 2
    assert told.startswith(f"trimtab: {tmp_path / 'file' / 'state'}: Not a directory")
    assert told.count("\n") == 1
    (tmp_path / "state" / "executions.sqlite").mkdir(parents=True)
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    code, told = said(capsys, "execution", "list")
    assert code == 1
    assert "executions.sqlite cannot be read (unable to open database file): let this user read" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["pipeline", "run"], ["pipeline", "compact"], ["status"], ["plan", "replicas"]]
)
def test_an_address_is_not_taken_for_a_folder(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    s3: ObjectStore,
    words: list[str],
) -> None:
    """A bucket that is not there, or a store of another kind, would else become a folder of that name."""
    monkeypatch.chdir(tmp_path)
    code, text = said(capsys, *words, "--lake", "s3a://no-such-bucket/lake")
    assert (code, text.count("\n")) == (2, 1)
    assert "s3://no-such-bucket/" in text and "the bucket does not exist" in text
    monkeypatch.setenv("TRIMTAB_LAKE", "hdfs://name/lake")
    code, text = said(capsys, *words)
    assert (code, text.count("\n")) == (2, 1)
    assert "lake hdfs://name/lake has an address of a kind that is not supported" in text
    assert not list(tmp_path.iterdir())
