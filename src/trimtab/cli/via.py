"""Bodies of `status`, `plan`, `apply` and `execution` with `--via`: the same commands against a service."""

from __future__ import annotations

import hashlib
import re
import sys
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
import typer

from trimtab.balancers import Balancer
from trimtab.balancers.balancer import OptionValues
from trimtab.cli.status import ProgressLine
from trimtab.model.text import bytes_text, clock_text, duration_text
from trimtab.report.formats import fitted, print_progress, warn
from trimtab.report.tables import table_lines
from trimtab.serve.client import PLAN_SECONDS, ServiceClient, path_of, read_token
from trimtab.serve.documents import ExecutionDetail, ExecutionRecord, PlanRecord, TargetStatus
from trimtab_common.errors import InputError, TrimtabError
from trimtab_common.settings import SettingValue

POLL_SECONDS = 1.0
START_SECONDS = 120.0
"""Time in which an approved plan begins, unless the service waits for a window, a budget or a person."""
CHANGE_SECONDS = 15.0
"""Time in which the service begins to carry out a request that it has accepted."""
COMPLETE = frozenset({"balanced", "improved"})
"""Verdicts for which `trimtab plan` returns 0."""


def client_of(url: str, token_file: Path | None) -> ServiceClient:
    """The client of a service, with the token of a file or of the environment."""
    return ServiceClient(url, read_token(token_file))


def reject_local_options(**values: object) -> None:
    """Refuse options that concern this machine, where the service acts.

    Raises
    ------
    InputError
        If one of them is given.
    """
    given = [name for name, value in values.items() if value not in (None, False, [])]
    if given:
        raise InputError(
            f"--{given[0].replace('_', '-')} is not for --via: the service uses its own settings, lake and "
            "clusters; leave it out"
        )


def status(client: ServiceClient, cluster: str | None, *, as_json: bool) -> None:
    """Body of `trimtab status --via`: verdict of each balancer, and what it waits for."""
    found = client.get("clusters", list[TargetStatus])
    if cluster is not None:
        found = [one for one in found if one.cluster == cluster]
        if not found:
            raise InputError(
                f"--cluster is {cluster}, which the service does not have; leave it out to list all"
            )
    if as_json:
        _print_document(found)
    else:
        print(fitted("\n\n".join(map(_target_text, found)), sys.stdout))


def _target_text(one: TargetStatus) -> str:
    lines = [f"{one.cluster}/{one.balancer}: {one.verdict.replace('_', ' ')}"]
    if one.snapshot_taken_at is not None:
        lines[0] += f", by the snapshot of {clock_text(one.snapshot_taken_at)}"
    cells = [("resource", "mean", "peak", "on", "deviation", "on", "limit")]
    cells += [
        (
            row.resource,
            _percent(row.mean),
            _percent(row.peak),
            row.peak_broker,
            _percent(row.deviation),
            row.deviation_broker,
            _percent(row.limit),
        )
        for row in one.resources
    ]
    lines += table_lines(cells, "lrrlrlr") if one.resources else []
    until = f" Next look: {clock_text(one.waiting.until)}." if one.waiting.until is not None else ""
    lines.append(f"  waits: {one.waiting.reason}{until}")
    if one.waiting.remedy:
        lines.append(f"  remedy: {one.waiting.remedy}")
    if one.pause is not None:
        lines.append(f"  paused by {one.pause.by} since {clock_text(one.pause.since)}: {one.pause.reason}")
    if one.plan is not None:
        lines.append(f"  plan {one.plan.digest[:12]}: {one.plan.state}, {_plan_text(one.plan)}")
    if one.execution is not None:
        number, state = one.execution.number, one.execution.status
        lines.append(f"  execution {number}: {state}, {one.execution.progress}")
    lines.append("  mode: " + ", ".join(f"{trigger} {mode}" for trigger, mode in one.modes.items()))
    lines += [f"  problem: {text}" for text in one.problems]
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _plan_text(plan: PlanRecord) -> str:
    bound = "" if plan.bound_bytes is None else f" (at least {bytes_text(plan.bound_bytes)})"
    return f"{plan.verdict}, {plan.moves} moves, {bytes_text(plan.bytes)}{bound}"


def plan(
    client: ServiceClient,
    balancer: Balancer,
    cluster: str | None,
    overrides: list[str],
    values: OptionValues,
    out: Path | None,
    form: str,
    *,
    all_moves: bool,
    detailed: bool,
) -> None:
    """Body of `trimtab plan BALANCER --via`: the service makes a plan, which changes nothing."""
    if form not in ("text", "json"):
        raise InputError(
            f"--format {form} is not for --via: write the plan with --out, then `trimtab plan show`"
        )
    body = {
        "cluster": cluster_of(client, balancer.name, cluster),
        "balancer": balancer.name,
        "settings": _settings(balancer, overrides, values),
    }
    made = client.post("plans", PlanRecord, body, PLAN_SECONDS)
    if out is not None:
        out.write_bytes(client.read(path_of("plans", made.digest, "file")))
    if form == "json":
        _print_document(made)
    else:
        sys.stdout.write(fitted(_text_of(client, made, all_moves=all_moves), sys.stdout))
        print_progress(f"plan {made.digest[:12]} is held by the service; nothing has changed")
    for problem in made.problems:
        warn(problem)
    if out is not None:
        print_progress(f"plan written to {out}")
    if made.verdict not in COMPLETE:
        raise typer.Exit(3)
    if detailed and made.moves:
        raise typer.Exit(4)


def cluster_of(client: ServiceClient, balancer: str, cluster: str | None) -> str:
    """The cluster that is chosen, or the only one of the service with this balancer.

    Raises
    ------
    InputError
        If none is chosen and there is not one.
    """
    if cluster is not None:
        return cluster
    found = [one.cluster for one in client.get("clusters", list[TargetStatus]) if one.balancer == balancer]
    if len(found) != 1:
        raise InputError(
            f"the service balances {balancer} of {len(found)} clusters: "
            + (f"choose one with --cluster {' or '.join(found)}" if found else "choose another balancer")
        )
    return found[0]


def _settings(balancer: Balancer, overrides: list[str], values: OptionValues) -> dict[str, object]:
    """Options and words of `--set` as settings of the balancer, by key."""
    section = balancer.settings().name
    found: dict[str, object] = {}
    for word in overrides:
        name, is_set, text = word.partition("=")
        place, _, key = name.strip().partition(".")
        if not is_set or place != section or not key:
            raise InputError(f"--set {word}: with --via only {section}.KEY=VALUE is possible")
        found[key] = SettingValue(text.strip(), "--set", as_text=True).plain
    for option in balancer.plan_options:
        value = values.get(option.name)
        if value in (None, False, []):
            continue
        place, _, key = (option.setting or "").partition(".")
        if place != section or option.table:
            raise InputError(f"{option.flag} is not for --via; leave it out")
        found[key] = value
    return found


def _text_of(client: ServiceClient, one: PlanRecord, *, all_moves: bool = False) -> str:
    moves = "all" if all_moves else "some"
    return client.read(path_of("plans", one.digest, "text"), moves=moves).decode()


def apply(client: ServiceClient, path: Path, *, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Body of `trimtab apply --via`: have the service execute a plan that it holds, and follow it.

    The plan is named by its file, or by the first 8 or more characters of its digest.
    """
    digest = str(path)
    if path.is_file():
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    elif not re.fullmatch(r"[0-9a-f]{8,64}", digest):
        raise InputError(
            f"{path} is neither a plan file nor the digest of a plan; GET /api/v1/plans lists the plans"
        )
    held = client.get(path_of("plans", digest), PlanRecord)
    shown = _text_of(client, held)
    shown = f"plan for {held.cluster}, held by the service as {held.digest[:12]}:\n{shown}"
    print(fitted(shown, sys.stderr), file=sys.stderr)
    if dry_run:
        if as_json:
            _print_document(held)
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("no person is there to confirm: add --yes to have the plan executed")
        if not typer.confirm("execute it?", default=False, err=True):
            raise typer.Exit(1)
    applied = client.post(path_of("plans", held.digest, "apply"), PlanRecord)
    with_progress = ProgressLine()
    deadline = time.monotonic() + START_SECONDS
    try:
        while applied.execution is None:
            if applied.state not in ("approved", "executing", "executed"):
                raise InputError(f"plan {held.digest[:12]} is {applied.state}: {applied.state_reason}")
            if time.monotonic() >= deadline:
                raise _start_error(client, applied)
            with_progress.show(f"{applied.state}: {applied.state_reason}")
            time.sleep(POLL_SECONDS)
            applied = client.get(path_of("plans", held.digest), PlanRecord)
        ended = _followed(client, applied.cluster, applied.execution, with_progress)
    except KeyboardInterrupt:
        with_progress.print_line("the service goes on; `trimtab execution stop --via` stops it")
        raise typer.Exit(1) from None
    finally:
        with_progress.close()
    _print_ended(ended, {"finished"}, as_json=as_json)


def _start_error(client: ServiceClient, plan: PlanRecord) -> TrimtabError:
    found = client.get("clusters", list[TargetStatus])
    waits = [one.waiting for one in found if (one.cluster, one.balancer) == (plan.cluster, plan.balancer)]
    reason = "".join(f"; the service waits: {one.reason}" for one in waits)
    until = "".join(f", until {clock_text(one.until)}" for one in waits if one.until is not None)
    return TrimtabError(
        f"plan {plan.digest[:12]} is {plan.state} and has not begun within {START_SECONDS:.0f} s{reason}"
        f"{until}. The service begins it later by itself: see `trimtab execution list --via`"
    )


def _followed(
    client: ServiceClient, cluster: str, number: int, line: ProgressLine, before: str = ""
) -> ExecutionRecord:
    """The execution when it has ended; shows its progress until then.

    The service carries out a request in a thread of its own, and resumes an interrupted execution itself.
    The status `before` the request and `interrupted` therefore count as an end after `CHANGE_SECONDS` only.
    """
    path = path_of("clusters", cluster, "executions", number)
    deadline = time.monotonic() + CHANGE_SECONDS
    while True:
        one = client.get(path, ExecutionDetail).execution
        if one.status != before:
            before = ""
        if one.status == "running":
            deadline = time.monotonic() + CHANGE_SECONDS
        elif one.status not in (before, "interrupted") or time.monotonic() >= deadline:
            return one
        line.show(f"execution {number}: {one.progress}")
        time.sleep(POLL_SECONDS)


def _print_ended(one: ExecutionRecord, statuses: set[str], *, as_json: bool) -> None:
    if as_json:
        _print_document(one)
    else:
        print(fitted(_execution_line(one), sys.stdout))
    if one.status not in statuses:
        raise typer.Exit(1)


def _execution_line(one: ExecutionRecord) -> str:
    text = (
        f"execution {one.number} on {one.cluster}: {one.status}, {one.steps_done} of {one.steps} steps done"
    )
    if one.steps_failed:
        text += f", {one.steps_failed} failed"
    if one.bytes_total:
        text += f", {bytes_text(one.bytes_done)} of {bytes_text(one.bytes_total)} copied"
    if one.ended_at is not None:
        text += f", in {duration_text(one.ended_at - one.started_at)}"
    return f"{text}. {one.effect_text}".strip() if one.effect_text else text


def list_executions(client: ServiceClient, *, as_json: bool) -> None:
    """Body of `trimtab execution list --via`: executions of the service, newest first."""
    found = client.get("executions", list[ExecutionRecord], limit=1000)
    if as_json:
        _print_document(found)
        return
    cells = [("id", "balancer", "cluster", "begun", "status", "by", "effect")]
    cells += [
        (
            str(one.number),
            one.balancer,
            one.cluster,
            clock_text(one.started_at),
            one.status,
            one.approved_by,
            one.effect,
        )
        for one in found
    ]
    print("\n".join(table_lines(cells, "lllllll", indent="")) if found else "no executions")


def _chosen(client: ServiceClient, number: int | None, cluster: str | None) -> ExecutionRecord:
    """The execution with a number, or the newest one."""
    if number is None:
        found = client.get("executions", list[ExecutionRecord], cluster=cluster, limit=1)
    else:
        names = {cluster} if cluster else {one.cluster for one in client.get("clusters", list[TargetStatus])}
        found = [one for name in sorted(names) for one in _numbered(client, name, number)]
    if not found:
        raise InputError("the service has no such execution; list them by `trimtab execution list --via`")
    if len(found) > 1:
        clusters = " or ".join(one.cluster for one in found)
        raise InputError(f"several clusters have an execution {number}: choose --cluster {clusters}")
    return found[0]


def _numbered(client: ServiceClient, cluster: str, number: int) -> list[ExecutionRecord]:
    """The execution of a cluster with a number; empty where there is none."""
    try:
        return [client.get(path_of("clusters", cluster, "executions", number), ExecutionDetail).execution]
    except InputError:
        return []


def show(client: ServiceClient, number: int | None, cluster: str | None, *, as_json: bool) -> None:
    """Body of `trimtab execution show --via`: one execution with its steps."""
    one = _chosen(client, number, cluster)
    detail = client.get(path_of("clusters", one.cluster, "executions", one.number), ExecutionDetail)
    if as_json:
        _print_document(detail)
        return
    lines = [
        _execution_line(detail.execution),
        f"  begun {clock_text(one.started_at)}, approved by {one.approved_by}, trigger {one.trigger}",
    ]
    lines += [
        f"  {step.state:<9} {step.text}{f' ({step.reason})' if step.reason else ''}" for step in detail.steps
    ]
    print(fitted("\n".join(lines), sys.stdout))


def request(
    client: ServiceClient,
    name: Literal["resume", "stop", "cancel"],
    number: int | None,
    cluster: str | None,
    *,
    as_json: bool,
) -> None:
    """Body of `trimtab execution resume`, `stop` and `cancel` with `--via`: request it, then follow it."""
    one = _chosen(client, number, cluster)
    client.post(path_of("clusters", one.cluster, "executions", one.number, name), ExecutionRecord)
    line = ProgressLine()
    before = "" if name == "stop" else one.status
    try:
        ended = _followed(client, one.cluster, one.number, line, before)
    finally:
        line.close()
    allowed = {"resume": {"finished"}, "stop": {"finished", "stopped"}, "cancel": {"finished", "cancelled"}}
    _print_ended(ended, allowed[name] | ({"cancelled"} if name == "stop" else set()), as_json=as_json)


def change_throttle(
    client: ServiceClient, throttle: str, number: int | None, cluster: str | None, *, as_json: bool
) -> None:
    """Body of `trimtab execution throttle --via`: change the throttle of a running execution."""
    try:
        bytes_per_second = float(throttle)
    except ValueError:
        raise InputError(f"THROTTLE is {throttle}: with --via give bytes per second, like 20000000") from None
    one = _chosen(client, number, cluster)
    path = path_of("clusters", one.cluster, "executions", one.number, "throttle")
    changed = client.post(path, ExecutionRecord, {"bytes_per_second": bytes_per_second})
    if as_json:
        return _print_document(changed)
    print(f"execution {changed.number} on {changed.cluster}: {bytes_text(bytes_per_second)}/s per broker")


def _print_document(document: Any) -> None:
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
