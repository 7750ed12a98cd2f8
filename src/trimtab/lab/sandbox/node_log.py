"""The log of a node, and what it says about its end."""

from __future__ import annotations

import re
from pathlib import Path

LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c{1})%n%throwable{short.message}%n
"""


def exit_reason(node: str, log: Path) -> str:
    """One sentence on a node that ended by itself, from its log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    if any("Address already in use" in line or "BindException" in line for line in lines):
        ports = re.findall(r"127\.0\.0\.1:(\d+)", "\n".join(lines))
        which = f"port {ports[-1]}" if ports else "one of its ports"
        return f"{node} cannot listen: {which} was taken while it started; try again"
    if any("insufficient memory" in line.lower() for line in lines):
        return f"{node} cannot start: this machine has no memory left; close something and try again"
    worst = [line for line in lines if re.search(r"\b(ERROR|FATAL|Error|Exception)\b", line)]
    last = (worst or lines or ["it wrote nothing"])[-1].strip()
    return f"{node} ended while it started: {last} (whole log: {log})"
