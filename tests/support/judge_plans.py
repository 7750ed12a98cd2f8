"""Plan random snapshots and judge every plan by the independent checkers.

    python tests/support/judge_plans.py 0 200 trim,role_aware replicas.epsilon=0.2
    python tests/support/judge_plans.py 0 200 requests

With `requests`, clusters and requests are those of `support.random_requests`; else snapshots are those of
`support.random_snapshots`, planned by the strategies and settings that are named.

Each plan is made in a child process of its own, so that a planner that hangs or crashes is one more finding.
Findings of the same kind are counted together, with the seeds to repeat them by.
"""

import collections
import json
import os
import re
import signal
import sys
import tempfile
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


from support.exact_plans import witness
from support.plan_checker import check
from support.random_requests import cluster, overrides, request
from support.random_snapshots import random_snapshot
from support.request_checker import check_request
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.balancers.settings import read_settings
from trimtab.files.replicas.plan import plan_bytes, read_plan
from trimtab.files.replicas.snapshot import FORMAT
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab_common.errors import TrimtabError

SECONDS = 20

REQUESTS = "requests"

KNOWN = frozenset(field.name for field in fields(ReplicasSettings))
"""Settings that there are."""


def requested(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the request of a seed."""
    document = cluster(seed)
    return document, request(seed, document, KNOWN)


def planned(document: dict[str, Any], asked: dict[str, Any]) -> bytes:
    """The plan file that `trim` makes for a request."""
    settings = read_settings(None, overrides(asked), {}).balancers["replicas"]
    snapshot = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    return plan_bytes(planner_of(BALANCERS["replicas"], settings.strategy)(snapshot, settings))


def judged_request(seed: int) -> tuple[str, list[str]]:
    """Verdict of the plan for the request of a seed, and what is wrong with it."""
    document, asked = requested(seed)
    try:
        plan = json.loads(planned(document, asked))
    except TrimtabError as refusal:
        return "refused", [f"[refused] {refusal}"]
    except Exception:
        return "exception", [traceback.format_exc().strip()]
    return plan["verdict"], check_request(document, plan, None, witness)


def judged(seed: int, strategy: str, overrides: list[str], folder: Path) -> tuple[str, list[str]]:
    """Verdict of one plan, and what is wrong with it."""
    if strategy == REQUESTS:
        return judged_request(seed)
    document = random_snapshot(seed)
    settings = read_settings(None, [f"replicas.strategy={strategy}", *overrides], {}).balancers["replicas"]
    snapshot = FORMAT.from_json(Path("random.json"), json.dumps(document).encode(), "0" * 64)
    try:
        data = plan_bytes(planner_of(BALANCERS["replicas"], settings.strategy)(snapshot, settings))
    except Exception:
        return "exception", [traceback.format_exc().strip()]
    plan = json.loads(data)
    faults = check(document, plan)
    (folder / "plan.json").write_bytes(data)
    try:
        if plan_bytes(read_plan(folder / "plan.json")) != data:
            faults.append("the plan is another one after it was written and read")
    except Exception as fault:
        faults.append(f"its own reader refuses the plan: {fault}")
    return plan["verdict"], faults


def judged_apart(seed: int, strategy: str, overrides: list[str], folder: Path) -> tuple[str, list[str]]:
    """`judged` in a child process with a limit of time."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        (folder / "found.json").write_text(json.dumps(judged(seed, strategy, overrides, folder)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        signal_number = os.waitstatus_to_exitcode(status)
        return "crash", [f"the planner died or hung (status {signal_number})"]
    verdict, faults = json.loads((folder / "found.json").read_text())
    return verdict, faults


def main(first: int, last: int, strategies: list[str], overrides: list[str]) -> int:
    """Judge seeds first to last (excluded); print what was found; 1 if anything was."""
    verdicts: collections.Counter[str] = collections.Counter()
    kinds: dict[str, list[tuple[int, str]]] = {}
    with tempfile.TemporaryDirectory() as name:
        for strategy in strategies:
            judged(0, strategy, overrides, Path(name))  # compiles in this process, for all children
            for seed in range(first, last):
                verdict, faults = judged_apart(seed, strategy, overrides, Path(name))
                verdicts[f"{strategy} {verdict}"] += 1
                for fault in faults:
                    kind = fault if "Traceback" in fault else re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "#", fault)
                    kinds.setdefault(
                        f"{strategy}: {kind[-110:] if 'Traceback' in fault else kind[:110]}", []
                    ).append((seed, fault))
    print(dict(verdicts))
    for kind, found in sorted(kinds.items(), key=lambda item: -len(item[1])):
        seeds = sorted({seed for seed, _ in found})
        print(f"{len(found):5d} in {len(seeds)} seeds {seeds[:8]}: {kind}\n        {found[0][1]}")
    return bool(kinds)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4:]))
