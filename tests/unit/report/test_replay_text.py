"""Strategies side by side, as text and as JSON values."""

import dataclasses
import io
import json
from typing import Any

import numpy as np
from rich.console import Console

from support.bundle_views import key, report
from trimtab.history.bundles.effect import EffectMeter, MetricSpec, ReplayEffect, StrategyComparison
from trimtab.model.bundles.reports import BundleStats, ReportTick
from trimtab.plan.pulsar.decision import ShedDecision
from trimtab.report.bundles.replay import replay_document, replay_text

RULER = MetricSpec(weights=(1, 0, 0, 1, 1), overload=0.85, pause_seconds=0.5)
BUSY = BundleStats(msg_throughput_in=3e6, msg_throughput_out=1e6, producer_count=2, consumer_count=5)

SHOWN = """\
15 ticks from 1970-01-01T00:00:00Z to 1970-01-01T00:14:00Z; overloaded: 85% or more
strategy       σ mean   worst  peak  overloaded  unloads  bundles  clients  interrupted  came back
nothing moved  0.2500  0.2500   90%  14 min 0 s        –        –        –            –          –
quiet          0.2500  0.2500   90%  14 min 0 s        0        0        0          0 B          0
[restless]     0.2500  0.2500   90%  14 min 0 s        2        1       14       4.0 MB          1

came back   bundle                     to broker  left      back           away
[restless]  t/n/0x00000000_0x01000000  a          00:00:00  00:01:00  1 min 0 s

σ of the brokers' shares of weighted usage, at every tick before its unloads; peak: of the fullest broker, \
above 100% where demand exceeded its capacity; interrupted: traffic of unloaded bundles \
times a pause of 0.5 s each
"""


def effect(moves: int) -> ReplayEffect:
    """Fourteen minutes at 90 and 30 %, in which a bundle goes to and fro that often."""
    meter = EffectMeter(RULER)
    for minute in range(15):
        seen = ReportTick(
            minute * 60.0, {name: report({key(0): BUSY}, cpu=cpu) for name, cpu in (("a", 90), ("b", 30))}
        )
        source, target = ("a", "b") if minute % 2 == 0 else ("b", "a")
        decision = ShedDecision({source: (key(0),)}, {key(0): target}) if minute < moves else ShedDecision()
        meter.add(seen, decision)
    return meter.effect()


def shown(comparison: StrategyComparison) -> str:
    """What a terminal of 120 columns shows, without the blanks at the ends of lines."""
    console = Console(file=io.StringIO(), width=120, highlight=False)
    for part in replay_text(comparison):
        console.print(part, soft_wrap=isinstance(part, str))
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_a_row_for_each_strategy_below_the_recording_as_it_is() -> None:
    """The text shows which strategy balanced, its cost, and which bundle returned where."""
    found = StrategyComparison(RULER, effect(0), {"quiet": effect(0), "[restless]": effect(2)})
    assert f"{shown(found)}\n" == SHOWN


def test_of_many_returns_the_quickest_are_named() -> None:
    """Fourteen unloads to and fro are thirteen returns: eight more are counted, not named."""
    text = shown(StrategyComparison(RULER, effect(0), {"restless": effect(14)}))
    assert text.count("1 min 0 s") == 5
    assert "and 8 more after longer; --json names them all" in text


def test_over_several_days_times_have_their_dates() -> None:
    """An hour alone would be ambiguous."""
    found = effect(2)
    long = dataclasses.replace(effect(0), at=np.linspace(0, 2 * 86400.0, 15))
    text = shown(StrategyComparison(RULER, long, {"restless": found}))
    assert "1970-01-01T00:00:00Z  1970-01-01T00:01:00Z  1 min 0 s" in text


def test_uncounted_clients_are_reported() -> None:
    """A bundle in no broker's statistics has an unknown number of clients."""
    meter = EffectMeter(RULER)
    meter.add(ReportTick(0.0, {"a": report({}, cpu=50)}), ShedDecision({"a": (key(0),)}))
    text = shown(StrategyComparison(RULER, effect(0), {"blind": meter.effect()}))
    assert "blind: 1 unload of bundles whose broker reported no statistics; their clients and traffic" in text


def test_json_has_the_figures_of_every_tick_and_every_return() -> None:
    """The document can be drawn and counted from without the recording."""
    found = StrategyComparison(RULER, effect(0), {"restless": effect(3)})
    how: dict[str, Any] = {"strategy": "S", "placement": "P", "options": {"o": "1"}}
    document = json.loads(json.dumps(replay_document(found, {"restless": how}), allow_nan=False))
    assert document["pause_seconds"] == 0.5
    assert document["at"][:2] == ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"]
    assert document["unmoved"]["unloads"] == 0
    (one,) = document["strategies"]
    assert {name: one[name] for name in ("name", *how)} == {"name": "restless", **how}
    assert (one["unloads"], one["bundles_unloaded"], one["clients_disturbed"]) == (3, 1, 21)
    assert (one["interrupted_bytes_per_second"], one["interrupted_bytes"]) == (12e6, 6e6)
    assert (one["overload_seconds"], one["overload_broker_seconds"]) == (840, 840)
    assert one["over_time"]["unloads"] == [1] * 3 + [0] * 12
    assert one["over_time"]["overloaded_brokers"] == [1] * 15
    assert len(one["over_time"]["sigma"]) == len(one["over_time"]["peak_usage"]) == 15
    assert one["oscillations"][1] == {
        "at": "1970-01-01T00:02:00Z",
        "bundle": key(0),
        "source": "a",
        "target": "b",
        "left_at": "1970-01-01T00:01:00Z",
        "through": ["a"],
        "away_seconds": 60.0,
    }


def test_splits_of_pulsar_are_named_once_for_strategies_that_agree() -> None:
    """In text the first few, in JSON all, with the limit and when."""
    found = {key(number): (60.0 * number, "MsgRate") for number in range(7)}
    split = dataclasses.replace(effect(0), splits=found)
    comparison = StrategyComparison(RULER, effect(0), {"one": split, "two": split, "owners": effect(0)})
    (line,) = [line for line in shown(comparison).splitlines() if "also split" in line]
    assert line.startswith(f"Pulsar would also split {key(0)} (MsgRate, 1970-01-01T00:00:00Z), {key(1)} (")
    assert line.endswith(f"{key(4)} (MsgRate, 1970-01-01T00:04:00Z) and 2 more; --json names them all")
    one, _, owners = replay_document(comparison, {"one": {}, "two": {}, "owners": {}})["strategies"]
    assert one["splits"][6] == {"bundle": key(6), "at": "1970-01-01T00:06:00Z", "reason": "MsgRate"}
    assert owners["splits"] == []


def test_without_brokers_json_has_null_and_text_a_dash() -> None:
    """Nothing was measured, and nothing is made up."""
    meter = EffectMeter(RULER)
    meter.add(ReportTick(0.0, {}), ShedDecision())
    found = StrategyComparison(RULER, meter.effect(), {})
    assert replay_document(found, {})["unmoved"]["sigma_mean"] is None
    assert replay_document(found, {})["unmoved"]["over_time"]["sigma"] == [None]
    assert "nothing moved       –      –     –       0.0 s" in shown(found)
