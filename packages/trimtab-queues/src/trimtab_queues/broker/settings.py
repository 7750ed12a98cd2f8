"""Arguments of a broker out of the settings file that commands read."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trimtab_common.errors import SettingsError
from trimtab_common.settings import read_unchecked
from trimtab_queues.core.catalogue import DispatchInputs, policy_named
from trimtab_queues.format.address import full_address
from trimtab_queues.format.settings import SECTION, QueuesSettings

CLUSTERS: Final = "clusters"
"""The table with a table for each cluster; commands read it too."""
SCHEMES: Final = ("redis://", "rediss://", "redis+cluster://")


def broker_arguments(
    file: Path | None, environ: Mapping[str, str], cluster: str | None = None
) -> dict[str, Any]:
    """Arguments of `BalancedBroker` from the settings: `[queues]` and a server in `[clusters.NAME]`.

    Parameters
    ----------
    cluster
        The name of the server, if the settings name several.

    Raises
    ------
    SettingsError
        If the file or a value in these tables is wrong, or several servers are named and none is chosen.
    """
    read = read_unchecked(file, (), environ, {SECTION.name: SECTION, CLUSTERS: None}, lambda fault: None)
    settings: QueuesSettings = read.bound(SECTION)
    server = _server(read.table(CLUSTERS), cluster)
    weights = sorted(settings.weights.values())
    given = DispatchInputs(random.Random().random, tuple((one, 1.0) for one in weights))
    found: dict[str, Any] = {
        "queues": settings.queues,
        "capacity": settings.capacity,
        "policy": lambda ledger: policy_named(settings.policy, ledger, given),
        "weights": settings.weights,
        "default_weight": settings.default_weight,
        "scheduling": settings.scheduling,
        "enqueue_timeout_seconds": None
        if settings.enqueue_timeout_seconds < 0
        else settings.enqueue_timeout_seconds,
        "heartbeat_timeout_seconds": settings.heartbeat_timeout_seconds,
        "max_worker_crashes": settings.max_worker_crashes,
        "hang_timeout_seconds": settings.hang_timeout_seconds,
        "max_overtake_seconds": settings.max_overtake_seconds,
        "slots": settings.slots,
        "max_async_tasks": settings.max_async_tasks,
    }
    if server:
        password = server.get("password")
        if password is None and "password_file" in server:
            try:
                password = (
                    (read.folder / str(server["password_file"])).read_text(encoding="utf-8").rstrip("\r\n")
                )
            except OSError as error:
                raise SettingsError(f"password_file cannot be read: {error}; correct it") from error
        files = {
            option: read.folder / str(server[key])
            for key, option in {
                "tls_ca": "ssl_ca_certs",
                "tls_certificate": "ssl_certfile",
                "tls_key": "ssl_keyfile",
            }.items()
            if key in server
        }
        found["url"] = full_address(
            str(server["address"]), None if password is None else str(password), **files
        )
        found["name"] = str(server.get("name", "queues"))
    return found


def _server(clusters: Mapping[str, Any], name: str | None) -> Mapping[str, Any]:
    """The table of the server that is chosen, or of the only one; empty if there is none."""
    servers = {
        one: table
        for one, table in clusters.items()
        if isinstance(table, dict) and str(table.get("address", "")).startswith(SCHEMES)
    }
    if name is not None and name not in servers:
        raise SettingsError(
            f"cluster {name!r} is none of the servers in [clusters.NAME]: {', '.join(servers) or 'none'}"
        )
    if name is None and len(servers) > 1:
        raise SettingsError(f"the settings name several servers: pass cluster= {' or '.join(servers)}")
    return servers[name] if name is not None else next(iter(servers.values()), {})
