"""Key policies, and tables with the order guard and without, side by side over the same records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.ordered_simulation import (
    FixedTable,
    OrderedSimulation,
    OrderingDelays,
    PeriodicPlanner,
    planned_table,
)
from trimtab.history.keys.simulation import (
    KeysSimulationRun,
    KeysSimulationSettings,
    KeyStream,
    simulate,
    waiting,
)
from trimtab.model.load import FloatArray
from trimtab_common.errors import SettingsError
from trimtab_keys.core.policies import (
    POLICIES,
    IpooaSettings,
    KeyGroups,
    KeyPolicyInputs,
    OverloadOptimisation,
    policy_named,
)

GUARD: Final = "guard"
PLANS: Final = "plans"
TABLES: Final = (KeyGroups.name, f"{KeyGroups.name}+{GUARD}", f"{KeyGroups.name}+{GUARD}+{PLANS}")
CANDIDATES: Final = ("load", "least")
"""Of IPOOA, beside the paper's by content."""
NEWS_SECONDS: Final = 0.005
"""Until a consumer hears what others have done of a split key."""
PUBLISH_SECONDS: Final = 0.25
OBSERVATIONS: Final = 400
"""Moments at which what waits is kept."""


@dataclass(frozen=True, kw_only=True)
class KeysScenario:
    """The settings that all policies of a comparison share.

    Attributes
    ----------
    world
        Partitions and consumers.
    settings
        Of plans.
    plan_seconds
        Between two plans, of schemes that plan on the way.
    """

    world: KeysSimulationSettings
    settings: KeysSettings
    plan_seconds: float


@dataclass(frozen=True, eq=False)
class KeyPolicyResult:
    """The metrics of one policy on a recording.

    Attributes
    ----------
    records
        Shape (partitions,): that went to each.
    max_over_mean
        Of those.
    p50_seconds, p99_seconds
        From sent to effect: what half of the records, and 99 %, did not exceed.
    overtaken
        Share of records that took effect before an earlier one of their key.
    partitions_per_key
        That the records of a key went to, in the mean over records.
    added
        Partitions that were added.
    at, waiting
        Shapes (moments,) and (moments, partitions): seconds since the first record, and records sent and not
        yet in effect.
    """

    records: tuple[int, ...]
    max_over_mean: float
    p50_seconds: float
    p99_seconds: float
    at: FloatArray
    waiting: FloatArray
    overtaken: float
    partitions_per_key: float
    added: int


def default_schemes() -> tuple[str, ...]:
    """Every policy, with the three variants of IPOOA and of routing tables."""
    ipooa = [f"{OverloadOptimisation.name}+{one}" for one in CANDIDATES]
    others = [one for one in POLICIES if one not in (KeyGroups.name, OverloadOptimisation.name)]
    return (*others, OverloadOptimisation.name, *ipooa, *TABLES)


def compare(
    stream: KeyStream,
    schemes: Sequence[str],
    setting: KeysScenario,
    text: Callable[[str], None] = lambda name: None,
) -> dict[str, KeyPolicyResult]:
    """The metrics of each policy on the same records.

    Parameters
    ----------
    schemes
        A policy; `ipooa+load`, `ipooa+least`; `key_groups` (a table made from the whole recording),
        `key_groups+guard` (the same under the order guard), `key_groups+guard+plans` (the plain hash first,
        and a plan every `plan_seconds` from what came in).
    text
        Called with each name before it is run.

    Raises
    ------
    SettingsError
        If a scheme is not known.
    """
    made = {name: _scheme(name, stream, setting) for name in schemes}
    found = {}
    for name, run in made.items():
        text(name)
        found[name] = outcome(run())
    return found


def outcome(found: KeysSimulationRun) -> KeyPolicyResult:
    """The metrics of a simulation run."""
    sent, done = np.asarray(found.stream.at), np.asarray(found.done)
    at = np.linspace(sent[0], max(done.max(), sent[-1]), OBSERVATIONS)
    return KeyPolicyResult(
        records=tuple(found.records),
        max_over_mean=found.max_over_mean,
        p50_seconds=found.delay_seconds(0.5),
        p99_seconds=found.delay_seconds(0.99),
        overtaken=found.overtaken,
        partitions_per_key=found.partitions_per_key,
        added=found.added,
        at=at - sent[0],
        waiting=waiting(np.asarray(found.place), sent, done, found.partitions, at),
    )


def _scheme(name: str, stream: KeyStream, setting: KeysScenario) -> Callable[[], KeysSimulationRun]:
    policy, *extras = name.split("+")
    world = setting.world
    if name in TABLES:
        return lambda: _tables(stream, setting, guard=GUARD in extras, plans=PLANS in extras)
    if policy == OverloadOptimisation.name and (not extras or (len(extras) == 1 and extras[0] in CANDIDATES)):
        candidate = extras[0] if extras else "content"
        given = KeyPolicyInputs(ipooa=IpooaSettings(candidate=candidate))
        contents = candidate == "content"
        return lambda: simulate(stream, lambda: policy_named(policy, given), world, contents=contents)
    if policy in POLICIES and not extras:
        return lambda: simulate(stream, lambda: policy_named(policy), world)
    raise SettingsError(f"--policy {name} is not known: write one of {', '.join(default_schemes())}")


def _tables(stream: KeyStream, setting: KeysScenario, *, guard: bool, plans: bool) -> KeysSimulationRun:
    world = setting.world
    lasted = max(stream.at[-1] - stream.at[0], 1e-9)
    counts = np.bincount(np.asarray(stream.which), minlength=len(stream.keys))
    if plans:
        watching = PeriodicPlanner(stream.keys, setting.plan_seconds, setting.settings, world)
        return OrderedSimulation(
            stream,
            world,
            watching,
            publish_seconds=PUBLISH_SECONDS,
            delays=OrderingDelays(heartbeat_seconds=NEWS_SECONDS),
        ).run()
    table = planned_table(stream.keys, (counts / lasted).tolist(), setting.settings, world)
    if not guard:
        return simulate(stream, lambda: policy_named(KeyGroups.name, KeyPolicyInputs(table=table)), world)
    known = FixedTable(table)
    return OrderedSimulation(
        stream, world, known, publish_seconds=0.01, delays=OrderingDelays(heartbeat_seconds=NEWS_SECONDS)
    ).run()
