"""What several commands share: where the lake is, which settings hold, how to reach the cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trimtab.model.errors import InputError, SettingsError

if TYPE_CHECKING:
    import datetime

    from trimtab.connect.pulsar_settings import PulsarConnection
    from trimtab.connect.settings import KafkaConnection
    from trimtab.files.settings import Settings

LAKE = typer.Option(
    None, "--lake", help="Folder of telemetry; by default $TRIMTAB_LAKE, else ~/.local/share/trimtab/lake."
)
SETTINGS = typer.Option(None, "--settings", help="Settings file; by default trimtab.toml here, if there.")
SET = typer.Option([], "--set", help="One setting, as section.key=value; may be repeated.")
BOOTSTRAP = typer.Option(
    None, "--bootstrap", help="Brokers to begin with, as host:port,host:port; goes before kafka.bootstrap."
)
PULSAR_ADMIN = typer.Option(
    None,
    "--pulsar-admin",
    help="Web addresses of Pulsar's brokers to begin with, as http://host:8080; goes before pulsar.admin.",
)
TOKEN_FILE = typer.Option(
    None, "--token-file", help="A file with the token to show to Pulsar; goes before pulsar.token_file."
)
CLUSTER = typer.Option(None, "--cluster", help="Which cluster, where the lake holds several.")


def read_settings(file: Path | None, overrides: list[str]) -> Settings:
    """The settings in force: defaults, file, environment, `--set`."""
    from trimtab.files.settings import load_settings

    return load_settings(file, overrides, os.environ)


def kafka_connection(settings: Settings, bootstrap: str | None) -> KafkaConnection:
    """How to reach the cluster: the `[kafka]` table, with `--bootstrap` before its own."""
    from trimtab.connect.settings import connection_from_table

    table = settings.table("kafka", ("user", "password"))
    if bootstrap is not None:
        table["bootstrap"] = bootstrap
    return connection_from_table(table, os.environ, settings.folder)


def pulsar_connection(
    settings: Settings, admin: str | None, token_file: Path | None = None
) -> PulsarConnection:
    """How to reach a Pulsar cluster: the `[pulsar]` table, with what the options say before its own."""
    from trimtab.connect.pulsar_settings import pulsar_connection_from_table

    table = settings.table("pulsar", ("token",))
    if admin is not None:
        table["admin"] = admin
    if token_file is not None:
        table.pop("token", None)
        table["token_file"] = str(token_file.absolute())
    return pulsar_connection_from_table(table, os.environ, settings.folder)


def is_pulsar(settings: Settings, bootstrap: str | None, admin: str | None) -> bool:
    """Whether a Pulsar cluster is meant, not one of Kafka: by the options given, or else by the settings.

    Raises
    ------
    SettingsError
        If the settings name both, and no option says which.
    """
    if admin is not None or bootstrap is not None:
        return admin is not None
    names = {name: "admin" if name == "pulsar" else "bootstrap" for name in ("kafka", "pulsar")}
    named = [name for name, key in names.items() if settings.table(name).get(key) is not None]
    if len(named) > 1:
        raise SettingsError(
            "the settings name a Kafka cluster (kafka.bootstrap) and a Pulsar cluster (pulsar.admin): say "
            "which one with --bootstrap or --pulsar-admin"
        )
    return named == ["pulsar"]


def lake_path(given: Path | None) -> Path:
    """The lake's folder, given or by default."""
    from trimtab.files.places import lake_folder

    return lake_folder() if given is None else given


def instant(option: str, text: str | None) -> datetime.datetime | None:
    """An instant that somebody wrote; without a zone it is UTC."""
    import datetime

    if text is None:
        return None
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{option} is {text!r}: write a time as 2026-11-21T05:00 (UTC)") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def table_width() -> int:
    """Columns for a wide table: those of the terminal, but not so few that figures would be cut off."""
    import shutil
    import sys

    return max(shutil.get_terminal_size().columns, 108) if sys.stdout.isatty() else 120
