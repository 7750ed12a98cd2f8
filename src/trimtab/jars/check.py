"""The means of the pipeline on this machine: Java, and the packages of an extra."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from trimtab.extras import MissingExtraError, require
from trimtab.jars.java import find_java
from trimtab.model.errors import JarsError
from trimtab.model.finding import Finding, fine, missing

PART = "pipeline"


def spark_findings() -> Iterator[Finding]:
    """Java and Spark: without them plans are made from snapshot files alone."""
    try:
        java = find_java("the pipeline")
        yield fine(PART, "Java", f"{java.version}, {java.program}")
    except JarsError as error:
        yield missing(PART, "Java", str(error))
    try:
        require("spark")
        yield fine(PART, "Spark", f"pyspark {version('pyspark')}")
    except MissingExtraError as error:
        yield missing(PART, "Spark", str(error))
