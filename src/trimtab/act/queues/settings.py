"""The settings of executions of the balancer `queues`: none but the shared ones."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.act.execution.settings import RetryPolicy


@dataclass(frozen=True)
class PublishSettings(RetryPolicy):
    """The settings of an execution that publishes weights."""
