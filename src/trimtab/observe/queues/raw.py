"""Raw samples of a server of queues: one wide row per (cluster, tick, entity), as its collector lands them.

Totals are counters since a process or a server began; rates and times a message are the pipeline's business.
"""

from __future__ import annotations

from typing import Final

from trimtab.observe.columns import Columns, RawSchema, numbers, of_raw

KINDS: Final = ("queue", "queue_process", "queue_class", "queue_server")
"""The kinds of entity that a row describes, and the columns it fills by that:

- `queue`: queue, capacity, messages, work and what of it is held, arrived and served totals, paused, alive;
- `queue_process`: process, queue (of a worker), version, policy, scheduling, default_weight;
- `queue_class`: process, queue, message_class, weight, and the totals of this process and class;
- `queue_server`: version, published (weights as JSON), and what the server tells of itself.
"""

KEYS: Final = ("cluster", "tick", "kind", "queue", "process", "message_class")
"""Two rows that agree in all of these are the same sample (null equals null)."""

COLUMNS: Final = (
    ("cluster", "string"),
    ("tick", "timestamp"),  # the aligned instant this sample belongs to
    ("kind", "string"),
    ("queue", "int"),
    ("process", "string"),
    ("message_class", "string"),
    ("sampled_at", "timestamp"),  # of a report when it was made, else when the server was read
    ("received_at", "timestamp"),  # when the row was landed
    ("capacity", "long"),  # messages
    ("messages", "long"),
    ("work_seconds", "double"),
    ("held_messages", "long"),
    ("held_work_seconds", "double"),
    ("arrived_seconds_total", "double"),  # counter
    ("served_seconds_total", "double"),  # counter
    ("paused", "boolean"),
    ("alive", "boolean"),
    ("version", "long"),
    ("policy", "string"),
    ("scheduling", "string"),  # JSON
    ("default_weight", "double"),
    ("weight", "double"),
    ("processed_total", "long"),  # counter
    ("busy_seconds_total", "double"),  # counter
    ("busy_squares_total", "double"),  # counter
    ("waited_seconds_total", "double"),  # counter
    ("waits", "longs"),  # counters
    ("accepted_total", "long"),  # counter
    ("refused_total", "long"),  # counter
    ("published", "string"),  # JSON
    ("memory_bytes", "long"),
)

_COLUMNS: Final[Columns] = of_raw(COLUMNS)

FORM: Final = RawSchema(_COLUMNS, KEYS, KINDS, negative=numbers(_COLUMNS, "bigint", "double"))
"""No figure of a queue is ever below zero."""
