"""A PostgreSQL server of its own, for marks that consumers share."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from trimtab.lab.sandbox.processes import free_ports
from trimtab.model.errors import SandboxError

START_SECONDS: Final = 60.0


@contextmanager
def postgres_server(*options: str) -> Iterator[str]:
    """A server in a temporary folder; started by root, it runs as the user `postgres`, since it refuses root.

    Parameters
    ----------
    options
        Further arguments of `postgres`.

    Yields
    ------
    str
        The connection string.

    Raises
    ------
    SandboxError
        If PostgreSQL is not installed, or does not start.
    """
    initdb = shutil.which("initdb")
    if initdb is None:
        raise SandboxError("initdb is not on the PATH: install PostgreSQL, or add its bin folder to PATH")
    programs = Path(initdb).resolve()
    # A folder that the other user may enter.
    with tempfile.TemporaryDirectory() as temporary:
        folder, (port,) = Path(temporary), free_ports(1)
        run: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": folder}
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
            run |= {"user": "postgres", "group": "postgres"}
        data = folder / "data"
        made = subprocess.run(
            [programs, "-D", data, "-A", "trust", "-U", "t", "-N"], check=False, text=True, **run
        )
        if made.returncode:
            raise SandboxError(f"initdb failed, and no PostgreSQL server is started: {made.stderr.strip()}")
        listen = ("-p", str(port), "-h", "127.0.0.1", "-k", "")
        server = subprocess.Popen(
            [programs.with_name("postgres"), "-D", data, *listen, *options],
            **run | {"stderr": subprocess.DEVNULL},
        )
        try:
            _wait_until_ready(programs.with_name("pg_isready"), port, server)
            yield f"host=127.0.0.1 port={port} user=t dbname=postgres"
        finally:
            server.terminate()
            server.wait(30)


def _wait_until_ready(program: Path, port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while subprocess.run([program, "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
        if server.poll() is not None or time.monotonic() > until:
            raise SandboxError(f"PostgreSQL does not answer at port {port} within {START_SECONDS:g} s")
        time.sleep(0.1)
