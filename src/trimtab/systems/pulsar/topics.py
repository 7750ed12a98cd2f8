"""Statistics of a broker's topics, and what they sum up to for its bundles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.model.bundles.range import parse_bundle
from trimtab.systems.pulsar.figures import TRAFFIC, Figures, SampleErrors, figure, figures
from trimtab_common.errors import InputError


@dataclass(frozen=True)
class TopicSample:
    """One topic at one broker."""

    bundle: str
    topic: str
    figures: Figures


def topic_samples(text: Mapping[str, Any], broker: str, faults: SampleErrors) -> tuple[TopicSample, ...]:
    """The sound part of the answer to `broker-stats/topics`; a topic whose traffic cannot be is left out."""
    subject = f"broker {broker}"
    return tuple(
        sample
        for bundle, topic, one in _topics(text, subject, faults)
        if (sample := _sample(bundle, topic, one, subject, faults)) is not None
    )


def bundle_sums(samples: Iterable[TopicSample]) -> dict[str, Figures]:
    """Figures of bundles as brokers compute them (`PulsarStats.updateStats`): the sums of their topics'."""
    sums: dict[str, Figures] = {}
    for sample in samples:
        total = sums.setdefault(
            sample.bundle, dict.fromkeys((*TRAFFIC, "topics", "producers", "consumers"), 0.0)
        )
        total["topics"] += 1
        for column in (*TRAFFIC, "producers", "consumers"):
            total[column] += sample.figures[column]
    return sums


def _topics(text: Mapping[str, Any], subject: str, faults: SampleErrors) -> Iterator[tuple[str, str, object]]:
    """Bundle, topic and statistics of every topic."""
    for namespace, ranges in text.items():
        for name, kinds in _members(ranges):
            bundle = f"{namespace}/{name}"
            try:
                parse_bundle(bundle)
            except InputError:
                faults.note(subject, "name", f'has topics in "{bundle}", which is no bundle\'s name')
                continue
            for _, topics in _members(kinds):
                for topic, one in _members(topics):
                    yield bundle, topic, one


def _sample(bundle: str, topic: str, text: object, subject: str, faults: SampleErrors) -> TopicSample | None:
    if not isinstance(text, dict):
        faults.note(subject, "topic", f"tells no figures of {topic}")
        return None
    found = figures(text, TRAFFIC, subject, f" of {topic}", faults)
    if len(found) < len(TRAFFIC):
        return None
    subscriptions = [one for _, one in _members(text.get("subscriptions")) if isinstance(one, dict)]
    publishers = text.get("publishers")
    found["producers"] = float(len(publishers) if isinstance(publishers, list) else 0)
    found["consumers"] = float(sum(_length(one.get("consumers")) for one in subscriptions))
    found["subscriptions"] = float(len(subscriptions))
    backlogs = [figure(one, "msgBacklog", subject, f" of {topic}", faults) for one in subscriptions]
    if None not in backlogs:
        found["backlog_messages"] = sum(one or 0.0 for one in backlogs)
    if "storageSize" in text:  # topics that are not persistent have none
        stored = figure(text, "storageSize", subject, f" of {topic}", faults)
        if stored is not None:
            found["storage_size_bytes"] = stored
    return TopicSample(bundle, topic, found)


def _members(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
