"""Before and after for all resources of a level, with what it cost: the answer to "did it help?"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.model.imbalance import Measures, sigma_threshold
from trimtab.report.names import NAMES

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Goals:
    """What levelling was asked to reach: θ and ε per resource name, in the order in which they are shown; the
    number of brokers gives η = ε/N.
    """

    theta: dict[str, float]
    epsilon: dict[str, float]
    brokers: int

    def eta(self, resource: str) -> float:
        """η, the σ that is reached whenever every deviation is within ε."""
        return sigma_threshold(self.epsilon[resource], self.brokers)


@dataclass(frozen=True)
class Spent:
    """What the levelling cost, as carried out."""

    replica_moves: int
    leader_moves: int
    bytes_copied: int
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """Whether measurement says that levelling helped.

    Attributes
    ----------
    worse
        Resources whose σ rose, and is above η.
    unmet
        Resources that still miss θ, ε or η.
    """

    improved: tuple[str, ...]
    worse: tuple[str, ...]
    unmet: tuple[str, ...]

    @property
    def helped(self) -> bool:
        """True if some resource got more even and none became uneven."""
        return bool(self.improved) and not self.worse


def judge(before: Measures, after: Measures, goals: Goals) -> Outcome:
    """Compare what was measured before with what was measured after.

    A resource that was even and stays even counts neither way, whatever the last digit of its σ does.
    """
    measured = [name for name in goals.epsilon if name in before.sigma and name in after.sigma]
    uneven = [name for name in measured if before.sigma[name] > goals.eta(name)]
    return Outcome(
        improved=tuple(name for name in uneven if after.sigma[name] < before.sigma[name]),
        worse=tuple(
            name for name in measured if after.sigma[name] > max(before.sigma[name], goals.eta(name))
        ),
        unmet=tuple(name for name in measured if not all(_met(after, name, goals))),
    )


def before_after_table(before: Measures, after: Measures, goals: Goals) -> Table:
    """One row per resource: σ with its drop, worst deviation and peak, each before and after.

    Figures within their goal are green, the others red; resources that were not measured say so.
    """
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("resource")
    for heading, width in (("σ before", 8), ("after", 6), ("drop", 7)):
        table.add_column(heading, justify="right", min_width=width)
    for heading in ("worst deviation", "after", "peak", "after"):
        table.add_column(heading, justify="right")
    for name in goals.epsilon:
        if name not in before.sigma or name not in after.sigma:
            table.add_row(NAMES[name], *["–"] * 7)
            continue
        was, now = _met(before, name, goals), _met(after, name, goals)
        table.add_row(
            NAMES[name],
            _coloured(f"{before.sigma[name]:.4f}", was[0]),
            _coloured(f"{after.sigma[name]:.4f}", now[0]),
            drop_text(before.sigma[name], after.sigma[name]),
            _coloured(f"{before.worst_deviation[name]:.1%}", was[1]),
            _coloured(f"{after.worst_deviation[name]:.1%}", now[1]),
            _coloured(f"{before.peak_usage[name]:.0%}", was[2]),
            _coloured(f"{after.peak_usage[name]:.0%}", now[2]),
        )
    first = next(iter(goals.epsilon))
    eta, epsilon, theta = goals.eta(first), goals.epsilon[first], goals.theta[first]
    table.add_row("goal", "", f"{eta:.4f}", "", "", f"{epsilon:.1%}", "", f"{theta:.0%}", style="dim")
    return table


def drop_text(before: float, after: float) -> str:
    """How much smaller a figure became, as a percentage of what it was; a rise is a negative drop."""
    return "–" if before == 0 else f"{(before - after) / before:.1%}"


def cost_text(spent: Spent) -> str:
    """Moves, bytes and seconds in one sentence."""
    rate = (
        f", {bytes_text(spent.bytes_copied / spent.seconds)}/s"
        if spent.bytes_copied and spent.seconds
        else ""
    )
    return (
        f"{_counted(spent.replica_moves, 'replica')} copied ({bytes_text(spent.bytes_copied)}{rate}), "
        f"{_counted(spent.leader_moves, 'leader role')} handed over, in {spent.seconds:.1f} s"
    )


def bytes_text(number: float) -> str:
    """Bytes in decimal units, as disks and networks count them."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("the last unit takes every number")


def _met(measures: Measures, name: str, goals: Goals) -> tuple[bool, bool, bool]:
    return (
        measures.sigma[name] <= goals.eta(name),
        measures.worst_deviation[name] <= goals.epsilon[name],
        name not in measures.peak_usage or measures.peak_usage[name] <= goals.theta[name],
    )


def _coloured(text: str, met: bool) -> str:
    return f"[green]{text}[/]" if met else f"[red]{text}[/]"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
