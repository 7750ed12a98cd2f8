"""A standalone cluster of Spark on this machine: a master and workers that share no folder of work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from trimtab.observe.spark.session import start_options

PATIENCE_SECONDS = 240.0

# As short a start as there is, for JVMs that live for a minute.
FAST_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m" + start_options()


@dataclass
class Worker:
    """A worker, with the executors that it starts.

    Attributes
    ----------
    folder
        Its own folder: of work and of spill.
    """

    process: subprocess.Popen[bytes]
    folder: Path

    def kill(self) -> None:
        """End it and its executors with -9."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster.

    Attributes
    ----------
    master
        Its address.
    workers
        Of one core each.
    """

    master: str
    workers: tuple[Worker, ...]


@contextmanager
def spark_cluster(
    folder: Path, environments: tuple[Mapping[str, str], ...] = ({}, {})
) -> Iterator[SparkCluster]:
    """Run a master, and a worker for each of some environments."""
    with ExitStack() as stack:
        master = stack.enter_context(_daemon("Master", folder / "master", "--port", "0"))
        address = _said(master, r"Starting Spark master at (spark://\S+)")
        workers = [
            stack.enter_context(
                _daemon(
                    "Worker", folder / f"worker-{number}", "--cores", "1", "--memory", "1g",
                    "--work-dir", str(folder / f"worker-{number}" / "work"), address, own=own,
                )
            )
            for number, own in enumerate(environments)
        ]  # fmt: skip
        for worker in workers:
            _said(worker, "Successfully registered with master")
        yield SparkCluster(address, tuple(workers))


@contextmanager
def _daemon(kind: str, folder: Path, *words: str, own: Mapping[str, str] | None = None) -> Iterator[Worker]:
    import pyspark

    home = Path(pyspark.__file__).parent
    folder.mkdir(parents=True)
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": f"{FAST_START} -Dspark.master.rest.enabled=false",
        **(own or {}),
    }
    command: list[str | Path] = [
        home / "bin" / "spark-class",
        f"org.apache.spark.deploy.{kind.lower()}.{kind}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--webui-port", "0", *words],
            cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    worker = Worker(process, folder)
    try:
        yield worker
    finally:
        if process.poll() is None:
            worker.kill()


def _said(daemon: Worker, pattern: str) -> str:
    """What a daemon's log says, as soon as it does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := re.search(pattern, log := (daemon.folder / "log").read_text())):
        assert daemon.process.poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.1)
    return found[found.lastindex or 0]


if __name__ == "__main__":
    # For trials by hand: `python tests/support/spark_cluster.py FOLDER`, ended by Ctrl-C.
    with spark_cluster(Path(sys.argv[1])) as one:
        print(one.master, flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
