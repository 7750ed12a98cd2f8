"""The balancer `queues` from end to end: the commands of its page, on the sandbox that they start."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis

from support.pages import blocks_of
from support.tls_front import tls_front
from trimtab.balancers.clusters import clusters_of
from trimtab.balancers.settings import read_settings
from trimtab.lab.sandbox.processes import free_ports
from trimtab.lab.sandbox.queues.sandbox import RedisServerProcess
from trimtab.observe.collect.settings import CollectSettings
from trimtab.systems.redis.client import RedisConnection, open_server
from trimtab.systems.redis.port import read_status
from trimtab_common.errors import ConnectError
from trimtab_queues import BalancedBroker

PATIENCE_SECONDS = 120.0
PORT = "26379"
LATER = "trimtab replay"
"""Typed at the end: an older plan is applied again before."""


class Somebody:
    """A shell with lake, state and files in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, str(free_ports(1)[0])
        (folder / "trimtab").write_text(f'#!/bin/sh\nexec {sys.executable} -m trimtab "$@"\n')
        (folder / "trimtab").chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TRIMTAB_STATE": str(folder / "state"),
            "TRIMTAB_LAKE": str(folder / "lake"), "queues": f"redis://localhost:{self.port}/0",
        }  # fmt: skip
        self.behind: list[subprocess.Popen[bytes]] = []

    @property
    def connection(self) -> RedisConnection:
        """To the server of the sandbox."""
        return RedisConnection(self.environment["queues"])

    def type(self, command: str) -> str:
        """Type a line of a page; what it prints. A line that ends with & goes on behind."""
        line = command.partition("  #")[0].strip().replace(PORT, self.port)
        line = line.replace("--interval 2", "--interval 1")  # somebody in a hurry
        if line.endswith("&"):
            self.behind.append(
                subprocess.Popen(["bash", "-c", f"exec {line[:-1]}"], cwd=self.folder, env=self.environment)
            )
            return ""
        done = subprocess.run(
            ["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        # `check` says by 1 that there are no samples yet.
        assert done.returncode == int("trimtab check" in line), f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def somebody(tmp_path: Path) -> Iterator[Somebody]:
    """Somebody who leaves no sandbox behind."""
    one = Somebody(tmp_path)
    yield one
    for process in one.behind:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
    one.type("trimtab sandbox queues down")


def _until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_password_and_an_authority_are_used_and_required(tmp_path: Path) -> None:
    """One settings file for commands and brokers; a missing value is reported, and the password never. The
    server of the wheel has no TLS, so a proxy terminates it.
    """
    server = RedisServerProcess(tmp_path / "server")
    secret, file = tmp_path / "secret", tmp_path / "trimtab.toml"
    secret.write_text("open sesame\n")
    with Redis.from_url(server.url) as client:
        client.config_set("requirepass", "open sesame")

    async def story() -> None:
        async with tls_front(server.port, tmp_path) as (port, authority):
            url = f"rediss://127.0.0.1:{port}/0"
            all_of_it = (
                f'[clusters.q]\naddress = "{url}"\npassword_file = "secret"\ntls_ca = "{authority.name}"\n'
            )
            file.write_text(all_of_it)
            broker = BalancedBroker.from_settings(file)

            async def vote() -> None: ...

            await broker.startup()
            await broker.register_task(vote, task_name="vote").kiq()
            await broker.shutdown()

            def glance(*without: str) -> int:
                lines = [one for one in all_of_it.splitlines() if not one.startswith(without or "none")]
                file.write_text("\n".join(lines))
                connection = clusters_of(read_settings(file, (), {}))["q"].connection()
                assert "sesame" not in repr(connection)
                return int(read_status(connection, CollectSettings()).values[:, 0].sum())

            assert await asyncio.to_thread(glance) == 1
            with pytest.raises(ConnectError, match="CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
                await asyncio.to_thread(glance, "tls_ca")
            with pytest.raises(ConnectError, match="correct the cluster's address and password"):
                await asyncio.to_thread(glance, "password_file")
            secret.write_text("wrong")
            with pytest.raises(ConnectError, match="correct the cluster's address and password") as told:
                await asyncio.to_thread(glance)
            assert "wrong" not in str(told.value).partition("and password")[2]

    try:
        asyncio.run(story())
    finally:
        server.stop()


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_page_works_as_written_and_weights_can_be_reverted(somebody: Somebody) -> None:
    """Sampled, through Spark, planned, published, taken up by all; an older plan takes it back; a kill."""
    first, second = (
        [line for line in one.commands if not line.startswith("queues=")]
        for one in blocks_of("docs/how-to/queues.md")
        if one.heading == "Try it on this machine"
    )
    told = {line: somebody.type(line) for line in first if not line.startswith(LATER)}

    def said(start: str) -> str:
        return next(text for line, text in told.items() if line.startswith(start))

    assert "worker 4" in said("trimtab sandbox queues up")
    assert "4 queues, 4 with a worker" in said("trimtab check")
    assert "4 queues, " in said("trimtab status --cluster")
    assert "read directly from the server" in said("trimtab status --cluster")
    assert "4 of 4 queues, " in said("trimtab collect")
    plan_text = said("trimtab plan queues")
    assert "The scheduler, with what it would do now:" in plan_text
    assert "Load of the queues, and distance from the mean:" in plan_text
    for line, text in told.items():
        assert "broker" not in re.sub(r"brokers \d+", "", text), line  # a table of the pipeline
    # A task takes at least as long as it sleeps; how much longer is the machine's business.
    document = json.loads((somebody.folder / "plan.json").read_text())
    report = next(one for one in document["moves"] if one["name"] == "report")
    assert report["before"] is None
    assert report["after"] >= 0.5
    with open_server(somebody.connection) as server:

        def weights() -> set[float]:
            return {one.classes["report"].weight for one in server.reports() if "report" in one.classes}

        _until(lambda: {one.version for one in server.reports()} == {1})
        _until(lambda: weights() == {report["after"]})
        (somebody.folder / "other.json").write_text(json.dumps(_second(document)))
        somebody.type("trimtab apply other.json --cluster $queues --yes")
        _until(lambda: weights() == {7.0})
        receipt = somebody.type("trimtab apply plan.json --cluster $queues --yes")
        assert "published as version 3" in receipt
        _until(lambda: weights() == {report["after"]})
    replayed = somebody.type(next(line for line in first if line.startswith(LATER)))
    assert "least_work_left+balanced+lanes" in replayed
    assert (somebody.folder / "replay.svg").is_file()
    killed, status, restarted, down = map(somebody.type, second)
    assert "worker 2 is killed" in killed
    assert "worker 2  -" in status
    assert "worker 2 is back, with queue" in restarted
    assert "is stopped and its data deleted" in down
    assert not (somebody.folder / "state" / "sandbox" / "queues").exists()


def _second(document: dict) -> dict:
    """The plan as one made after the first that weighs reports with seven seconds."""
    document = json.loads(json.dumps(document))
    document["version"] = 1
    document["moves"] = [one for one in document["moves"] if one["name"] == "report"]
    document["cost"] = {"weights": 1, "settings": 0}
    for one in [*document["moves"], *document["assignments"]]:
        one["before"] = one["after"]
        one["after"] = 7.0 if one["name"] == "report" else one["after"]
    return document
