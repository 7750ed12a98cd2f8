"""The balancer `queues`: messages over worker queues, by seconds of work."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Balancer, LazyImport, Option
from trimtab.balancers.systems import REDIS


class WeightSource(StrEnum):
    """The weights that dispatch uses."""

    LEARNED = "learned"
    DECLARED = "declared"
    EXACT = "exact"


REPLAY_OPTIONS: Final = (
    Option(
        "--arrivals",
        "Recorded arrivals: CSV, JSON Lines or Parquet with columns time, class, seconds, and "
        "optionally key.",
        Path | None,
    ),
    Option("--lake", "Lake to read the arrivals from, instead of --arrivals.", Path | None),
    Option("--cluster", "Set of queues, if the lake holds several."),
    Option("--since", "Start of the replay, like 2026-11-21T05:00 (UTC)."),
    Option("--until", "End of the replay."),
    Option(
        "--policy",
        "Dispatch policy, optionally with +balanced (balance scheduling) and +lanes (quick messages "
        "first); repeatable. Default: all.",
        list[str],
        [],
    ),
    Option(
        "--weights",
        "Weights of dispatch. learned: mean processing time of each class in the recording; "
        "declared: queues.weights, or those in force when the lake was sampled; exact: each "
        "message's own time.",
        WeightSource,
        WeightSource.LEARNED,
    ),
    Option(
        "--queues",
        "Number of queues, one worker each; default: the number in the lake, else queues.queues.",
        int | None,
        minimum=1,
    ),
    Option("--speed", "Speed of each worker in seconds of work per second, like 1,1,0.5; default: 1 each."),
    Option("--seed", "Seed of policies, and of data that a lake does not hold.", int, 0, minimum=0),
    Option("--settings", "Settings file; default: $TRIMTAB_SETTINGS, else ./trimtab.toml.", Path | None),
    Option("--set", "Setting, like queues.scheduling.cycle_seconds=5; repeatable.", list[str], []),
    Option(
        "--json",
        "Print the figures, with those of every check, as one JSON document.",
        bool,
        False,
    ),
    Option("--chart", "Draw work over time and waiting times to this file, as .svg and .png.", Path | None),
)

BALANCER = Balancer(
    name="queues",
    title="messages over worker queues",
    system=REDIS,
    target_kind="queue",
    remedy="says which weights would help, and what the scheduler does",
    moves="a message (dispatched, moved by the scheduler), by weights that are published",
    across="queue to queue",
    trigger="a message, a second",
    settings=LazyImport("trimtab_queues.format.documents:SECTION"),
    snapshot=LazyImport("trimtab.files.queues:SNAPSHOT_FORMAT"),
    plan=LazyImport("trimtab.files.queues:PLAN_FORMAT"),
    pipeline=LazyImport("trimtab.observe.queues.pipeline:PIPELINE"),
    live_status=LazyImport("trimtab.systems.redis.port:read_status"),
    planners={"trim": LazyImport("trimtab.plan.queues:plan_queues")},
    strategy_help="trim.",
    set_help="Setting, like queues.min_change=0.1; repeatable.",
    executor=LazyImport("trimtab.act.queues:EXECUTOR"),
    open=LazyImport("trimtab.systems.redis.port:open_port"),
    renderer=LazyImport("trimtab.report.queues"),
    replay=LazyImport("trimtab.balancers.queues.replay:replayed"),
    replay_options=REPLAY_OPTIONS,
    replay_help="Runs every policy on the same arrivals in virtual time. A lake holds counts, not single "
    "messages: times within a tick and processing times are random (--seed).",
    programs="List, show and re-queue dead letters.",
    impact="publishing weights interrupts nobody",
)
