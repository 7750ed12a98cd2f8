"""Options of commands that only the balancer `masters` has."""

from __future__ import annotations

from typing import Final

from trimtab.balancers.balancer import Option

PLAN: Final = (
    Option(
        "--system",
        "System: paxos (groups of a store), or kafka (partition leaders, by preferred elections, "
        "from the newest snapshot of the cluster).",
    ),
    Option("--drain", "Node to drain; repeatable.", list[str], [], setting="masters.drain"),
    Option(
        "--exclude",
        "Node that receives no further masterships; repeatable.",
        list[str],
        [],
        setting="masters.excluded_nodes",
    ),
    Option(
        "--max-moves",
        "Maximum number of masterships that the plan moves.",
        int | None,
        minimum=1,
        setting="masters.max_moves",
    ),
)
