"""Addresses: which are understood, and what is said of a store that does not do what it should."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from support.object_store import SECRETS, ObjectStore
from trimtab.files.object_store import StoreError, StorePath
from trimtab.files.store import create, place_of
from trimtab_common.errors import InputError, SettingsError


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("s3://bucket/a/lake", StorePath("s3://bucket", "a/lake")),
        ("s3a://bucket/a//lake/", StorePath("s3://bucket", "a/lake")),
        ("s3:/bucket/lake", StorePath("s3://bucket", "lake")),  # as `Path` leaves it
        ("gs://bucket", StorePath("gs://bucket", "")),
        ("az://lakes/a", StorePath("az://lakes", "a")),
        ("file:///data/lake", Path("/data/lake")),
        ("/data/lake", Path("/data/lake")),
    ],
)  # fmt: skip
def test_an_address_is_a_folder_here_or_a_place_in_a_store(given: str, found: object) -> None:
    """With any value of a command line, setting or environment variable."""
    assert place_of(given) == found


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("hdfs://name/lake", "hdfs://name/lake has an address of a kind that is not supported"),
        ("ftp://host/lake", "is not supported: name a folder"),
        ("s3://", "names no bucket: write s3://BUCKET/FOLDER"),
    ],
)
def test_another_address_is_refused_in_a_sentence(given: str, sentence: str) -> None:
    """It must never become a local folder of that name."""
    with pytest.raises(SettingsError, match=sentence):
        place_of(given)


def test_relative_folders_and_the_home_are_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As they have always been."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "her"))
    assert place_of("lake") == tmp_path / "lake"
    assert place_of("~/lake") == tmp_path / "her" / "lake"


def test_python_makes_no_folder_of_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of Python's own that is handed one fails, instead of writing to a folder `s3:`."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TypeError, match="s3://bucket/a is no file of this machine"):
        os.mkdir(StorePath("s3://bucket", "a"))
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_is_not_there_is_one_sentence(s3: ObjectStore) -> None:
    """A mistyped address is quoted, instead of a page of XML."""
    for ask in (
        lambda: list(place_of("s3://no-such-bucket/lake").iterdir()),
        lambda: create(place_of("s3://no-such-bucket/lake/a"), b""),
        lambda: place_of("s3://no-such-bucket/lake/a").read_bytes(),
    ):
        with pytest.raises(StoreError) as refused:
            ask()
        assert "the bucket does not exist" in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_store_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server listens on port 1; there are a few attempts, for less than minutes."""
    for name, value in {**SECRETS, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(StoreError, match=r"^s3://unreachable/lake: the store cannot be reached; see that"):
        list(place_of("s3://unreachable/lake").iterdir())


def test_a_file_system_without_links_creates_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounted buckets and some sticks know no links."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    create(tmp_path / "1.json", b"mine")
    with pytest.raises(FileExistsError):
        create(tmp_path / "1.json", b"other")
    assert (tmp_path / "1.json").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["1.json"]


def test_a_link_that_was_made_but_not_confirmed_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system that lost its answer asks again, and is then refused because of itself."""
    link = os.link

    def twice(one: Path, other: Path) -> None:
        link(one, other)
        link(one, other)

    monkeypatch.setattr(os, "link", twice)
    create(tmp_path / "1.json", b"mine")
    assert (tmp_path / "1.json").read_bytes() == b"mine"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the document nor a part of it; the sentence states the remedy."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written, No space left on device; free space"):
        create(tmp_path / "1.json", b"mine")
    assert list(tmp_path.iterdir()) == []
