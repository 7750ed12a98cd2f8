"""Weights to publish: measured weights that differ significantly from the weights in force."""

from __future__ import annotations

from typing import Final

from trimtab.model.queues.plan import Publication, PublicationKind, PublicationReason, Published
from trimtab.model.queues.snapshot import ClassLoad, QueuesSnapshot
from trimtab_queues.format.settings import QueuesSettings

DIGITS: Final = 3
"""Digits of a weight: more digits do not change dispatch."""


Change = tuple[PublicationKind, str, Published | None, Published, PublicationReason]


def publications(snapshot: QueuesSnapshot, settings: QueuesSettings) -> tuple[Publication, ...]:
    """Changed weights by ascending class, then settings if requested."""
    changes: list[Change] = [
        (PublicationKind.WEIGHT, one.message_class, one.published, weight_of(one), _reason(one, settings))
        for one in sorted(snapshot.classes, key=lambda one: one.message_class)
        if is_new(one, settings)
    ]
    changes += [
        (
            PublicationKind.SETTING,
            name,
            before,
            after,
            PublicationReason(
                "asked",
                None,
                f"processes use {before}, the settings of the plan say {after}; publishes {after}",
            ),
        )
        for name, before, after in _settings(snapshot, settings)
    ]
    return tuple(
        Publication(order, kind, name, before, after, reason)
        for order, (kind, name, before, after, reason) in enumerate(changes, 1)
    )


def is_new(one: ClassLoad, settings: QueuesSettings) -> bool:
    """Whether the measurement of a class is to be published: enough samples, a large difference, a small
    error.
    """
    if one.mean_seconds is None or one.mean_seconds <= 0 or one.samples < settings.min_samples:
        return False
    error = one.standard_error_seconds or 0.0
    if one.weight is None or one.weight <= 0:
        return True
    apart = abs(one.mean_seconds - one.weight)
    return apart >= settings.min_change * one.weight and apart > settings.confidence * error


def weight_of(one: ClassLoad) -> float:
    """The measured weight as published: seconds, three digits."""
    assert one.mean_seconds is not None
    return max(1e-6, float(f"{one.mean_seconds:.{DIGITS}g}"))


def _reason(one: ClassLoad, settings: QueuesSettings) -> PublicationReason:
    mean, error = one.mean_seconds or 0.0, one.standard_error_seconds or 0.0
    measured = (
        f"messages of {one.message_class} take {mean:.4g} s (± {error:.2g} s over {one.samples} messages)"
    )
    if one.weight:
        ratio = mean / one.weight
        text = (
            f"{measured}, {ratio:.2f} times their weight of {one.weight:.4g} s; publishes the measured "
            f"weight (limits: {settings.min_change:.0%} and {settings.confidence:g} standard errors)"
        )
    else:
        text = f"{measured} and have no weight; publishes the measured weight"
    return PublicationReason(
        "measured", None, text, one.samples, one.mean_seconds, one.standard_error_seconds
    )


def _settings(
    snapshot: QueuesSnapshot, settings: QueuesSettings
) -> list[tuple[str, float | str | None, float | str]]:
    if not settings.publish_settings:
        return []
    running = {**snapshot.scheduling, "policy": snapshot.policy}
    asked = {
        **{name: getattr(settings.scheduling, name) for name in settings.scheduling.__slots__},
        "policy": settings.policy,
    }
    differ = [name for name in sorted(asked) if running.get(name) != asked[name]]
    return [(name, running.get(name), asked[name]) for name in differ]
