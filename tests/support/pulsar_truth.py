"""What became of a plan on Pulsar, by its owners' own word and by what clients sent and read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demos.accuracy import traffic_between
from support.chains import deviation, require_deviations
from trimtab.lab.sandbox.load import SandboxLoad
from trimtab.systems.pulsar.admin import PulsarAdmin


def require_what_clients_did(
    admin: PulsarAdmin,
    printed: str,
    snapshot: Mapping[str, Any],
    load: tuple[SandboxLoad, float, float],
    plan: Path,
) -> None:
    """The map of `status`, its snapshot and the plan's end are what owners say and clients have done.

    Parameters
    ----------
    printed
        By `status`, after the plan was carried out.
    snapshot
        From which it judged.
    load
        Of the clients, with begin and end of a time over which samples of that snapshot were taken.
    plan
        What was carried out.
    """
    owners = {bundle: broker for broker in admin.brokers() for bundle in admin.owned_bundles(broker)}
    for change in json.loads(plan.read_text())["assignments"]:
        assert owners.get(change["bundle"]) == change["after"], change
    for bundle in snapshot["bundles"]:
        assert owners.get(bundle["bundle"]) == bundle["owner"], bundle
    require_deviations(printed, _traffic_deviation(admin, *load))


def _traffic_deviation(
    admin: PulsarAdmin, load: SandboxLoad, begin: float, end: float
) -> dict[str, dict[str, float]]:
    into, out, messages = ({broker: 0.0 for broker in admin.brokers()} for _ in range(3))
    owner: dict[str, str] = {}
    for client, done in traffic_between(load.ticks(), begin, end).items():
        for topic, part in done.items():
            if topic not in owner:
                owner[topic] = admin.topic_owner(topic)
            way = into if client == "producer" else out
            way[owner[topic]] += part.bytes
            messages[owner[topic]] += part.records
    return {
        "bandwidth in": deviation(into),
        "bandwidth out": deviation(out),
        "message rate": deviation(messages),
    }
