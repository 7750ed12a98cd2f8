"""Disks and θ: no plan fills a disk above θ that was below, on any input, unless it says so by exit code 3.

The examples are the same each time, so that nobody's run fails by chance; `TRIMTAB_EXAMPLES=5000` draws that
many others.
"""

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from support.drawn_clusters import READINGS, cluster_documents, wishes
from support.plan_checker import check
from tiers import by_tier
from trimtab.balancers import BALANCERS
from trimtab.balancers.balancer import PlanRequest
from trimtab.cli import plan as body

BARELY = 1 + 1e-9
MORE = os.environ.get("TRIMTAB_EXAMPLES")


def planned(
    document: dict[str, Any], strategy: str, asked: list[str], folder: Path
) -> tuple[dict[str, Any], int]:
    """The plan that `trimtab plan replicas --json` prints, and its exit code."""
    path, printed, code = folder / "snapshot.json", io.StringIO(), 0
    path.write_text(json.dumps(document))
    order = PlanRequest(
        snapshot=path,
        lake=folder,
        settings=None,
        cluster=None,
        strategy=strategy,
        overrides=tuple(asked),
        own={},
    )
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        try:
            body.plan(BALANCERS["replicas"], order, None, "json", all_moves=False)
        except typer.Exit as end:
            code = end.exit_code
    return json.loads(printed.getvalue()), code


def filled(document: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    """Disks of brokers and hosts above θ after some move that were not before any: by plain addition."""
    theta = plan["settings"]["theta"]
    theta = theta["disk"] if isinstance(theta, dict) else theta
    rows = {(row["topic"], row["partition"]): row for row in document["partitions"]}
    holders = {key: set(row["replicas"]) for key, row in rows.items()}
    room = {
        broker["id"]: broker["capacity"].get("disk", float("inf")) * theta for broker in document["brokers"]
    }
    at: dict[int, list[Any]] = {broker: [broker] for broker in room}
    if "host_load" in plan["settings"]["goals"] or plan["settings"]["fix_offline_replicas"]:
        out = set(plan["settings"]["drain"])
        declared = {one["name"]: one["capacity"].get("disk") for one in document.get("x_hosts", [])}
        for broker in document["brokers"]:
            capacity = declared.get(broker["host"])
            if capacity and broker["state"] not in ("dead", "draining") and broker["id"] not in out:
                at[broker["id"]].append(broker["host"])
                room[broker["host"]] = capacity * theta
    held = dict.fromkeys(room, 0.0)
    for key, brokers in holders.items():
        for broker in brokers:
            for disk in at[broker]:
                held[disk] += rows[key]["leader_load"]["disk"]
    below = {broker for broker in room if held[broker] <= room[broker] * BARELY}
    found = []
    for move in plan["moves"]:
        key, target = (move["topic"], move["partition"]), move["target"]
        if move["kind"] != "replica":
            continue
        for disk in at[move["source"]]:
            held[disk] -= rows[key]["leader_load"]["disk"]
        for disk in at[target]:
            held[disk] += rows[key]["leader_load"]["disk"]
            if disk in below and held[disk] > room[disk] * BARELY:
                found.append(f"move {move['order']} fills {disk} to {held[disk]:g} of {room[disk]:g}")
    return found


@pytest.mark.timeout(0 if MORE else 900)
@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("reading", READINGS)
@settings(
    max_examples=int(MORE or by_tier(4, 20, 20)),
    derandomize=MORE is None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(document=cluster_documents(), drawn=st.data())
def test_no_disk_is_filled_above_theta_without_a_problem(
    document: dict[str, Any], drawn: st.DataObject, reading: str, tmp_path: Path
) -> None:
    """Racks, hosts, brokers of all states, offline replicas and all requests in one input: disks stay below
    θ, and the checker finds no other error.
    """
    strategy, switches = READINGS[reading]
    asked = [*drawn.draw(wishes(document), label="settings"), *switches]
    if strategy == "role_aware":  # knows no log dirs, and says so
        asked = [word for word in asked if not word.startswith("replicas.intra_broker_only")]
    plan, code = planned(document, strategy, asked, tmp_path)
    event(f"{plan['verdict']}, {'some' if plan['moves'] else 'no'} moves")
    if "theta" in plan["settings"]["goals"] or plan["settings"]["fix_offline_replicas"]:
        assert code == 3 or not filled(document, plan)
    assert check(document, plan) == []
    assert (code == 3) == (plan["verdict"] in ("incomplete", "infeasible"))
