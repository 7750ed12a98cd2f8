"""A plan of the level `bundles` for people: where the load is, what moves and why, the price, the result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trimtab.model.bundle_plan import BundleMove, BundleMoveKind, BundlePlan
from trimtab.model.bundles_snapshot import NO_OWNER, RESOURCES
from trimtab.model.plan import Verdict
from trimtab.report.before_after import bytes_text, drop_text
from trimtab.report.names import NAMES
from trimtab.report.plan_parts import VERDICTS, counted, one_limit, problem_lines, table_lines

if TYPE_CHECKING:
    from trimtab.model.bundles_snapshot import BundlesSnapshot

BROKERS_SHOWN = 12
GROUPS_SHOWN = 12
MOVES_SHOWN = 5


def bundle_plan_text(
    plan: BundlePlan, snapshot: BundlesSnapshot | None = None, *, all_moves: bool = False
) -> str:
    """The whole text, lines parted by line breaks.

    Parameters
    ----------
    plan
        What to tell.
    snapshot
        What it was made from; without it, neither the brokers' load nor views but the newest can be told.
    all_moves
        Whether to list every move; else the first of each group, and how many more.
    """
    lines: list[str] = []
    if snapshot is not None:
        lines += [*load_lines(snapshot), ""]
    lines += [*_headline(plan), "", *_before_after(plan, snapshot)]
    if plan.moves:
        lines += ["", *_moves(plan, all_moves)]
    if plan.problems:
        lines += ["", *problem_lines(plan.problems)]
    return "\n".join(lines) + "\n"


def load_lines(snapshot: BundlesSnapshot) -> list[str]:
    """Usage of the brokers now, and the distance from the mean; the furthest ones where there are many."""
    brokers, bundles = snapshot.brokers, snapshot.bundles
    measured = snapshot.imbalance()
    owned = bundles.owner[bundles.owner != NO_OWNER]
    number = np.bincount(owned, minlength=len(brokers))
    clients = np.bincount(owned, weights=bundles.sessions[bundles.owner != NO_OWNER], minlength=len(brokers))
    shown = np.sort(np.argsort(-np.abs(measured.deviation).max(axis=1), kind="stable")[:BROKERS_SHOWN])
    levelled = [r for r in range(len(RESOURCES)) if measured.counted[:, r].any()]
    rows = [["broker", "", *(NAMES[RESOURCES[r]] for r in levelled), "bundles", "clients"]]
    for row in shown.tolist():
        cells = [
            f"{measured.usage[row, r]:.0%} ({_signed(measured.usage[row, r], measured.mean[r])})"
            if measured.counted[row, r]
            else "–"
            for r in levelled
        ]
        state = "" if brokers.in_service[row] else "out of service"
        rows.append([brokers.name[row], state, *cells, str(number[row]), f"{clients[row]:.0f}"])
    rows.append(["mean", "", *(f"{measured.mean[r]:.0%}" for r in levelled), "", ""])
    unowned = int((bundles.owner == NO_OWNER).sum())
    head = (
        f"{snapshot.reference.cluster} at {snapshot.reference.taken_at}: {counted(len(brokers), 'broker')}, "
        f"{counted(len(bundles), 'bundle')}{f' ({unowned} unowned)' if unowned else ''}, "
        f"{int(bundles.sessions.sum())} clients; views: {', '.join(snapshot.views)}"
    )
    more = "" if len(shown) == len(brokers) else f", the {len(shown)} furthest from it"
    return [
        head,
        "",
        f"Load of the brokers, and distance from the mean{more}:",
        *table_lines(rows, align="ll" + "r" * (len(levelled) + 2)),
    ]


def _signed(value: float, mean: float) -> str:
    text = f"{value / mean - 1:+.0%}" if mean > 0 else "±0%"
    return "±0%" if text in ("+0%", "-0%") else text


def _headline(plan: BundlePlan) -> Iterator[str]:
    yield f"Plan by {plan.strategy}: {VERDICTS[plan.verdict]}"
    if not plan.moves:
        return
    cost = plan.cost
    splits = f"{counted(cost.splits, 'split')}, " if cost.splits else ""
    yield (
        f"cost: {splits}{counted(cost.unloads, 'unload')} that "
        f"{'disconnects' if cost.unloads == 1 else 'disconnect'} {counted(cost.sessions, 'client')} for a "
        "moment, "
        f"{bytes_text(int(cost.bytes_per_second))}/s interrupted"
    )
    if plan.bound.sessions and plan.verdict is Verdict.LEVELLED:
        ratio = cost.sessions / plan.bound.sessions
        yield (
            f"bound: any plan disturbs {counted(plan.bound.sessions, 'client')} or more; this one "
            f"{ratio:.2f} times "
            "it"
        )
    elif cost.sessions:
        yield (
            f"bound: none above 0 clients ({plan.bound.proof})"
            if not plan.bound.sessions
            else (
                "bound: to meet every goal, if possible at all, disturbs more clients than this plan"
                if plan.bound.sessions == cost.sessions
                else f"bound: to meet every goal, any plan disturbs {counted(plan.bound.sessions, 'client')} "
                "or more"
            )
        )


def _before_after(plan: BundlePlan, snapshot: BundlesSnapshot | None) -> list[str]:
    before, after = plan.predicted.before, plan.predicted.after
    theta, epsilon = _limits(plan, "theta"), _limits(plan, "epsilon")
    rows = [
        [
            "view",
            "resource",
            "peak",
            "after",
            "goal",
            "worst deviation",
            "after",
            "goal",
            "σ",
            "after",
            "drop",
        ]
    ]
    views = [("now", before, after)]
    if snapshot is not None:
        from trimtab.plan.bundles.carried_out import carried_out

        later = carried_out(snapshot, plan)
        views = [
            (name, snapshot.imbalance(view=view).measures(), later.imbalance(view=view).measures())
            for view, name in enumerate(snapshot.views)
        ]
    for name, old, new in views:
        for resource in RESOURCES:
            if resource not in old.sigma or resource not in new.sigma:
                continue
            rows.append(
                [
                    *(name, NAMES[resource]),
                    *(f"{old.peak_usage.get(resource, 0):.1%}", f"{new.peak_usage.get(resource, 0):.1%}"),
                    theta.get(resource, ""),
                    *(
                        f"{old.worst_deviation.get(resource, 0):.1%}",
                        f"{new.worst_deviation.get(resource, 0):.1%}",
                    ),
                    epsilon.get(resource, ""),
                    *(f"{old.sigma[resource]:.4f}", f"{new.sigma[resource]:.4f}"),
                    drop_text(old.sigma[resource], new.sigma[resource])
                    if old.sigma[resource] > 1e-6
                    else "–",
                ]
            )
    return ["Predicted:", *table_lines(rows, align="llrrrrrrrrr")]


def _limits(plan: BundlePlan, name: str) -> dict[str, str]:
    """A goal's limit by resource, as it is shown."""
    limit = plan.settings.get(name)
    if isinstance(limit, dict):
        return {
            resource: f"{value:.0%}" for resource, value in limit.items() if isinstance(value, int | float)
        }
    value = one_limit(plan, name)
    return {} if value is None else dict.fromkeys(RESOURCES, f"{value:.0%}")


def _moves(plan: BundlePlan, all_moves: bool) -> Iterator[str]:
    groups: dict[tuple[str, str | None, str | None, str], list[BundleMove]] = {}
    for move in plan.moves:
        reason = move.reason
        groups.setdefault((reason.goal, reason.resource, reason.view, reason.broker), []).append(move)
    yield f"{counted(len(plan.moves), 'move')}, by what they are for, with their order of execution:"
    for number, ((goal, resource, view, broker), moves) in enumerate(groups.items()):
        if number == GROUPS_SHOWN and not all_moves:
            rest = list(groups.values())[number:]
            yield (
                f"  ... and {counted(sum(map(len, rest)), 'move')} for {counted(len(rest), 'more reason')}; "
                "--all-moves lists them"
            )
            return
        where = f" in {view}" if view is not None else ""
        subject = f"{goal} of {NAMES.get(resource, resource)}{where}" if resource is not None else goal
        clients = sum(move.sessions for move in moves)
        yield f"  {subject}, broker {broker}: {counted(len(moves), 'move')}, {counted(clients, 'client')}"
        shown = moves if all_moves else moves[:MOVES_SHOWN]
        yield from (
            f"    {line}" for line in table_lines([_move_cells(move) for move in shown], align="rlllrl")
        )
        if len(shown) < len(moves):
            yield f"    ... and {len(moves) - len(shown)} more"


def _move_cells(move: BundleMove) -> list[str]:
    if move.kind is BundleMoveKind.SPLIT:
        path = f"on {move.source or 'nobody'} at {', '.join(f'0x{cut:08x}' for cut in move.boundaries)}"
        return [str(move.order), str(move.kind), move.bundle, path, "", move.reason.text]
    path = f"{move.source or 'nobody'} → {move.target}"
    clients = counted(move.sessions, "client")
    return [str(move.order), str(move.kind), move.bundle, path, clients, move.reason.text]
