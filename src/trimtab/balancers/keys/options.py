"""Options of commands that only the balancer `keys` has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Option

REPLAY: Final = (
    Option(
        "--records",
        "Recorded records of a topic: a CSV, JSON Lines or Parquet file with columns time, key.",
        Path | None,
    ),
    Option("--since", "Replay from then on, as 2026-11-21T05:00 (UTC)."),
    Option("--until", "Replay up to then."),
    Option(
        "--key-distribution",
        "Records drawn by a law of keys, in place of --records: zipf:EXPONENT or zipf:EXPONENT:KEYS.",
    ),
    Option("--rate", "Records a second of --key-distribution.", float, 5000.0, minimum=0.1),
    Option("--seconds", "How long --key-distribution lasts.", float, 30.0, minimum=0.1),
    Option(
        "--policy",
        "A key policy; ipooa+load, ipooa+least; key_groups (a table made from all of the recording), "
        "key_groups+guard (the same under the order guard), key_groups+guard+plans (planned on the way). May "
        "be repeated; by default all of them.",
        list[str],
        [],
    ),
    Option("--partitions", "Partitions of the topic, a consumer each.", int, 24, minimum=1),
    Option(
        "--consumer-rate",
        "Records a second that each consumer can do; by default so many that all together are used to theta.",
        float | None,
        minimum=0.001,
    ),
    Option("--producers", "How many send; a key's records all come from one.", int, 3, minimum=1),
    Option(
        "--plan-interval", "Between two plans, of policies that plan on the way.", float, 5.0, minimum=0.1
    ),
    Option("--seed", "Of what policies and --key-distribution draw.", int, 0, minimum=0),
    Option("--settings", "Settings file; by default $TRIMTAB_SETTINGS, else trimtab.toml here.", Path | None),
    Option("--set", "One setting of plans, like keys.epsilon=0.05; may be repeated.", list[str], []),
    Option("--json", "Print the figures, also what waits over time, as one JSON document.", bool, False),
    Option(
        "--chart", "Draw loads of partitions and what waits into this file, as .svg and .png.", Path | None
    ),
)
