"""A lease with two candidates, in a folder and in an object store: acquisition, expiry, frozen holders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from support.object_store import ObjectStore
from trimtab.files import lease as module
from trimtab.files.lease import LeaseCandidate, LeaseLostError, StoredLease, StoredLeaseHolder, renewed
from trimtab.files.store import Location, place_of
from trimtab.files.versioned_documents import VersionedDocuments

SECONDS = 30.0


@pytest.fixture(params=["folder", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """The folder of a lease, which is still empty."""
    if request.param == "folder":
        return tmp_path / "decider"
    store: ObjectStore = request.getfixturevalue("s3")
    return place_of(store.bucket()) / "decider"


class Machine:
    """A machine with a clock of its own, on which one candidate runs."""

    def __init__(self, folder: Location, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.name = name
        self._monkeypatch = monkeypatch
        self._candidate = LeaseCandidate(folder, name, SECONDS, clock=lambda: self.now)

    def attempt(self) -> StoredLease | StoredLeaseHolder | None:
        """An attempt of the candidate, by a process of this machine."""
        with self._monkeypatch.context() as here:
            here.setattr(module, "host_id", lambda: self.name)
            return self._candidate.attempt()

    def acquire(self) -> StoredLease:
        """An attempt that must succeed."""
        found = self.attempt()
        assert isinstance(found, StoredLease)
        return found


@pytest.fixture
def one(folder: Location, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine whose candidate comes first."""
    return Machine(folder, "one", monkeypatch)


@pytest.fixture
def two(folder: Location, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Another machine, whose clock began at another time."""
    made = Machine(folder, "two", monkeypatch)
    made.now = 1e6
    return made


def test_a_held_lease_names_its_holder(one: Machine, two: Machine) -> None:
    """The second candidate gets the holder's name, until the first holder releases the lease."""
    first = one.acquire()
    found = two.attempt()
    assert found == first.holder
    assert str(found).startswith(f"one, process {os.getpid()} on ")
    first.release()
    second = two.acquire()
    assert (second.replaced, second.epoch > first.epoch) == (False, True)


def test_a_holder_without_heartbeats_is_replaced_when_the_lease_expires(one: Machine, two: Machine) -> None:
    """The candidate counts from the newest document that it has read, by its own clock."""
    first = one.acquire()
    two.attempt()
    two.now += SECONDS - 1
    first.renew()
    assert two.attempt() == first.holder
    two.now += SECONDS - 1
    assert two.attempt() == first.holder
    two.now += 1
    second = two.acquire()
    assert second.replaced
    assert second.epoch > first.epoch
    assert one.attempt() == second.holder


def test_a_frozen_holder_may_not_act_when_it_wakes(one: Machine, two: Machine) -> None:
    """Its own clock forbids it before it hears of its successor; its heartbeat then fails."""
    first = one.acquire()
    first.require()
    two.attempt()
    one.now += SECONDS
    assert not first.is_valid
    with pytest.raises(LeaseLostError, match="no heartbeat was written for 30 s"):
        first.require()
    first.renew()
    first.require()  # nobody has taken over meanwhile
    two.attempt()
    one.now += SECONDS
    two.now += SECONDS
    second = two.acquire()
    lost = [first.is_lost]
    first.renew()
    assert [*lost, first.is_lost] == [False, True]
    with pytest.raises(LeaseLostError, match=r"two, process .* holds it: the lease .* of one"):
        first.require()
    first.release()
    second.renew()
    assert second.is_valid


def test_a_slow_heartbeat_counts_from_its_request(
    one: Machine, two: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A candidate may have read the document long before the holder got the store's answer."""
    first = one.acquire()
    add = VersionedDocuments.add

    def slow(documents: VersionedDocuments, number: int, content: bytes) -> None:
        add(documents, number, content)
        one.now += SECONDS

    monkeypatch.setattr(VersionedDocuments, "add", slow)
    first.renew()
    assert not first.is_valid
    assert not first.is_lost


def test_of_two_candidates_at_once_one_acquires(
    one: Machine, two: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have read that the lease is free; the document number decides."""
    add = VersionedDocuments.add
    between: list[StoredLease] = []

    def late(documents: VersionedDocuments, number: int, content: bytes) -> None:
        monkeypatch.setattr(VersionedDocuments, "add", add)
        between.append(two.acquire())
        add(documents, number, content)

    monkeypatch.setattr(VersionedDocuments, "add", late)
    assert one.attempt() is None
    assert one.attempt() == between[0].holder


def test_epochs_grow_after_the_folder_was_removed(folder: Location) -> None:
    """The resource knows the largest epoch that it has accepted."""
    candidate = LeaseCandidate(folder, "decider", lowest_epoch=lambda: 41)
    found = candidate.attempt()
    assert isinstance(found, StoredLease)
    assert found.epoch == 42


def test_a_fenced_holder_has_lost_its_lease(one: Machine) -> None:
    """A rejected epoch is stronger evidence than the lease."""
    first = one.acquire()
    first.lose()
    with pytest.raises(LeaseLostError):
        first.require()


def test_a_dead_process_of_this_machine_is_replaced_at_once(folder: Location) -> None:
    """No clock is needed: the holder's process can be checked."""
    now = 5.0
    candidate = LeaseCandidate(folder, "service", SECONDS, clock=lambda: now)
    first = candidate.attempt()
    assert isinstance(first, StoredLease)
    first.holder = replace(first.holder, pid=2**22 + 1)
    first.renew()
    second = candidate.attempt()
    assert isinstance(second, StoredLease)
    assert second.replaced


_HOLDER = """
import sys, time
from trimtab.files.lease import LeaseCandidate, LeaseLostError, renewed
from trimtab.files.store import place_of
lease = LeaseCandidate(place_of(sys.argv[1]), "holder", 1.0).attempt()
with renewed(lease):
    print("held", flush=True)
    while True:
        try:
            lease.require()
        except LeaseLostError:
            break
        time.sleep(0.01)
print("refused", flush=True)
"""


def test_a_frozen_process_is_replaced_and_steps_back(folder: Location) -> None:
    """Stopped by a signal in the middle of its heartbeats; it wakes up after its successor has acquired."""
    words = [sys.executable, "-c", _HOLDER, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            candidate = LeaseCandidate(folder, "successor", 1.0)
            time.sleep(1.5)  # for longer than a lease, kept by heartbeats
            assert isinstance(candidate.attempt(), StoredLeaseHolder)
            process.send_signal(signal.SIGSTOP)
            deadline = time.monotonic() + 60
            while not isinstance(found := candidate.attempt(), StoredLease):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            with renewed(found):
                process.send_signal(signal.SIGCONT)
                assert process.stdout.readline() == "refused\n"
                assert process.wait(60) == 0
                found.require()
        finally:
            process.kill()
