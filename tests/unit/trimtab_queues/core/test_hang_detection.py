"""Workers that hang, by what they finished and what they have in hand."""

from __future__ import annotations

from trimtab_queues.core.scheduling import WorkerProgress


def test_a_worker_that_finishes_nothing_hangs_after_the_limit() -> None:
    """The limit is ten seconds: at exactly ten no worker hangs; the first observation starts the time."""
    progress = WorkerProgress(10.0)
    assert progress.hanging(100.0, [5, 5], [1.0, 1.0]) == []
    assert progress.hanging(110.0, [5, 6], [1.0, 1.0]) == []
    assert progress.hanging(110.1, [5, 6], [1.0, 1.0]) == [0]
    assert progress.hanging(120.1, [5, 6], [1.0, 1.0]) == [0, 1]
    assert progress.hanging(120.2, [7, 6], [1.0, 1.0]) == [1]
    assert progress.hanging(130.2, [7, 6], [1.0, 1.0]) == [1]
    assert progress.hanging(130.3, [7, 6], [1.0, 1.0]) == [0, 1]


def test_long_messages_may_take_long() -> None:
    """An hour in hand: three hours without an end, and not a second less."""
    progress = WorkerProgress(10.0)
    assert progress.hanging(0.0, [0], [3600.0]) == []
    assert progress.hanging(10_800.0, [0], [3600.0]) == []
    assert progress.hanging(10_800.1, [0], [3600.0]) == [0]


def test_a_worker_without_work_does_not_hang() -> None:
    """The time starts with the first message after that, also if other queues are observed."""
    progress = WorkerProgress(10.0)
    assert progress.hanging(0.0, [3], [0.0]) == []
    assert progress.hanging(50.0, [3], [0.0]) == []
    assert progress.hanging(59.0, [3], [1.0]) == []
    assert progress.hanging(61.0, [3], [1.0]) == [0]
    assert progress.hanging(70.0, [3, 3], [1.0, 1.0]) == []
