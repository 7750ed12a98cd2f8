"""`trimtab queues`: list, show and re-queue dead letters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trimtab.balancers.systems import REDIS
from trimtab.cli.commands import CLUSTER, JSON, SET, SETTINGS, command_context
from trimtab_common.errors import InputError, TrimtabError

if TYPE_CHECKING:
    from trimtab.systems.redis.client import DeadLetter, QueueServerClient

app = typer.Typer(
    add_completion=False,
    help="List, show and re-queue dead letters: messages that were given up after worker crashes.",
    no_args_is_help=True,
)


@app.command("dead-letters")
def dead_letters(
    as_json: bool = JSON,
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    cluster: str | None = CLUSTER,
) -> None:
    """List the dead letters with the number of worker crashes of each."""
    from trimtab.report.tables import table_lines

    with _server(settings, overrides, cluster) as server:
        found = server.dead_letters()
    if as_json:
        typer.echo(json.dumps([_document(one) for one in found], indent=1))
    elif found:
        rows = [("id", "task", "class", "key", "weight", "deaths", "given up")]
        rows += [
            (
                one.id,
                one.task_id,
                one.class_name,
                one.affinity_key or "-",
                f"{one.weight:g} s",
                str(len(one.deaths)),
                _instant(one.deaths[-1][1]) if one.deaths else "-",
            )
            for one in found
        ]
        typer.echo("\n".join(table_lines(rows, "llllrrl")))
    else:
        typer.echo("no dead letters")


@app.command("show")
def show(
    letter: str = typer.Argument(..., metavar="ID", help="Id in the list."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    cluster: str | None = CLUSTER,
) -> None:
    """Show one dead letter as JSON: arguments, labels, and each worker that crashed with it."""
    with _server(settings, overrides, cluster) as server:
        (found,) = _chosen(server.dead_letters(), [letter])
    typer.echo(json.dumps(_document(found), indent=1))


@app.command("requeue")
def requeue(
    letters: list[str] = typer.Argument(None, metavar="[ID]...", help="Ids in the list."),
    every: bool = typer.Option(False, "--all", help="All dead letters."),
    settings: Path | None = SETTINGS,
    overrides: list[str] = SET,
    cluster: str | None = CLUSTER,
) -> None:
    """Enqueue dead letters again, behind waiting messages of their keys; resets the crash count.

    Exit code 1: another command took some of them meanwhile; the others are in a queue.
    """
    if bool(letters) == every:
        raise InputError("requeue takes the ids of dead letters, or --all: write one of the two")
    with _server(settings, overrides, cluster) as server:
        found = server.dead_letters()
        chosen = found if every else _chosen(found, letters)
        gone = []
        for one in chosen:
            if server.requeue(one):
                typer.echo(f"{one.id} {one.class_name} re-queued")
            else:
                gone.append(one.id)
    if gone:
        raise TrimtabError(
            f"{', '.join(gone)}: no dead letter any more, {len(gone)} of {len(chosen)} were not re-queued; "
            f"another command was faster: trimtab queues dead-letters lists what is left"
        )


@contextmanager
def _server(settings: Path | None, overrides: list[str], cluster: str | None) -> Iterator[QueueServerClient]:
    from trimtab.systems.redis.client import open_server

    where = command_context(None, settings, overrides, cluster)
    with open_server(where.connection(REDIS, where.read())) as server:
        yield server


def _chosen(found: Sequence[DeadLetter], names: Sequence[str]) -> list[DeadLetter]:
    by_id = {one.id: one for one in found}
    for name in names:
        if name not in by_id:
            raise InputError(
                f"{name} is none of the {len(found)} dead letters: trimtab queues dead-letters lists them"
            )
    return [by_id[name] for name in dict.fromkeys(names)]


def _document(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "task_id": letter.task_id,
        "class": letter.class_name,
        "affinity_key": letter.affinity_key or None,
        "weight_seconds": letter.weight,
        "queue": letter.queue,
        "deaths": [{"worker": worker, "at": _instant(at)} for worker, at in letter.deaths],
        "message": _message(letter.body),
    }


def _message(body: bytes) -> Any:
    """What taskiq has written, which is JSON unless a program has another formatter."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="backslashreplace")


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
