"""A replay as bytes: its state as JSON, to be gone on with; its effect, to come home from a task."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np

from trimtab.files.atomic import write_atomically
from trimtab.files.reading import read_bytes
from trimtab.history.bundles.effect import ReplayEffect
from trimtab.history.bundles.replay import ReplayState, ShedderScenario, first_state
from trimtab.history.bundles.world import ReplayedCluster
from trimtab.model.bundles.reports import TRAFFIC
from trimtab.model.errors import InputError
from trimtab.plan.pulsar.assign.state import AssignmentState
from trimtab.plan.pulsar.averages import BundleTable
from trimtab.plan.pulsar.split.extensible import SplitState
from trimtab.plan.pulsar.view import HashMapOrder

FORMAT: Final = "trimtab/bundles-replay-state/1"
_KINDS: Final[dict[str, Any]] = {
    "recently_unloaded": dict[str, float],
    "recently_unloaded_brokers": dict[str, float],
    "world": ReplayedCluster,
    "splits": SplitState,
    "order": HashMapOrder,
    "bundles": BundleTable,
}


def write_state(state: ReplayState, scenario: ShedderScenario, strategy: str, path: Path) -> None:
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
    document = {
        "format": FORMAT,
        "scenario": _identity(scenario, strategy),
        "shedder": state.shedder,
        "assignment": state.assignment,
        "chance": _texts(state.chance),
        **{name: getattr(state, name) for name in _KINDS},
    }
    encoded = msgspec.json.encode(document, enc_hook=_listed)
    write_atomically(path, msgspec.json.format(encoded, indent=0) + b"\n")


def read_state(scenario: ShedderScenario, strategy: str, path: Path) -> ReplayState:
    """The state that was written.

    Raises
    ------
    InputError
        If the file is not one of these, or is of a replay with another strategy, seed or option.
    """
    initial = first_state(scenario)
    kinds = {
        **_KINDS,
        "shedder": type(initial.shedder),
        "assignment": cast("Any", AssignmentState)[type(initial.assignment.placement)],
    }
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
        found = {name: msgspec.convert(document[name], kind, dec_hook=_array) for name, kind in kinds.items()}
        table = found["bundles"]
        shape = (len(table.names), len(TRAFFIC))
        found["bundles"] = replace(table, short=table.short.reshape(shape), long=table.long.reshape(shape))
        return ReplayState(chance=_numbers(document["chance"]), **found)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, UnicodeDecodeError):
        raise InputError(
            f"{path}: is not a sound state of a replay ({FORMAT}); name the file that --state-file wrote, or "
            "begin anew with another"
        ) from None


def effect_bytes(effect: ReplayEffect) -> bytes:
    """The effect as MessagePack, which keeps NaN and every bit of a double."""
    return msgspec.msgpack.encode(effect, enc_hook=_listed)


def effect_from(data: bytes) -> ReplayEffect:
    """The effect that these bytes are of."""
    return msgspec.msgpack.decode(data, type=ReplayEffect, dec_hook=_array)


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} has no form in a file")


def _array(kind: Any, value: Any) -> Any:
    """An array of the type that its field declares, `NDArray[...]`."""
    return np.array(value, dtype=kind.__args__[1].__args__[0])


def _identity(scenario: ShedderScenario, strategy: str) -> dict[str, Any]:
    """The settings that two replays must have in common, as JSON brings them back."""
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
