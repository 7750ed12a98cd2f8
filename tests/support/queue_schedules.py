"""Schedules of taskiq that fire when a test says so."""

from __future__ import annotations

from taskiq import AsyncBroker, ScheduledTask, ScheduleSource, TaskiqScheduler


class Source(ScheduleSource):
    """Schedules in a list."""

    def __init__(self) -> None:
        self.schedules: list[ScheduledTask] = []

    async def get_schedules(self) -> list[ScheduledTask]:
        return self.schedules

    async def add_schedule(self, schedule: ScheduledTask) -> None:
        self.schedules.append(schedule)

    async def fire(self, broker: AsyncBroker) -> None:
        """Send what is in the list, as taskiq's scheduler does when its time has come, and forget it."""
        for one in list(self.schedules):
            await TaskiqScheduler(broker, [self]).on_ready(self, one)
            self.schedules.remove(one)
