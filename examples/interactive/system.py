"""All processes of the system on this machine: one that dies is started again."""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from redis import Redis

from trimtab.lab.sandbox.processes import SandboxProcess, end, free_ports, kill, running, spawn
from trimtab.lab.sandbox.queues.sandbox import RedisServerProcess
from trimtab.model.errors import SandboxError

FOLDER = Path(__file__).parent
PATIENCE_SECONDS = 60.0
SCHEDULER = "scheduler"


class System:
    """Server, gateway (which dispatches) and workers.

    Parameters
    ----------
    folder
        Where the server's files and the logs lie.
    rules
        The rule file.
    workers
        Worker processes, each with a queue of its own.
    port
        Of the gateway, on 127.0.0.1; a free one if None.

    Attributes
    ----------
    started
        How often each part was started.
    """

    def __init__(self, folder: Path, rules: Path, workers: int = 2, port: int | None = None) -> None:
        self.folder, self.started = folder, Counter[str]()
        self.server = RedisServerProcess(folder / "server")
        self.port = free_ports(1, without=[self.server.port])[0] if port is None else port
        server = ["--url", self.server.url, "--queues", str(workers)]
        self._commands = {
            "gateway": ["interactive.gateway", *server, "--port", str(self.port), "--rules", str(rules)],
            **{f"worker {one}": ["interactive.processing", *server] for one in range(1, workers + 1)},
        }
        self.parts: dict[str, SandboxProcess] = {}
        try:
            self.tend()
            self.wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Of the gateway."""
        return f"http://127.0.0.1:{self.port}"

    def tend(self) -> None:
        """Start what is not there."""
        if self.server.process is None or not running(self.server.process):
            self.server.start()
        for name, command in self._commands.items():
            if name not in self.parts or not running(self.parts[name]):
                self.started[name] += 1
                self.parts[name] = self._spawn(name, command)

    def kill(self, name: str) -> None:
        """Kill -9 a part, and start it again; the scheduler is the worker that has the lease.

        Raises
        ------
        SandboxError
            If nobody has the lease.
        """
        if name == "server":
            assert self.server.process is not None
            kill([self.server.process])
        else:
            part = self.scheduler() if name == SCHEDULER else name
            if part is None:
                raise SandboxError("nobody schedules: there is no lease")
            kill([self.parts[part]])
        self.tend()

    def works(self, name: str) -> bool:
        """Whether a worker has a queue by now, and somebody the lease; other parts, whether they run."""
        if name == SCHEDULER:
            return self.scheduler() is not None
        if not name.startswith("worker"):
            return True
        with Redis.from_url(self.server.url, decode_responses=True) as client:
            counts = client.hgetall("{trimtab:interactive}:counts")
        owners = [value for key, value in counts.items() if key.startswith("owner:")]
        return any(f":{self.parts[name].pid}:" in one for one in owners)

    def scheduler(self) -> str | None:
        """The worker that schedules now; None while nobody does."""
        with Redis.from_url(self.server.url, decode_responses=True) as client:
            holder = client.get("{trimtab:interactive}:lease") or ""
        return next((name for name, part in self.parts.items() if f":{part.pid}:" in holder), None)

    def names(self) -> list[str]:
        """Everything that may be killed."""
        return ["server", *self._commands, SCHEDULER]

    def wait_until_it_answers(self) -> None:
        """Wait for the gateway, and for each worker to have a queue: a burst would go to those that have.

        Raises
        ------
        SandboxError
            If one of them is not there within a minute, with the end of its log.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/state", timeout=10):
                    break
            except (OSError, urllib.error.HTTPError) as error:
                if time.monotonic() > until or not running(self.parts["gateway"]):
                    raise SandboxError(
                        f"the gateway does not answer at {self.url}: {error}; its log ends with: "
                        f"{self.log('gateway')}"
                    ) from error
            time.sleep(0.05)
        while absent := [name for name in self.parts if not self.works(name)]:
            if time.monotonic() > until:
                raise SandboxError(f"{absent[0]} has no queue; its log ends with: {self.log(absent[0])}")
            time.sleep(0.05)

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time that each part has used since it was started."""
        parts = {"server": self.server.process, **self.parts}
        return {name: round(one.cpu_seconds() or 0.0, 1) for name, one in parts.items() if one is not None}

    def log(self, name: str) -> str:
        """The end of a part's log."""
        path = self.folder / f"{name.replace(' ', '-')}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def stop(self) -> None:
        """End everything, in order."""
        end(self.parts.values(), 10.0)
        self.server.stop()

    def _spawn(self, name: str, command: list[str]) -> SandboxProcess:
        path = os.pathsep.join([str(FOLDER.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        program = ["/usr/bin/env", f"PYTHONPATH={path}", sys.executable, "-m", *command]
        return spawn(program, self.folder, self.folder / f"{name.replace(' ', '-')}.log", outlive=False)
