"""The task on Celery over Redis."""

from __future__ import annotations

import time
from typing import Any

from celery import Celery

from rivals.workload import RECOVERY_SECONDS, TUNED, URL, occupy

app = Celery(broker=URL)
app.conf.update(task_ignore_result=True, worker_enable_remote_control=True)
if TUNED:
    app.conf.update(
        worker_prefetch_multiplier=1,
        task_acks_late=True,
        broker_transport_options={"visibility_timeout": RECOVERY_SECONDS},
    )


@app.task(name="work")
def work(number: int, seconds: float) -> None:
    """Occupy the worker."""
    occupy(number, seconds)


def send(messages: list[tuple[int, float]]) -> list[float]:
    """Send messages, one after another; when each was accepted."""
    accepted = []
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        for number, seconds in messages:
            work.apply_async((number, seconds), producer=producer, connection=connection)
            accepted.append(time.time())
    return accepted


def arguments() -> list[str]:
    """Of a worker process, behind the interpreter."""
    more: list[Any] = ["-O", "fair"] if TUNED else []
    return ["-m", "celery", "-A", "rivals.on_celery", "worker", "-c", "1", "-l", "ERROR",
            "-n", "%%p@%%h", *more]  # fmt: skip
