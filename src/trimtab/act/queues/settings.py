"""The settings of executions of the level `queues`: none but the shared ones."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.act.execution.settings import Patience


@dataclass(frozen=True)
class PublishSettings(Patience):
    """The settings of an execution that publishes weights."""
