"""Raw samples of a store of Paxos groups: a wide row per (cluster, tick, entity), as they are landed.

Totals are counters since a node's process began; rates are the pipeline's business.
"""

from __future__ import annotations

from typing import Final

from trimtab.observe.columns import Columns, RawSchema, numbers, of_raw

KINDS: Final = ("paxos_node", "paxos_group", "paxos_map")
"""The kinds of entity that a row describes, and the columns it fills by that:

- `paxos_node`: node, address, alive;
- `paxos_group`: node, group_number, life, how the group stands there, and the totals of that node and group;
- `paxos_map`: version and preferred nodes, and the scheme by which masterships change hands.
"""

KEYS: Final = ("cluster", "tick", "kind", "node", "group_number")
"""Two rows that agree in all of these are the same sample (null equals null)."""

COLUMNS: Final = (
    ("cluster", "string"),
    ("tick", "timestamp"),  # the aligned instant this sample belongs to
    ("kind", "string"),
    ("node", "int"),
    ("group_number", "int"),
    ("sampled_at", "timestamp"),
    ("received_at", "timestamp"),  # when the row was landed
    ("address", "string"),
    ("alive", "boolean"),  # it answered
    ("incarnation", "long"),  # of the node's process
    ("holds", "boolean"),  # it counts itself as master
    ("master", "int"),  # as far as this node knows; -1 before the first
    ("version", "long"),  # of the mastership, a slot; of the map
    ("applied", "long"),  # the last slot that was applied there
    ("held_seconds", "double"),  # master without a break
    ("messages", "long"),  # kept
    ("stored_total", "long"),  # counter: messages that came here
    ("stored_bytes_total", "long"),  # counter
    ("pulls_total", "long"),  # counter: questions of consumers
    ("pulled_total", "long"),  # counter: messages that went out
    ("pulled_bytes_total", "long"),  # counter
    ("proposals_total", "long"),  # counter: batches
    ("proposed_seconds_total", "double"),  # counter
    ("scheme", "string"),
    ("preferred", "ints"),  # node of each group; -1 for no preference
)

_COLUMNS: Final[Columns] = of_raw(COLUMNS)

FORM: Final = RawSchema(
    _COLUMNS,
    KEYS,
    KINDS,
    negative=tuple(name for name in numbers(_COLUMNS, "bigint", "double") if name != "master"),
    minus_one=("master",),
)
