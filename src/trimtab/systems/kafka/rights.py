"""Our user's rights, as brokers tell them: to read what plans need, and to carry plans out.

Brokers tell the operations that a user may do on the cluster and on each topic that it sees (KIP-430); those
of a cluster without access control name all. A topic that it may not describe is not listed at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from trimtab.model.finding import Finding, broken, fine, missing
from trimtab.observe.collect.sampler import RequestError
from trimtab.systems.kafka.requests import RequestSender, check

DESCRIBE: Final = 8
OPERATIONS: Final = {7: "Alter", DESCRIBE: "Describe", 10: "DescribeConfigs", 11: "AlterConfigs"}
"""Codes of `org.apache.kafka.common.acl.AclOperation`, by their names in `kafka-acls.sh`."""
TO_APPLY: Final = {"cluster": (7, 10, 11), "topics": (10, 11)}
LONGEST_LIST: Final = 3


def rights(sender: RequestSender, timeout_seconds: float, part: str) -> Iterator[Finding]:
    """Findings on the rights to the cluster and to topics.

    Raises
    ------
    Unanswered
        If no broker answers.
    """
    yield from _finding(part, "cluster", [("the cluster", _on_cluster(sender, timeout_seconds))])
    yield from _finding(part, "topics", _on_topics(sender, timeout_seconds))


def _on_cluster(sender: RequestSender, timeout_seconds: float) -> Collection[int] | None:
    from kafka.protocol.admin import DescribeClusterRequest

    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        described = sender.request(request, None, timeout_seconds)
        check(described.error_code)
    except RequestError:
        # Kafka before 2.8 does not know the request, and its metadata tell the same.
        return _metadata(sender, timeout_seconds).authorized_operations  # type: ignore[no-any-return]
    return described.authorized_operations  # type: ignore[no-any-return]


def _on_topics(sender: RequestSender, timeout_seconds: float) -> list[tuple[str, Collection[int] | None]]:
    listed = _metadata(sender, timeout_seconds).topics
    return sorted((one.name, one.authorized_operations) for one in listed if one.error_code == 0)


def _metadata(sender: RequestSender, timeout_seconds: float):  # type: ignore[no-untyped-def]
    from kafka.protocol.metadata import MetadataRequest

    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
        max_version=10,  # the last that also tells the rights to the cluster
    )
    return sender.request(request, None, timeout_seconds)


def _finding(part: str, kind: str, text: list[tuple[str, Collection[int] | None]]) -> Iterator[Finding]:
    subject = f"rights on {'the cluster' if kind == 'cluster' else kind}"
    if not text:
        yield missing(
            part,
            subject,
            "no topic is seen: there is none, or none that this user may see",
            "grant Describe on topics",
        )
        return
    if any(operations is None for _, operations in text):
        yield missing(
            part,
            subject,
            "the brokers do not tell (before Kafka 2.3)",
            "see docs/how-to/apply.md for what is needed",
        )
        return
    blind = [name for name, operations in text if DESCRIBE not in (operations or ())]
    if blind:
        yield broken(
            part,
            subject,
            f"no Describe on {_named(blind)}: sizes are not told, and no plan can be made",
            "grant it",
        )
    lacking: dict[int, list[str]] = {}
    for name, operations in text:
        for one in TO_APPLY[kind]:
            if one not in (operations or ()):
                lacking.setdefault(one, []).append(name)
    for one, names in lacking.items():
        yield missing(
            part,
            subject,
            f"no {OPERATIONS[one]} on {_named(names)}: plans can be made, not applied",
            "grant it" + (", or apply with --throttle none" if one == 11 else ""),
        )
    if not blind and not lacking:
        count = "" if kind == "cluster" else f" on all {len(text)} that are seen"
        granted = ", ".join(OPERATIONS[one] for one in sorted((DESCRIBE, *TO_APPLY[kind])))
        yield fine(part, subject, f"{granted}{count}")


def _named(names: list[str]) -> str:
    more = f" and {len(names) - LONGEST_LIST} more" if len(names) > LONGEST_LIST else ""
    return ", ".join(names[:LONGEST_LIST]) + more
