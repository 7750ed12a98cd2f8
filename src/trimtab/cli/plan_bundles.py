"""`trimtab plan bundles`: which bundles of a Pulsar cluster to unload and split, and why."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trimtab.model.errors import InputError, SettingsError

if TYPE_CHECKING:
    from trimtab.cli.replay_scenarios import Asked
    from trimtab.files.pulsar_policies import LaidDown
    from trimtab.files.settings import Settings
    from trimtab.history.bundles.recording import Recording
    from trimtab.model.bundle_plan import BundlePlan
    from trimtab.model.bundles import ReportTick
    from trimtab.model.bundles_snapshot import BundlesSnapshot
    from trimtab.model.snapshot import SnapshotReference
    from trimtab.report.strategies_text import Wanted

OURS = "trim"


def bundles(
    snapshot: Path | None = typer.Option(
        None, "--snapshot", help="A snapshot file (.json, .json.gz) or folder; else the newest of the lake."
    ),
    reports: Path | None = typer.Option(
        None, "--reports", help="Instead of a snapshot: recorded load reports, a file or a folder of them."
    ),
    lake: Path | None = typer.Option(None, "--lake", help="The lake's folder (TRIMTAB_LAKE)."),
    cluster: str | None = typer.Option(
        None, "--cluster", help="Which cluster, where the lake holds several."
    ),
    strategy: str = typer.Option(
        OURS, "--strategy", help="trim, one of Pulsar's shedders by its name there, or all, side by side."
    ),
    placement: str | None = typer.Option(
        None, "--placement", help="A placement strategy of Pulsar's, for shedders that name no destination."
    ),
    policies: Path | None = typer.Option(
        None, "--policies", help="What operators have laid down (trimtab/pulsar-policies/1), for reports."
    ),
    variant: str = typer.Option(
        "pulsar-4.2",
        "--variant",
        help="Whose rules Pulsar's strategies go by: pulsar-4.2, pulsar-4.0, article.",
    ),
    last: int = typer.Option(
        60, "--ticks", min=1, help="How many of the newest ticks of reports strategies are fed with."
    ),
    out: Path | None = typer.Option(None, "--out", help="Write the plan (trimtab/plan/1) to this file."),
    as_json: bool = typer.Option(
        False, "--json", help="Print the plan itself; with all, one JSON document of what each would do."
    ),
    all_moves: bool = typer.Option(False, "--all-moves", help="List every move in the text."),
    overrides: list[str] = typer.Option(
        [],
        "--set",
        help="A setting, like bundles.epsilon=0.05, or an option of Pulsar's, like "
        "loadBalancerBrokerThresholdShedderPercentage=5; may be given again.",
    ),
    settings_file: Path | None = typer.Option(
        None, "--settings", help="Settings file (TRIMTAB_SETTINGS; else ./trimtab.toml if there)."
    ),
) -> None:
    """Plan unloads and splits of bundles of a Pulsar cluster; changes nothing.

    Exit code 0: the plan levels or improves the cluster, or it is level. 3: some hard limit cannot be met by
    any plan; the problems say why. 2: the input or a setting is wrong, and nothing was written.
    """
    from trimtab.cli.replay_scenarios import asked
    from trimtab.files.settings import load_settings
    from trimtab.model.plan import Verdict

    if snapshot is not None and reports is not None:
        raise SettingsError("--snapshot and --reports are both what to plan from: name one")
    ours, pulsars = _sorted_words(overrides)
    settings = load_settings(settings_file, ours, os.environ)
    source = _Source(snapshot, reports, lake, cluster, policies, last)
    if strategy == "all":
        if out is not None:
            raise SettingsError("--out is for the plan of one strategy, not of all: name it by --strategy")
        names = _all_strategies()
        chosen, _ = asked(names, [] if placement is None else [placement], pulsars)
        _show_all([_wanted(name, one, source, settings, variant) for name, one in chosen.items()], as_json)
        return
    chosen, _ = asked([strategy], [] if placement is None else [placement], pulsars)
    ((name, one),) = chosen.items()
    if name == OURS and one.strategy == OURS:
        if pulsars or placement is not None:
            raise SettingsError(
                f"{pulsars[0] if pulsars else '--placement'} is for Pulsar's strategies, and trim has "
                "settings of "
                "its own: --set bundles.epsilon=0.05"
            )
        seen = source.snapshot()
        plan = _planned(seen, settings)
        wanted = None
    else:
        wanted = _wanted(name, one, source, settings, variant)
        seen, plan = source.reported(), wanted.plan
    if out is not None:
        from trimtab.files.bundle_plan import write_bundle_plan

        write_bundle_plan(plan, out)
    _show(plan, seen, wanted, as_json=as_json, all_moves=all_moves)
    if out is not None:
        print(f"trimtab: plan written to {out}", file=sys.stderr)
    if plan.verdict is Verdict.INFEASIBLE and plan.strategy == OURS:
        raise typer.Exit(3)


def show_bundle_plan(path: Path, snapshot: Path | None, *, as_json: bool, all_moves: bool) -> None:
    """Check a plan file and show it, with the load of the snapshot that it was made from."""
    from trimtab.files.bundle_plan import read_bundle_plan
    from trimtab.files.bundles_snapshot import read_bundles_snapshot

    plan = read_bundle_plan(path)
    found = None if snapshot is None else read_bundles_snapshot(snapshot)
    if found is not None and found.reference.sha256 != plan.snapshot.sha256:
        raise InputError(
            f"{snapshot}: is not the snapshot that {path} was made from (sha256 differs); name that"
        )
    _show(plan, found, None, as_json=as_json, all_moves=all_moves)


class _Source:
    """Where a plan comes from: a snapshot, recorded reports, or a lake that holds both."""

    def __init__(
        self,
        snapshot: Path | None,
        reports: Path | None,
        lake: Path | None,
        cluster: str | None,
        policies: Path | None,
        last: int,
    ) -> None:
        self.path = snapshot
        self.reports = reports
        self.lake = lake
        self.cluster = cluster
        self.policies = policies
        self.last = last
        self._ticks: list[ReportTick] | None = None
        self._reported: BundlesSnapshot | None = None

    def snapshot(self) -> BundlesSnapshot:
        """What `trim` plans from: the snapshot, or one made of the reports."""
        from trimtab.files.bundles_snapshot import read_bundles_snapshot

        if self.reports is not None:
            return self.reported()
        path = self.path
        if path is None:
            from trimtab.files.places import lake_folder
            from trimtab.observe.lake import Lake

            path = Lake(self.lake or lake_folder()).newest_snapshot(self.cluster, level="bundles")
        found = read_bundles_snapshot(path)
        if self.cluster is not None and found.reference.cluster != self.cluster:
            raise InputError(
                f"{path}: is a snapshot of cluster {found.reference.cluster}, not of {self.cluster}; name "
                "another"
            )
        return found

    def ticks(self) -> list[ReportTick]:
        """The newest ticks of reports, oldest first."""
        from collections import deque

        if self._ticks is None:
            self._ticks = list(deque(self._recording().ticks(), maxlen=self.last))
            if not self._ticks:
                raise InputError(
                    f"{self._recording().name}: holds no tick of load reports; record some first"
                )
        return self._ticks

    def reported(self) -> BundlesSnapshot:
        """The newest ticks as a snapshot."""
        from trimtab.plan.bundles.reported import snapshot_of_ticks

        if self._reported is None:
            laid_down = self.laid_down()
            policies = None if laid_down is None else laid_down.policies
            self._reported = snapshot_of_ticks(self.ticks(), self._reference(), policies)
        return self._reported

    def laid_down(self) -> LaidDown | None:
        """What operators have laid down, as a file says; None without one."""
        from trimtab.files.pulsar_policies import read_policies

        return None if self.policies is None else read_policies(self.policies)

    def _recording(self) -> Recording:
        from trimtab.files.places import lake_folder
        from trimtab.history.bundles.recording import FileRecording, LakeRecording, Period

        if self.reports is not None:
            return FileRecording(self.reports, Period())
        if self.path is not None:
            raise SettingsError(
                "Pulsar's strategies decide by load reports, which a snapshot does not hold: name a "
                "recording by "
                "--reports, or a lake by --lake"
            )
        return LakeRecording(self.lake or lake_folder(), self.cluster, Period())

    def _reference(self) -> SnapshotReference:
        """The newest tick, by the digest of its line in a recording."""
        import hashlib

        from trimtab.files.pulsar_reports import report_line, time_text
        from trimtab.model.snapshot import SnapshotReference

        newest = self.ticks()[-1]
        digest = hashlib.sha256(report_line(newest).encode()).hexdigest()
        return SnapshotReference(self.cluster or self._recording().name, time_text(newest.at), digest)


def _sorted_words(overrides: list[str]) -> tuple[list[str], list[str]]:
    """Settings of ours, which name a section, and options of Pulsar's."""
    from trimtab.files.settings import SECTIONS

    ours = [word for word in overrides if word.partition("=")[0].partition(".")[0].strip() in SECTIONS]
    return ours, [word for word in overrides if word not in ours]


def _all_strategies() -> list[str]:
    from trimtab.plan.bundles.strategies import SHEDDERS

    return sorted(SHEDDERS, key=lambda name: (name == OURS, name))


def _planned(snapshot: BundlesSnapshot, settings: Settings) -> BundlePlan:
    from trimtab.cli.announcing import announce_compilation
    from trimtab.plan.bundles.trim import plan_bundles

    announce_compilation()
    return plan_bundles(snapshot, settings.bundles)


def _wanted(name: str, one: Asked, source: _Source, settings: Settings, variant: str) -> Wanted:
    """What a strategy would do now."""
    from trimtab.plan.bundles.decision import Decision
    from trimtab.report.strategies_text import Wanted

    if one.strategy == OURS:
        plan = _planned(source.reported(), settings)
        why = {
            "verdict": str(plan.verdict),
            "clients at least": plan.bound.sessions,
            "problems": [problem.text for problem in plan.problems],
        }
        unloads: dict[str, tuple[str, ...]] = {}
        for move in plan.moves:
            if move.source is not None and move.target is not None:
                unloads[move.source] = (*unloads.get(move.source, ()), move.bundle)
        destinations = {move.bundle: move.target for move in plan.moves if move.target is not None}
        return Wanted(name, OURS, None, {}, Decision(unloads, destinations, why), plan, ())
    from trimtab.history.bundles.now import decide_now
    from trimtab.plan.bundles.agreement import disagreements
    from trimtab.plan.bundles.decided import plan_of_decision

    settled = one.settled(variant, settings.bundles.seed, world_answers=True)
    scenario = settled.scenario(java_order=True, world_answers=False, laid_down=source.laid_down())
    seen, decision = decide_now(source.ticks(), scenario)
    options = dict(settled.options)
    plan = plan_of_decision(
        source.reported(),
        decision,
        settled.strategy,
        settled.placement,
        settings.bundles,
        {"options": options, "variant": variant},
    )
    odds = disagreements(decision, seen.brokers, scenario.options)
    return Wanted(name, settled.strategy, settled.placement, options, decision, plan, odds)


def _show_all(wanted: list[Wanted], as_json: bool) -> None:
    import json

    from trimtab.report.strategies_text import strategies_document, strategies_text

    if as_json:
        typer.echo(json.dumps({"strategies": strategies_document(wanted)}, ensure_ascii=False, indent=1))
    else:
        sys.stdout.write(strategies_text(wanted))


def _show(
    plan: BundlePlan,
    snapshot: BundlesSnapshot | None,
    wanted: Wanted | None,
    *,
    as_json: bool,
    all_moves: bool,
) -> None:
    if as_json:
        from trimtab.files.bundle_plan import bundle_plan_bytes

        sys.stdout.write(bundle_plan_bytes(plan).decode())
        return
    from trimtab.report.bundle_plan_text import bundle_plan_text
    from trimtab.report.strategies_text import why_lines

    sys.stdout.write(bundle_plan_text(plan, snapshot, all_moves=all_moves))
    if wanted is not None:
        lines = [f"  {line}" for line in why_lines(wanted.decision)]
        lines += [f"  shedder and placement disagree: {one.text}" for one in wanted.disagreements]
        sys.stdout.write("\n".join(["", "What decided:", *lines]) + "\n")
