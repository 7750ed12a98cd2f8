"""A sandbox of queues on paper: who is declared, which queue is whose, what cannot be asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.lab.sandbox.processes import this_process
from trimtab.lab.sandbox.queues import program, sandbox
from trimtab.lab.sandbox.queues.sandbox import QueuesSandbox, QueuesSandboxState, queues_of
from trimtab.lab.sandbox.state import decode, encode
from trimtab.model.errors import SandboxError
from trimtab_queues.format.documents import ProcessReport


def declared(folder: Path, workers: int = 2) -> QueuesSandboxState:
    """A sandbox in which this very process is the server and the first worker."""
    us = this_process()
    return QueuesSandboxState(
        folder=folder, cluster_id="c", owner=us, processes={0: us, 1: us}, port=26379, workers=workers
    )


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Address, settings and nodes follow from port, folder and the number of workers."""
    state = declared(tmp_path)
    assert decode(encode(state), QueuesSandboxState) == state
    assert state.url == "redis://127.0.0.1:26379/0"
    assert [(one.id, one.role) for one in state.nodes] == [(0, "server"), (1, "worker"), (2, "worker")]


def test_the_queue_of_a_worker_is_identified_by_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report of another process on the same server, or without a queue, belongs to no worker."""
    ours = this_process().pid

    def report(process: str, queue: int | None) -> ProcessReport:
        return ProcessReport(
            process=process, at=0.0, queue=queue, queues=2, capacity=9, version=0, default_weight=1.0,
            policy="least_work_left", scheduling=None, classes={},
        )  # fmt: skip

    class Server:
        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_: object) -> None: ...

        def reports(self) -> list[ProcessReport]:
            return found

    monkeypatch.setattr(sandbox, "open_server", lambda connection: Server())
    found = [report("host:1:ab", 0), report(f"host:{ours}:cd", 1), report("odd", 1)]
    assert queues_of(declared(tmp_path)) == {1: 1}
    found = [report(f"host:{ours}:cd", None)]
    assert queues_of(declared(tmp_path)) == {}


def test_an_undeclared_worker_cannot_be_killed(tmp_path: Path) -> None:
    """Nor a worker that was never started; nor can a sandbox have none."""
    ours = QueuesSandbox(declared(tmp_path))
    with pytest.raises(SandboxError, match=r"process 9 is not declared in this sandbox: it has 0, 1, 2"):
        ours.kill(9)
    with pytest.raises(SandboxError, match="process 2 was not started here"):
        ours.kill(2)
    with pytest.raises(SandboxError, match="process 1 runs already"):
        ours.restart(1)
    with pytest.raises(SandboxError, match="0 workers cannot be started"):
        QueuesSandbox.start(0)


def test_the_load_keeps_workers_busy_for_their_share() -> None:
    """Four workers, 80 % of four seconds a second: 29.6 messages of 0.108 s each."""
    assert program.rate(4) * 0.108 == pytest.approx(3.2)
    assert program.rate(4, use=0.4) == pytest.approx(program.rate(4) / 2)
