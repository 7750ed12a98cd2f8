"""Dispatch: what was admitted becomes tasks, one a strand and business; what comes back is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from taskiq.exceptions import SendTaskError

from interactive.messages import STRANDS, Message, Refused, key_of
from interactive.processing import TASK_SECONDS, Tasks
from interactive.rules import Rules
from trimtab_queues import BalancedBroker, retry_after_seconds

_log = logging.getLogger(__name__)


class Dispatcher:
    """Sends messages into queues; a message is accepted when its queue has it, not before."""

    def __init__(self, broker: BalancedBroker, tasks: Tasks) -> None:
        self._broker, self._tasks = broker, tasks
        self._split: set[str] = set()

    async def send(self, messages: Sequence[Message], rules: Rules) -> dict[str, Refused]:
        """Put messages into queues; those that may not lie in one, by id."""
        groups: dict[tuple[str, int], list[Message]] = {}
        for one in messages:
            groups.setdefault((one.business, one.strand), []).append(one)
        refusals = await asyncio.gather(*(self._put(group, rules) for group in groups.values()))
        return {
            one.id: refusal
            for group, refusal in zip(groups.values(), refusals, strict=True)
            if refusal
            for one in group
        }

    async def drain(self, business: str, drain: str) -> None:
        """Put a mark behind everything that each strand holds.

        Raises
        ------
        Refused
            If not every mark could be put; those that were do no harm.
        """
        for strand in range(STRANDS):
            labels = {
                "affinity_key": f"strand-{strand}",
                "idempotency_key": f"{drain}-{strand}",
                "weight": TASK_SECONDS,
            }
            try:
                await self._tasks.pass_by.kicker().with_labels(**labels).kiq(business, drain, strand)
            except SendTaskError as error:
                told = f"{business} takes no more, but its end cannot be marked: {error.__cause__}"
                raise Refused(503, f"{told}; ask for it again", 1.0) from error

    async def split_dead_letters(self, rules: Rules) -> list[str]:
        """Give each message of a dead task a task of its own, once; what is dead then is one message.

        A message that kills its worker takes those of its task along to the dead letters; they come back.
        """
        told = []
        for letter, trace in await self._broker.backend.dead_letters():
            task = self._broker.formatter.loads(letter.body)
            if task.task_name != self._tasks.process.task_name:
                continue  # a mark of a drain, which is asked for again
            business, version, rows = task.args
            told.append(f"{rows[0][0] if len(rows) == 1 else f'{len(rows)} messages'}: {trace}")
            if len(rows) > 1 and letter.task_id not in self._split:
                again = [Message(name, user, business, answer) for name, user, answer in rows]
                refused = [await self._put([one], rules, version) for one in again]
                if not any(refused):
                    self._split.add(letter.task_id)
        return told

    async def _put(
        self, group: Sequence[Message], rules: Rules, version: str | None = None
    ) -> Refused | None:
        first = group[0]
        rule = rules.businesses[first.business]
        labels = {
            "affinity_key": f"strand-{first.strand}",
            "idempotency_key": key_of(group),
            "weight": TASK_SECONDS + rule.weight_seconds * len(group),
            "message_class": type(rule).__name__.lower(),
        }
        rows = [[one.id, one.user, one.answer] for one in group]
        try:
            await (
                self._tasks.process.kicker()
                .with_labels(**labels)
                .kiq(first.business, version or rules.version, rows)
            )
        except SendTaskError as error:
            seconds = retry_after_seconds(error)
            if seconds is not None:
                return Refused(429, f"all queues are full: {error.__cause__}", seconds)
            _log.warning("a message was not accepted: %s", error.__cause__)
            return Refused(503, f"{error.__cause__}: send it again under the same id", 1.0)
        return None
