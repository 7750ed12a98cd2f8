"""Snapshots of the balancer bundles in files: three forms of one value, and slips that are named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.bundle_snapshots import random_bundles_snapshot
from trimtab.files.bundles.snapshot import FORMAT, read_bundles_snapshot, write_bundles_snapshot
from trimtab.model.bundles.snapshot import BundlesSnapshot
from trimtab_common.errors import InputError


def assert_same(one: BundlesSnapshot, other: BundlesSnapshot) -> None:
    """Equal in all but the digest."""
    for part in ("brokers", "bundles", "topics"):
        for name, value in vars(getattr(one, part)).items():
            found = getattr(getattr(other, part), name)
            if isinstance(value, np.ndarray):
                assert value.dtype == found.dtype, (part, name)
                np.testing.assert_array_equal(value, found, err_msg=f"{part}.{name}")
            else:
                assert value == found, (part, name)
    for name in (
        "quality",
        "taken_at",
        "views",
        "departures",
        "boundaries",
        "policies",
        "load_manager",
        "usage",
    ):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.reference.cluster, one.reference.taken_at) == (
        other.reference.cluster,
        other.reference.taken_at,
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", ["s.json", "s.json.gz", "folder"])
def test_a_snapshot_is_read_back_unchanged(seed: int, name: str, tmp_path: Path) -> None:
    """Every state and gap that the model allows, in every form; written again, the digest is the same."""
    snapshot = random_bundles_snapshot(seed, views=1 + seed % 4, wild=seed % 2 == 1)
    reference = write_bundles_snapshot(snapshot, tmp_path / name)
    found = read_bundles_snapshot(tmp_path / name)
    assert_same(snapshot, found)
    assert found.reference == reference
    assert write_bundles_snapshot(found, tmp_path / f"again-{name}") == reference


def test_the_order_of_the_file_does_not_matter() -> None:
    """Brokers, bundles and topics turned round give the same snapshot."""
    data = json.loads(FORMAT.to_json(random_bundles_snapshot(3, wild=True)))
    for part in ("brokers", "bundles", "topics"):
        data[part].reverse()
    found = FORMAT.from_json(Path("s.json"), json.dumps(data).encode(), "0" * 64)
    assert_same(random_bundles_snapshot(3, wild=True), found)


def changed(change: Callable[[Any], object]) -> bytes:
    """A sound snapshot after an edit."""
    document = json.loads(FORMAT.to_json(random_bundles_snapshot(1, wild=True)))
    change(document)
    return json.dumps(document).encode()


SLIPS: dict[str, tuple[Callable[[Any], object], str]] = {
    # kind: (what is wrong, what the message must say)
    "another format": (
        lambda one: one.update(format="trimtab/replicas-snapshot/1"),
        r'\$\.format is "trimtab/replicas-snapshot/1"',
    ),
    "a later version": (lambda one: one.update(format="trimtab/bundles-snapshot/2"), "version 1"),
    "no views": (lambda one: one.pop("views"), r'\$ has no field "views"'),
    "views without the newest": (
        lambda one: one.update(views=["window -1"]),
        r'\$\.views is \["window -1"\], expected "window 0"',
    ),
    "a view twice": (lambda one: one.update(views=["window 0"] * 3), r"expected each view once"),
    "a load too few": (
        lambda one: one["bundles"][2]["load"].pop(),
        r"\$\.bundles\[2\]\.load is a list of 2, expected 3, one for each of `views`",
    ),
    "a negative load": (
        lambda one: one["bundles"][2]["load"][1].update(cpu=-1),
        r"\$\.bundles\[2\]\.load\[1\]\.cpu is -1, expected a number >= 0",
    ),
    "a load that is missing": (
        lambda one: one["topics"][0]["load"].pop("message_rate"),
        r'\$\.topics\[0\]\.load has no field "message_rate"',
    ),
    "no bundle's name": (
        lambda one: one["bundles"][0].update(bundle="t/n/0x0_0x1"),
        r"\$\.bundles\[0\]\.bundle: bundle",
    ),
    "a bundle twice": (
        lambda one: one["bundles"].append(one["bundles"][0]),
        r"\$\.bundles\[0\] and \$\.bundles\[\d+\] both describe",
    ),
    "bundles that overlap": (
        lambda one: one["bundles"][1].update(
            bundle=one["bundles"][0]["bundle"][:-8] + one["bundles"][1]["bundle"][-8:]
        ),
        r"overlap: a topic is in one bundle only",
    ),
    "a bundle that is none of the namespace's": (
        lambda one: (one["topics"].clear(), one["boundaries"].update({"tenant/space-0": [0, 5, 0xFFFFFFFF]})),
        r"\$\.bundles\[0\]\.bundle is .* expected one that the boundaries of tenant/space-0 make",
    ),
    "an unknown owner": (
        lambda one: one["bundles"][0].update(owner="elsewhere:1"),
        r'\$\.bundles\[0\]\.owner is "elsewhere:1", expected the name of a broker in this file, or null',
    ),
    "no broker": (lambda one: one.update(brokers=[]), "expected at least one"),
    "a broker twice": (
        lambda one: one["brokers"].append(one["brokers"][0]),
        r"both describe broker-0\.local:8080",
    ),
    "no capacity": (
        lambda one: one["brokers"][0]["capacity"].update(cpu=0),
        r"\$\.brokers\[0\]\.capacity\.cpu is 0\.0, expected a finite number above 0; leave the field out",
    ),
    "a topic of no bundle": (
        lambda one: one["topics"][0].update(bundle="t/n/0x00000000_0xffffffff"),
        r"\$\.topics\[0\]\.bundle is .* expected the name of a bundle in this file",
    ),
    "a hash outside": (
        lambda one: one["topics"][0].update(hash=0xFFFFFFFF),
        r"\$\.topics\[0\]\.hash is 4294967295, expected one that",
    ),
    "boundaries that fall": (
        lambda one: one["boundaries"].update({"a/b": [0, 9, 9, 0xFFFFFFFF]}),
        r'\$\.boundaries\["a/b"\] is .* expected rising boundaries',
    ),
    "boundaries with a gap": (
        lambda one: one["boundaries"].update({"a/b": [1, 0xFFFFFFFF]}),
        r"expected boundaries from 0 to 4294967295",
    ),
    "a departure out of order": (
        lambda one: one["departures"].reverse(),
        r"\$\.departures\[1\]\.at is before that of the departure before it",
    ),
    "a departure at no time": (
        lambda one: one["departures"][0].update(at="yesterday"),
        r"\$\.departures\[0\]\.at is \"yesterday\"",
    ),
    "a pattern that is none": (
        lambda one: one["policies"]["isolation"][0].update(primary=["*"]),
        r"\$\.policies\.isolation\[0\]\.primary\[0\] is \"\*\", expected a regular expression",
    ),
    "a load manager that is none": (
        lambda one: one.update(load_manager="simple"),
        r'\$\.load_manager is "simple", expected one of modular, extensible',
    ),
    "a usage from nowhere": (
        lambda one: one.update(usage="guessed"),
        r'\$\.usage is "guessed", expected one of measured, declared',
    ),
    "a misspelt field": (
        lambda one: one["bundles"][0].update(session=4),
        r'\$\.bundles\[0\] has an unknown field "session"; did you mean "sessions"',
    ),
}


@pytest.mark.parametrize("kind", SLIPS)
def test_a_slip_is_named(kind: str) -> None:
    """File, JSON path, value, what was expected, and what to do; in one line."""
    change, message = SLIPS[kind]
    with pytest.raises(InputError, match=message) as refused:
        FORMAT.from_json(Path("s.json"), changed(change), "0" * 64)
    assert str(refused.value).startswith("s.json: ")
    assert "\n" not in str(refused.value)


def test_a_key_that_stands_twice_is_refused() -> None:
    """JSON readers silently keep the last of two; ours reports the duplicate."""
    data = changed(lambda one: None).replace(b'"sessions": ', b'"sessions": 1, "sessions": ', 1)
    with pytest.raises(InputError, match=r'\$\.bundles\[0\] holds the key "sessions" twice'):
        FORMAT.from_json(Path("s.json"), data, "0" * 64)


def test_fields_of_ones_own_change_nothing() -> None:
    """Notes (`x_...`) may stand anywhere."""
    data = changed(lambda one: (one.update(x_by="me"), one["bundles"][0].update(x_note=[1])))
    assert_same(random_bundles_snapshot(1, wild=True), FORMAT.from_json(Path("s.json"), data, "0" * 64))


def edited(folder: Path, part: str, change: Callable[[pa.Table], pa.Table]) -> Path:
    """A sound folder after an edit of a table."""
    write_bundles_snapshot(random_bundles_snapshot(1, wild=True), folder)
    pq.write_table(change(pq.read_table(folder / f"{part}.parquet")), folder / f"{part}.parquet")
    return folder


def test_a_folder_names_the_table_and_the_row(tmp_path: Path) -> None:
    """The same checks, with the places of a table."""

    def negative(table: pa.Table) -> pa.Table:
        return table.set_column(3, "sessions", pa.array([-1] * len(table)))

    with pytest.raises(InputError, match=r"bundles\.parquet: row 0, sessions is -1, expected 0 or more"):
        read_bundles_snapshot(edited(tmp_path / "a", "bundles", negative))
    with pytest.raises(InputError, match=r"both describe tenant/space-0"):
        read_bundles_snapshot(
            edited(tmp_path / "b", "bundles", lambda table: pa.concat_tables([table, table]))
        )
    with pytest.raises(InputError, match=r'topics\.parquet: has no column "hash"; add it'):
        read_bundles_snapshot(edited(tmp_path / "c", "topics", lambda table: table.drop_columns("hash")))
    folder = edited(tmp_path / "d", "topics", lambda table: table)
    (folder / "topics.parquet").unlink()
    with pytest.raises(InputError, match=r"has no topics\.parquet; a snapshot folder holds meta\.json"):
        read_bundles_snapshot(folder)


def test_a_snapshot_of_another_balancer_is_rejected(tmp_path: Path) -> None:
    """The format of a folder names its balancer."""
    folder = edited(tmp_path / "a", "topics", lambda table: table)
    meta = json.loads((folder / "meta.json").read_text()) | {"format": "trimtab/replicas-snapshot/1"}
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(
        InputError, match=r'expected "trimtab/bundles-snapshot/1"; name a file of that format'
    ):
        read_bundles_snapshot(folder)
