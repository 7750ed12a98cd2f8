"""Processing: workers that turn messages into results, each exactly once."""

from __future__ import annotations

import argparse
import asyncio
import signal
from typing import Any

from interactive.messages import Message
from interactive.rules import Business, Effect
from interactive.store import Store, patiently
from trimtab_queues import BalancedBroker

Row = list[str]

TASK_SECONDS = 0.003
"""What a task costs besides its messages."""


def make_broker(url: str, queues: int, **settings: Any) -> BalancedBroker:
    """The broker as gateway and workers have it, alike but for who waits how long."""
    return BalancedBroker(url, name="interactive", queues=queues, heartbeat_timeout_seconds=3.0, **settings)


class Tasks:
    """The tasks of this system on a broker.

    Attributes
    ----------
    process
        Messages of one strand and one business, as rows of id, user and answer, and the version of the rules
        under which they were accepted.
    pass_by
        A mark behind everything that a strand was given before a drain.
    """

    def __init__(self, broker: BalancedBroker, store: Store) -> None:
        async def process(business: str, version: str, rows: list[Row]) -> None:
            rules = await patiently(lambda: store.rules(version))
            rule = rules.businesses.get(business) if rules else None
            messages = [Message(name, user, business, answer) for name, user, answer in rows]
            effects = [(one, *outcome(one, rule)) for one in messages]
            most = rule.answers_per_user if rule else 0
            await patiently(lambda: store.apply(business, effects, most))

        async def pass_by(business: str, drain: str, strand: int) -> None:
            await patiently(lambda: store.passed(business, drain, strand))

        self.process = broker.register_task(process, task_name="interactive:process")
        self.pass_by = broker.register_task(pass_by, task_name="interactive:pass_by")


def outcome(message: Message, rule: Business | None) -> tuple[Effect | None, str]:
    """The effect of a message, or the reason for which it has none: a letter for people, not a loss."""
    try:
        if rule is None:
            return None, f"the rules of {message.business} are not on the server"
        return rule.effect(message.answer), ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


async def work(url: str, queues: int) -> None:
    """Be a worker until told to stop."""
    from taskiq.api import run_receiver_task

    broker, store = make_broker(url, queues), Store(url)
    broker.is_worker_process = True
    Tasks(broker, store)
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    try:
        await run_receiver_task(broker, run_startup=True, max_async_tasks=1)
    except asyncio.CancelledError:
        await broker.shutdown()  # gives the queue back, so that nobody has to wait for a death


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the server of the queues")
    parser.add_argument("--queues", type=int, required=True)
    arguments = parser.parse_args()
    asyncio.run(work(arguments.url, arguments.queues))
