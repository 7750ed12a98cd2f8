"""Spark on executors of their own: processes beside the driver, as on a cluster, each in its own folder."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

WRITER = """
import json, sys
from pathlib import Path
from trimtab.model.errors import ObserveError
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE
from trimtab.observe.spark.session import SessionSettings, spark_session
from trimtab.observe.spark.tables import write_table

cluster = SessionSettings(master="local-cluster[1,1,512]", executor_memory="512m")
session = spark_session(cluster, Path(sys.argv[1]))
rows = session.range(10).selectExpr("timestamp_micros(id) as tick", "id")
found = {}
for name in sys.argv[2:]:
    try:
        found[name] = write_table(rows, Lake(name, PIPELINE), "cleaned").rows
    except ObserveError as error:
        found[name] = str(error)
print(json.dumps(found))
"""


@pytest.mark.long
def test_rows_that_executors_write_elsewhere_are_missed(tmp_path: Path) -> None:
    """`/proc/self/cwd` is another folder for every process, as a local folder is for every machine."""
    import pyspark

    own, shared = "/proc/self/cwd/lake", str(tmp_path / "lake")
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path / "scratch"), own, shared],
        cwd=tmp_path,
        env={**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found[shared] == 10
    assert "wrote 10 rows of table cleaned" in found[own]
    assert "only 0 are there" in found[own]
    assert re.search(r"not the same one for [0-9.]+:\d+\. Nothing was published; give a --lake", found[own])
