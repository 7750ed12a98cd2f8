"""A folder and an object store are one and the same to whoever keeps a lake in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.object_store import ObjectStore
from trimtab.files.store import Location, create, make_folder, place_of, remove_folder
from trimtab.files.versioned_documents import VersionConflictError, VersionedDocuments


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """An empty place."""
    if request.param == "folder":
        return place_of(tmp_path / "lake")
    store: ObjectStore = request.getfixturevalue("s3")
    return place_of(f"{store.bucket()}/some/lake")


def test_a_written_file_is_listed_and_read_immediately(place: Location) -> None:
    """Readers that list a folder find exactly what writers have finished there."""
    make_folder(place / "tables" / "one")
    create(place / "tables" / "one" / "a.parquet", b"first")
    (place / "tables" / "one" / "b.parquet").write_bytes(b"second")
    folder = place / "tables" / "one"
    assert sorted(path.name for path in folder.iterdir()) == ["a.parquet", "b.parquet"]
    assert [path.name for path in (place / "tables").iterdir()] == ["one"]
    assert sorted(path.name for path in place.glob("tables/*/*.parquet")) == ["a.parquet", "b.parquet"]
    assert (folder / "b.parquet").read_text() == "second"
    assert folder.is_dir() and not folder.is_file()
    assert (folder / "a.parquet").is_file() and not (folder / "a.parquet").is_dir()
    assert (folder / "a.parquet").parent == folder
    # A name that another one begins with is not that one's folder.
    assert not (place / "tables" / "on").exists()


def test_removal_deletes_everything_below_a_folder(place: Location) -> None:
    """A folder is removed with everything below it, and without its neighbours."""
    for name in ("one/deep/a", "one/b", "one-more/c"):
        path = place / name
        make_folder(path.parent)
        create(path, b"x")
    remove_folder(place / "one")
    remove_folder(place / "never")
    assert [path.name for path in place.iterdir()] == ["one-more"]
    (place / "one-more" / "c").unlink()
    (place / "one-more" / "c").unlink(missing_ok=True)
    assert list((place / "one-more").iterdir()) == []


def test_a_file_that_is_missing_is_a_missing_file(place: Location) -> None:
    """A reader of a manifest that was removed meanwhile can detect that."""
    with pytest.raises(FileNotFoundError):
        (place / "nothing").read_bytes()
    assert not (place / "nothing").is_file()
    assert not (place / "nothing").is_dir()


def test_only_the_first_creates(place: Location) -> None:
    """The second is refused, and the first one's content stays."""
    make_folder(place)
    create(place / "1.json", b"mine")
    with pytest.raises(FileExistsError):
        create(place / "1.json", b"other")
    assert (place / "1.json").read_bytes() == b"mine"
    assert [path.name for path in place.iterdir()] == ["1.json"]


_RACER = """
import sys
from trimtab.files.store import create, make_folder, place_of
place = place_of(sys.argv[1])
make_folder(place)
sys.stdin.readline()
won = []
for number in range(40):
    try:
        create(place / str(number), sys.argv[2].encode() * 2000)
        won.append(number)
    except FileExistsError:
        pass
print(*won)
"""


def test_of_two_processes_exactly_one_creates_each(place: Location) -> None:
    """Forty races: every file has one winner, who knows it, and holds what that one wrote, whole."""
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, str(place), name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for name in "ab"
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [{int(word) for word in racer.communicate(timeout=250)[0].split()} for racer in racers]
    assert won[0] | won[1] == set(range(40))
    assert not won[0] & won[1]
    for number in range(40):
        expected = (b"a" if number in won[0] else b"b") * 2000
        assert (place / str(number)).read_bytes() == expected


def test_numbered_documents_are_ordered_and_few(place: Location) -> None:
    """The newest counts; old ones go; a number that is taken, now or long ago, is refused."""
    documents = VersionedDocuments(place / "manifests", retained=3)
    assert documents.newest() is None
    for number in range(1, 8):
        documents.add(number, f"content {number}".encode())
    assert documents.newest() == (7, b"content 7")
    names = [f"{number:020d}.json" for number in (5, 6, 7)]
    assert sorted(path.name for path in (place / "manifests").iterdir()) == names
    for taken in (7, 6):
        with pytest.raises(VersionConflictError):
            documents.add(taken, b"stale")
    # Slept through so much that its number was taken, and removed, long since.
    with pytest.raises(VersionConflictError):
        documents.add(2, b"very stale")
    assert sorted(path.name for path in (place / "manifests").iterdir()) == names
    assert documents.newest() == (7, b"content 7")


def test_other_files_in_the_folder_of_numbered_documents_stay(place: Location) -> None:
    """What a killed writer left, or a person put there, is no document."""
    documents = VersionedDocuments(place / "seat", retained=2)
    make_folder(place / "seat")
    for name in (".00000000000000000009.json.ab.making", "README", "x.json"):
        create(place / "seat" / name, b"?")
    assert documents.newest() is None
    documents.add(1, b"one")
    assert documents.newest() == (1, b"one")
