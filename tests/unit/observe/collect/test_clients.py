"""Following what clients write about themselves."""

import datetime
import json
from pathlib import Path

from trimtab.observe.collect.clients import ClientFiles
from trimtab.observe.collect.sinks import RowBatch

LONG_AGO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
AT = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)


def line(**values: object) -> str:
    """One line of a file."""
    return json.dumps({"at": AT.isoformat()} | values) + "\n"


def interval(at: float, planned: int, done: int, **more: object) -> str:
    """One line as the sandbox's load writes it."""
    parts = {
        "planned": {"t:0": {"records": 1, "bytes": planned}},
        "done": {"t:0": {"records": 1, "bytes": done}},
    }
    return line(client="producer", at=at, seconds=1.0, **parts, **more)


def rows(batch: RowBatch) -> dict[object, dict[str, object]]:
    """Rows by client."""
    return {row["client"]: row for row in batch.rows()}


def test_the_newest_totals_of_each_client_are_taken(tmp_path: Path) -> None:
    """Two clients share a file; one of them wrote twice."""
    file = tmp_path / "clients.jsonl"
    file.write_text(
        line(client="a", offered_bytes_total=10, served_bytes_total=9.6, latency_p99_ms=3.5)
        + line(client="b", served_bytes_total=5)
        + line(client="a", offered_bytes_total=20, served_bytes_total=19)
    )
    found, problems = ClientFiles([file]).read(LONG_AGO)
    assert problems == ()
    assert rows(found) == {
        "a": {
            "kind": "client",
            "client": "a",
            "sampled_at": AT,
            "offered_bytes_total": 20,
            "served_bytes_total": 19,
        },
        "b": {"kind": "client", "client": "b", "sampled_at": AT, "served_bytes_total": 5},
    }


def test_intervals_of_the_sandbox_load_add_up_over_readings(tmp_path: Path) -> None:
    """Totals continue from the last reading, and a restarted collector reaches the same totals."""
    file = tmp_path / "producer.truth.jsonl"
    file.write_text(interval(1000.0, 100, 90, errors=1, late_records=2, latency_p50_ms=2.0))
    files = ClientFiles([tmp_path / "*.truth.jsonl"])
    files.read(LONG_AGO)
    with file.open("a") as more:
        more.write(interval(1001.0, 100, 110, late_records=1))
    for reader in (files, ClientFiles([file])):
        (row,) = reader.read(LONG_AGO)[0].rows()
        assert (row["offered_bytes_total"], row["served_bytes_total"]) == (200, 200)
        assert (row["errors_total"], row["late_total"]) == (1, 3)
        assert row["sampled_at"] == datetime.datetime.fromtimestamp(1002.0, datetime.UTC)
        assert "latency_p50_ms" not in row, "the newest interval had no latency"


def test_a_line_in_the_making_waits_for_its_end(tmp_path: Path) -> None:
    """A client that is writing right now is read next time, once."""
    file = tmp_path / "clients.jsonl"
    whole = interval(1000.0, 100, 100)
    file.write_text(whole[:20])
    files = ClientFiles([file])
    assert len(files.read(LONG_AGO)[0]) == 0
    file.write_text(whole)
    assert rows(files.read(LONG_AGO)[0])["producer"]["served_bytes_total"] == 100


def test_a_client_without_recent_reports_is_left_out(tmp_path: Path) -> None:
    """A stale total would look like a client that stopped sending."""
    file = tmp_path / "clients.jsonl"
    file.write_text(line(client="a", served_bytes_total=5))
    files = ClientFiles([file])
    assert len(files.read(AT)[0]) == 1
    assert len(files.read(AT + datetime.timedelta(seconds=1))[0]) == 0


def test_lines_of_another_shape_are_counted_not_fatal(tmp_path: Path) -> None:
    """Log lines between the samples do not stop the samples."""
    file = tmp_path / "clients.jsonl"
    bad = [
        "hello\n",
        "[]\n",
        line(client=7),
        line(client=""),
        line(client="a", at=True),
        line(at="x", client="a"),
    ]
    file.write_text("".join(bad) + line(client="a", served_bytes_total=5, latency_p50_ms=float("nan")))
    found, problems = ClientFiles([file]).read(LONG_AGO)
    assert [row["served_bytes_total"] for row in found.rows()] == [5]
    assert problems == (f"6 lines of client samples in {file} have not the documented shape",)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """A mistyped name is reported at the first tick."""
    found, problems = ClientFiles([tmp_path / "*.jsonl"]).read(LONG_AGO)
    assert len(found) == 0
    assert problems == (f"no file of client samples matches {tmp_path / '*.jsonl'}",)


def test_times_in_milliseconds_are_accepted_and_invalid_times_are_counted(tmp_path: Path) -> None:
    """A line with a time past all calendars costs itself, not the tick."""
    file = tmp_path / "clients.jsonl"
    at = AT.timestamp()
    file.write_text(
        "".join(
            line(client=name, at=value, served_bytes_total=1)
            for name, value in (("s", at), ("ms", at * 1e3), ("us", at * 1e6), ("never", 1e30))
        )
    )
    found, problems = ClientFiles([file]).read(AT)
    assert {name: row["sampled_at"] for name, row in rows(found).items()} == {"s": AT, "ms": AT, "us": AT}
    assert problems == (f"1 lines of client samples in {file} have not the documented shape",)
