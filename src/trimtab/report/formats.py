"""Figures, times and names in the form in which people read them."""

from __future__ import annotations

import math
import textwrap
from datetime import UTC, datetime

_ABBREVIATIONS = {"cpu": "CPU"}


def resource_name(resource: str) -> str:
    """A resource as people call it, by the name that load arrays and files have."""
    return _ABBREVIATIONS.get(resource, resource.replace("_", " "))


def broker_name(broker: int | str) -> str:
    """A broker as tables and pictures call it; an address needs no word before it, a number does."""
    return f"broker {broker}" if isinstance(broker, int) else broker


def counted(number: int, noun: str) -> str:
    """A number with its noun, in the plural where there are several."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def folded(text: str, columns: int = 100) -> str:
    """Lines that a terminal holds: the rest of a longer one goes on below, indented, and nothing is lost."""
    fold = textwrap.TextWrapper(columns, subsequent_indent=" " * 8, break_on_hyphens=False).wrap
    return "\n".join("\n".join(fold(line)) for line in text.splitlines())


def bytes_text(number: float) -> str:
    """Bytes in decimal units, as disks and networks count them."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if number < 1000 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError("the last unit takes every number")


def duration_text(seconds: float) -> str:
    """Seconds for people: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def clock_text(at: float) -> str:
    """Seconds since 1970 as a date and time of day, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def signed_text(fraction: float) -> str:
    """A deviation in whole percent with its sign; what rounds to nothing has both."""
    text = f"{fraction:+.0%}"
    return "±0%" if text in ("+0%", "-0%") else text


def drop_text(before: float, after: float) -> str:
    """The fall of a figure as a percentage of what it was; a rise is a negative drop."""
    return "–" if before == 0 else f"{(before - after) / before:.1%}"


def figure_text(value: float, form: str) -> str:
    """A figure in a form of Python's, such as `.4f`; a dash where it is not known."""
    return format(value, form) if math.isfinite(value) else "–"


def known_value(value: float) -> float | None:
    """A figure for JSON: null where it is not known."""
    return float(value) if math.isfinite(value) else None
