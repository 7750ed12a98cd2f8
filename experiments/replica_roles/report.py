"""The experiment's table, as text, and whether the paper's figures were reached."""

from __future__ import annotations

from typing import Any

from trimtab.lab.sandbox.truth import LogCheck
from trimtab.model.load import resource_name
from trimtab.model.replicas.settings import RESOURCES


def print_table(runs: list[dict[str, Any]], expected: dict[str, Any]) -> int:
    """Print everything; 0 if some strategy reached every figure of the paper on every draw, 1 if not."""
    short = [resource_name(name).replace("network ", "") for name in RESOURCES]
    head = f"{'':22}" + "".join(f"{'σ ' + name:>10}" for name in short) + "   drop " + " / ".join(short)
    missed: dict[str, list[str]] = {}
    copied: dict[str, list[float]] = {}
    for draw in dict.fromkeys(run["draw"] for run in runs):
        of_draw = {run["strategy"]: run for run in runs if run["draw"] == draw}
        print(f"\ndraw {draw}\n{head}")
        default = of_draw["default"]
        for name, run in of_draw.items():
            _print_run(name, run, default)
        if "records_of_the_draw" in default:
            print(f"  {LogCheck(**default['records_of_the_draw']).text('records')}")
        for name, run in of_draw.items():
            if not name.startswith("default"):
                missed.setdefault(name, []).extend(
                    f"{draw}: {text}" for text in misses(run, default, expected)
                )
                cost = run.get("cost") or {"bytes_copied": 0}
                copied.setdefault(name, []).append(cost["bytes_copied"] / run["bytes_held"])
    paper = expected["sigma"]
    print(f"\npaper\n{head}")
    print(f"{'default':22}" + _sigmas(paper["default"]))
    print(f"{'strategy':22}" + _sigmas(paper["strategy"]) + "   " + _drops(expected["drop"]))
    print()
    for name, texts in missed.items():
        share = f"{min(copied[name]):.0%} to {max(copied[name]):.0%} of all bytes copied"
        print(f"{name}: {share}; {'missed ' + '; '.join(texts) if texts else 'every figure reached'}")
    reached = [name for name, texts in missed.items() if not texts]
    if not reached:
        print("no row reached every figure of the paper on every draw")
        return 1
    cheapest = min(reached, key=lambda name: max(copied[name]))
    print(f"cheapest row that reached every figure on every draw: {cheapest}")
    return 0


def drops(run: dict[str, Any], default: dict[str, Any]) -> dict[str, float]:
    """How much smaller σ is than the default's, per resource."""
    return {name: 1 - run["sigma"][name] / default["sigma"][name] for name in RESOURCES}


def misses(run: dict[str, Any], default: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Which of the figures to be reached were not."""
    found = []
    eta = expected["epsilon"] / 6
    for name, drop in drops(run, default).items():
        if run["peak_usage"][name] > expected["theta"]:
            found.append(
                f"peak of {resource_name(name)} is {run['peak_usage'][name]:.3f}, above {expected['theta']}"
            )
        if run["worst_deviation"][name] > expected["epsilon"]:
            gamma = run["worst_deviation"][name]
            found.append(f"γ of {resource_name(name)} is {gamma:.3f}, above {expected['epsilon']}")
        if run["sigma"][name] > eta:
            found.append(f"σ of {resource_name(name)} is {run['sigma'][name]:.4f}, above {eta:.4f}")
        if drop < expected["drop"][name]:
            found.append(
                f"σ of {resource_name(name)} fell by {drop:.1%}, the paper's by {expected['drop'][name]:.1%}"
            )
    return found


def _print_run(name: str, run: dict[str, Any], default: dict[str, Any]) -> None:
    line = f"{name:22}" + _sigmas(run["sigma"])
    if not name.startswith("default"):
        line += "   " + _drops(drops(run, default))
    print(line)
    samples = run["samples"]
    notes = [
        "peak " + "/".join(f"{run['peak_usage'][name]:.2f}" for name in RESOURCES),
        "γ " + "/".join(f"{run['worst_deviation'][name]:.0%}" for name in RESOURCES),
        "host σ " + "/".join(f"{run['host_sigma'][name]:.4f}" for name in RESOURCES),
        f"{samples['used']} of {samples['taken']} samples valid",
    ]
    if run.get("cost"):
        cost, moving = run["cost"], run["clients_while_moving"]
        share = cost["bytes_copied"] / run["bytes_held"]
        plan, before = run["plan"], run["clients_before"]
        notes += [
            f"{plan['verdict']}: {cost['replica_moves']} replicas, {cost['leader_moves']} leaders, "
            f"{cost['bytes_copied'] / 1e6:.0f} MB ({share:.0%}; bound {plan['bound_bytes'] / 1e6:.0f} MB) "
            f"in {cost['seconds']:.1f} s, {cost.get('steps_dropped', 0)} steps dropped",
            f"clients: {moving['errors']} failed, p99 of a second {moving['latency_p99_ms_median']} ms "
            f"(median), {moving['latency_p99_ms_worst']} ms at worst; before "
            f"{before['latency_p99_ms_median']}, {before['latency_p99_ms_worst']} ms",
        ]
    elif "plan" in run:
        notes.append(f"{run['plan']['verdict']}: no move")
    for note in (notes[:4], notes[4:]):
        if note:
            print("  " + "; ".join(note))


def _sigmas(values: dict[str, float]) -> str:
    return "".join(f"{values[name]:10.4f}" for name in RESOURCES)


def _drops(values: dict[str, float]) -> str:
    return " / ".join(f"{values[name]:.1%}" for name in RESOURCES)


def print_scenarios(found: dict[str, Any]) -> None:
    """Before and after of each scenario."""
    for name, run in found.items():
        cost, clients = run["cost"], run["clients_while_moving"]
        print(f"\n{name}: {run['what']}")
        for when in ("before", "after"):
            figures = run[when]
            peaks = "/".join(f"{figures['peak_usage'][resource]:.2f}" for resource in RESOURCES)
            print(f"{'  ' + when:22}" + _sigmas(figures["sigma"]) + f"   peak {peaks}")
        print("  drop                " + _drops(drops(run["after"], run["before"])))
        print(
            f"  {run['plan']['verdict']}: {cost['replica_moves']} replicas, {cost['leader_moves']} leaders, "
            f"{cost['bytes_copied'] / 1e6:.0f} MB in {cost['seconds']:.1f} s; "
            f"clients: {clients['errors']} failed, p99 {clients['latency_p99_ms_worst']} ms at worst"
        )
        if "records" in run:
            print(f"  {LogCheck(**run['records']).text('records')}")
