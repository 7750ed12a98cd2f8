"""The weight-load forecast against its rivals in virtual time: makespans, busy times, states, losses.

`python experiments/queue_forecast/run.py` runs every comparison, writes `result.json`, draws `figures/` and
says which of the expected figures were missed (exit code 1).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import draw_figures
from schemes import (
    DROPPING,
    OPTIONS,
    QUEUES,
    RIVALS,
    SCHEMES,
    SEEDS,
    SIZES,
    SWITCHES,
    bound_seconds,
    load,
    run,
    scheme,
)

from trimtab.history.queues.simulation import QueuesRun
from trimtab_common.files import write_atomically

FOLDER = Path(__file__).parent
KINDS = ("in step", "at random")
BIG = (10_000, 100_000)


def figures_of(found: QueuesRun, due: Sequence[float]) -> dict[str, Any]:
    """The measures of one run."""
    kept = [(done - at, taken - at) for done, taken, at in
            zip(found.finished_at, found.accepted_at, due, strict=True) if done >= 0]  # fmt: skip
    sojourn, acceptance = sorted(one for one, _ in kept), sorted(one for _, one in kept)
    return {
        "makespan_seconds": round(found.makespan_seconds, 3),
        "busy_seconds": [round(one, 3) for one in found.busy_seconds],
        "sojourn_mean_seconds": round(statistics.fmean(sojourn), 3),
        "sojourn_p99_seconds": round(sojourn[int(0.99 * (len(sojourn) - 1))], 3),
        "acceptance_p99_seconds": round(acceptance[int(0.99 * (len(acceptance) - 1))], 3),
        "accepted": len(kept),
        "lost": found.lost,
        "moved": found.moved,
        "stolen": found.stolen,
        "pauses": found.pauses,
    }


def say(line: str) -> None:
    """A line of progress."""
    print(f"  {line}", file=sys.stderr, flush=True)


def seeds_of(kind: str) -> tuple[int | None, ...]:
    """The draws of a kind of load: in step there is but one."""
    return (None,) if kind == "in step" else SEEDS


def makespans() -> list[dict[str, Any]]:
    """Every scheme at every size, in step and over the draws."""
    rows = []
    for kind in KINDS:
        for size in SIZES:
            say(f"makespan, {kind}, {size:,} messages")
            loads = [load(size, seed) for seed in seeds_of(kind)]
            row: dict[str, Any] = {"kind": kind, "size": size,
                                   "bound_seconds": [round(bound_seconds(one), 3) for one in loads],
                                   "makespan_seconds": {}}  # fmt: skip
            for name, which in SCHEMES.items():
                row["makespan_seconds"][name] = [round(run(which, one).makespan_seconds, 3) for one in loads]
            rows.append(row)
    return rows


def one_draw(schemes: dict[str, Any], sizes: Sequence[int], what: str) -> list[dict[str, Any]]:
    """All measures of each scheme at each size, in step and of the first draw."""
    rows = []
    for kind in KINDS:
        for size in sizes:
            say(f"{what}, {kind}, {size:,} messages")
            messages = load(size, seeds_of(kind)[0])
            due = [one.deadline for one in messages]
            for name, which in schemes.items():
                row = {"kind": kind, "size": size, "scheme": name, "bound_seconds": bound_seconds(messages)}
                rows.append(row | figures_of(run(which, messages, name), due))
    return rows


def courses() -> list[dict[str, Any]]:
    """Lengths, forecasts and states over time under the forecast by work, a few hundred samples a run."""
    rows = []
    for kind in KINDS:
        for size in BIG:
            say(f"course, {kind}, {size:,} messages")
            for name in ("none", "forecast by work"):
                samples = run(SCHEMES[name], load(size, seeds_of(kind)[0])).samples
                samples = samples[:: max(1, len(samples) // 240)]
                rows.append(
                    {
                        "kind": kind,
                        "size": size,
                        "scheme": name,
                        "at": [round(one.at, 2) for one in samples],
                        "length": [list(one.length) for one in samples],
                        "work": [[round(work, 1) for work in one.work] for one in samples],
                        "forecast": [[round(value) for value in one.forecast] for one in samples],
                        "states": ["".join(state.value[0] for state in one.states) for one in samples],
                    }
                )
    return rows


def overtaking() -> list[dict[str, Any]]:
    """Messages of a thousand users begun out of their order, without and with users as affinity keys."""
    from dataclasses import replace

    rows = []
    for name in ("none", "forecast by work", "least_work_left", "work_stealing", "central_queue"):
        which = SCHEMES.get(name) or RIVALS[name]
        keyed = load(10_000, 1, users=1000)
        told = [replace(one, key=None) for one in keyed]
        free, kept = run(which, told, name), run(which, keyed, name)
        # Without keys the order of each user's messages is judged afterwards, by when work on them began.
        begun = [done - one.weight for done, one in zip(free.finished_at, keyed, strict=True)]
        latest: dict[object, float] = {}
        overtaken = 0
        for one, at in zip(keyed, begun, strict=True):
            overtaken += at < latest.get(one.key, -1.0)
            latest[one.key] = max(at, latest.get(one.key, -1.0))
        rows.append(
            {
                "scheme": name,
                "overtaken_without_keys": overtaken,
                "overtaken_with_keys": kept.overtaken,
                "makespan_without_keys": round(free.makespan_seconds, 3),
                "makespan_with_keys": round(kept.makespan_seconds, 3),
            }
        )
    return rows


def measure() -> dict[str, Any]:
    """Everything."""
    options = {name: scheme("marked_round_robin", settings) for name, settings in OPTIONS.items()}
    return {
        "format": "trimtab/experiment/1",
        "experiment": "queue_forecast",
        "method": {"queues": QUEUES, "seeds": list(SEEDS)},
        "makespans": makespans(),
        "schemes": one_draw(SCHEMES, BIG, "schemes"),
        "rivals": one_draw(RIVALS, BIG, "rivals"),
        "switches": one_draw(SWITCHES, (5000, 10_000, 25_000, 100_000), "switches"),
        "options": one_draw(options, BIG, "options"),
        "dropping": one_draw(DROPPING, (100_000,), "dropping"),
        "overtaking": overtaking(),
        "courses": courses(),
    }


def missed(document: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Expected figures and bands that this result does not show, with the values found."""
    found = _outside(document["makespans"], expected["bands"], expected["tolerance"])
    for kind, wanted in expected["makespan_10000_seconds"].items():
        row = next(one for one in document["makespans"] if one["kind"] == kind and one["size"] == 10_000)
        values = {name: statistics.median(one) for name, one in row["makespan_seconds"].items()}
        values["bound"] = statistics.median(row["bound_seconds"])
        for name, value in wanted.items():
            if abs(values[name] - value) > expected["tolerance"] * value:
                found.append(f"10,000 messages {kind}, {name}: {values[name]:.1f} s, expected {value} s")
    return found


def _outside(rows: Sequence[dict[str, Any]], bands: dict[str, int], tolerance: float) -> list[str]:
    """Bands of the paper that do not hold in step: alike, then only the forecast is quicker, then both."""
    found = []
    for row in rows:
        if row["kind"] != "in step":
            continue
        size = row["size"]
        of_scheme = {name: statistics.median(each) for name, each in row["makespan_seconds"].items()}
        quicker = {
            name for name, seconds in of_scheme.items() if seconds < (1 - tolerance) * of_scheme["none"]
        }
        if size <= bands["alike_up_to"]:
            holds = not quicker
        elif bands["only_forecast_from"] <= size <= bands["only_forecast_to"]:
            holds = "forecast by work" in quicker and "threshold" not in quicker
        else:
            holds = size < bands["both_beat_none_from"] or quicker == {*of_scheme} - {"none"}
        if not holds:
            found.append(f"{size:,} messages in step: quicker than none are {sorted(quicker)}")
    return found


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="where result.json and figures/ go")
    parser.add_argument(
        "--figures", action="store_true", help="draw the figures of result.json again, no more"
    )
    given = parser.parse_args()
    path = given.out / "result.json"
    if given.figures:
        document = json.loads(path.read_text())
    else:
        document = measure()
        write_atomically(path, (json.dumps(document, ensure_ascii=False) + "\n").encode())
    draw_figures(document, given.out / "figures")
    told = missed(document, json.loads((FOLDER / "expected.json").read_text()))
    print("\n".join(told) or "Every expected figure is there.")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
