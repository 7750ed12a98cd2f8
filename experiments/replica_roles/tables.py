"""The tables of README.md, made of `result.json` and `sweep.json`.

    python experiments/replica_roles/tables.py            # print them
    python experiments/replica_roles/tables.py --write    # put them in README.md, between its marks

A test holds README.md against the two files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from report import drops

from trimtab.model.replicas.settings import RESOURCES

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent))

from page import tell  # noqa: E402 - beside this folder


def tables(runs: Sequence[dict[str, Any]], expected: dict[str, Any]) -> str:
    """All rows over all draws first, then every draw; `runs` as in `result.json`."""
    draws = {name: _of(runs, "draw", name) for name in _names(runs, "draw")}
    parts = [over_draws(runs, expected)]
    parts += [f"**Draw `{name}`**\n\n{of_draw(found)}" for name, found in draws.items()]
    return "\n\n".join(parts)


def over_draws(runs: Sequence[dict[str, Any]], expected: dict[str, Any]) -> str:
    """One line for each strategy and ε: the worst of each figure, and on how many draws each aim was met."""
    defaults = {run["draw"]: run for run in runs if run["strategy"] == "default"}
    head = (
        "row", "least drop of σ: CPU, disk, in, out", "largest σ", "largest γ", "highest peak",
        "bytes copied", "× bound", "drops of the paper", "σ of the paper", "σ ≤ η", "γ ≤ ε", "peak ≤ θ",
    )  # fmt: skip
    rows = []
    for name in _names(runs, "strategy"):
        found = _of(runs, "strategy", name)
        if name.startswith("default"):
            continue
        fell = [drops(run, defaults[run["draw"]]) for run in found]

        def most(key: str, resource: str, found: list[dict[str, Any]] = found) -> float:
            return max(float(run[key][resource]) for run in found)

        met = (
            [all(one[r] >= expected["drop"][r] for r in RESOURCES) for one in fell],
            [all(run["sigma"][r] <= expected["sigma"]["strategy"][r] for r in RESOURCES) for run in found],
            [max(run["sigma"].values()) <= expected["epsilon"] / 6 for run in found],
            [max(run["worst_deviation"].values()) <= expected["epsilon"] for run in found],
            [max(run["peak_usage"].values()) <= expected["theta"] for run in found],
        )
        rows.append(
            (
                name,
                _each(lambda r, fell=fell: f"{100 * min(one[r] for one in fell):.1f}", " %"),
                _each(lambda r, most=most: _short(most("sigma", r), 4)),
                _each(lambda r, most=most: f"{100 * most('worst_deviation', r):.1f}", " %"),
                _each(lambda r, most=most: _short(most("peak_usage", r), 2)),
                _span([100 * copied(run) / run["bytes_held"] for run in found], "{:.0f}", " %"),
                _span([copied(run) / run["plan"]["bound_bytes"] for run in found], "{:.1f}"),
                *(f"{sum(one)} of {len(one)}" for one in met),
            )
        )
    return _table(head, rows)


def of_draw(runs: Sequence[dict[str, Any]]) -> str:
    """One line for each run of a draw."""
    default = next(run for run in runs if run["strategy"] == "default")
    head = (
        "row", "σ: CPU, disk, in, out", "drop", "peaks", "γ", "host σ", "copied", "× bound", "verdict",
        "replicas planned, carried out; steps dropped", "p99 of a second: median, worst", "valid samples",
    )  # fmt: skip
    rows = []
    for run in runs:
        moved = "plan" in run
        clients = run["clients_while_moving"] if moved else None
        samples = run["samples"]
        rows.append(
            (
                run["strategy"],
                _each(lambda r, run=run: _short(run["sigma"][r], 4)),
                _drop(run, default) if moved else "",
                _each(lambda r, run=run: _short(run["peak_usage"][r], 2)),
                _each(lambda r, run=run: f"{100 * run['worst_deviation'][r]:.0f}", " %"),
                _each(lambda r, run=run: _short(run["host_sigma"][r], 3)),
                f"{copied(run) / 1e6:.0f} MB, {100 * copied(run) / run['bytes_held']:.0f} %" if moved else "",
                f"{copied(run) / run['plan']['bound_bytes']:.1f}" if moved else "",
                run["plan"]["verdict"] if moved else "",
                _steps(run) if moved else "",
                f"{clients['latency_p99_ms_median']:.0f}, {clients['latency_p99_ms_worst']:.0f} ms"
                if clients
                else "",
                f"{samples['used']} of {samples['taken']}",
            )
        )
    calm = next(run["clients_before"] for run in runs if "clients_before" in run)
    return (
        _table(head, rows)
        + f"\n\nWhile nothing was copied, p99 of a second was {calm['latency_p99_ms_median']:.0f} ms"
        + f" in the median, {calm['latency_p99_ms_worst']:.0f} ms at worst."
    )


def copied(run: dict[str, Any]) -> float:
    """Bytes that a run's execution copied."""
    return float((run.get("cost") or {"bytes_copied": 0.0})["bytes_copied"])


def _drop(run: dict[str, Any], default: dict[str, Any]) -> str:
    fell = drops(run, default)
    return _each(lambda r: f"{100 * fell[r]:.1f}", " %")


def _steps(run: dict[str, Any]) -> str:
    cost = run["cost"] or {"replica_moves": 0, "steps_dropped": 0}
    return f"{run['plan']['replica_moves']}, {cost['replica_moves']}; {cost['steps_dropped']}"


def _each(cell: Callable[[str], str], unit: str = "") -> str:
    return " ".join(cell(name) for name in RESOURCES) + unit


def _short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def _span(values: Sequence[float], form: str, unit: str = "") -> str:
    least, most = form.format(min(values)), form.format(max(values))
    return (least if least == most else f"{least} to {most}") + unit


def _names(runs: Iterable[dict[str, Any]], key: str) -> list[str]:
    return list(dict.fromkeys(run[key] for run in runs))


def _of(runs: Iterable[dict[str, Any]], key: str, name: str) -> list[dict[str, Any]]:
    return [run for run in runs if run[key] == name]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def of_sweep(documents: Sequence[dict[str, Any]]) -> str:
    """One table for each day and strategy; `documents` as in `sweep.json`."""
    head = (
        "asked for", "broker-hours above .80", "σ, worst resource", "replicas, leaders moved", "bytes copied",
        "replicas moved again that day, within an hour",
    )  # fmt: skip
    parts = []
    for document in documents:
        rows = [_swept("nothing is moved", document["nothing"])]
        for name, found in document["sweeps"].items():
            what, _, rest = name.replace("theta", "θ").replace("epsilon", "ε").partition(",")
            rows += [_swept(f"{what} = {row['value']:.2f}{',' * bool(rest)}{rest}", row) for row in found]
        parts.append(f"**A {document['day']} day, {document['strategy']}**\n\n{_table(head, rows)}")
    return "\n\n".join(parts)


def _swept(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    return (
        name,
        f"{row['broker_hours_above']:.1f}",
        _short(row["sigma"], 4),
        f"{row['replica_moves']}, {row['leader_moves']}",
        f"{100 * row['bytes_share']:.1f} %",
        f"{row['moved_again']}, {row['moved_twice']}",
    )


def all_parts(folder: Path = HERE) -> dict[str, str]:
    """What stands in README.md, by mark, of the files in a folder."""
    found = json.loads((folder / "result.json").read_text())
    expected = json.loads((HERE / "expected.json").read_text())
    swept = json.loads((folder / "sweep.json").read_text())
    return {"tables": tables(found["runs"], expected), "sweep": of_sweep(swept)}


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="put the tables in README.md")
    page = HERE / "README.md" if parser.parse_args().write else None
    tell(all_parts(), page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
