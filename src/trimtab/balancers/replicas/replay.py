"""`replay replicas`: what was asked, the way through a recording, and what is shown in the end."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.balancers import BALANCERS
from trimtab.balancers.balancer import OptionValues
from trimtab.balancers.planning import planner_of, recording_option, show
from trimtab.balancers.settings import read_settings
from trimtab.balancers.systems import spark_overrides, spark_settings
from trimtab.files.head import instant
from trimtab.files.machine import lake_place
from trimtab.files.replicas.settings import SECTION
from trimtab.model.policy import Policy
from trimtab.model.replicas.settings import LOADS, ReplicasSettings
from trimtab.report.charts import UNMOVED
from trimtab.report.formats import print_progress
from trimtab.report.replicas.replay import draw_replay, replay_document, replay_text
from trimtab_common.errors import SettingsError

if TYPE_CHECKING:
    from trimtab.history.replicas.recording import LoadRecording
    from trimtab.history.replicas.replay import PlanningScenario
    from trimtab.history.replicas.spark import ScenarioComparison


def replayed(values: OptionValues) -> int:
    """Replan recorded loads by strategies, and show what each would have made of them. See `Replay`."""
    found = read_settings(values["settings"], (*values["set"], *spark_overrides(values)), os.environ)
    settings, spark = found.of(SECTION), spark_settings(found, heavy=True)
    if settings.replication_factor:
        raise SettingsError("replicas.replication_factor: a replay adds and drops no replicas; take it out")
    step, every = _seconds("--step", values["step"]), _seconds("--plan-interval", values["plan_interval"])
    if every % step:
        raise SettingsError(
            f"--plan-interval {values['plan_interval']:g} is not a multiple of --step {values['step']:g}"
        )
    scenarios = _scenarios(values, settings, round(every / step)) | _policies(values, settings, step)
    recording = _recording(values)

    from trimtab.history.replicas.recording import ReplayPeriod
    from trimtab.history.replicas.replay import ReplicaMetricSpec
    from trimtab.history.replicas.spark import compare_on_spark
    from trimtab.observe.spark.session import lake_session

    period = ReplayPeriod(instant("--since", values["since"]), instant("--until", values["until"]))
    session = lake_session(spark, lake_place(values["lake"]), print_progress)
    try:
        compared = compare_on_spark(
            session,
            recording,
            period,
            scenarios,
            ReplicaMetricSpec(settings.theta, settings.min_utilization),
            step,
            values["profile_weeks"],
        )
    finally:
        session.stop()
    _show(compared, recording.name, values)
    return 0


def _seconds(option: str, minutes: float) -> float:
    seconds = minutes * 60
    if seconds < 1 or seconds % 1:
        raise SettingsError(f"{option} is {minutes:g} minutes: give whole seconds, one or more")
    return seconds


def _scenarios(values: OptionValues, settings: ReplicasSettings, every: int) -> dict[str, PlanningScenario]:
    """Nothing, then every strategy with every load, by name."""
    from trimtab.history.replicas.replay import PlanningScenario

    level = BALANCERS["replicas"]
    strategies, loads = values["strategy"] or [settings.strategy], values["load"] or [settings.load]
    for load in loads:
        if load not in LOADS:
            raise SettingsError(f"--load {load} is not known; choose of {', '.join(LOADS)}")
    found = {UNMOVED: PlanningScenario(None, settings)}
    for strategy in strategies:
        planner = planner_of(level, strategy)
        for load in loads:
            name = strategy if loads == ["recent"] else f"{strategy}, {load}"
            found[name] = PlanningScenario(planner, replace(settings, strategy=strategy, load=load), every)
    return found


def _policies(
    values: OptionValues, settings: ReplicasSettings, step_seconds: float
) -> dict[str, PlanningScenario]:
    """The first strategy under each policy, by name; `default` is the policy without a settings file."""
    if not values["policy"]:
        return {}
    from trimtab.files.serve_settings import SECTION as POLICY
    from trimtab.history.replicas.policy import replayed_policy
    from trimtab.history.replicas.replay import PlanningScenario

    strategy = (values["strategy"] or [settings.strategy])[0]
    planner = planner_of(BALANCERS["replicas"], strategy)
    found = {}
    for name in values["policy"]:
        policy = Policy() if name == "default" else read_settings(Path(name), (), {}).bound(POLICY)
        row = f"policy {Path(name).stem}"
        if row in found:
            raise SettingsError(f"--policy {name}: another policy is named {row}; rename one of the files")
        found[row] = PlanningScenario(
            planner, replace(settings, strategy=strategy), policy=replayed_policy(policy, step_seconds)
        )
    return found


def _recording(values: OptionValues) -> LoadRecording:
    """The recording in a folder, or that of the lake."""
    from trimtab.history.replicas.recording import FolderLoadRecording, LakeLoadRecording

    folder = recording_option(values, "recording", "a folder", "a recording in a folder")
    if folder is not None:
        # Before Spark starts: nobody should wait ten seconds to be told this.
        from trimtab.files.replicas.recording import opened_recording

        opened_recording(folder)
        return FolderLoadRecording(folder)
    return LakeLoadRecording(lake_place(values["lake"]), values["cluster"])


def _show(found: ScenarioComparison, name: str, values: OptionValues) -> None:
    show(
        values,
        lambda folder, stem: draw_replay(found, folder, stem, f"Plans on {name}"),
        lambda: replay_document(found),
        lambda: replay_text(found),
    )
