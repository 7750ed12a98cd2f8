"""`trimtab plan`: make, show and compare plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from trimtab.balancers import BALANCERS, Balancer
from trimtab.balancers.balancer import PlanRequest
from trimtab.cli.options import (
    FORMS,
    JSON,
    LAKE,
    LAKE_CLUSTER,
    SETTINGS,
    SNAPSHOT,
    command_context,
    form_of,
    lake_path,
    with_options,
)

app = typer.Typer(
    help="Find the smallest set of moves that balances a cluster; changes nothing.", no_args_is_help=True
)

FORMAT = typer.Option(
    "text",
    "--format",
    help=f"{', '.join(FORMS)}: text, the plan itself (as --json), or the input of a system's own tools.",
)
ALL_MOVES = typer.Option(False, "--all-moves", help="List every move in the text.")


def _command(balancer: Balancer) -> Any:
    def plan(
        snapshot: Path | None = SNAPSHOT,
        lake: Path | None = LAKE,
        cluster: str | None = LAKE_CLUSTER,
        out: Path | None = typer.Option(None, "--out", help="Write the plan (trimtab/plan/1) to this file."),
        form: str = FORMAT,
        as_json: bool = JSON,
        all_moves: bool = ALL_MOVES,
        strategy: str | None = typer.Option(None, "--strategy", help=balancer.strategy_help),
        overrides: list[str] = typer.Option([], "--set", help=balancer.set_help),
        settings: Path | None = SETTINGS,
        *,
        values: dict[str, Any],
    ) -> None:
        from trimtab.cli.bodies import plan as body

        asked = PlanRequest(
            snapshot=snapshot,
            lake=lake_path(lake),
            settings=settings,
            cluster=command_context(lake, settings, overrides, cluster).lake_cluster(),
            strategy=strategy,
            overrides=tuple(overrides),
            own=values,
        )
        body.plan(balancer, asked, out, form_of(form, as_json), all_moves=all_moves)

    plan.__doc__ = f"""Plan moves of {balancer.title}; changes nothing.

    Exit code 0: the verdict is `balanced` or `improved`. 3: it is `incomplete` or `infeasible`, and the
    problems name the reason. 2: invalid input or settings; nothing is written.
    """
    return with_options(plan, () if balancer.plan_options is None else balancer.plan_options())


for _level in BALANCERS.values():
    app.command(_level.name)(_command(_level))


@app.command()
def show(
    path: Path = typer.Argument(..., metavar="PLAN.json", help="Plan file (trimtab/plan/1)."),
    snapshot: Path | None = typer.Option(
        None, "--snapshot", help="Snapshot of the plan, to show its load too."
    ),
    form: str = FORMAT,
    as_json: bool = JSON,
    all_moves: bool = ALL_MOVES,
) -> None:
    """Check and show a plan file, also one edited by hand."""
    from trimtab.cli.bodies import plan as body

    body.show(path, snapshot, form_of(form, as_json), all_moves=all_moves)


@app.command()
def diff(
    first: Path = typer.Argument(..., metavar="A.json"), second: Path = typer.Argument(..., metavar="B.json")
) -> None:
    """Show the differences of two plans; exit code 1 if they differ."""
    from trimtab.cli.bodies import plan as body

    body.diff(first, second)
