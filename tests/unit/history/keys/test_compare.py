"""Policies side by side over recorded records: what holds of every one, and the command that shows them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.recordings import replay
from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.compare import TABLES, KeysScenario, compare, default_schemes
from trimtab.history.keys.simulation import (
    ConsumerCapacity,
    KeysSimulationSettings,
    KeyStream,
    Zipf,
    drawn_stream,
    parse_zipf,
    waiting,
)
from trimtab_common.errors import InputError, SettingsError
from trimtab_keys.core.policies import POLICIES

STREAM = drawn_stream(Zipf(1.4, 200), 300.0, 8.0, 3, seed=2)
SETTING = KeysScenario(
    world=KeysSimulationSettings(4, ConsumerCapacity(100.0), spare=4, seed=1),
    settings=KeysSettings(epsilon=(0.1,)),
    plan_seconds=2.0,
)


def test_waiting_records_by_hand() -> None:
    """Sent at 0, 1 and 2 and done at 3, 2.5 and 2.2; the second elsewhere."""
    given = np.array([0, 1, 0]), np.array([0.0, 1.0, 2.0]), np.array([3.0, 2.5, 2.2])
    found = waiting(*given, 2, np.array([0.5, 2.1, 2.3, 3.0]))
    assert found.tolist() == [[1, 0], [2, 1], [1, 1], [0, 0]]


def test_every_policy_takes_every_record_and_tables_with_the_guard_overtake_none() -> None:
    """The hash lets one partition fall behind; a table balances, and only with the guard preserves order."""
    found = compare(STREAM, default_schemes(), SETTING)
    assert set(found) >= set(POLICIES) | set(TABLES)
    for name, one in found.items():
        assert sum(one.records) == len(STREAM.at), name
        assert one.max_over_mean >= 1, name
        assert one.waiting[-1].sum() == 0, name
    bare, guarded, planned = (found[name] for name in TABLES)
    assert found["hash"].overtaken == guarded.overtaken == planned.overtaken == 0
    assert bare.overtaken > 0
    assert max(bare.max_over_mean, guarded.max_over_mean) < 1.15 < found["hash"].max_over_mean
    assert guarded.p99_seconds < planned.p99_seconds < found["hash"].p99_seconds
    assert found["ipooa"].added > 0


def test_candidates_of_ipooa_differ() -> None:
    """By content, by load, and the emptiest: three other courses of the same records."""
    found = compare(STREAM, ["ipooa", "ipooa+load", "ipooa+least"], SETTING)
    assert len({one.records for one in found.values()}) == 3


@pytest.mark.parametrize("name", ["nothing", "hash+guard", "ipooa+nearest", "key_groups+plans"])
def test_an_unknown_scheme_is_refused_before_any_is_run(name: str) -> None:
    """With those that are known."""
    told: list[str] = []
    with pytest.raises(SettingsError, match="is not known: write one of hash, .*key_groups.guard.plans"):
        compare(STREAM, ["hash", name], SETTING, told.append)
    assert not told


def test_a_law_of_keys_by_hand() -> None:
    """Of three keys with exponent 1 the first has six elevenths; what is no law is refused."""
    assert Zipf(1.0, 3).shares() == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert parse_zipf("zipf:1.2") == Zipf(1.2)
    assert parse_zipf(Zipf(0.5, 7).text) == Zipf(0.5, 7)
    counts = np.bincount(drawn_stream(Zipf(1.0, 3), 1000.0, 11.0, 1, seed=1).which)
    assert (counts / counts.sum()).tolist() == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.02)
    for text in ("zipf", "zipf:", "zipf:a", "zipf:1:0", "zipf:-1", "zipf:nan", "uniform:1"):
        with pytest.raises(InputError, match="the law of keys is"):
            parse_zipf(text)


def test_the_command_shows_a_recording_as_table_json_and_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times of day; a record without a key is left out; a period and a distribution can be requested."""
    rows = "".join(f"2026-11-21T05:00:{n // 10:02d}.{n % 10}Z,k{n * n % 7}\n" for n in range(200))
    (tmp_path / "records.csv").write_text("time,key\n2026-11-21T05:00:00Z,\n" + rows)
    words = ("--records", tmp_path / "records.csv", "--partitions", 2)

    def told(*more: object, code: int = 0) -> tuple[str, str]:
        assert replay(*more, level="keys") == code
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    out, _ = told(*words, "--policy", "hash", "--policy", "key_groups+guard")
    assert "200 records of 4 keys over 20 s, the most frequent with" in out
    assert "1 without a key left out" in out
    assert "key_groups+guard" in out
    since = ("--since", "2026-11-21T05:00:10", "--policy", "d_choices")
    out, said = told(*words, *since, "--json", "--chart", tmp_path / "chart.png")
    assert f"drew {tmp_path / 'chart.svg'} and {tmp_path / 'chart.png'}" in said
    found = json.loads(out)
    assert (found["records"], [one["name"] for one in found["policies"]]) == (100, ["d_choices"])
    assert sum(found["policies"][0]["records"]) == 100
    out, _ = told("--key-distribution", "zipf:1:20", "--rate", 100, "--seconds", 2, "--policy", "pkg")
    assert "pkg" in out
    for wrong, why in (
        ((), "name a file by --records, or a law of keys by --key-distribution"),
        (
            ("--records", "a.csv", "--key-distribution", "zipf:1"),
            "--records is a recording and --key-distribution is none",
        ),
        ((*words, "--until", "2020-01-01"), "holds no record in that period"),
    ):
        assert why in told(*wrong, code=2)[1]


def test_a_stream_needs_its_keys() -> None:
    """A law with one key is a stream of one key."""
    one = drawn_stream(Zipf(1.0, 1), 10.0, 1.0, 1, seed=3)
    assert isinstance(one, KeyStream)
    assert set(one.which) == {0}
