"""Options of commands that only the balancer `bundles` has."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Option
from trimtab.balancers.spark import MASTER


class UnloadOutcomes(StrEnum):
    """The answer of the world to an unload."""

    RECORDED = "recorded"
    SIMULATED = "simulated"


class TieOrder(StrEnum):
    """The order of two equals."""

    JAVA = "java"
    FILE = "file"


PLAN: Final = (
    Option(
        "--reports", "Instead of a snapshot: recorded load reports, a file or a folder of them.", Path | None
    ),
    Option("--placement", "A placement strategy of Pulsar's, for shedders that name no destination."),
    Option(
        "--policies", "What operators have laid down (trimtab/pulsar-policies/1), for reports.", Path | None
    ),
    Option(
        "--pulsar-version",
        "Whose rules Pulsar's strategies go by: pulsar-4.2, pulsar-4.0, article.",
        str,
        "pulsar-4.2",
    ),
    Option("--ticks", "How many of the newest ticks of reports strategies are fed with.", int, 60, minimum=1),
)

REPLAY: Final = (
    Option(
        "--reports",
        "Recorded load reports (trimtab/pulsar-reports/1), plain or gzip, or a folder of such files.",
        Path | None,
    ),
    Option("--lake", "Folder of telemetry to take the reports from, in place of --reports.", Path | None),
    Option("--cluster", "Which cluster, where the lake holds several."),
    Option("--since", "First tick, as 2026-11-21T05:00 (UTC)."),
    Option("--until", "Ticks before this one."),
    Option(
        "--strategy",
        "A shedding strategy by its name in Pulsar, or NAME=STRATEGY; may be repeated. By default "
        "ThresholdShedder.",
        list[str],
        [],
    ),
    Option(
        "--placement",
        "A placement strategy, for shedders that name no destination; NAME=PLACEMENT is for one. In the "
        "simulated world by default Pulsar's own.",
        list[str],
        [],
    ),
    Option("--scenarios", "TOML file of strategies with their settings, for many of them.", Path | None),
    Option(
        "--set",
        "One option of Pulsar's, as loadBalancerX=value for all or NAME.loadBalancerX=value for one "
        "strategy; may be repeated.",
        list[str],
        [],
    ),
    Option(
        "--policies",
        "JSON file of the cluster's isolation policies, failure domains, anti-affinity groups and resource "
        "quotas (trimtab/pulsar-policies/1); by default there are none.",
        Path | None,
    ),
    Option(
        "--pulsar-version",
        "Whose rules and defaults: pulsar-4.2, pulsar-4.0 or article; by default the first.",
        str | None,
    ),
    Option("--seed", "Of all that is drawn; by default 0.", int | None, minimum=0),
    Option(
        "--mode",
        "recorded: every tick as the file has it; simulated: load goes where its bundle goes.",
        UnloadOutcomes,
        UnloadOutcomes.RECORDED,
    ),
    Option(
        "--tie-order",
        "Which of equal brokers or bundles is first: as in Java's hash maps (Pulsar), or in the file.",
        TieOrder,
        TieOrder.JAVA,
    ),
    Option(
        "--out",
        "File for the decisions, a line a tick; by default standard output. With --spark a new folder, a "
        "file for each strategy.",
        Path | None,
    ),
    Option(
        "--state-file",
        "File to go on from, if it is there, and to leave the state in at the end.",
        Path | None,
    ),
    Option("--json", "Print what each strategy did to the cluster as one JSON document.", bool, False),
    Option("--chart", "Draw imbalance over time into this file, as .svg and as .png.", Path | None),
    Option(
        "--pause",
        "Seconds that an unload interrupts its bundle's traffic; by default what was measured.",
        float | None,
        minimum=0,
    ),
    Option(
        "--settings",
        "Settings file, for section [spark]; by default $TRIMTAB_SETTINGS, else trimtab.toml here.",
        Path | None,
    ),
    Option("--spark", "Run as a Spark job, a task for each strategy: for long recordings.", bool, False),
    MASTER,
)
