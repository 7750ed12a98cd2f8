"""The section `[serve]` of the settings: the policy of a service, and how its process runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from trimtab.model.policy import Freeze, Policy, Window, weekdays
from trimtab_common.documents import Count, Seconds
from trimtab_common.settings import RejectCallback, Section


class NotificationTarget(Struct, frozen=True, forbid_unknown_fields=True):
    """A receiver of notifications.

    Attributes
    ----------
    kind
        `webhook` (JSON, signed), `slack` (a text, as Slack and similar programs take it) or `alertmanager`.
    url
        Address that receives a POST.
    secret_file
        File with the key of the signature of `webhook`; none without a signature.
    """

    kind: Literal["webhook", "slack", "alertmanager"]
    url: str
    secret_file: str = ""


@dataclass(frozen=True, slots=True)
class ServeSettings(Policy):
    """Settings of `trimtab serve`: all of the policy, and these.

    Attributes
    ----------
    clusters
        Names of `[clusters.NAME]`; none: all that the settings name.
    balancers
        Names of balancers; none: `replicas` for Kafka and `bundles` for Pulsar.
    observe
        `watch` reads a lake that others fill. `run` starts `trimtab collect` and `trimtab pipeline stream`.
        `batch` starts `trimtab collect`, and `trimtab pipeline stream --once` every `interval_seconds`: less
        memory between two runs, and older snapshots.
    listen
        Address and port of the API and the pages.
    public_url
        Address of this instance for people and for other instances; none: `http://` and `listen`.
    instance
        Name of this instance in leases and messages; none: host and process.
    token_file
        File of tokens, a line `name role sha256` each; needed for addresses other than the loopback.
    tls_certificate_file, tls_key_file
        PEM files; none: without TLS.
    trusted_proxies
        Addresses whose headers `X-Forwarded-User` and `X-Forwarded-Role` are believed.
    lease_seconds
        Duration of the lease of the deciding instance.
    poll_seconds
        Time between two looks at the lake.
    retained_plans
        Number of plans in the journal that nothing waits for: what-if, withdrawn and executed ones.
    retained_executions
        Number of ended executions in the journal; older ones are removed with their steps and logs. One that
        is stopped, or not measured yet, stays.
    notifications
        Tables `[[serve.notifications]]` with `kind`, `url` and `secret_file`.
    cruise_control
        Whether calls of Cruise Control's REST API are served below `/kafkacruisecontrol`.
    """

    clusters: tuple[str, ...] = ()
    balancers: tuple[str, ...] = ()
    observe: Literal["watch", "run", "batch"] = "watch"
    listen: str = "127.0.0.1:8230"
    public_url: str = ""
    instance: str = ""
    token_file: str = ""
    tls_certificate_file: str = ""
    tls_key_file: str = ""
    trusted_proxies: tuple[str, ...] = ()
    lease_seconds: Seconds = 30.0
    poll_seconds: Seconds = 2.0
    retained_plans: Count = 100
    retained_executions: Count = 100
    notifications: tuple[NotificationTarget, ...] = ()
    cruise_control: bool = False


def _check(settings: ServeSettings, refuse: RejectCallback) -> None:
    _check_policy(settings, refuse)
    host, _, port = settings.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        refuse("listen", settings.listen, "an address and a port like 127.0.0.1:8230")
    if bool(settings.tls_certificate_file) != bool(settings.tls_key_file):
        refuse("tls_key_file", settings.tls_key_file, "both tls_certificate_file and tls_key_file, or none")
    if settings.lease_seconds < 3:
        refuse("lease_seconds", settings.lease_seconds, "at least 3 s: a holder sends three heartbeats in it")
    for number, target in enumerate(settings.notifications, 1):
        address = urlsplit(target.url)
        if address.scheme not in ("http", "https") or not address.hostname or "@" in address.netloc:
            # The address may be a secret, so it is not shown.
            expected = "an address like https://HOST/PATH, without user and password"
            refuse("notifications", f"the url of table {number}", expected)


def _check_policy(policy: Policy, refuse: RejectCallback) -> None:
    for window in policy.windows:
        try:
            weekdays(window.days)
        except ValueError:
            refuse("windows", window.days, "days and ranges of days like mon-fri or sat,sun")
        _check_zone("windows", window, refuse)
    for freeze in policy.freezes:
        if freeze.last < freeze.first:
            refuse("freezes", f"{freeze.first} to {freeze.last}", "a last day that is not before the first")
        _check_zone("freezes", freeze, refuse)
    if policy.drift.end >= policy.drift.begin:
        refuse(
            "drift",
            policy.drift.end,
            f"an end below begin, {policy.drift.begin}: the gap prevents plans without end",
        )
    if policy.max_retry_seconds < policy.retry_seconds:
        refuse(
            "max_retry_seconds", policy.max_retry_seconds, f"at least retry_seconds, {policy.retry_seconds}"
        )


def _check_zone(name: str, one: Window | Freeze, refuse: RejectCallback) -> None:
    try:
        ZoneInfo(one.zone)
    except (ZoneInfoNotFoundError, ValueError):
        refuse(name, one.zone, "a time zone like Europe/Berlin")


SECTION = Section("serve", ServeSettings, check=_check)
