"""Numbers and durations as text, for reasons and messages."""

from datetime import UTC, datetime


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun, in the plural where there are several; by default that has an s."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


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
