"""A node's log stays bounded, and is whole wherever its machine stops: between any two operations."""

from __future__ import annotations

import errno
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from support.careful_disk import CarefulDisk, Stopped
from trimtab_common.errors import InputError
from trimtab_store.core.messages import (
    AcceptedAt,
    AppendMessages,
    ChosenUpTo,
    GroupSnapshot,
    MessageRecord,
    Promised,
)
from trimtab_store.core.paxos import RetainedLog
from trimtab_store.format.log import DiskError, NodeLog, segment_path, segments
from trimtab_store.format.wire import encoded

SEGMENT_BYTES = 500
LEFT = [("all", 1.0), ("all", 0.0), ("none", 1.0), ("none", 0.0), ("all", 0.5), ("removals", 0.0)]
"""What a power cut may leave: names that were not synced, and of what was not synced a share."""


def story(slots: int) -> list[tuple[int, Any]]:
    """Lines of two groups and the token: one writes snapshots, one does not, the third only promises."""
    lines: list[tuple[int, Any]] = [(0, Promised((2, 1))), (1, Promised((1, 0)))]
    for slot in range(1, slots + 1):
        for group in (0, 1):
            value = AppendMessages(1, (MessageRecord("t", "p", slot, b"x" * 20),))
            lines += [(group, AcceptedAt(slot, (2, group), value)), (group, ChosenUpTo(slot))]
        if slot % 5 == 0:
            lines += [(0, GroupSnapshot(slot, ("state", slot))), (-1, Promised((slot, 2)))]
    return lines


def needed(lines: list[tuple[int, Any]]) -> dict[int, list[Any]]:
    """What is needed of them, by group."""
    found: defaultdict[int, RetainedLog[Any]] = defaultdict(RetainedLog)
    for group, line in lines:
        found[group].absorb(line, line)
    return {group: [*kept.places(), *kept.state_records()] for group, kept in found.items()}


def sorted_lines(recovered: dict[int, list[Any]]) -> dict[int, list[Any]]:
    """In an order that does not matter."""
    return {group: sorted(lines, key=repr) for group, lines in recovered.items() if lines}


def recovered(folder: Path) -> dict[int, list[Any]]:
    """What a log has of former lives."""
    log = NodeLog(folder / "log", "c", 1, segment_bytes=SEGMENT_BYTES)
    log.close()
    return sorted_lines(log.recovered)


def run(folder: Path, lines: list[tuple[int, Any]], told: list[int]) -> None:
    """Write lines into a log, sync each third, compact whenever it is due; `told` is what is synced."""
    log = NodeLog(folder / "log", "c", 1, segment_bytes=SEGMENT_BYTES)
    try:
        for number, (group, line) in enumerate(lines, 1):
            log.write(group, line)
            if number % 3 == 0:
                log.put(log.next_flush())
                told.append(number)
            if log.needs_compaction:
                log.compact()
        log.put(log.next_flush())
        told.append(len(lines))
    finally:
        log.close()


def stopped_everywhere(
    tmp_path: Path, do: Callable[[Path], None], look: Callable[[Path], None], prepared: Path | None = None
) -> int:
    """Do something to a folder, stopped before each operation in turn; look at all that may be left."""
    stop = 0
    while True:
        folder = tmp_path / "now"
        folder.mkdir()
        for file in prepared.iterdir() if prepared is not None else ():
            shutil.copy(file, folder / file.name)
        disk, ended = CarefulDisk(folder, stop), False
        with disk.looking_on():
            try:
                do(folder)
                ended = True
            except Stopped:
                pass
        if ended:
            disk.close()
            return stop
        for names, unsynced in LEFT:
            left = tmp_path / "left"
            disk.after_a_power_cut(left, names=names, unsynced=unsynced)
            look(left)
            shutil.rmtree(left)
        disk.close()
        look(folder)  # kill -9: all is there that was written
        shutil.rmtree(folder)
        stop += 1


def test_the_log_is_whole_wherever_the_machine_stops(tmp_path: Path) -> None:
    """What was synced is there, what was not is there up to some line, and writing goes on behind it."""
    lines, told = story(24), list[int]()

    def do(folder: Path) -> None:
        told[:] = [0]
        run(folder, lines, told)

    def look(folder: Path) -> None:
        found = recovered(folder)
        possible = range(told[-1], min(told[-1] + 3, len(lines)) + 1)
        assert any(found == sorted_lines(needed(lines[:count])) for count in possible), told[-1]
        log = NodeLog(folder / "log", "c", 1, segment_bytes=SEGMENT_BYTES)
        log.write(7, Promised((9, 9)))
        log.put(log.next_flush())
        log.compact()
        log.close()
        assert recovered(folder) == {**found, 7: [Promised((9, 9))]}

    stops = stopped_everywhere(tmp_path, do, look)
    assert stops > 130
    numbers = segments(tmp_path / "now" / "log")
    assert numbers[0] > 4
    assert len(numbers) < 6


def test_a_start_may_be_stopped_everywhere_too(tmp_path: Path) -> None:
    """With segments that a compaction has replaced and not removed, and one in the making."""
    lines = story(24)
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    run(prepared, lines, [])
    first = segments(prepared / "log")[0]
    shutil.copy(segment_path(prepared / "log", first), segment_path(prepared / "log", first - 2))
    (prepared / "log.00000099.making").write_bytes(b"half")

    def do(folder: Path) -> None:
        NodeLog(folder / "log", "c", 1, segment_bytes=SEGMENT_BYTES).close()

    def look(folder: Path) -> None:
        assert recovered(folder) == sorted_lines(needed(lines))

    assert stopped_everywhere(tmp_path, do, look, prepared) >= 5
    assert segments(tmp_path / "now" / "log")[0] == first


def test_lines_read_at_a_start_are_retained(tmp_path: Path) -> None:
    """A line that was written but not synced when a process was killed takes effect in the next
    incarnation.
    """
    folder = tmp_path / "now"
    folder.mkdir()
    disk = CarefulDisk(folder, None)
    with disk.looking_on():
        log = NodeLog(folder / "log", "c", 1)
        log.write(0, Promised((1, 1)))
        with mock.patch.object(os, "fdatasync", side_effect=Stopped), pytest.raises(Stopped):
            log.put(log.next_flush())
        log.close()
        found = recovered(folder)
    assert found == {0: [Promised((1, 1))]}
    disk.after_a_power_cut(tmp_path / "left", names="none", unsynced=0.0)
    assert recovered(tmp_path / "left") == found
    disk.close()


def test_it_stays_bounded_and_is_compacted_at_a_start(tmp_path: Path) -> None:
    """By what is needed: twice that, and three segments."""
    sizes = []
    for _ in range(4):
        log = NodeLog(tmp_path / "log", "c", 1, segment_bytes=4000)
        for slot in range(1, 2001):
            log.write(
                0, AcceptedAt(slot, (1, 1), AppendMessages(1, (MessageRecord("t", "p", slot, b"x" * 20),)))
            )
            if slot % 50 == 0:
                log.write(0, GroupSnapshot(slot, ("state",)))
            if slot % 10 == 0:
                log.put(log.next_flush())
            if log.needs_compaction:
                log.compact()
            sizes.append(sum(one.stat().st_size for one in tmp_path.iterdir()))
        log.close()
    needed_bytes = 50 * 60
    assert max(sizes) < 2 * needed_bytes + 3 * 4600
    # A process that was killed before each compaction: the next start finds that one is due.
    log = NodeLog(tmp_path / "log", "c", 1, segment_bytes=1000)
    for slot in range(1, 500):
        log.write(0, Promised((slot, 1)))
        if slot % 10 == 0:
            log.put(log.next_flush())
    log.close()
    log = NodeLog(tmp_path / "log", "c", 1, segment_bytes=1000)
    assert log.needs_compaction
    log.compact()
    assert len(segments(tmp_path / "log")) == 2
    log.close()


def test_lines_written_during_a_compaction_are_retained(tmp_path: Path) -> None:
    """A snapshot during the compaction frees copied lines; nothing of either is lost."""
    lines = story(60)
    log = NodeLog(tmp_path / "log", "c", 1, segment_bytes=SEGMENT_BYTES)
    compactions = 0
    for number, (group, line) in enumerate(lines):
        log.write(group, line)
        log.put(log.next_flush())
        # Late, so that many lines and segments come between what was planned and when it is done.
        if log.needs_compaction and number % 37 == 0:
            log.compact()
            compactions += 1
    log.close()
    assert compactions > 1
    assert recovered(tmp_path) == sorted_lines(needed(lines))


def test_a_stopped_compaction_changes_nothing(tmp_path: Path) -> None:
    """A node that ends does not wait for it."""
    log = NodeLog(tmp_path / "log", "c", 1, segment_bytes=SEGMENT_BYTES)
    lines = story(40)
    for group, line in lines:
        log.write(group, line)
        log.put(log.next_flush())
    assert log.needs_compaction
    log.stop()
    log.compact()
    log.close()
    assert not list(tmp_path.glob("*.making"))
    assert recovered(tmp_path) == sorted_lines(needed(lines))


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, operation: str, number: int) -> Any:
    """An operation of `os` fails, for a time."""

    def fails(*_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, operation, fails)
        yield


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "is full: free space there"),
        (errno.EROFS, "is read-only: see why"),
        (errno.EIO, r"failed \(Input/output error\): replace it"),
    ],
)
def test_a_disk_that_rejects_writes_is_reported_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str
) -> None:
    """At a start and at a sync."""
    with failing(monkeypatch, "fsync", number), pytest.raises(DiskError, match=sentence):
        NodeLog(tmp_path / "log", "c", 1)
    log = NodeLog(tmp_path / "log", "c", 1)
    log.write(0, Promised((1, 1)))
    with failing(monkeypatch, "write", number), pytest.raises(DiskError, match=sentence) as caught:
        log.put(log.next_flush())
    assert caught.value.full == (number == errno.ENOSPC)
    log.close()


def test_a_full_disk_at_a_compaction_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on, and is compacted when there is space."""
    log = NodeLog(tmp_path / "log", "c", 1, segment_bytes=SEGMENT_BYTES)
    lines, refused = story(60), 0
    for number, (group, line) in enumerate(lines):
        log.write(group, line)
        log.put(log.next_flush())
        if log.needs_compaction and number < 150:
            with failing(monkeypatch, "write", errno.ENOSPC), pytest.raises(DiskError, match="is full"):
                log.compact()
            refused += 1
        elif log.needs_compaction:
            log.compact()
    log.close()
    assert refused > 2
    assert segments(tmp_path / "log")[0] > 5
    assert recovered(tmp_path) == sorted_lines(needed(lines))


def test_another_version_is_refused(tmp_path: Path) -> None:
    """The error names the found and the supported version."""
    (tmp_path / "log").write_bytes(encoded(("trimtab/masters-log/2", "c", 1, "more")))
    with pytest.raises(
        InputError, match="has format 'trimtab/masters-log/2', expected 'trimtab/masters-log/3'"
    ):
        NodeLog(tmp_path / "log", "c", 1)


@pytest.mark.parametrize("what", ["first", "middle", "all", "head", "torn", "swapped"])
def test_missing_or_damaged_files_are_rejected(tmp_path: Path, what: str) -> None:
    """Missing promises would allow two values in one slot."""
    path = tmp_path / "log"
    log = NodeLog(path, "c", 1, segment_bytes=SEGMENT_BYTES)
    for group, line in story(24):
        log.write(group, line)
        log.put(log.next_flush())
    log.close()
    numbers = segments(path)
    match what:
        case "first":
            segment_path(path, numbers[0]).unlink()
        case "middle":
            segment_path(path, numbers[2]).unlink()
        case "all":
            for number in numbers:
                segment_path(path, number).unlink()
        case "head":
            path.write_bytes(b"")
        case "torn":
            os.truncate(segment_path(path, numbers[1]), segment_path(path, numbers[1]).stat().st_size - 1)
        case "swapped":
            segment_path(path, numbers[1]).replace(segment_path(path, numbers[2]))
            shutil.copy(segment_path(path, numbers[2]), segment_path(path, numbers[1]))
    advice = (
        "start it with an empty folder, never with an older copy of this one: it votes again once all other "
    )
    with pytest.raises(InputError, match=f"what this node has promised is lost; {advice}nodes have answered"):
        NodeLog(path, "c", 1)
