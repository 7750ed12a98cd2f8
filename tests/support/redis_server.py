"""A real server of queues for tests: Valkey from its wheel, and Redis where one is in PATH."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from trimtab.lab.sandbox.processes import free_ports
from trimtab.lab.sandbox.queues.sandbox import DURABLE, TIMEOUT_SECONDS, RedisServerProcess, valkey
from trimtab.model.errors import SandboxError


def binaries() -> dict[str, str]:
    """Servers on this machine, by name."""
    found = {"valkey": valkey()}
    if path := shutil.which("redis-server"):
        found["redis"] = path
    return found


class Server(RedisServerProcess):
    """One of them on a port of its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        super().__init__(folder, binary)


SLOTS = 16384


class RedisClusterProcess:
    """The nodes of one cluster; while a node is away, the slots of the others are served.

    Parameters
    ----------
    folder
        Where their files lie.
    nodes
        How many.

    Raises
    ------
    SandboxError
        If they do not agree within a minute.
    """

    def __init__(self, folder: Path, nodes: int = 3) -> None:
        self.nodes: list[RedisServerProcess] = []
        buses = free_ports(nodes)
        try:
            for node, bus in enumerate(buses):
                options = [*DURABLE, "--cluster-enabled", "yes", "--cluster-port", str(bus)]
                options += ["--cluster-require-full-coverage", "no", "--cluster-node-timeout", "2000"]
                self.nodes.append(RedisServerProcess(folder / str(node), options=options))
            for node, server in enumerate(self.nodes):
                with Redis.from_url(server.url) as client:
                    first, until = node * SLOTS // nodes, (node + 1) * SLOTS // nodes - 1
                    client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", node + 1)
                    client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, until)
                    for other, bus in zip(self.nodes[:node], buses, strict=False):
                        client.execute_command("CLUSTER", "MEET", "127.0.0.1", other.port, bus)
            self._until_agreed()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Address of the server for clients."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{one.port}" for one in self.nodes)

    def stop(self) -> None:
        """End all nodes; their files stay."""
        for one in self.nodes:
            one.stop()

    def _until_agreed(self) -> None:
        until = time.monotonic() + TIMEOUT_SECONDS
        while not all(self._is_complete(one) for one in self.nodes):
            if time.monotonic() >= until:
                raise SandboxError(f"the nodes of the cluster at {self.url} do not agree about its slots")
            time.sleep(0.1)

    def _is_complete(self, server: RedisServerProcess) -> bool:
        with Redis.from_url(server.url) as client:
            try:
                known = client.execute_command("CLUSTER INFO")
            except RedisError:
                return False
        return known.get("cluster_state") == "ok" and int(known["cluster_slots_ok"]) == SLOTS
