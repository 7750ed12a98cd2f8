"""Spark by Spark Connect: a session on a server, whose client has no Spark of its own.

Batch over history works over it. A stream does not: the server would work micro-batches in a Python of its
own, which goes on when the process that holds the writer lock is gone.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trimtab.model.errors import ObserveError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

SCHEME: Final = "sc://"
PORT: Final = 15002
"""Of a server whose address names none."""

_TABLE_PARALLELISM: Final = 4
"""Tables that are made at the same time on a server, which does not tell its cores."""


def is_connected(session: SparkSession) -> bool:
    """True if a session is that of a client of Spark Connect."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def connect_session(address: str, options: Mapping[str, str], request: Mapping[str, str]) -> SparkSession:
    """The session of a server.

    Parameters
    ----------
    address
        Of the server, as `sc://host:15002`.
    options
        Settings of queries; those that only a server can set, when it starts, are left as it has them.
    request
        Settings that its user asks for. What is Hadoop's goes by Hadoop's own names.

    Raises
    ------
    ObserveError
        If the server cannot be reached, the client's packages are missing, or it refuses what was asked for.
    """
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import SparkSession

    place = urlsplit(address)
    try:
        # Its client would try again for ten minutes.
        socket.create_connection((place.hostname or "", place.port or PORT), timeout=10).close()
        session = SparkSession.builder.remote(address).getOrCreate()
        changeable = {name: value for name, value in options.items() if session.conf.isModifiable(name)}
    except (OSError, ImportError, ValueError, PySparkException) as error:
        raise ObserveError(
            f"Spark Connect at {address} does not answer: {str(error).splitlines()[0]}; see that the server "
            "runs, is of this version of Spark, and that its client is installed here: pip install "
            "'pyspark[connect]'"
        ) from None
    for name, value in {**changeable, **request}.items():
        try:
            session.conf.set(name.removeprefix("spark.hadoop."), value)
        except AnalysisException:
            raise ObserveError(
                f"spark.conf {name} cannot be set over Spark Connect: set it where the server is started"
            ) from None
    return session


def table_parallelism(session: SparkSession) -> int:
    """How many tables to make at the same time."""
    return _TABLE_PARALLELISM if is_connected(session) else session.sparkContext.defaultParallelism


def require_classic_spark(session: SparkSession) -> None:
    """Refuse a stream over Spark Connect.

    Raises
    ------
    ObserveError
        With what to do instead.
    """
    if is_connected(session):
        raise ObserveError(
            f"a stream cannot run over Spark Connect ({SCHEME}...): the server would go on with it when this "
            "process is gone; run `trimtab pipeline stream` by spark-submit, or with --master of the cluster"
        )
