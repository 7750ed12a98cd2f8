"""The words of the balancer `queues`: queues are called queues, and small amounts of work are to be seen."""

from __future__ import annotations

import io

import numpy as np
from rich.console import Console

from trimtab.report.formats import counted
from trimtab.report.queues import status_text
from trimtab.systems.redis.port import QueuesStatus, QueueStatus


def shown(processes: int) -> str:
    """A glance at one queue of three votes, and at one without a worker, as a terminal shows it."""
    seen = QueuesStatus(
        cluster="polls",
        brokers=(QueueStatus("queue 0", True, False), QueueStatus("queue 1", False, True)),
        values=np.array([[3.0, 0.3, 1.0], [0.0, 0.0, 0.0]]),
        deviation=np.array([[0.0, 0.0, 0.0], [np.nan, np.nan, np.nan]]),
        version=2,
        published={"vote": 0.1},
        weights={"vote": 0.1},
        processed={"vote": 1200},
        processes=processes,
        behind=1,
        problems=(),
    )
    console = Console(file=io.StringIO(), width=120, highlight=False)
    for part in status_text(seen):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_live_status_names_queues_and_prints_work_in_milliseconds() -> None:
    """0.3 s of work would round to none."""
    text = shown(2)
    assert "polls: 2 queues, 2 processes, weights of version 2; read directly from the server" in text
    assert "work ms" in text
    (row,) = (line for line in text.splitlines() if line.startswith("queue 0"))
    assert "300" in row
    assert "queue 1 (no worker, paused)" in text
    assert "class vote: 0.1 s, as published; 1,200 processed so far" in text
    assert "1 of 2 processes use an older version" in text
    assert "broker" not in text


def test_plurals_that_do_not_end_in_s() -> None:
    """One process, two processes; the plural only if needed."""
    assert "1 process, " in shown(1)
    assert counted(2, "process", "processes") == "2 processes"
    assert (counted(1, "queue"), counted(0, "queue")) == ("1 queue", "0 queues")
