"""Alert rules and the dashboard of deploy/, read as text: expressions and names of metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = FOLDER / "prometheus" / "rules.yml"
RULE_CASES: Final = FOLDER / "prometheus" / "rules-test.yml"
DASHBOARD: Final = FOLDER / "grafana" / "trimtab.json"

_RULE = re.compile(r"- alert: (\w+)\n\s+expr: (.*?)\n\s+(?:for|labels):", re.DOTALL)
_METRIC = re.compile(r"\b(?:trimtab|process)_\w+")


def rule_expressions() -> dict[str, str]:
    """The text of each alert's expression, as the file has it."""
    return dict(_RULE.findall(RULES.read_text(encoding="utf-8")))


def panels() -> list[dict[str, Any]]:
    """Panels of the dashboard."""
    return list(json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"])


def panel_expressions() -> list[tuple[str, str]]:
    """Title and expression of each query of the dashboard; variables match everything."""
    return [
        (panel["title"], target["expr"].replace("$cluster", ".*").replace("$balancer", ".*"))
        for panel in panels()
        for target in panel["targets"]
    ]


def metric_names(text: str) -> set[str]:
    """Names of trimtab's metrics in an expression."""
    return set(_METRIC.findall(text))


def code_block(text: str, language: str) -> str:
    """The first block of code of a language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[0]
