"""The write-ahead log of a node: what was synced is there again, a torn end is cut off, damage is refused."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab_common.errors import InputError
from trimtab_store.core.messages import (
    AcceptedAt,
    AppendMessages,
    ChosenUpTo,
    ClaimMastership,
    GroupSnapshot,
    MessageRecord,
    NoOp,
    Promise,
    Promised,
    SyncOffsets,
    TransferMastership,
)
from trimtab_store.core.paxos import RetainedLog
from trimtab_store.format.log import NodeLog, segment_path
from trimtab_store.format.wire import FRAME_HEAD, NUMBERED, TornFrameError, decoded, encoded

LINES = [
    (0, Promised((3, 1))),
    (0, AcceptedAt(1, (3, 1), ClaimMastership(1, (7, 2), 0))),
    (-1, AcceptedAt(1, (1, 0), NoOp())),
    (
        0,
        AcceptedAt(
            2,
            (3, 1),
            AppendMessages(1, (MessageRecord("t", "p", 1, b"\x00\xff"), MessageRecord("t", "p", 2, b""))),
        ),
    ),
    (0, ChosenUpTo(2)),
    (
        2,
        GroupSnapshot(
            9, (1, 8, 4, -1, 7, (("t", (MessageRecord("t", "p", 1, b"x"),)),), (("t", "p", 1),), ())
        ),
    ),
]


def written(path: Path) -> list[int]:
    """A log of these lines, and the size of its only segment after each sync."""
    log = NodeLog(path, "c", 1)
    sizes = [segment_path(path, 1).stat().st_size]
    for group, line in LINES:
        log.write(group, line)
        log.put(log.next_flush())
        sizes.append(segment_path(path, 1).stat().st_size)
    log.close()
    return sizes


def recovered(path: Path) -> dict[int, list[object]]:
    """What a log has of former lives."""
    log = NodeLog(path, "c", 1)
    log.close()
    return dict(log.recovered)


def expected(count: int) -> dict[int, list[object]]:
    """What is needed of the first lines, by group."""
    found: defaultdict[int, RetainedLog[object]] = defaultdict(RetainedLog)
    for group, line in LINES[:count]:
        found[group].absorb(line, line)
    return {group: [*kept.places(), *kept.state_records()] for group, kept in found.items()}


def test_a_crash_at_every_byte_leaves_the_lines_before_it(tmp_path: Path) -> None:
    """Wherever the file ends, whole lines are read, the rest is discarded, and writing continues
    behind them.
    """
    path = tmp_path / "log"
    sizes = written(path)
    data = segment_path(path, 1).read_bytes()
    for length in range(sizes[0], len(data) + 1):
        segment_path(path, 1).write_bytes(data[:length])
        count = sum(size <= length for size in sizes) - 1
        assert recovered(path) == expected(max(count, 0)), length
        log = NodeLog(path, "c", 1)
        log.write(5, ChosenUpTo(length))
        log.put(log.next_flush())
        log.close()
        assert recovered(path) == {**expected(max(count, 0)), 5: [ChosenUpTo(length)]}, length


def test_any_byte_changed_in_the_last_line_cuts_that_line_off(tmp_path: Path) -> None:
    """A sector of zeros or an old one in place of the last line: it was never acknowledged."""
    path = tmp_path / "log"
    sizes = written(path)
    data = segment_path(path, 1).read_bytes()
    for at in range(sizes[-2], len(data)):
        segment_path(path, 1).write_bytes(data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :])
        assert recovered(path) == expected(len(LINES) - 1), at


def test_damage_before_the_end_is_refused(tmp_path: Path) -> None:
    """Missing synced promises would allow two values in one slot."""
    sizes = written(tmp_path / "log")
    data = bytearray(segment_path(tmp_path / "log", 1).read_bytes())
    data[sizes[1] + FRAME_HEAD.size + 2] ^= 0xFF
    segment_path(tmp_path / "log", 1).write_bytes(data)
    with pytest.raises(InputError, match="is damaged at byte .*, with more of the log behind it"):
        NodeLog(tmp_path / "log", "c", 1)


@pytest.mark.parametrize(("cluster", "node"), [("other", 1), ("c", 2)])
def test_the_log_of_another_is_refused(tmp_path: Path, cluster: str, node: int) -> None:
    """A folder shared by two nodes would make one voter of them that gives two answers."""
    written(tmp_path / "log")
    with pytest.raises(InputError, match="give this node its own folder"):
        NodeLog(tmp_path / "log", cluster, node)


def test_unsynced_lines_are_not_in_the_log(tmp_path: Path) -> None:
    """No line may be acknowledged before its sync; the file does not have it."""
    log = NodeLog(tmp_path / "log", "c", 1)
    log.write(0, Promised((1, 1)))
    log.close()
    assert recovered(tmp_path / "log") == {}


small = st.integers(0, 1 << 40)
nonce = st.tuples(st.integers(0, 1 << 62), small)
name = st.text(max_size=3)
record = st.builds(MessageRecord, name, name, small, st.binary(max_size=9))
offset = st.tuples(name, name, small)
entry = st.one_of(
    st.just(NoOp()),
    st.builds(ClaimMastership, small, nonce, small),
    st.builds(TransferMastership, small, small, small, small, nonce),
    st.builds(SyncOffsets, small, st.lists(offset, max_size=2).map(tuple)),
    st.builds(AppendMessages, small, st.lists(record, max_size=2).map(tuple)),
)
accepting = st.tuples(small, st.tuples(small, small), entry)


@settings(max_examples=50, deadline=None)
@given(st.lists(accepting, max_size=4).map(tuple))
def test_messages_come_back_as_they_were(accepted: tuple[object, ...]) -> None:
    """Type by type, nested in one another: what is compared by the protocol must be the same value."""
    message = (3, Promise((4, 1), 2, accepted))  # type: ignore[arg-type]
    frame = encoded(message)
    _, crc = FRAME_HEAD.unpack_from(frame)
    found = decoded(frame[FRAME_HEAD.size :], crc)
    assert found == message
    assert [type(one[2]) for one in found[1].accepted] == [type(one[2]) for one in accepted]  # type: ignore[index]
    with pytest.raises(TornFrameError):
        decoded(frame[FRAME_HEAD.size :] + b"x", crc)


def test_every_message_has_its_number() -> None:
    """A message without one could not be sent; two of one number would be taken for one another."""
    from trimtab_store.core import messages

    told = {
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, tuple) and kind.__module__ == messages.__name__
    }
    inside = {
        messages.StoreRequest,
        messages.CreateEntries,
        messages.ReadEntries,
        messages.StoreSnapshot,
        messages.StoreEvent,
        messages.EntriesCreated,
        messages.AppendConflict,
        messages.AppendTimeout,
        messages.EntriesRead,
        messages.SnapshotStored,
        messages.Received,
        messages.TimerExpired,
        messages.ClientDisconnected,
        messages.MapChanged,
        messages.WriteLog,
        messages.SendMessage,
    }
    assert set(NUMBERED.values()) == told - inside
    assert len(set(NUMBERED.values())) == len(NUMBERED)
