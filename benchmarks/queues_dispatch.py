"""Nanoseconds that each dispatch policy takes for a message, on one thread of plain Python.

Messages are sent and finished in turn over queues that hold two each, so that every choice meets changed
queues. The same sequence is gone through again with the choices read from a list: the difference is what
choosing takes, the rest is what counting takes, which is the same for all policies.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections import deque

from results import write_result

from trimtab_queues.core.catalogue import POLICIES, DispatchInputs, policy_named
from trimtab_queues.core.ledger import QueueLedger

WEIGHTS = (0.1, 0.2, 0.4, 0.7, 1.0)
QUEUES = (5, 50, 500)
LIMITS_NS = {"round_robin": 60, "marked_round_robin": 60, "least_work_left": 200}
"""At five queues, as the paper has them."""


def begun(name: str, queues: int) -> tuple[QueueLedger, object, deque[tuple[int, float]]]:
    """A ledger with two messages a queue, the policy over it, and those messages."""
    # A central queue holds everything; the others are never near their capacity either.
    ledger = QueueLedger([10 * queues + 10] * queues)
    classes = [(weight, 1.0) for weight in WEIGHTS]
    policy = policy_named(name, ledger, DispatchInputs(chance=random.Random(1).random, classes=classes))
    there: deque[tuple[int, float]] = deque()
    for number in range(2 * queues):
        ledger.enqueued(number % queues, WEIGHTS[number % len(WEIGHTS)])
        there.append((number % queues, WEIGHTS[number % len(WEIGHTS)]))
    return ledger, policy, there


def choosing(name: str, queues: int, weights: list[float]) -> tuple[float, list[int]]:
    """Seconds of choosing and counting, and what was chosen."""
    ledger, policy, there = begun(name, queues)
    choose, enqueued, taken, finished = policy.choose, ledger.enqueued, ledger.started, ledger.finished  # type: ignore[attr-defined]
    chosen: list[int] = []
    note = chosen.append
    start = time.perf_counter()
    for weight in weights:
        queue = choose(weight)
        note(queue)
        enqueued(queue, weight)
        there.append((queue, weight))
        done, its = there.popleft()
        taken(done, its)
        finished(done, its)
    return time.perf_counter() - start, chosen


def counting(name: str, queues: int, weights: list[float], chosen: list[int]) -> float:
    """Seconds of counting alone, over the same choices."""
    ledger, _, there = begun(name, queues)
    enqueued, taken, finished = ledger.enqueued, ledger.started, ledger.finished
    again: list[int] = []
    note = again.append
    start = time.perf_counter()
    for weight, queue in zip(weights, chosen, strict=True):
        note(queue)
        enqueued(queue, weight)
        there.append((queue, weight))
        done, its = there.popleft()
        taken(done, its)
        finished(done, its)
    return time.perf_counter() - start


def measured(name: str, queues: int, runs: int, count: int) -> dict[str, float]:
    """The least of many short runs, in turn: others on the machine only ever add, and not to all of them."""
    chance = random.Random(2)
    weights = [chance.choice(WEIGHTS) for _ in range(count)]
    both, alone = [], []
    for _ in range(runs):
        seconds, chosen = choosing(name, queues, weights)
        both.append(seconds)
        alone.append(counting(name, queues, weights, chosen))
    return {
        "choose_ns": round((min(both) - min(alone)) / count * 1e9),
        "count_ns": round(min(alone) / count * 1e9),
    }


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=300)
    options.add_argument("--messages", type=int, default=1000)
    given = options.parse_args()
    gc.disable()
    rows = {}
    for name in POLICIES:
        rows[name] = {str(queues): measured(name, queues, given.runs, given.messages) for queues in QUEUES}
        print(
            f"{name:20}", *(f"{queues:>4}: {rows[name][str(queues)]['choose_ns']:>6} ns" for queues in QUEUES)
        )
    write_result("queues_dispatch", {"policies": rows, "limits_ns": LIMITS_NS})


if __name__ == "__main__":
    main()
