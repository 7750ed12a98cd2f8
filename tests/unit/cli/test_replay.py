"""`trimtab replay bundles`, from outside."""

import json
from pathlib import Path

import pytest

from support.bundle_views import key
from support.recordings import replay, skewed, tick, written


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three minutes of a hot broker beside a cold one."""
    return written(tmp_path / "reports.jsonl", [tick(minute, skewed()) for minute in range(3)])


def test_a_recording_becomes_one_decision_a_tick(recording: Path, tmp_path: Path) -> None:
    """Each line has the time, the bundle, its destination, and the numbers of the decision."""
    out = tmp_path / "decisions.jsonl"
    assert replay("--reports", recording, "--strategy", "ThresholdShedder", "--seed", 0, "--out", out) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["at"] for line in lines] == [f"2026-11-21T05:0{minute}:00Z" for minute in range(3)]
    assert [line["unloads"] for line in lines] == [
        {"h1:8080": [key(1)]},
        {"h1:8080": [key(2)]},
        {"h1:8080": [key(0)]},
    ]
    assert lines[0]["why"]["average"] == pytest.approx(0.55)
    assert set(lines[0]) == {"at", "unloads", "destinations", "why"}


def test_decisions_go_to_standard_output_and_the_summary_does_not(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that they can be piped."""
    assert replay("--reports", recording) == 0
    shown = capsys.readouterr()
    assert len([json.loads(line) for line in shown.out.splitlines()]) == 3
    assert shown.err == "trimtab: 3 ticks, 3 unloads by ThresholdShedder, 3 bundles to be split\n"


def test_brokers_on_one_host_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sandbox's recording: nearly the same CPU everywhere, which is the host's; and what can be done."""
    first, second = skewed().values()
    for apart, said in ((4.0, True), (20.0, False)):
        first["cpu"]["usage"], second["cpu"]["usage"] = 99.9, 99.9 - apart
        path = written(tmp_path / "reports.jsonl", [tick(0, {"127.0.0.1:1": first, "127.0.0.1:2": second})])
        assert replay("--reports", path, "--out", tmp_path / f"{said}.jsonl") == 0
        error = capsys.readouterr().err
        told = "1 of 1 ticks have brokers of one host that report the same CPU" in error
        assert told is said
        assert ("2 brokers on 127.0.0.1 at about 100%" in error) is said
        assert ("`trimtab plan bundles` by declared capacities" in error) is said


def test_ownership_changes_are_reported_with_the_first_of_each_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A moving bundle, a split reported by both brokers, and statistics without a bundle: accepted and
    reported.
    """
    calm, odd = skewed(), skewed()
    odd["h2:8080"]["bundles"] += [key(0), "t/n/0x03000000_0x03800000"]
    odd["h1:8080"]["bundles"].remove(key(2))
    path = written(tmp_path / "reports.jsonl", [tick(0, calm), tick(1, odd), tick(2, odd)])
    out = tmp_path / "decisions.jsonl"
    assert replay("--reports", path, "--out", out) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert [line.partition(": ")[2].partition(" (")[0][:44] for line in told] == [
        "warning: 2 of 3 ticks have a bundle at two b",
        "warning: 2 of 3 ticks have a bundle beside a",
        "warning: 2 of 3 ticks have statistics of a b",
    ]
    assert f"(first 2026-11-21T05:01:00Z: {key(0)} at h1:8080 and h2:8080)" in told[0]
    assert f"t/n/0x03000000_0x03800000 beside {key(3)}" in told[1]
    assert f"{key(2)} at h1:8080" in told[2]
    unloads = [json.loads(line)["unloads"] for line in out.read_text().splitlines()]
    assert unloads == [{"h1:8080": [key(1)]}, {"h1:8080": [key(0)]}, {}]


def test_policies_prevent_unloads(recording: Path, tmp_path: Path) -> None:
    """Isolation to one host leaves no other broker: nothing is unloaded, and each rejection
    has its reason.
    """
    path = tmp_path / "policies.json"
    isolation = {"alone": {"namespaces": ["t/n"], "primary": ["h1"]}}
    text = {"format": "trimtab/pulsar-policies/1", "namespaceIsolationPolicies": isolation}
    path.write_text(json.dumps(text))
    out = tmp_path / "decisions.jsonl"
    assert replay("--reports", recording, "--policies", path, "--out", out) == 0
    first = json.loads(out.read_text().splitlines()[0])
    assert first["unloads"] == {}
    assert first["why"]["refused"] == {key(1): "policies or anti-affinity keep it where it is"}
    for strategy, moved in (("TransferShedder", False), ("TransferShedder", True)):
        switch = f"loadBalancerSheddingBundlesWithPoliciesEnabled={str(moved).lower()}"
        isolation["alone"]["primary"] = ["h1", "h2"]
        path.write_text(json.dumps(text))
        options = ("--set", switch, "--set", "loadBalancerSheddingConditionHitCountThreshold=0")
        arguments = ("--strategy", strategy, "--policies", path, *options, "--out", out)
        assert replay("--reports", recording, *arguments) == 0
        assert bool(json.loads(out.read_text().splitlines()[0])["unloads"]) is moved


def test_a_quota_is_the_initial_load_of_a_bundle(recording: Path, tmp_path: Path) -> None:
    """100,000 times as much as it does: after one sample of ten the quota still makes it the busiest."""
    path = tmp_path / "policies.json"
    quota = {"msgRateIn": 0, "msgRateOut": 0, "bandwidthIn": 1e12, "bandwidthOut": 0}
    text = {"format": "trimtab/pulsar-policies/1", "resourceQuotas": {key(0): quota}}
    path.write_text(json.dumps(text))
    out = tmp_path / "decisions.jsonl"
    assert replay("--reports", recording, "--policies", path, "--out", out) == 0
    assert json.loads(out.read_text().splitlines()[0])["unloads"] == {"h1:8080": [key(0)]}


def test_the_example_of_the_format_runs_word_for_word(recording: Path, tmp_path: Path) -> None:
    """`--strategy ThresholdShedder --set loadBalancerBrokerThresholdShedderPercentage=20 --seed 0 --out`."""
    command = (
        f"--reports {recording} --strategy ThresholdShedder "
        f"--set loadBalancerBrokerThresholdShedderPercentage=20 --seed 0 --out {tmp_path}/decisions.jsonl"
    )
    assert replay(*command.split()) == 0
    lines = [json.loads(line) for line in (tmp_path / "decisions.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert list(line) == ["at", "unloads", "destinations", "why"]
        assert line["why"]["threshold"] == 0.2


def test_an_option_of_pulsars_changes_the_decision(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """90 % is 35 points above the average: with a threshold of 36 it is not overloaded."""
    assert replay("--reports", recording, "--set", "loadBalancerBrokerThresholdShedderPercentage=36") == 0
    assert "0 unloads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategy", "TresholdShedder"), "did you mean ThresholdShedder?"),
        (("--placement", "Nearest"), "placement strategy Nearest is not known"),
        (("--set", "loadBalancerX=1"), "option loadBalancerX is not one"),
        (("--set", "loadBalancerX"), "is not name=value"),
        (("--pulsar-version", "pulsar-3"), "choose one of pulsar-4.2, pulsar-4.0, article"),
        (("--spark",), "name a folder for them with --out, or"),
        (("--spark", "--mode", "simulated", "--state-file", "s"), "leave it out"),
    ],
)
def test_an_error_is_one_line_with_exit_code_2(
    recording: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """And no file of decisions is left."""
    out = tmp_path / "decisions.jsonl"
    written = () if "--spark" in arguments else ("--out", out)
    assert replay("--reports", recording, *written, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_in_the_simulated_world_pulsars_own_placement_is_the_default(recording: Path, tmp_path: Path) -> None:
    """What is unloaded must go somewhere; who names a placement gets that one, as ever."""
    default, named = tmp_path / "default", tmp_path / "named"
    assert replay("--reports", recording, "--mode", "simulated", "--out", default) == 0
    placed = ("--placement", "LeastLongTermMessageRate")
    assert replay("--reports", recording, "--mode", "simulated", *placed, "--out", named) == 0
    assert b'"destinations": {"t/n' in default.read_bytes()
    assert default.read_bytes() == named.read_bytes()


def test_a_bad_line_leaves_no_decisions(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line 4 is refused: the three decisions before it are not left as if they were all."""
    recording.write_text(recording.read_text() + '{"at": 5}\n')
    out = tmp_path / "decisions.jsonl"
    assert replay("--reports", recording, "--out", out) == 2
    assert "line 4" in capsys.readouterr().err
    assert not out.exists()


def test_a_saved_state_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half of the recording today and half tomorrow give the decisions of the whole."""
    ticks = [tick(minute, skewed()) for minute in range(4)]
    state = tmp_path / "state.json"
    assert replay("--reports", written(tmp_path / "whole", ticks)) == 0
    whole = capsys.readouterr().out
    assert replay("--reports", written(tmp_path / "first", ticks[:2]), "--state-file", state) == 0
    assert replay("--reports", written(tmp_path / "second", ticks[2:]), "--state-file", state) == 0
    assert capsys.readouterr().out == whole
