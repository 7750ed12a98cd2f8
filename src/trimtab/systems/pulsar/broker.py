"""The answer of one broker: its report, what it owns, its topics; or its metrics, where these are refused."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from trimtab.systems.pulsar.admin import PulsarAdmin, PulsarAdminError

Clock = Callable[[], datetime.datetime]

REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True)
class PulsarBrokerSample:
    """One broker's answers at one tick, as they came.

    Attributes
    ----------
    reachable
        Whether it answered anything at all.
    load_manager
        `modular`, `extensible`, or None where it cannot be told.
    report, topics, metrics
        None where it was not told or not asked.
    owned
        Keys of the bundles that it owns and serves.
    problems
        What it did not tell, and why, one sentence each.
    """

    broker: str
    read_at: datetime.datetime
    reachable: bool
    load_manager: str | None = None
    report: Mapping[str, Any] | None = None
    owned: tuple[str, ...] | None = None
    topics: Mapping[str, Any] | None = None
    metrics: str | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class BrokerQueries:
    """The questions to a broker.

    Attributes
    ----------
    report
        False for a broker that is known to refuse it, since its load manager has none.
    metrics
        Whether to read metrics where statistics are refused.
    always_metrics
        Whether to read them anyway.
    """

    report: bool = True
    metrics: bool = True
    always_metrics: bool = False


def sample_broker(admin: PulsarAdmin, broker: str, desired: BrokerQueries, now: Clock) -> PulsarBrokerSample:
    """Ask one broker everything that only it knows; never raises for what it will not or cannot say.

    A broker that is silent once is not asked again in this tick, but what it told stays.
    """
    told: dict[str, Any] = {"load_manager": None if desired.report else "extensible"}
    problems: list[str] = []
    reachable = False

    def owned() -> tuple[str, ...]:
        return tuple(bundle for bundle, served in admin.owned_bundles(broker).items() if served)

    calls: list[tuple[str, str, Callable[[], Any]]] = [
        ("owned", "does not tell what it owns", owned),
        ("topics", "gives no statistics of topics", lambda: admin.topic_stats(broker)),
    ]
    if desired.report:
        calls.insert(0, ("report", "gives no load report", lambda: admin.load_report(broker)))
    if desired.always_metrics:
        calls.append(("metrics", "gives no metrics", lambda: admin.metrics(broker)))
    while calls:
        name, lacking, call = calls.pop(0)
        try:
            told[name] = call()
        except PulsarAdminError as error:
            if error.status is None:
                what = "stopped answering" if reachable else "is unreachable"
                problems.append(f"broker {broker} {what}: {error.reason}")
                break
            reachable = True
            if name == "report" and _has_none(admin, broker, error):
                told["load_manager"] = "extensible"
                continue
            problems.append(f"broker {broker} {lacking}: {error}")
            if error.status in REFUSED and desired.metrics and not any(one == "metrics" for one, *_ in calls):
                calls.append(("metrics", "gives no metrics", lambda: admin.metrics(broker)))
        else:
            reachable = True
            if name == "report":
                told["load_manager"] = _manager(told["report"])
    return PulsarBrokerSample(broker, now(), reachable, problems=tuple(problems), **told)


def _has_none(admin: PulsarAdmin, broker: str, error: PulsarAdminError) -> bool:
    """True if a report is missing because the extensible load manager makes none."""
    if error.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return False
    try:
        return "extensions" in admin.runtime_configuration(broker).get("loadManagerClassName", "")
    except PulsarAdminError as refused:
        # Whoever may not see settings sees it by the answer, which the modular manager does not give.
        return refused.status in REFUSED


def _manager(report: Mapping[str, Any]) -> str:
    return "extensible" if "extensions" in str(report.get("loadManagerClassName")) else "modular"
