"""Options of commands that only the balancer `queues` has."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Option


class WeightSource(StrEnum):
    """The weights that dispatch goes by."""

    LEARNED = "learned"
    DECLARED = "declared"
    EXACT = "exact"


REPLAY: Final = (
    Option(
        "--arrivals",
        "Recorded arrivals: a CSV, JSON Lines or Parquet file with columns time, class, seconds, maybe key.",
        Path | None,
    ),
    Option("--lake", "Folder of telemetry to take arrivals from, in place of --arrivals.", Path | None),
    Option("--cluster", "Which set of queues, where the lake holds several."),
    Option("--since", "Replay from then on, as 2026-11-21T05:00 (UTC)."),
    Option("--until", "Replay up to then."),
    Option(
        "--policy",
        "A dispatch policy, and after it +balanced for balance scheduling and +lanes for quick messages "
        "first; may be repeated. By default all of them.",
        list[str],
        [],
    ),
    Option(
        "--weights",
        "Weights that dispatch goes by. learned: what each class takes on average in the recording; "
        "declared: queues.weights, or those in force when a lake was sampled; exact: each message's own.",
        WeightSource,
        WeightSource.LEARNED,
    ),
    Option(
        "--queues",
        "How many queues, a worker each; by default as many as the lake has seen, else queues.queues.",
        int | None,
        minimum=1,
    ),
    Option("--speed", "Seconds of work that each worker does in a second, as 1,1,0.5; by default 1 each."),
    Option("--seed", "Of what policies draw, and of what a lake does not know.", int, 0, minimum=0),
    Option("--settings", "Settings file; by default $TRIMTAB_SETTINGS, else trimtab.toml here.", Path | None),
    Option("--set", "One setting, like queues.scheduling.cycle_seconds=5; may be repeated.", list[str], []),
    Option(
        "--json",
        "Print the figures, also those of every look, as one JSON document.",
        bool,
        False,
    ),
    Option("--chart", "Draw work over time and waits into this file, as .svg and .png.", Path | None),
)
