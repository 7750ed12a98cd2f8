"""The published formats, from outside: what a user hands over, and what the command line says to it."""

import copy
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.random_snapshots import random_snapshot
from trimtab.cli.app import main

Document = dict
Change = Callable[[Document], object]


def small() -> Document:
    """A sound snapshot with every optional field."""
    load = {"cpu": 0.2, "disk": 1e9, "network_in": 5e5, "network_out": 9e5}
    return {
        "format": "trimtab/replicas-snapshot/1",
        "cluster": "orders",
        "taken_at": "2026-11-21T05:00:00Z",
        "brokers": [
            {
                "id": number,
                "host": f"h{number}",
                "rack": f"r{number}",
                "state": "alive",
                "capacity": {"cpu": 8.0, "disk": 5e11, "network_in": 1.2e8, "network_out": 1.2e8},
                "log_dirs": [{"path": "/data1", "state": "online", "capacity": 2.5e11}],
            }
            for number in (1, 2, 3)
        ],
        "partitions": [
            {
                "topic": "t",
                "partition": number,
                "replicas": [1, 2],
                "leader": 1,
                "in_sync": [1, 2],
                "log_dirs": ["/data1", "/data1"],
                "leader_load": dict(load),
                "follower_load": {**load, "network_out": 0},
            }
            for number in (0, 1)
        ],
        "quality": {"valid_share": 1.0, "oldest_sample_seconds": 60, "cpu": "measured"},
    }


def run(*arguments: object) -> int:
    """The command line in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    return code if isinstance(code, int) else 0


def put(*path: object, value: object) -> Change:
    """A change that sets one value deep inside."""

    def change(document: Document) -> None:
        inner = document
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return change


def drop(*path: object) -> Change:
    """A change that removes one field deep inside."""

    def change(document: Document) -> None:
        inner = document
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]

    return change


PARTITION = ("partitions", 0)
BROKER = ("brokers", 0)

BROKEN_VALUES: dict[str, tuple[Change, str]] = {
    # kind: (how to break a sound snapshot, what the message must name)
    "another format": (put("format", value="trimtab/plan/1"), "$.format"),
    "a later version": (put("format", value="trimtab/replicas-snapshot/2"), "version 1"),
    "format of the wrong type": (put("format", value=1), "$.format is 1"),
    "no format": (drop("format"), '"format"'),
    "no brokers field": (drop("brokers"), '"brokers"'),
    "no partitions field": (drop("partitions"), '"partitions"'),
    "no quality": (drop("quality"), '"quality"'),
    "no taken_at": (drop("taken_at"), '"taken_at"'),
    "unknown top-level field": (put("clusters", value=1), 'did you mean "cluster"'),
    "unknown broker field": (put(*BROKER, "racks", value="r"), 'did you mean "rack"'),
    "unknown partition field": (
        put(*PARTITION, "isr", value=[1]),
        '$.partitions[0] has an unknown field "isr"',
    ),
    "unknown load field": (put(*PARTITION, "leader_load", "memory", value=1), "$.partitions[0].leader_load"),
    "unknown capacity field": (put(*BROKER, "capacity", "memory", value=1), "$.brokers[0].capacity"),
    "unknown quality field": (put("quality", "share", value=1), "$.quality"),
    "missing load": (
        drop(*PARTITION, "leader_load", "cpu"),
        '$.partitions[0].leader_load has no field "cpu"',
    ),
    "missing follower load": (drop(*PARTITION, "follower_load"), '"follower_load"'),
    "missing replicas": (drop(*PARTITION, "replicas"), '"replicas"'),
    "missing leader": (drop(*PARTITION, "leader"), '"leader"'),
    "missing broker state": (drop(*BROKER, "state"), '$.brokers[0] has no field "state"'),
    "text where a number must be": (
        put(*PARTITION, "leader_load", "cpu", value="much"),
        '$.partitions[0].leader_load.cpu is "much", expected a number',
    ),
    "bool where a number must be": (
        put(*PARTITION, "leader_load", "cpu", value=True),
        "is true, expected a number",
    ),
    "bool where an id must be": (
        put(*PARTITION, "replicas", value=[True, 2]),
        "$.partitions[0].replicas[0] is true",
    ),
    "null where a number must be": (put(*PARTITION, "leader_load", "disk", value=None), "is null"),
    "fraction where an id must be": (
        put(*PARTITION, "partition", value=0.5),
        "$.partitions[0].partition is 0.5",
    ),
    "list where an object must be": (put(*BROKER, "capacity", value=[]), "$.brokers[0].capacity"),
    "object where a list must be": (
        put("partitions", value={}),
        "$.partitions is an object, expected a list",
    ),
    "negative load": (put(*PARTITION, "leader_load", "network_in", value=-1), "network_in is -1"),
    "negative broker id": (put(*BROKER, "id", value=-1), "$.brokers[0].id is -1"),
    "negative partition": (put(*PARTITION, "partition", value=-7), "$.partitions[0].partition is -7"),
    "huge id": (put(*BROKER, "id", value=10**30), "$.brokers[0].id"),
    "zero capacity": (put(*BROKER, "capacity", "disk", value=0), "$.brokers[0].capacity.disk is 0"),
    "negative capacity": (put(*BROKER, "capacity", "cpu", value=-8), "$.brokers[0].capacity.cpu is -8"),
    "no brokers at all": (put("brokers", value=[]), "at least one broker"),
    "a broker twice": (put("brokers", 1, "id", value=1), "$.brokers[1].id is 1"),
    "a partition twice": (put("partitions", 1, "partition", value=0), "both describe partition t-0"),
    "a replica on an unknown broker": (
        put(*PARTITION, "replicas", value=[1, 9]),
        "$.partitions[0].replicas[1] is 9",
    ),
    "a replica twice": (put(*PARTITION, "replicas", value=[1, 1]), "$.partitions[0].replicas[1] is 1"),
    "no replicas": (put(*PARTITION, "replicas", value=[]), "$.partitions[0].replicas"),
    "a leader that holds no replica": (put(*PARTITION, "leader", value=3), "$.partitions[0].leader is 3"),
    "an unknown leader": (put(*PARTITION, "leader", value=77), "$.partitions[0].leader is 77"),
    "in sync without a replica": (
        put(*PARTITION, "in_sync", value=[1, 3]),
        "$.partitions[0].in_sync[1] is 3",
    ),
    "in sync twice": (put(*PARTITION, "in_sync", value=[1, 1]), "$.partitions[0].in_sync"),
    "a log dir too few": (put(*PARTITION, "log_dirs", value=["/data1"]), "$.partitions[0].log_dirs"),
    "an undeclared log dir": (
        put(*PARTITION, "log_dirs", value=["/data1", "/x"]),
        "$.partitions[0].log_dirs[1]",
    ),
    "a log dir declared twice": (
        put(*BROKER, "log_dirs", value=[{"path": "/a", "state": "online"}] * 2),
        "$.brokers[0].log_dirs[1].path",
    ),
    "an unknown broker state": (put(*BROKER, "state", value="up"), "alive, new, dead"),
    "an unknown log dir state": (
        put(*BROKER, "log_dirs", 0, "state", value="full"),
        "online, offline, cordoned",
    ),
    "an empty topic": (put(*PARTITION, "topic", value=""), "$.partitions[0].topic"),
    "an empty host": (put(*BROKER, "host", value=""), "$.brokers[0].host"),
    "an empty cluster": (put("cluster", value=""), "$.cluster"),
    "a bad time": (put("taken_at", value="yesterday"), "$.taken_at"),
    "a time without offset": (put("taken_at", value="2026-11-21T05:00:00"), "$.taken_at"),
    "an impossible day": (put("taken_at", value="2026-02-30T05:00:00Z"), "$.taken_at"),
    "a share above one": (put("quality", "valid_share", value=1.5), "$.quality.valid_share is 1.5"),
    "a negative age": (put("quality", "oldest_sample_seconds", value=-1), "oldest_sample_seconds is -1"),
    "an unknown CPU signal": (put("quality", "cpu", value="guessed"), "$.quality.cpu"),
    "NaN": (
        put(*PARTITION, "leader_load", "cpu", value=float("nan")),
        "$.partitions[0].leader_load.cpu is NaN",
    ),
    "Infinity": (
        put(*BROKER, "capacity", "cpu", value=float("inf")),
        "$.brokers[0].capacity.cpu is Infinity",
    ),
}

SOUND = json.dumps(small())

BROKEN_BYTES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "not JSON": (b"brokers: 1", "is not JSON at line 1"),
    "a list": (b"[]", "expected an object"),
    "a number": (b"7", "expected an object"),
    "null": (b"null", "expected an object"),
    "cut off": (SOUND[: len(SOUND) // 2].encode(), "is cut off at line 1"),
    "cut off within a text": (SOUND[: SOUND.index("measured") + 3].encode(), "is cut off"),
    "something after the end": (SOUND.encode() + b" {}", "is not JSON"),
    "a comma too many": (SOUND.replace("}]", "},]").encode(), "is not JSON at line 1"),
    "a byte order mark": (b"\xef\xbb\xbf" + SOUND.encode(), "byte order mark"),
    "Latin-1": (SOUND.replace("orders", "größe").encode("latin-1"), "is not UTF-8"),
    "UTF-16": (SOUND.encode("utf-16"), "is not UTF-8"),
    "half a surrogate pair": (SOUND.replace("orders", "\\ud800").encode(), "orders-file"),
    "a key twice": (SOUND.replace('"leader": 1', '"leader": 1, "leader": 2', 1).encode(), '"leader" twice'),
    "a key twice at the top": (SOUND.replace("{", '{"cluster": "x", ', 1).encode(), '"cluster" twice'),
    "a key twice in a broker": (SOUND.replace('"id": 1', '"id": 1, "id": 4').encode(), '"id" twice'),
    "a key twice in a load": (SOUND.replace('"cpu": 0.2', '"cpu": 0.2, "cpu": 1').encode(), '"cpu" twice'),
    "a number beyond doubles": (SOUND.replace('"cpu": 0.2', '"cpu": 1e999').encode(), "is 1e999"),
    "a number of 5,000 digits": (SOUND.replace('"id": 1', '"id": ' + "9" * 5000).encode(), "orders-file"),
    "nested 100,000 deep": (b'{"x_a":' * 100_000, "nested too deeply"),
    "nested deep in a field of the user's own": (
        SOUND.replace("{", '{"x_a": ' + "[" * 3000 + "]" * 3000 + ", ", 1).encode(),
        "nested too deeply",
    ),
    "Parquet": (b"PAR1....PAR1", "Parquet"),
}

BROKEN_GZIP: dict[str, tuple[bytes, str]] = {
    "gzip cut off": (gzip.compress(SOUND.encode())[:-20], "ends too early"),
    "gzip damaged": (gzip.compress(SOUND.encode())[:40] + b"\x00" * 99, "gzip"),
    "no gzip": (SOUND.encode(), "is not sound gzip"),
}


def expect_refusal(
    capsys: pytest.CaptureFixture[str], out: Path, arguments: list[object], name: str, told: str
) -> None:
    """Exit code 2, one line on standard error that names the file and the fault, nothing else anywhere."""
    assert run("plan", "replicas", "--out", out, *arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("trimtab: ")
    assert "Traceback" not in said.err
    assert name in said.err
    assert told in said.err
    assert not out.exists()
    assert list(out.parent.glob(".*")) == []


@pytest.mark.parametrize("kind", BROKEN_VALUES)
def test_a_broken_value_is_refused_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot with one wrong value: the operator learns the file, the JSON path and what was expected."""
    change, told = BROKEN_VALUES[kind]
    document = small()
    change(document)
    path = tmp_path / "orders-file.json"
    path.write_text(json.dumps(document))
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", path], "orders-file.json", told)


@pytest.mark.parametrize("kind", [*BROKEN_BYTES, *BROKEN_GZIP])
def test_broken_bytes_are_refused_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is no sound JSON text, or whose text means two things, is refused with its place."""
    data, told = {**BROKEN_BYTES, **BROKEN_GZIP}[kind]
    path = tmp_path / ("orders-file.json.gz" if kind in BROKEN_GZIP else "orders-file.json")
    path.write_bytes(data)
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", path], "orders-file.json", told)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("[replicas]\nepsilom = 0.1\n", "did you mean replicas.epsilon"),
        ("[replica]\nepsilon = 0.1\n", "did you mean replicas"),
        ("[replicas]\nepsilon = 1.5\n", "replicas.epsilon is 1.5"),
        ("[replicas]\nepsilon = 0\n", "replicas.epsilon is 0"),
        ("[replicas]\ntheta = -0.1\n", "replicas.theta is -0.1"),
        ("[replicas]\ntheta = nan\n", "finite"),
        ("[replicas]\ntheta = true\n", "replicas.theta is true, expected a number"),
        ('[replicas]\ntheta = "high"\n', 'replicas.theta is "high"'),
        ("[replicas.theta]\nmemory = 0.5\n", "replicas.theta.memory is not a setting"),
        ('[replicas]\ngoals = ["racks"]\n', "perhaps rack"),
        ('[replicas]\ngoals = ["rack", "rack"]\n', "each goal once"),
        ('[replicas]\nexcluded_brokers_for_leaders = ["one"]\n', "excluded_brokers_for_leaders[0]"),
        ("[replicas]\nmax_moves = -1\n", "replicas.max_moves is -1"),
        ("[replicas]\nseed = 0.5\n", "replicas.seed is 0.5"),
        ('[replicas]\nstrategy = "greedy"\n', "greedy"),
        ("replicas = 1\n", "write [replicas]"),
        ("[replicas\n", "is not TOML"),
        ("[replicas]\nseed = 1\nseed = 2\n", "is not TOML"),
    ],
)
def test_a_broken_setting_is_refused_by_name(
    setting: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A settings file that asks for what does not exist or cannot be is refused, with the nearest name."""
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(SOUND)
    settings = tmp_path / "settings.toml"
    settings.write_text(setting)
    arguments: list[object] = ["--snapshot", snapshot, "--settings", settings]
    expect_refusal(capsys, tmp_path / "plan.json", arguments, "", told)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("replicas.epsilon", "expected section.key=value"),
        ("epsilon=0.1", "expected section.key=value"),
        ("replicas.epsilon=", "replicas.epsilon"),
        ("replicas.epsilon=wide", '"wide", expected a number'),
        ("replicas.epsilon.cpu=2", "replicas.epsilon.cpu is 2"),
        ("pipelin.window_seconds=1", "did you mean pipeline"),
    ],
)
def test_a_broken_override_is_refused_by_name(
    override: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--set` with a slip is answered like the same slip in a file."""
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(SOUND)
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", snapshot, "--set", override], "--set", told)


def test_a_broken_variable_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt environment variable of a section is not passed over in silence."""
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(SOUND)
    monkeypatch.setenv("TRIMTAB_REPLICAS_EPSILOM", "0.1")
    told = "did you mean TRIMTAB_REPLICAS_EPSILON"
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", snapshot], "TRIMTAB_REPLICAS_EPSILOM", told)


@pytest.mark.parametrize("kind", ["nothing there", "an empty folder", "in no folder", "may not be read"])
def test_a_path_without_a_snapshot_is_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing path is named, with the expected content."""
    path, told = tmp_path / "orders-file.json", "no such file"
    if kind == "an empty folder":
        path.mkdir()
        told = "has no brokers.parquet"
    elif kind == "in no folder":
        (tmp_path / "orders-file.json").write_text("")
        path = path / "below"
    elif kind == "may not be read":
        path.write_text(SOUND)
        path.chmod(0)
        told = "may not be read"
        if os.access(path, os.R_OK):
            path.unlink()  # root may read everything; the case is then the first one again
            told = "no such file"
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", path], "orders-file.json", told)


@pytest.mark.parametrize("kind", ["a later version", "cut off", "setting"])
def test_a_rejected_file_ends_the_process_with_exit_code_2(kind: str, tmp_path: Path) -> None:
    """The same from outside: exit code 2, one line on standard error, and the plan that was there stays."""
    document = small()
    if kind == "a later version":
        document["format"] = "trimtab/replicas-snapshot/2"
    text = json.dumps(document)
    snapshot = tmp_path / "snapshot.json"
    snapshot.write_text(text[:-5] if kind == "cut off" else text)
    out = tmp_path / "plan.json"
    out.write_text("the plan of yesterday")
    command: list[str | Path] = [
        Path(sys.executable).with_name("trimtab"),
        "plan",
        "replicas",
        "--snapshot",
        snapshot,
        "--out",
        out,
    ]
    command += ["--set", "replicas.epsilon=9"] if kind == "setting" else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert out.read_text() == "the plan of yesterday"


def test_fields_of_the_users_own_are_passed_over(tmp_path: Path) -> None:
    """Another tool's notes, in fields that begin with x_, may stand in every object and change nothing."""
    from trimtab.files.replicas.snapshot import read_snapshot

    document = small()
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps(document))
    noted = copy.deepcopy(document)
    for place in (
        noted,
        noted["brokers"][0],
        noted["brokers"][0]["capacity"],
        noted["brokers"][0]["log_dirs"][0],
    ):
        place["x_note"] = {"by": ["us", 1]}
    for place in (noted["partitions"][1], noted["partitions"][0]["leader_load"], noted["quality"]):
        place["x_note"] = "ours"
    path = tmp_path / "noted.json"
    path.write_text(json.dumps(noted))
    found, expected = read_snapshot(path), read_snapshot(plain)
    assert (found.partitions.leader_load == expected.partitions.leader_load).all()
    assert found.brokers.host == expected.brokers.host
    assert dict(found.extra) == {"x_note": {"by": ["us", 1]}}
    assert dict(found.quality.extra) == {"x_note": "ours"}


@pytest.mark.parametrize("seed", range(12))
def test_every_form_holds_the_same(seed: int, tmp_path: Path) -> None:
    """JSON, compressed JSON and a folder of Parquet are one snapshot in three forms."""
    import numpy as np

    from trimtab.files.replicas.snapshot import read_snapshot, write_snapshot

    path = tmp_path / "first.json"
    path.write_text(json.dumps(random_snapshot(seed)))
    first = read_snapshot(path)
    for name in ("again.json", "again.json.gz", "again"):
        written = write_snapshot(first, tmp_path / name)
        found = read_snapshot(tmp_path / name)
        assert found.reference == written
        for room in ("brokers", "log_dirs", "partitions"):
            for field, value in vars(getattr(first, room)).items():
                assert np.array_equal(value, getattr(getattr(found, room), field)), (name, room, field)
        assert write_snapshot(found, tmp_path / f"twice{name}") == written


def _folder(tmp_path: Path, document: Document | None = None) -> Path:
    """The small snapshot as a folder, as another tool would write it: types as they come."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    document = document or small()
    folder = tmp_path / "orders-folder"
    folder.mkdir(exist_ok=True)
    for name in ("brokers", "partitions"):
        pq.write_table(pa.Table.from_pylist(document.pop(name)), folder / f"{name}.parquet")
    (folder / "meta.json").write_text(json.dumps(document))
    return folder


def test_a_folder_of_another_tool_is_read(tmp_path: Path) -> None:
    """Integers for fractions, 64-bit ids, optional columns left out: folders of other programs
    are accepted.
    """
    from trimtab.files.replicas.snapshot import read_snapshot

    document = small()
    for partition in document["partitions"]:
        del partition["in_sync"], partition["log_dirs"]
    for broker in document["brokers"]:
        del broker["rack"]
    document["brokers"][0]["x_note"] = document["partitions"][0]["x_note"] = "ours"
    path = tmp_path / "plain.json"
    path.write_text(json.dumps(document))
    expected, found = read_snapshot(path), read_snapshot(_folder(tmp_path, document))
    assert found.brokers.rack == expected.brokers.rack == ("h1", "h2", "h3")
    assert (found.partitions.in_sync == expected.partitions.in_sync).all()
    assert (found.partitions.follower_load == expected.partitions.follower_load).all()


COLUMNS: dict[str, tuple[str, Change, str]] = {
    # kind: (file, how to break its rows, what the message must name)
    "null topic": ("partitions", put(0, "topic", value=None), "row 0, topic is null"),
    "null load": ("partitions", put(1, "leader_load", "disk", value=None), "row 1, leader_load.disk is null"),
    "text as load": ("partitions", put(0, "leader_load", value="big"), "partitions.parquet"),
    "negative load": ("partitions", put(1, "leader_load", "cpu", value=-1.0), "row 1, leader_load.cpu is -1"),
    "unknown replica": ("partitions", put(1, "replicas", value=[1, 8]), "row 1, replicas[1] is 8"),
    "null replica": ("partitions", put(1, "replicas", value=[1, None]), "row 1, replicas[1]"),
    "negative partition": ("partitions", put(1, "partition", value=-3), "row 1, partition is -3"),
    "unknown state": ("brokers", put(1, "state", value="up"), "row 1.state"),
    "null id": ("brokers", put(1, "id", value=None), "row 1"),
    "zero capacity": ("brokers", put(1, "capacity", "cpu", value=0.0), "row 1.capacity.cpu is 0"),
    "unknown field": ("brokers", put(1, "capacity", "memory", value=1.0), "memory"),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_broken_row_is_refused_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder, the message names the file, the row and the column."""
    name, change, told = COLUMNS[kind]
    document = small()
    if kind == "text as load":
        for row in document["partitions"]:
            row["leader_load"] = "big"
    else:
        change(document[name])
    folder = _folder(tmp_path, document)
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", folder], f"{name}.parquet", told)


@pytest.mark.parametrize(
    "kind", ["no meta", "no column", "unknown column", "wrong type", "no Parquet", "flag"]
)
def test_a_broken_folder_is_refused_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that lacks a file or column, or whose column has another type, is refused by name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = _folder(tmp_path)
    path = folder / "partitions.parquet"
    table = pq.read_table(path)
    if kind == "no meta":
        (folder / "meta.json").unlink()
        told = "has no meta.json"
    elif kind == "no column":
        pq.write_table(table.drop_columns(["replicas"]), path)
        told = 'has no column "replicas"'
    elif kind == "unknown column":
        pq.write_table(table.append_column("isr", table["replicas"]), path)
        told = 'unknown column "isr"'
    elif kind == "wrong type":
        pq.write_table(table.set_column(1, "partition", pa.array(["a", "b"])), path)
        told = "column partition is string, expected whole numbers"
    elif kind == "flag":
        pq.write_table(table.set_column(1, "partition", pa.array([True, False])), path)
        told = "column partition is bool"
    else:
        path.write_bytes(b"PAR1 and then nothing")
        told = "is not a sound Parquet file"
    expect_refusal(capsys, tmp_path / "plan.json", ["--snapshot", folder], "orders-folder", told)
