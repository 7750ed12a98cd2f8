"""`replay replicas`: what was asked, the way through a recording, and what is shown in the end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trimtab.files.head import instant
from trimtab.files.places import lake_place
from trimtab.files.replicas.settings import SECTION
from trimtab.levels import LEVELS
from trimtab.levels.planning import planner_of
from trimtab.levels.replays import Draw, file_asked, show
from trimtab.levels.settings import read_settings
from trimtab.levels.spark import spark_settings, spark_words
from trimtab.model.errors import SettingsError
from trimtab.model.replicas.coming import LOADS
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.report.replicas.replay_text import NOTHING, replay_document, replay_text
from trimtab.report.saying import say

if TYPE_CHECKING:
    from trimtab.history.replicas.recording import Recording
    from trimtab.history.replicas.replay import Scenario
    from trimtab.history.replicas.spark import Comparison


def replayed(given: Mapping[str, Any]) -> int:
    """Replan recorded loads by strategies, and show what each would have made of them.

    Parameters
    ----------
    given
        The value of every option, by its name.

    Returns
    -------
    int
        Exit code.

    Raises
    ------
    SettingsError
        If options contradict one another, or one is not known.
    TrimtabError
        If the recording does not hold what it should, or a file cannot be written.
    """
    found = read_settings(given["settings"], (*given["set"], *spark_words(given)), os.environ)
    settings, spark = found.of(SECTION), spark_settings(found, heavy=True)
    if settings.replication_factor:
        raise SettingsError("replicas.replication_factor: a replay adds and drops no replicas; take it out")
    step, every = _seconds("--step", given["step"]), _seconds("--every", given["every"])
    if every % step:
        raise SettingsError(f"--every {given['every']:g} is not a multiple of --step {given['step']:g}")
    scenarios = _scenarios(given, settings, round(every / step))
    recording = _recording(given)

    from trimtab.history.replicas.effect import Ruler
    from trimtab.history.replicas.recording import Period
    from trimtab.history.replicas.spark import compare_on_spark
    from trimtab.observe.spark_address import lake_session

    period = Period(instant("--since", given["since"]), instant("--until", given["until"]))
    session = lake_session(spark, lake_place(given["lake"]), say)
    try:
        compared = compare_on_spark(
            session,
            recording,
            period,
            scenarios,
            Ruler(settings.theta, settings.idle_usage),
            step,
            given["profile_weeks"],
        )
    finally:
        session.stop()
    _show(compared, recording.name, given)
    return 0


def _seconds(option: str, minutes: float) -> float:
    seconds = minutes * 60
    if seconds < 1 or seconds % 1:
        raise SettingsError(f"{option} is {minutes:g} minutes: give whole seconds, one or more")
    return seconds


def _scenarios(given: Mapping[str, Any], settings: ReplicasSettings, every: int) -> dict[str, Scenario]:
    """Nothing, then every strategy with every load, by name."""
    from trimtab.history.replicas.replay import Scenario

    level = LEVELS["replicas"]
    strategies, loads = given["strategy"] or [settings.strategy], given["load"] or [settings.load]
    for load in loads:
        if load not in LOADS:
            raise SettingsError(f"--load {load} is not known; choose of {', '.join(LOADS)}")
    found = {NOTHING: Scenario(None, settings)}
    for strategy in strategies:
        planner = planner_of(level, strategy)
        for load in loads:
            name = strategy if loads == ["recent"] else f"{strategy}, {load}"
            found[name] = Scenario(planner, replace(settings, strategy=strategy, load=load), every)
    return found


def _recording(given: Mapping[str, Any]) -> Recording:
    """The recording in a folder, or that of the lake."""
    from trimtab.history.replicas.recording import FolderRecording, LakeRecording

    folder = file_asked(given, "recording", "a folder", "a recording in a folder")
    if folder is not None:
        # Before Spark starts: nobody should wait ten seconds to be told this.
        from trimtab.files.replicas.recording import opened_recording

        opened_recording(folder)
        return FolderRecording(folder)
    return LakeRecording(lake_place(given["lake"]), given["cluster"])


def _show(found: Comparison, name: str, given: Mapping[str, Any]) -> None:
    def draw() -> Draw:
        from trimtab.report.replicas.replay_chart import draw_replay

        return lambda folder, stem: draw_replay(found, folder, stem, f"Plans on {name}")

    show(given, draw, lambda: replay_document(found), lambda: replay_text(found))
