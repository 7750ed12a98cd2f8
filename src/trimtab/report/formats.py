"""Numbers, durations and sentences as text, and the lines that commands print on standard error."""

from __future__ import annotations

import json
import logging
import math
import re
import shutil
import sys
import textwrap
from datetime import UTC, datetime
from functools import cache
from typing import Final, TextIO

from trimtab.model.text import bytes_text as bytes_text
from trimtab.model.text import clock_text as clock_text
from trimtab.model.text import counted as counted
from trimtab.model.text import duration_text as duration_text

BYTE_RATES: Final = ("network", "bandwidth")
RATES: Final = {"message_rate": "messages/s", "queries": "requests/s", "records": "records/s"}


def load_text(value: float | None, resource: str) -> str:
    """A load with the unit of its resource."""
    if value is None or not math.isfinite(value):
        return "–"
    if resource == "cpu":
        return f"{value:.2f} cores"
    if resource.startswith(BYTE_RATES):
        return f"{bytes_text(value)}/s"
    if resource in RATES:
        return f"{value:,.1f} {RATES[resource]}"
    return duration_text(value) if resource == "work" else bytes_text(value)


def broker_name(broker: int | str) -> str:
    """The name of a broker in tables and pictures: `broker 3`, or its address."""
    return f"broker {broker}" if isinstance(broker, int) else broker


def fitted(text: str, stream: TextIO, margin: int = 0) -> str:
    """The text folded for the terminal, sentences to at most 100 columns; unchanged in a pipe.

    A longer line continues below its last cell if it is a row of a table, or else indented.
    """
    if not stream.isatty():
        return text
    columns, lines = shutil.get_terminal_size().columns - margin, []
    for line in text.split("\n"):
        cells = [gap.end() for gap in re.finditer(r" {2,}", line)] or [0]
        wide = columns if len(cells) > 1 else min(columns, 100)
        under = cells[-1] if len(cells) > 1 and cells[-1] <= wide // 2 else cells[0] + 4
        fold = textwrap.TextWrapper(wide, subsequent_indent=" " * under, break_long_words=False)
        fold.break_on_hyphens = False
        lines += [line] if len(line) <= wide else fold.wrap(line)
    return "\n".join(lines)


def signed_text(fraction: float) -> str:
    """A deviation in whole percent with its sign; `±0%` if it rounds to 0."""
    text = f"{fraction:+.0%}"
    return "±0%" if text in ("+0%", "-0%") else text


def drop_text(before: float, after: float) -> str:
    """The decrease of a figure in percent; negative for an increase."""
    return "–" if before == 0 else f"{(before - after) / before:.1%}"


def figure_text(value: float | None, form: str) -> str:
    """A figure in a format of Python such as `.4f`; a dash for None and NaN."""
    return "–" if value is None or not math.isfinite(value) else format(value, form)


def known_value(value: float) -> float | None:
    """A figure for JSON; None if it is not known."""
    return float(value) if math.isfinite(value) else None


LOGGER: Final = logging.getLogger("trimtab")
LOG_FORMS: Final = ("text", "json")


class _Handler(logging.Handler):
    """Writes log records to the current standard error: `trimtab: TEXT`, or JSON objects."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def emit(self, record: logging.LogRecord) -> None:
        """Print one log record to standard error."""
        print(self._text(record), file=sys.stderr, flush=True)

    def _text(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + logging.Formatter().formatException(record.exc_info)
        if self._form == "json":
            at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
            entry = {"time": at, "level": record.levelname.lower(), "logger": record.name, "message": message}
            return json.dumps(entry, ensure_ascii=False)
        mark = "warning: " if record.levelno == logging.WARNING else ""
        origin = "trimtab" if record.name == LOGGER.name else record.name
        return f"{origin}: {mark}{message}"


def configure_logging(log_level: int = logging.INFO, form: str = "text") -> None:
    """Send log messages to standard error.

    Parameters
    ----------
    log_level
        `logging.WARNING` shows warnings and errors alone; `logging.DEBUG` also shows messages of libraries.
    form
        `text`, or `json` for one object a line with `time`, `level`, `logger` and `message`.
    """
    for logger in (logging.getLogger(), LOGGER):
        for handler in [one for one in logger.handlers if isinstance(one, _Handler)]:
            logger.removeHandler(handler)
    target = logging.getLogger() if log_level <= logging.DEBUG else LOGGER
    target.addHandler(_Handler(form))
    target.setLevel(log_level)
    LOGGER.setLevel(log_level)
    LOGGER.propagate = target is not LOGGER


def print_progress(line: str) -> None:
    """Log one line of progress, at level INFO."""
    _configured().info("%s", line)


def print_json(document: object) -> None:
    """Print the answer of a command as one JSON document."""
    print(json.dumps(document, ensure_ascii=False, indent=1))


def warn(line: str) -> None:
    """Log one line that an operator should not miss, at level WARNING."""
    _configured().warning("%s", line)


def _configured() -> logging.Logger:
    """The logger of the command line; scripts and notebooks get a default handler."""
    if not LOGGER.hasHandlers():
        configure_logging()
    return LOGGER


def announce_compilation() -> None:
    """Log once that the planner is being compiled, because the first compilation takes long."""
    compiled = sys.modules.get("trimtab.plan.search.compiled")
    if compiled is not None:
        text = "compiling the planner for this machine, once; later runs start at full speed"
        compiled.Kernel.announce = staticmethod(cache(lambda: print_progress(text)))
