"""An effect as bytes and back, to the last bit: how it comes home from a task on another machine."""

import dataclasses
from typing import Any

import msgspec
import numpy as np

from trimtab.history.bundles.effect import Effect
from trimtab.model.bundle_returns import Oscillation

FIGURES = ("at", "sigma", "peak_usage")
COUNTS = ("overloaded", "unloads")


def effect_bytes(effect: Effect) -> bytes:
    """The effect as MessagePack, which keeps NaN and every bit of a double."""
    fields: dict[str, Any] = {field.name: getattr(effect, field.name) for field in dataclasses.fields(Effect)}
    for name in (*FIGURES, *COUNTS):
        fields[name] = fields[name].tolist()
    return msgspec.msgpack.encode(fields)


def effect_from(data: bytes) -> Effect:
    """The effect that these bytes are of."""
    fields: dict[str, Any] = msgspec.msgpack.decode(data)
    for name in FIGURES:
        fields[name] = np.array(fields[name], dtype=np.float64)
    for name in COUNTS:
        fields[name] = np.array(fields[name], dtype=np.int64)
    fields["oscillations"] = msgspec.convert(fields["oscillations"], tuple[Oscillation, ...])
    return Effect(**fields)
