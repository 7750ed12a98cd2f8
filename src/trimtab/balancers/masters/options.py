"""Options of commands that only the balancer `masters` has."""

from __future__ import annotations

from typing import Final

from trimtab.balancers.balancer import Option

PLAN: Final = (
    Option(
        "--system",
        "Whose masters: paxos (groups of a store), or kafka (partition leaders, by preferred elections, from "
        "the newest snapshot of that cluster's brokers).",
    ),
    Option(
        "--drain", "A node that is being emptied; may be repeated.", list[str], [], setting="masters.drain"
    ),
    Option(
        "--exclude",
        "A node that gets no further mastership; may be repeated.",
        list[str],
        [],
        setting="masters.excluded_nodes",
    ),
    Option(
        "--max-moves",
        "The most masterships that the plan moves.",
        int | None,
        minimum=1,
        setting="masters.max_moves",
    ),
)
