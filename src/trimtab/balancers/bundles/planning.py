"""A plan of the balancer `bundles`: from a snapshot by `trim`, or from load reports by any strategy."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from trimtab.balancers.balancer import PlanRequest, PlanResult
from trimtab.balancers.bundles import BALANCER
from trimtab.balancers.planning import snapshot_of
from trimtab.balancers.settings import SECTIONS, read_settings
from trimtab.files.bundles.policies import OperatorPolicies, read_policies
from trimtab.files.bundles.reports import report_line
from trimtab.files.bundles.settings import SECTION
from trimtab.files.head import time_text
from trimtab.history.bundles.recording import (
    FileReportRecording,
    LakeReportRecording,
    ReportRecording,
    TickRange,
)
from trimtab.history.bundles.replay import StrategyRequest, decide_now, strategy_requests
from trimtab.model.bundles.plan import BundlePlan, BundlesSettings
from trimtab.model.bundles.reports import ReportTick
from trimtab.model.bundles.snapshot import BundlesSnapshot
from trimtab.model.documents import SnapshotReference
from trimtab.model.errors import ObserveError
from trimtab.plan.bundles.reported import snapshot_of_ticks
from trimtab.plan.bundles.strategies import SHEDDERS, plan_of_decision
from trimtab.plan.bundles.trim import plan_bundles
from trimtab.plan.pulsar.decision import ShedDecision, disagreements
from trimtab.report.bundles.replay import (
    StrategyProposal,
    reason_lines,
    strategies_document,
    strategies_text,
)
from trimtab_common.errors import InputError, SettingsError

OWN_SECTIONS: Final = "trim"
ALL: Final = "all"


def planned(request: PlanRequest) -> PlanResult:
    """The plan of one strategy, or of all side by side.

    `trim` plans from a snapshot, or from one made of load reports; Pulsar's strategies decide by reports.
    Words of `--set` that name no section of ours are options of Pulsar's.

    Raises
    ------
    SettingsError
        If options contradict one another, or a strategy, a placement or an option is not known.
    InputError
        If a file does not hold what it should, or no tick.
    """
    own = request.own
    if request.snapshot is not None and own["reports"] is not None:
        raise SettingsError("--snapshot and --reports are both what to plan from: name one")
    ours, pulsars = _split_overrides(request)
    settings: BundlesSettings = read_settings(request.settings, ours, os.environ).of(SECTION)
    source = _PlanSource(request)
    placements = [] if own["placement"] is None else [own["placement"]]
    request.loaded()
    if request.strategy == ALL:
        if request.writes:
            raise SettingsError("--out is for the plan of one strategy, not of all: name it by --strategy")
        chosen, _ = strategy_requests(
            sorted(SHEDDERS, key=lambda name: (name == OWN_SECTIONS, name)), placements, pulsars
        )
        wanted = [
            _strategy_decision(name, one, source, settings, own["pulsar_version"])
            for name, one in chosen.items()
        ]
        return PlanResult(
            text=f"{strategies_text(wanted)}\n{source.grounds}\n",
            document={
                "grounds": source.grounds,
                "strategies": strategies_document(wanted),
            },
            binding=False,
        )
    chosen, _ = strategy_requests([request.strategy or OWN_SECTIONS], placements, pulsars)
    ((name, one),) = chosen.items()
    if name == OWN_SECTIONS and one.strategy == OWN_SECTIONS:
        if pulsars or placements:
            raise SettingsError(
                f"{pulsars[0] if pulsars else '--placement'} is for Pulsar's strategies, and trim has "
                "settings of its own: --set bundles.epsilon=0.05"
            )
        seen = source.snapshot()
        return PlanResult(plan=plan_bundles(seen, settings), snapshot=seen)
    one_wanted = _strategy_decision(name, one, source, settings, own["pulsar_version"])
    return PlanResult(
        plan=one_wanted.plan,
        snapshot=source.evaluated_snapshot,
        text=f"{_infeasible_reason(one_wanted)}\n{source.grounds}\n",
        binding=one_wanted.plan.strategy == OWN_SECTIONS,
    )


class _PlanSource:
    """The ground of a plan: a snapshot, recorded reports, or a lake that holds both."""

    def __init__(self, request: PlanRequest) -> None:
        self._request = request

    def snapshot(self) -> BundlesSnapshot:
        """The snapshot for `trim`: as it was named, or made of the reports."""
        request = self._request
        if request.own["reports"] is not None:
            return self.reported
        found: BundlesSnapshot = snapshot_of(BALANCER, request.snapshot, request.lake, request.cluster)
        return found

    @cached_property
    def ticks(self) -> list[ReportTick]:
        """The newest ticks of reports, oldest first."""
        found = list(deque(self._recording.ticks(), maxlen=self._request.own["ticks"]))
        if not found:
            raise InputError(f"{self._recording.name}: holds no tick of load reports; record some first")
        return found

    @cached_property
    def reported(self) -> BundlesSnapshot:
        """The newest ticks as a snapshot."""
        policies = None if self.laid_down is None else self.laid_down.policies
        return snapshot_of_ticks(self.ticks, self._reference(), policies)

    @cached_property
    def evaluated_snapshot(self) -> BundlesSnapshot:
        """The ground of `trim` and of all figures: the snapshot of a lake, as for `trim` alone."""
        try:
            found = self.reported if self._request.own["reports"] is not None else self.snapshot()
        except ObserveError:
            return self.reported  # collected, and no pipeline has run
        return found if self.laid_down is None else replace(found, policies=self.laid_down.policies)

    @property
    def grounds(self) -> str:
        """The load that each side judges by."""
        at, judged = time_text(self.ticks[-1].at), self.evaluated_snapshot
        if judged is self.reported:
            return f"All judge by the brokers' load reports of {at}."
        usage = "message traffic over declared capacities" if judged.usage == "declared" else "measured usage"
        return (
            f"Pulsar's strategies decide by the brokers' own load reports of {at}; trim, and the figures of "
            f"all, by the snapshot of {judged.reference.taken_at}: {usage}."
        )

    @cached_property
    def laid_down(self) -> OperatorPolicies | None:
        """The policies and quotas of operators out of a file; None without one."""
        path = self._request.own["policies"]
        return None if path is None else read_policies(path)

    @cached_property
    def _recording(self) -> ReportRecording:
        request = self._request
        if request.own["reports"] is not None:
            return FileReportRecording(request.own["reports"], TickRange())
        if request.snapshot is not None:
            raise SettingsError(
                "Pulsar's strategies decide by load reports, which a snapshot does not hold: name a "
                "recording by --reports, or a lake by --lake"
            )
        return LakeReportRecording(request.lake, request.cluster, TickRange())

    def _reference(self) -> SnapshotReference:
        """The newest tick, by the digest of its line in a recording."""
        newest = self.ticks[-1]
        digest = hashlib.sha256(report_line(newest).encode()).hexdigest()
        return SnapshotReference(self._request.cluster or self._recording.name, time_text(newest.at), digest)


def _split_overrides(request: PlanRequest) -> tuple[list[str], list[str]]:
    """Settings of ours, which name a section, and options of Pulsar's."""
    ours = [
        word for word in request.overrides if word.partition("=")[0].partition(".")[0].strip() in SECTIONS
    ]
    return ours, [word for word in request.overrides if word not in ours]


def _strategy_decision(
    name: str, one: StrategyRequest, source: _PlanSource, settings: BundlesSettings, variant: str
) -> StrategyProposal:
    """The decision of one strategy for the newest tick, also as a plan."""
    if one.strategy == OWN_SECTIONS:
        plan = plan_bundles(source.evaluated_snapshot, settings)
        return StrategyProposal(name, OWN_SECTIONS, None, {}, _decision_of(plan), plan, ())
    settled = one.settled(variant, settings.seed, world_answers=True)
    scenario = settled.scenario(java_order=True, world_answers=False, laid_down=source.laid_down)
    seen, decision = decide_now(source.ticks, scenario)
    options = dict(settled.options)
    plan = plan_of_decision(
        source.evaluated_snapshot,
        decision,
        settled.strategy,
        settled.placement,
        settings,
        {"options": options, "variant": variant},
    )
    odds = disagreements(decision, seen.brokers, scenario.options)
    return StrategyProposal(name, settled.strategy, settled.placement, options, decision, plan, odds)


def _decision_of(plan: BundlePlan) -> ShedDecision:
    """A plan of ours in the form of a decision of Pulsar's, to stand beside the others."""
    unloads: dict[str, tuple[str, ...]] = {}
    for move in plan.moves:
        if move.source is not None and move.target is not None:
            unloads[move.source] = (*unloads.get(move.source, ()), move.bundle)
    destinations = {move.bundle: move.target for move in plan.moves if move.target is not None}
    why: dict[str, Any] = {
        "verdict": str(plan.verdict),
        "clients at least": plan.bound.sessions,
        "problems": [problem.text for problem in plan.problems],
    }
    return ShedDecision(unloads, destinations, why)


def _infeasible_reason(desired: StrategyProposal) -> str:
    """The numbers that decided, after the text of the plan."""
    lines = [f"  {line}" for line in reason_lines(desired.decision)]
    lines += [f"  shedder and placement disagree: {one.text}" for one in desired.disagreements]
    return "\n".join(["", "What decided:", *lines]) + "\n"
