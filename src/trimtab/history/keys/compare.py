"""Key policies, and tables with the order guard and without, side by side over the same records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.course import Course, World, course, waiting
from trimtab.history.keys.guarded import Guarded, Pace
from trimtab.history.keys.publishing import Known, Watching, planned
from trimtab.history.keys.stream import KeyStream
from trimtab.model.errors import SettingsError
from trimtab.model.load import FloatArray
from trimtab.online.keys.catalogue import POLICIES, Given, policy_named
from trimtab.online.keys.policies.ipooa import OverloadOptimisation
from trimtab.online.keys.policies.table import KeyGroups
from trimtab.online.keys.settings import Ipooa

GUARD: Final = "guard"
PLANS: Final = "plans"
TABLES: Final = (KeyGroups.name, f"{KeyGroups.name}+{GUARD}", f"{KeyGroups.name}+{GUARD}+{PLANS}")
CANDIDATES: Final = ("load", "least")
"""Of IPOOA, beside the paper's by content."""
NEWS_SECONDS: Final = 0.005
"""Until a consumer hears what others have done of a split key."""
PUBLISH_SECONDS: Final = 0.25
LOOKS: Final = 400
"""Moments at which what waits is kept."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The measures of one scheme on a recording.

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
    overtaken: float
    partitions_per_key: float
    added: int
    at: FloatArray
    waiting: FloatArray


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all schemes of a comparison share.

    Attributes
    ----------
    world
        Partitions and consumers.
    settings
        Of plans.
    plan_seconds
        Between two plans, of schemes that plan on the way.
    """

    world: World
    settings: KeysSettings
    plan_seconds: float


def default_schemes() -> tuple[str, ...]:
    """Every policy, IPOOA in its three readings, and tables in theirs."""
    ipooa = [f"{OverloadOptimisation.name}+{one}" for one in CANDIDATES]
    others = [one for one in POLICIES if one not in (KeyGroups.name, OverloadOptimisation.name)]
    return (*others, OverloadOptimisation.name, *ipooa, *TABLES)


def compare(
    stream: KeyStream,
    schemes: Sequence[str],
    setting: Setting,
    told: Callable[[str], None] = lambda name: None,
) -> dict[str, Outcome]:
    """The outcome of each scheme on the same records.

    Parameters
    ----------
    schemes
        A policy; `ipooa+load`, `ipooa+least`; `key_groups` (a table made from the whole recording),
        `key_groups+guard` (the same under the order guard), `key_groups+guard+plans` (the plain hash first,
        and a plan every `plan_seconds` from what came in).
    told
        Is told each name before it is run.

    Raises
    ------
    SettingsError
        If a scheme is not known.
    """
    made = {name: _scheme(name, stream, setting) for name in schemes}
    found = {}
    for name, run in made.items():
        told(name)
        found[name] = outcome(run())
    return found


def outcome(found: Course) -> Outcome:
    """The measures of a course."""
    sent, done = np.asarray(found.stream.at), np.asarray(found.done)
    at = np.linspace(sent[0], max(done.max(), sent[-1]), LOOKS)
    return Outcome(
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


def _scheme(name: str, stream: KeyStream, setting: Setting) -> Callable[[], Course]:
    policy, *extras = name.split("+")
    world = setting.world
    if name in TABLES:
        return lambda: _tables(stream, setting, guard=GUARD in extras, plans=PLANS in extras)
    if policy == OverloadOptimisation.name and (not extras or (len(extras) == 1 and extras[0] in CANDIDATES)):
        candidate = extras[0] if extras else "content"
        given = Given(ipooa=Ipooa(candidate=candidate))
        contents = candidate == "content"
        return lambda: course(stream, lambda: policy_named(policy, given), world, contents=contents)
    if policy in POLICIES and not extras:
        return lambda: course(stream, lambda: policy_named(policy), world)
    raise SettingsError(f"--policy {name} is not known: write one of {', '.join(default_schemes())}")


def _tables(stream: KeyStream, setting: Setting, *, guard: bool, plans: bool) -> Course:
    world = setting.world
    lasted = max(stream.at[-1] - stream.at[0], 1e-9)
    counts = np.bincount(np.asarray(stream.which), minlength=len(stream.keys))
    if plans:
        watching = Watching(stream.keys, setting.plan_seconds, setting.settings, world)
        return Guarded(
            stream, world, watching, publish_seconds=PUBLISH_SECONDS, pace=Pace(tell_seconds=NEWS_SECONDS)
        ).run()
    table = planned(stream.keys, (counts / lasted).tolist(), setting.settings, world)
    if not guard:
        return course(stream, lambda: policy_named(KeyGroups.name, Given(table=table)), world)
    known = Known(table)
    return Guarded(stream, world, known, publish_seconds=0.01, pace=Pace(tell_seconds=NEWS_SECONDS)).run()
