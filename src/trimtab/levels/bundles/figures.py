"""Figures of Pulsar's strategies, and of ours, over recorded load reports: a row a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from trimtab.history.bundles.compare import compare
from trimtab.history.bundles.effect import ruler
from trimtab.history.bundles.recording import FileRecording
from trimtab.history.bundles.scenarios import asked
from trimtab.plan.pulsar.options import DEFAULT_VARIANT, make_options
from trimtab.report.bundles.replay_text import UNMOVED, replay_document


def figures(
    recording: Path,
    strategies: Sequence[str],
    *,
    options: Mapping[str, object] | None = None,
    placement: str | None = None,
    variant: str = DEFAULT_VARIANT,
    seed: int = 0,
) -> dict[str, dict[str, float | None]]:
    """Figures of strategies on a recording, in a world where load goes where its bundle goes.

    Parameters
    ----------
    recording
        A file of load reports (`trimtab/pulsar-reports/1`), or a folder of them.
    strategies
        `STRATEGY`, or `NAME=STRATEGY` where one is to appear twice.
    options
        Pulsar's own, for all of them.
    placement
        Chooses where unloaded bundles go; None for Pulsar's default.
    variant, seed
        Whose rules, and of all that is drawn.

    Returns
    -------
    dict
        By the strategy's name, the recording as it is first: the figures of `trimtab replay bundles --json`
        that are one number, and how many bundles came back to a broker that they had left.

    Raises
    ------
    TrimtabError
        If the recording, a strategy, a placement or an option is wrong.
    """
    words = [f"{name}={value}" for name, value in (options or {}).items()]
    chosen, common = asked(strategies, [] if placement is None else [placement], words)
    scenarios = {
        name: one.settled(variant, seed, world_answers=True).scenario(java_order=True, world_answers=True)
        for name, one in chosen.items()
    }
    found = compare(FileRecording(recording).ticks(), scenarios, ruler(make_options(common, variant)))
    document = replay_document(found, {name: {} for name in scenarios})
    rows = {UNMOVED: document["unmoved"], **{one["name"]: one for one in document["strategies"]}}
    return {
        name: {
            **{key: value for key, value in row.items() if value is None or isinstance(value, int | float)},
            "came_back": len(row["oscillations"]),
        }
        for name, row in rows.items()
    }
