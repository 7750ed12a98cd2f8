"""Errors of Spark's as people can read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trimtab.model.errors import ObserveError


def spark_reason(error: BaseException) -> str:
    """What an error of Spark's says, in a line, without the stacks of two languages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (told or lines or [type(error).__name__])[-1 if told else 0].removeprefix("Caused by: ")[:500]


@contextmanager
def translate_spark_errors(what: str) -> Iterator[None]:
    """An error of Spark's inside becomes an `ObserveError` of one line: `what`, and the reason."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise ObserveError(f"{what}: {spark_reason(error)}") from None
