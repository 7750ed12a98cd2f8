"""The state of a replay as JSON, so that it can be stopped, kept, and gone on with."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from trimtab.files.atomic import write_atomically
from trimtab.files.reading import read_bytes
from trimtab.history.bundles.replay import ReplayState, Scenario, first_state
from trimtab.history.bundles.world import World
from trimtab.model.errors import InputError
from trimtab.plan.bundles.assign.state import AssignmentState
from trimtab.plan.bundles.averages import BundleTable
from trimtab.plan.bundles.view import MapOrder

FORMAT = "trimtab/bundles-replay-state/1"


def write_state(state: ReplayState, scenario: Scenario, strategy: str, path: Path) -> None:
    """Write where a replay stands; the file appears as a whole or not at all.

    Parameters
    ----------
    state
        After some tick.
    scenario, strategy
        What it was replayed with, so that nobody goes on with another by mistake.
    path
        The file to make or replace.
    """
    table = state.bundles
    document = {
        "format": FORMAT,
        "scenario": _identity(scenario, strategy),
        "shedder": state.shedder,
        "assignment": state.assignment,
        "chance": _texts(state.chance),
        "recently_unloaded": state.recently_unloaded,
        "recently_unloaded_brokers": state.recently_unloaded_brokers,
        "world": state.world,
        "order": state.order,
        "bundles": {
            "names": table.names,
            "short": table.short.tolist(),
            "long": table.long.tolist(),
            "short_samples": table.short_samples.tolist(),
            "long_samples": table.long_samples.tolist(),
            "topics": table.topics.tolist(),
        },
    }
    write_atomically(path, msgspec.json.format(msgspec.json.encode(document), indent=0) + b"\n")


def read_state(scenario: Scenario, strategy: str, path: Path) -> ReplayState:
    """The state that was written.

    Raises
    ------
    InputError
        If the file is not one of these, or is of a replay with another strategy, seed or option.
    """
    initial = first_state(scenario)
    try:
        document = msgspec.json.decode(read_bytes(path), type=dict[str, Any])
        if document["format"] != FORMAT:
            raise KeyError
        saved, wanted = document["scenario"], _identity(scenario, strategy)
        differing = [name for name in wanted if saved.get(name) != wanted[name]]
        if differing:
            raise InputError(
                f"{path}: is of a replay with another {' and '.join(differing)}; give the same, or begin "
                "anew with another file"
            )
        table = document["bundles"]
        return ReplayState(
            shedder=msgspec.convert(document["shedder"], type(initial.shedder)),
            assignment=_assignment(document["assignment"], initial.assignment),
            chance=_numbers(document["chance"]),
            recently_unloaded=msgspec.convert(document["recently_unloaded"], dict[str, float]),
            recently_unloaded_brokers=msgspec.convert(
                document["recently_unloaded_brokers"], dict[str, float]
            ),
            world=msgspec.convert(document["world"], World),
            order=msgspec.convert(document["order"], MapOrder),
            bundles=BundleTable(
                tuple(table["names"]),
                np.array(table["short"], dtype=np.float64).reshape(-1, 4),
                np.array(table["long"], dtype=np.float64).reshape(-1, 4),
                np.array(table["short_samples"], dtype=np.int32),
                np.array(table["long_samples"], dtype=np.int32),
                np.array(table["topics"], dtype=np.int32),
            ),
        )
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, UnicodeDecodeError):
        raise InputError(
            f"{path}: is not a sound state of a replay ({FORMAT}); name the file that --state wrote, or "
            "begin anew with another"
        ) from None


def _assignment(saved: dict[str, Any], initial: AssignmentState[Any]) -> AssignmentState[Any]:
    return AssignmentState(
        placement=msgspec.convert(saved["placement"], type(initial.placement)),
        round_robin=msgspec.convert(saved["round_robin"], type(initial.round_robin)),
        preallocated=msgspec.convert(saved["preallocated"], dict[str, str]),
        destinations=msgspec.convert(saved["destinations"], dict[str, str]),
    )


def _identity(scenario: Scenario, strategy: str) -> dict[str, Any]:
    """What two replays must have in common, as JSON brings it back."""
    identity: dict[str, Any] = {
        "strategy": strategy,
        "seed": scenario.seed,
        "options": scenario.options,
        "order": "java" if scenario.java_order else "file",
        "world": "simulated" if scenario.world_answers else "recorded",
        "policies": scenario.metadata.policies,
        "quotas": scenario.quotas,
    }
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(identity))
    return found


def _texts(state: Any) -> Any:
    """The state of the random numbers with its 128-bit integers as texts, which JSON readers do not round."""
    if isinstance(state, dict):
        return {name: _texts(value) for name, value in state.items()}
    return f"int:{state}" if isinstance(state, int) else state


def _numbers(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _numbers(value) for name, value in state.items()}
    return int(state[4:]) if isinstance(state, str) and state.startswith("int:") else state
