"""The pipeline of the balancer `masters`: raw samples of a store, tables, and settings; no Spark is needed.

A raw sample is a wide row per (cluster, tick, entity), as collectors write it. Totals are counters since a
node's process began; transformations make rates of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from trimtab.model.masters import RESOURCES
from trimtab.observe.lake.balancer_pipeline import BalancerPipeline, PipelineSettings, UpToAYear
from trimtab.observe.lake.columns import (
    SECOND,
    Columns,
    RawSchema,
    columns,
    numbers,
    of_raw,
)
from trimtab_common.documents import Positive

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
    ("votes", "boolean"),  # not after its log was lost, until it has recovered
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


@dataclass(frozen=True)
class MastersPipelineSettings(PipelineSettings):
    """Settings of the pipeline of the balancer `masters`.

    Attributes
    ----------
    load_window_seconds
        Window over which a group's load is averaged in snapshots.
    max_lag_entries
        Maximum replication lag (entries) of a transfer target.
    """

    PLACE: ClassVar[str] = "masters"
    NOT_OF_TABLES: ClassVar[frozenset[str]] = frozenset({"load_window_seconds", "max_lag_entries"})

    load_window_seconds: UpToAYear = 300.0
    max_lag_entries: Positive = 64

    @property
    def history(self) -> int:
        """How far back loads are taken, microseconds."""
        return round(self.load_window_seconds * SECOND)


SHARES: Final = columns(
    "cluster string, tick timestamp, node int, group_number int, elapsed_us bigint, holds boolean, "
    "applied bigint, held_seconds double, messages_per_second double, queries_per_second double, "
    "bytes_per_second double, proposals bigint, proposed_seconds double, votes boolean, flags int"
)
"""What each node does for each group."""

GROUPS: Final = columns(
    "cluster string, tick timestamp, group_number int, master int, held_seconds double, "
    "messages_per_second double, queries_per_second double, bytes_per_second double, propose_seconds double, "
    "elapsed_us bigint"
)
"""What each group costs, whichever node does it; null where no interval is sound."""

BROKERS: Final = columns(
    "cluster string, tick timestamp, broker string, broker_state string, node int, masters int, "
    "max_lag_entries bigint, queries_load double, queries_capacity double, bytes_load double, "
    "bytes_capacity double"
)
"""Nodes; the names of the first columns are those that all balancers have. Capacities are the same for all.
"""

PIPELINE: Final = BalancerPipeline(
    name="masters",
    resources=RESOURCES,
    settings=MastersPipelineSettings,
    raw=FORM,
    own_tables={
        "shares": SHARES,
        "groups": GROUPS,
        "brokers": BROKERS,
    },
    transformations="trimtab.observe.masters.stages:STAGES",
    snapshots="trimtab.observe.masters.stages:write_newest_snapshots",
)
