"""`trimtab sandbox masters`, typed as a user types it."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from trimtab.lab.sandbox.masters.sandbox import etcd_program
from trimtab.model.errors import SandboxError
from trimtab_store.clients.cluster import StoreConfig, query_group_status
from trimtab_store.core.node import ENGINES
from trimtab_store.format.configuration import TransportSecurity


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Types a command of the sandbox; it is down at the end."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def typed(*words: str) -> str:
        command = [sys.executable, "-m", "trimtab", "sandbox", "masters", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    yield typed
    typed("down")


@pytest.mark.parametrize(
    "engine", [pytest.param(one, marks=[pytest.mark.long] * (one == "etcd")) for one in sorted(ENGINES)]
)
def test_a_sandbox_is_started_loaded_robbed_of_a_node_and_stopped(run, engine: str) -> None:
    """Under load one node is killed: all is acknowledged and read back, and its groups have other masters."""
    if engine == "etcd":
        try:
            etcd_program()
        except SandboxError as error:
            pytest.skip(f"no etcd can be had: {error}")
    lease = {"embedded": "2", "etcd": "4"}[engine]
    options = ("--nodes", "3", "--groups", "3", "--lease", lease, "--engine", engine)
    assert "trimtab sandbox masters kill 1" in run("up", *options)
    assert f"engine    {engine}" in run("status")
    assert re.search(r"^ +0  127\.0\.0\.1:\d+ +\d+ +\d$", run("status"), re.MULTILINE)
    run("move", "0", "1")
    assert "node 1 is killed" in run("kill", "1")
    assert "all of them acknowledged" in run("load", "--seconds", "4", "--rate", "30")
    shown = run("status")
    assert re.search(r"^ +1  127\.0\.0\.1:\d+ +- +not running$", shown, re.MULTILINE)
    assert len(re.findall(r"^ +\d +[02] +\d  [\d,]+$", shown, re.MULTILINE)) == 3
    assert "node 1 is started on " in run("restart", "1")


def test_a_sandbox_whose_nodes_were_all_killed_restarts(run) -> None:
    """Each kill reports the current state; acknowledged messages are in the logs, and are served."""
    run("up", "--nodes", "3", "--groups", "1", "--lease", "2")
    assert "all of them acknowledged" in run("load", "--seconds", "1", "--rate", "50")
    held = messages(run("status"))
    assert held > 0
    assert "get other masters within about 2.5 s" in run("kill", "0")
    for node, left in (("1", 1), ("2", 0)):
        told = run("kill", node)
        assert f"{left} of 3 nodes run, and a group can have a master only while 2 or more do" in told
        assert "start it again with trimtab sandbox masters restart 0" in told
    assert len(re.findall(r"not running$", run("status"), re.MULTILINE)) == 3
    assert "1 of 3 nodes run" in run("restart", "0")
    assert "it takes over no group for 2 s" in run("restart", "1")
    deadline = time.monotonic() + 60
    while messages(run("status")) != held:
        assert time.monotonic() < deadline


def messages(status: str) -> int:
    """Of group 0, as a master holds them; 0 while there is none."""
    found = re.search(r"^ +0 +\d +\d  ([\d,]+)$", status, re.MULTILINE)
    return 0 if found is None else int(found[1].replace(",", ""))


def test_a_sandbox_with_a_secret_serves_only_clients_that_know_it(run, tmp_path: Path) -> None:
    """Its own load and its status do, by the sandbox's file; a client without it is answered nothing."""
    run("up", "--nodes", "3", "--groups", "2", "--lease", "2", "--secret")
    assert "all of them acknowledged" in run("load", "--seconds", "2", "--rate", "20")
    (configuration,) = tmp_path.rglob("node-0/node.json")
    cluster = StoreConfig.read(configuration)
    assert sorted(asyncio.run(query_group_status(cluster))) == [0, 1, 2]
    assert asyncio.run(query_group_status(replace(cluster, guard=TransportSecurity()))) == {}
