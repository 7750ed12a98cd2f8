"""Options of commands that only the balancer `replicas` has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Option
from trimtab.balancers.spark import MASTER


def _brokers(name: str, help: str) -> Option:
    return Option(
        f"--{name}",
        f"{help} (replicas.{name}).",
        list[str],
        [],
        setting=f"replicas.{name}",
    )


PLAN: Final = (
    _brokers("drain", "Brokers to empty, as 5 or 5,7"),
    _brokers("demote", "Brokers that lead nothing in the end, and keep their replicas"),
    _brokers("add", "New brokers to fill: what need not move is copied to them alone"),
    Option(
        "--fix-offline-replicas",
        "Move only what must: replicas off dead and drained brokers and failed dirs, and lost leaders.",
        bool,
        False,
        setting="replicas.fix_offline_replicas",
    ),
    Option(
        "--rebalance",
        "Also balance the cluster, beside --drain, --demote or --fix-offline-replicas.",
        bool,
        False,
        setting="replicas.rebalance",
    ),
    Option(
        "--intra-broker",
        "Move replicas between the log dirs of their broker alone; nothing leaves its broker.",
        bool,
        False,
        setting="replicas.intra_broker_only",
    ),
    Option(
        "--replication-factor",
        "TOPIC=3: so many replicas for the partitions of topics, by name or pattern; nothing else moves.",
        list[str],
        [],
        setting="replicas.replication_factor",
        table=True,
    ),
)

REPLAY: Final = (
    Option("--recording", "Folder of recorded loads (trimtab/replicas-recording/1).", Path | None),
    Option("--lake", "Folder of telemetry to take the loads from, in place of --recording.", Path | None),
    Option("--cluster", "Which cluster, where the lake holds several."),
    Option("--since", "Replay from then on, as 2026-11-21T05:00 (UTC); what comes before is for profiles."),
    Option("--until", "Replay up to then."),
    Option("--strategy", "trim or role_aware; may be repeated. By default replicas.strategy.", list[str], []),
    Option(
        "--load",
        "recent, peak or forecast, each with every strategy; may be repeated. By default replicas.load.",
        list[str],
        [],
    ),
    Option("--plan-interval", "Minutes between two plans.", float, 60.0),
    Option("--step", "Minutes that loads are measured over.", float, 15.0),
    Option("--profile-weeks", "As pipeline.profile_weeks; 0: no profiles.", int, 4, minimum=0),
    Option("--settings", "Settings file; by default $TRIMTAB_SETTINGS, else trimtab.toml here.", Path | None),
    Option("--set", "One setting of the plans, like replicas.epsilon=0.05; may be repeated.", list[str], []),
    Option("--json", "Print the figures, also those of every step, as one JSON document.", bool, False),
    Option("--chart", "Draw what each strategy did over time into this file, as .svg and .png.", Path | None),
    MASTER,
)
