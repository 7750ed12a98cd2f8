"""The lock of a lake's writer: who holds it, who takes it over, and what a writer that lost it cannot do."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from support.object_store import ObjectStore
from trimtab.files.lease import LEASE_SECONDS
from trimtab.files.object_store import StoreError
from trimtab.files.store import Location, place_of
from trimtab.files.versioned_documents import VersionedDocuments
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest, read_manifest
from trimtab.observe.lake.writer_lock import FOLDER, WriterLock, acquire, hold_writer_lock
from trimtab_common.errors import InputError


@pytest.fixture(params=["folder", "s3"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """The folder of a lake's tables, still empty."""
    if request.param == "folder":
        return tmp_path / "tables"
    store: ObjectStore = request.getfixturevalue("s3")
    return place_of(store.bucket()) / "tables"


class Time:
    """A clock that passes only by sleeping, and does something at some time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.then = lambda: None
        self.at = float("inf")

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        if self.now >= self.at:
            self.at = float("inf")
            self.then()


def moved_elsewhere(lock: WriterLock) -> None:
    """Make the holder of a lock a process of another machine, as far as others can see."""
    lock.lease.holder = replace(lock.lease.holder, machine="another", host="another")
    lock.lease.renew()


def with_table(path: str) -> Manifest:
    """Tables that can be told apart."""
    return Manifest(tables={"rates": (ManifestEntry(path, 0, 10, 0, 9),)})


def test_a_second_writer_is_refused_until_the_first_leaves(tables: Location) -> None:
    """On one machine there is no wait: the process can be checked."""
    us = rf"being written by another .*process {os.getpid()} on"
    with hold_writer_lock(tables), pytest.raises(ObserveError, match=us):
        acquire(tables, sleep=pytest.fail)  # type: ignore[arg-type]
    with hold_writer_lock(tables) as lock:
        assert lock.publish(Manifest()).writer_epoch == lock.lease.epoch


def test_a_writer_elsewhere_is_waited_for(tables: Location) -> None:
    """A heartbeat just before the lease ends: rejected; none for a lease: succeeded."""
    first = acquire(tables)
    moved_elsewhere(first)
    time = Time()
    time.at, time.then = LEASE_SECONDS - 2, first.lease.renew
    with pytest.raises(ObserveError, match="being written by another .* on another"):
        acquire(tables, clock=time.clock, sleep=time.sleep)
    assert LEASE_SECONDS - 2 <= time.now <= LEASE_SECONDS
    waited: list[str] = []
    second = acquire(tables, print_progress=waited.append, clock=time.clock, sleep=time.sleep)
    assert time.now >= 2 * LEASE_SECONDS - 3
    assert waited == [f"{first.lease.holder} was writing: waiting 30 s for a heartbeat"]
    assert second.lease.epoch > first.lease.epoch
    first.lease.renew()
    assert first.lease.is_lost
    assert not second.lease.is_lost


def test_a_writer_that_lost_its_lock_publishes_nothing(tables: Location) -> None:
    """It slept, was succeeded, and wakes up with tables computed from what it had read before."""
    first = acquire(tables)
    read_by_first = first.publish(with_table("rates/old"))
    moved_elsewhere(first)
    time = Time()
    second = acquire(tables, clock=time.clock, sleep=time.sleep)
    # Before the second one has published anything of its own.
    with pytest.raises(
        ObserveError, match=r"has taken over the writing .* nothing was published: start again"
    ):
        first.publish(replace(read_by_first, tables=with_table("rates/stale").tables))
    assert first.lease.is_lost
    assert read_manifest(tables).tables == with_table("rates/old").tables
    done = second.publish(replace(read_manifest(tables), tables=with_table("rates/new").tables))
    with pytest.raises(ObserveError, match="nothing was published"):
        first.publish(replace(read_by_first, tables=with_table("rates/stale").tables))
    first.lease.release()
    second.lease.renew()
    assert not second.lease.is_lost
    assert read_manifest(tables) == done


def test_a_publication_just_before_the_lock_changes_hands_is_retained(
    tables: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old writer is a moment faster than the one that shuts it out: the new one goes on from there."""
    first = acquire(tables)
    published = first.publish(with_table("rates/old"))
    moved_elsewhere(first)
    from trimtab.observe.lake import writer_lock as module

    def late(folder: Location, manifest: Manifest) -> Manifest:
        monkeypatch.setattr(module, "publish_manifest", publish_manifest)
        publish_manifest(folder, replace(published, tables=with_table("rates/last").tables, writer_epoch=1))
        return publish_manifest(folder, manifest)

    monkeypatch.setattr(module, "publish_manifest", late)
    time = Time()
    second = acquire(tables, clock=time.clock, sleep=time.sleep)
    found = read_manifest(tables)
    assert found.tables == with_table("rates/last").tables
    assert (found.version, found.writer_epoch) == (published.version + 2, second.lease.epoch)


def test_of_two_that_succeed_the_later_one_stays(tables: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """One takes the lock, sleeps, is succeeded in turn, and must not shut out its own successor."""
    from trimtab.observe.lake import writer_lock as module

    first = acquire(tables)
    moved_elsewhere(first)
    later: list[WriterLock] = []

    def slept(folder: Location) -> Manifest:
        monkeypatch.setattr(module, "read_manifest", read_manifest)
        newest = VersionedDocuments(tables / FOLDER, retained=4).newest()
        assert newest is not None
        gone = {**json.loads(newest[1]), "machine": "another"}
        VersionedDocuments(tables / FOLDER, retained=4).add(newest[0] + 1, json.dumps(gone).encode())
        time = Time()
        later.append(acquire(tables, clock=time.clock, sleep=time.sleep))
        return read_manifest(folder)

    time = Time()
    original = module._exclude_previous_writer

    def asleep_before(lock: WriterLock) -> None:
        monkeypatch.setattr(module, "_exclude_previous_writer", original)
        monkeypatch.setattr(module, "read_manifest", slept)
        original(lock)

    monkeypatch.setattr(module, "_exclude_previous_writer", asleep_before)
    with pytest.raises(ObserveError, match="being written by another"):
        acquire(tables, clock=time.clock, sleep=time.sleep)
    (last,) = later
    last.lease.renew()
    assert not last.lease.is_lost
    assert last.publish(read_manifest(tables)).writer_epoch == last.lease.epoch


def test_an_unreadable_lock_is_replaced_and_its_writer_excluded(tables: Location) -> None:
    """A document of a later version, or a damaged one: the holder is unknown, so it is not trusted."""
    VersionedDocuments(tables / FOLDER, retained=4).add(7, b"{}")
    lock = acquire(tables)
    assert lock.lease.epoch == 8
    assert read_manifest(tables).writer_epoch == 8


def test_a_removed_lock_folder_does_not_readmit_an_old_writer(tables: Location) -> None:
    """A manual cleanup removed the folder: later locks still have larger numbers."""
    with hold_writer_lock(tables) as first:
        first.publish(Manifest())
    paths: list[Any] = list((tables / FOLDER).iterdir())
    for path in paths:
        path.unlink()
    with hold_writer_lock(tables) as second:
        assert second.lease.epoch > first.lease.epoch


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (errno.ENOSPC, "No space left on device; free space or name another place"),
        (errno.EROFS, "Read-only file system"),
        (errno.EACCES, "permission denied; name a place that you may write"),
    ],
)
def test_an_unwritable_folder_is_reported_and_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: int, told: str
) -> None:
    """Full, read-only or forbidden: no lock, no publication, no partial file; and a lock whose release could
    not be recorded is free.
    """
    tables = tmp_path / "tables"

    def refused(_: int) -> None:
        raise OSError(fault, os.strerror(fault))

    with hold_writer_lock(tables) as lock:
        before = lock.publish(with_table("rates/old"))
        with monkeypatch.context() as during:
            during.setattr(os, "fsync", refused)
            with pytest.raises(InputError, match=told):
                lock.publish(replace(before, tables=with_table("rates/new").tables))
            lock.lease.release()
            with pytest.raises(InputError, match=told):
                acquire(tables)
    assert read_manifest(tables) == before
    assert all(path.suffix == ".json" for path in tables.glob("*/*"))
    after = acquire(tables, sleep=pytest.fail)  # type: ignore[arg-type]
    assert after.publish(replace(read_manifest(tables), watermark=5)).watermark == 5


def test_a_key_that_is_revoked_in_the_middle_publishes_nothing(s3: ObjectStore) -> None:
    """The store refuses the publication, in a sentence; once it lets us in again, all is as before."""
    tables = place_of(s3.bucket()) / "tables"
    try:
        with hold_writer_lock(tables) as lock:
            before = lock.publish(with_table("rates/old"))
            s3.refuse(True)
            with pytest.raises(StoreError, match="access denied, the store does not know this access key"):
                lock.publish(replace(before, tables=with_table("rates/new").tables))
    finally:
        s3.refuse(False)
    assert read_manifest(tables) == before
    with hold_writer_lock(tables) as lock:
        assert lock.publish(read_manifest(tables)).tables == before.tables


_VICTIM = """
import os, signal, sys
from dataclasses import replace
from trimtab.files import store
from trimtab.files.store import place_of
from trimtab.observe.lake import manifest, writer_lock
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, read_manifest
place, phase = place_of(sys.argv[1]) / "tables", sys.argv[2]
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def dying_before(path, content):
    die()
from trimtab.files import versioned_documents
if phase == "taking":
    versioned_documents.create = dying_before
with writer_lock.hold_writer_lock(place) as held:
    if phase == "working":
        die()
    if phase == "publishing":
        versioned_documents.create = dying_before
    if phase == "half":
        store.os.link = die
    if phase == "tidying":
        create = versioned_documents.create
        def and_die(path, content):
            create(path, content)
            die()
        versioned_documents.create = and_die
    own = {"rates": (ManifestEntry("rates/own", 0, 10, 0, 9),)}
    held.publish(replace(read_manifest(place), tables=own, streams={"s": 3}))
    if phase == "published":
        die()
"""


@pytest.mark.parametrize("phase", ["taking", "working", "publishing", "tidying", "published"])
def test_a_writer_killed_at_any_point_leaves_valid_tables_and_a_free_lock(
    tables: Location, phase: str
) -> None:
    """All or nothing of what it published; the next one on this machine need not wait."""
    killed_in(tables, phase)


def test_a_writer_killed_with_a_document_written_but_not_named_leaves_sound_tables(tmp_path: Path) -> None:
    """In a folder these are two steps; an object is put in one request."""
    killed_in(tmp_path / "tables", "half")


def killed_in(tables: Location, phase: str) -> None:
    """Let a writer die by SIGKILL in a phase, and another one go on."""
    place = tables.parent
    publish_manifest(tables, with_table("rates/before"))
    done = subprocess.run([sys.executable, "-c", _VICTIM, str(place), phase], timeout=250, check=False)
    assert done.returncode == -signal.SIGKILL
    found = read_manifest(tables)
    if phase in ("tidying", "published"):
        assert (found.tables["rates"][0].path, found.streams) == ("rates/own", {"s": 3})
    else:
        assert found.tables == with_table("rates/before").tables
    lock = acquire(tables, sleep=pytest.fail)  # type: ignore[arg-type]
    lock.publish(replace(read_manifest(tables), watermark=5))
    assert read_manifest(tables).watermark == 5


def test_heartbeats_keep_the_lock(tables: Location) -> None:
    """A writer that is at work for many leases keeps its lock, and leaves few documents behind."""
    with hold_writer_lock(tables, lease_seconds=0.3) as lock:
        begun = lock.lease.holder.heartbeats
        deadline = 150
        while lock.lease.holder.heartbeats < begun + 6 and deadline:
            deadline -= 1
            threading_wait(0.1)
        assert lock.lease.holder.heartbeats >= begun + 6
        assert not lock.lease.is_lost
    assert len(list((tables / FOLDER).iterdir())) <= 4
    (newest,) = [VersionedDocuments(tables / FOLDER, 4).newest()]
    assert newest is not None and json.loads(newest[1])["released"] is True
    assert json.loads(newest[1])["token"] == asdict(lock.lease.holder)["token"]


def threading_wait(seconds: float) -> None:
    """Let the other thread run."""
    import threading

    threading.Event().wait(seconds)
