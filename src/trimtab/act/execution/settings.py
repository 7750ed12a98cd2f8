"""The `[execution]` table of trimtab.toml: the shared retry policy, and each balancer's own keys."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, ClassVar, TypeVar, get_type_hints

from trimtab_common.errors import SettingsError

RetryPolicyT = TypeVar("RetryPolicyT", bound="RetryPolicy")


@dataclass(frozen=True)
class RetryPolicy:
    """The patience of an execution of any balancer: how often it looks, tries again and waits.

    A balancer's settings inherit from this. Their own keys stand in `[execution]` itself, or, where `table`
    names one, in a table below it: then they have one field of their own, the dataclass of that table.

    Attributes
    ----------
    table
        Name of the balancer's own table; empty where there is none.
    poll_interval_seconds
        Time between two queries of the steps of a running batch.
    check_interval_seconds
        Time between two checks of the whole cluster while a batch runs.
    max_attempts
        Maximum number of attempts of a rejected step.
    initial_backoff_seconds
        Pause before the second attempt of a step; it doubles for each further attempt.
    max_backoff_seconds
        Maximum pause before a further attempt.
    broker_timeout_seconds
        Time after which steps towards a missing broker are given up.
    external_change_timeout_seconds
        Time to wait for another tool's work before the execution stops.
    unhealthy_timeout_seconds
        Time to wait for the recovery of problems that appeared since the start before the execution stops.
    metadata_lag_seconds
        Maximum lag between the metadata of two brokers.
    unreachable_timeout_seconds
        Time after which the process gives up an unreachable cluster. It can be resumed.
    lease_seconds
        Time without a heartbeat after which another trimtab may take over.
    max_plan_age_seconds
        Snapshots of a plan older than this cause a warning.
    """

    table: ClassVar[str] = ""

    poll_interval_seconds: float = 0.5
    check_interval_seconds: float = 5.0
    max_attempts: int = 8
    initial_backoff_seconds: float = 0.25
    max_backoff_seconds: float = 15.0
    broker_timeout_seconds: float = 30.0
    external_change_timeout_seconds: float = 600.0
    unhealthy_timeout_seconds: float = 300.0
    metadata_lag_seconds: float = 5.0
    unreachable_timeout_seconds: float = 300.0
    lease_seconds: float = 60.0
    max_plan_age_seconds: float = 3600.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        names = (
            "poll_interval_seconds",
            "check_interval_seconds",
            "max_attempts",
            "initial_backoff_seconds",
            "lease_seconds",
        )
        require_above_zero(self, "execution", *names, "max_plan_age_seconds")

    def backoff(self, attempts: int) -> float:
        """Seconds to wait after that many attempts in vain."""
        return float(min(self.max_backoff_seconds, self.initial_backoff_seconds * 2 ** max(0, attempts - 1)))


def require_above_zero(settings: object, section: str, *names: str) -> None:
    """Refuse these fields of a section unless they are above 0.

    Raises
    ------
    SettingsError
        Naming the first that is not.
    """
    for name in names:
        if not getattr(settings, name) > 0:
            raise SettingsError(f"{section}.{name} is {getattr(settings, name)}: it must be above 0")


def execution_table(kinds: Iterable[type[RetryPolicy]]) -> type[Any]:
    """The dataclass of the whole `[execution]` table, for these levels' settings."""
    kinds = tuple(kinds)
    below = [
        (kind.table, own, field(default_factory=own)) for kind in kinds if kind.table for _, own in _own(kind)
    ]
    table = make_dataclass(
        "ExecutionTable", below, bases=tuple(k for k in kinds if not k.table) or (RetryPolicy,), frozen=True
    )
    table.__doc__ = "Limits, patience and pace of an execution; every key has a default for a busy cluster."
    return table


def of_balancer(table: Any, kind: type[RetryPolicyT]) -> RetryPolicyT:
    """One balancer's settings out of a value of the whole table."""
    if not kind.table:
        return kind(**{one.name: getattr(table, one.name) for one in fields(kind)})
    shared = {one.name: getattr(table, one.name) for one in fields(RetryPolicy)}
    below = getattr(table, kind.table)
    return kind(**shared, **{name: below for name, _ in _own(kind)})


def _own(kind: type[RetryPolicy]) -> list[tuple[str, type[Any]]]:
    """Name and type of each field that a balancer adds."""
    shared = {one.name for one in fields(RetryPolicy)}
    return [(name, hint) for name, hint in get_type_hints(kind).items() if name not in {*shared, "table"}]
