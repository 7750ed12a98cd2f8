"""The file that lets another process find, judge and stop a sandbox."""

import os
import signal
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimtab.lab.sandbox.cluster import Sandbox
from trimtab.lab.sandbox.kafka.state import KafkaNode, KafkaSandboxState, ScramSecurity
from trimtab.lab.sandbox.masters.sandbox import MastersSandboxState
from trimtab.lab.sandbox.processes import SandboxProcess, this_process
from trimtab.lab.sandbox.pulsar.state import PulsarSandboxState
from trimtab.lab.sandbox.state import FILE, SandboxState, read_state, sandboxes_folder
from trimtab.lab.sandbox.systems import known_named, require_named
from trimtab.model.errors import SandboxError

DEAD = SandboxProcess(this_process().pid, "long ago")


@pytest.fixture
def state(tmp_path) -> KafkaSandboxState:
    """Two brokers and a controller, one broker started."""
    nodes = (
        KafkaNode(100, "controller", "h0", "r0", 7000),
        KafkaNode(1, "broker", "h1", "r1", 7001, 7101),
        KafkaNode(2, "broker", "h2", "r2", 7002),
    )
    return KafkaSandboxState(
        folder=tmp_path, cluster_id="cluster", owner=None, nodes=nodes, processes={1: this_process()}
    )


def test_a_state_is_read_back_as_it_was_written(state):
    """What `up` saw is what `down` acts on."""
    whole = replace(state, owner=this_process(), security=ScramSecurity("ann", "secret"))
    whole.write()
    assert read_state(whole.folder, KafkaSandboxState) == whole


def test_any_sandbox_can_be_inspected_and_stopped(state):
    """Removal needs no knowledge of the system; other commands do, and name it."""
    state.write()
    common = read_state(state.folder, SandboxState)
    assert common is not None
    assert (common.processes, common.owner) == (state.processes, None)
    with pytest.raises(SandboxError, match="is one of kafka, not of pulsar: choose another name"):
        read_state(state.folder, PulsarSandboxState)


def test_a_password_is_for_its_owner_only(state):
    """Other users of the machine cannot read the sandbox's password."""
    replace(state, security=ScramSecurity("ann", "secret")).write()
    assert stat.S_IMODE((state.folder / FILE).stat().st_mode) == 0o600


def test_no_file_means_no_sandbox(tmp_path):
    """A folder without a state file is empty, not broken."""
    assert read_state(tmp_path, SandboxState) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "other/1"}', '{"format": "trimtab/sandbox/2"}'])
def test_a_file_of_another_kind_is_refused_with_its_remedy(tmp_path, text):
    """A broken state file is named, so that its owner can delete the folder."""
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SandboxError, match=r"is not a sandbox of this trimtab .* delete the folder"):
        read_state(tmp_path, SandboxState)


def test_a_file_that_cannot_be_read_is_not_to_be_deleted(tmp_path):
    """Its folder may contain a running sandbox; without read access it must not be removed."""
    (tmp_path / FILE).mkdir()
    with pytest.raises(SandboxError, match=r"cannot be read \(.*\): let this user read its folder$"):
        read_state(tmp_path, SandboxState)


def test_a_sandbox_without_a_living_node_is_stale(state):
    """After a reboot the file is still there, and nothing runs."""
    assert not state.stale
    assert replace(state, processes={1: DEAD}).stale


def test_a_sandbox_without_its_owner_is_stale(state):
    """A sandbox that was to end with its owner, and did not, is a leftover."""
    assert replace(state, owner=DEAD).stale
    assert not replace(state, owner=this_process()).stale


def test_a_sandbox_that_can_go_on_is_known_though_nothing_of_it_runs(tmp_path, monkeypatch):
    """All nodes of a store are killed: its commands still find it, and state how to start a node again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = sandboxes_folder() / "masters"
    folder.mkdir(parents=True)
    store = MastersSandboxState(
        folder=folder, cluster_id="c", owner=None, ports=(1, 2, 3), groups=1, lease_seconds=2.0
    )
    store = replace(store, processes={0: DEAD})
    store.write()
    assert (
        require_named("masters", MastersSandboxState, runs=False)
        == known_named("masters", MastersSandboxState)
        == store
    )
    with pytest.raises(SandboxError, match="start one again with trimtab sandbox masters restart 0"):
        require_named("masters", MastersSandboxState)
    # One that was to end with its owner is a leftover, here as elsewhere.
    replace(store, owner=DEAD).write()
    with pytest.raises(SandboxError, match="no sandbox masters is running: start one with .* up"):
        require_named("masters", MastersSandboxState, runs=False)


def test_only_started_brokers_are_bootstrap(state):
    """A client is not sent to a broker that was declared but never started."""
    assert state.bootstrap == "127.0.0.1:7001"


def test_a_secured_sandbox_states_its_credentials(state):
    """The connection of a secured sandbox carries user, mechanism and whom to trust."""
    connection = replace(state, security=ScramSecurity("ann", "secret")).connection
    assert (connection.security_protocol, connection.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (connection.user, connection.password, connection.tls_ca) == (
        "ann",
        "secret",
        state.folder / "ca.pem",
    )


class _Interrupted(BaseException):
    """What the signal of the test raises, as Ctrl-C raises KeyboardInterrupt."""


class _OneNode(Sandbox[SandboxState, Any, int]):
    """A sandbox of one process that only sleeps."""

    noun = "node"
    node = SimpleNamespace(id=1, role="broker")

    @property
    def _declared(self) -> dict[int, Any]:
        return {1: self.node}

    def _command(self, node: Any) -> list[str]:
        return [sys.executable, "-S", "-c", "import time; time.sleep(600)"]

    def _title(self, node: Any) -> str:
        return "node"

    def _nodes(self) -> list[Any]:
        return [self.node]

    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """It serves nobody."""


def test_a_node_that_begins_while_we_are_interrupted_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives after a detached node has started, and before its process id is recorded."""
    begun = []
    start = subprocess.Popen

    def interrupted_start(*arguments: Any, **further: Any) -> Any:
        begun.append(start(*arguments, **further))
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.5)
        return begun[0]

    def interrupt(number: int, frame: Any) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        box = _OneNode(SandboxState(folder=tmp_path / "box", cluster_id="x", owner=this_process()))
        monkeypatch.setattr(subprocess, "Popen", interrupted_start)
        with pytest.raises(_Interrupted), box._starting(detached=True):
            box.state.node_folder(1).mkdir()
            box._spawn(box.node, outlive=True)
        assert begun[0].poll() is not None
        assert not box.state.folder.exists()
    finally:
        signal.signal(signal.SIGUSR1, before)
        for one in begun:
            one.kill()
            one.wait()
