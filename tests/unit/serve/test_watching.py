"""Alert rules, dashboard and page of metrics name only metrics that the code has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.watching import (
    DASHBOARD,
    RULE_CASES,
    RULES,
    code_block,
    metric_names,
    panel_expressions,
    panels,
    rule_expressions,
)
from trimtab.balancers.settings import read_settings
from trimtab.cli.metrics import COLLECT_METRICS, STREAM_METRICS
from trimtab.files.serve_settings import SECTION
from trimtab.serve.metrics import METRICS
from trimtab.serve.notifications import signature

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "reference" / "metrics.md"
GUIDE = DOCS / "how-to" / "serve-watch.md"
COMMANDS = (*COLLECT_METRICS, *STREAM_METRICS)
LABELS = {one.name: set(one.all_labels) for one in METRICS}
LABELS |= {one.name: set(one.labels) for one in COMMANDS}


def known_names() -> set[str]:
    """Names of all series."""
    parts = {f"{one.name}_{end}" for one in COMMANDS if one.kind == "summary" for end in ("sum", "count")}
    return {one.name for one in METRICS} | {one.name for one in COMMANDS} | parts


def test_rules_and_panels_name_metrics_of_the_code() -> None:
    """A renamed metric would leave an alert that never fires, or an empty panel."""
    used = {name: metric_names(text) for name, text in rule_expressions().items()}
    used |= {title: metric_names(text) for title, text in panel_expressions()}
    assert {name: names - known_names() for name, names in used.items() if names - known_names()} == {}
    assert [name for name, names in used.items() if not names] == ["TrimtabDown"]


def test_rules_and_panels_match_labels_of_the_code() -> None:
    """A label that a metric does not have would select nothing."""
    texts = [*rule_expressions().values(), *(text for _, text in panel_expressions())]
    for name, matchers in re.findall(r"\b(trimtab_\w+)\{([^}]*)\}", "\n".join(texts)):
        assert set(re.findall(r"(\w+)=~?\"", matchers)) <= LABELS[name], name


def test_ten_rules_have_summary_remedy_and_cases() -> None:
    """Each alert says what is wrong and what helps, fires in one case and stays silent in another."""
    names = list(rule_expressions())
    assert len(names) == RULES.read_text().count("- alert:") == 10
    text = RULES.read_text()
    assert text.count("summary: ") == text.count("remedy: ") == text.count("severity: ") == 10
    cases = RULE_CASES.read_text().split("  - name: ")[1:]
    for name in names:
        own = [case for case in cases if f"alertname: {name}\n" in case]
        assert any("exp_alerts: []" in case for case in own), name
        assert any("exp_labels" in case for case in own), name


def test_the_dashboard_has_ten_panels_that_fill_the_grid() -> None:
    """Panels have different ids, a description, and do not overlap."""
    found = panels()
    assert len({one["id"] for one in found}) == len(found) == 10
    cells = [
        (x, y)
        for one in found
        for at in (one["gridPos"],)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells)) == 24 * (max(y for _, y in cells) + 1)
    assert all(one["description"] and one["targets"] for one in found)
    document = json.loads(DASHBOARD.read_text())
    assert [one["name"] for one in document["templating"]["list"]] == ["datasource", "cluster", "balancer"]


@pytest.mark.parametrize("metric", sorted(LABELS))
def test_metrics_are_documented(metric: str) -> None:
    """The page has a row for each metric, with its labels."""
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{metric}` ")]
    assert set(re.findall(r"`(\w+)`", row)) >= {metric, *LABELS[metric]}


def test_the_page_lists_the_alerts_with_their_severity() -> None:
    """The table of the page has the alerts of the rules, in their order."""
    listed = re.findall(r"^\| `(Trimtab\w+)` \| (\w+) \|", GUIDE.read_text(), re.MULTILINE)
    severities = re.findall(r"severity: (\w+)", RULES.read_text())
    assert listed == list(zip(rule_expressions(), severities, strict=True))


def test_the_settings_of_the_page_are_read(tmp_path: Path) -> None:
    """The tables of receivers are settings that the service accepts."""
    path = tmp_path / "trimtab.toml"
    path.write_text(code_block(GUIDE.read_text(), "toml"))
    settings = read_settings(path, (), {}).bound(SECTION)
    assert [one.kind for one in settings.notifications] == ["webhook", "slack", "alertmanager"]


def test_the_check_of_the_page_accepts_only_signed_bodies() -> None:
    """A receiver that runs the code of the page accepts what the service signs."""
    names: dict[str, Any] = {}
    exec(code_block(GUIDE.read_text(), "python"), names)
    body, key = b'{"id": 1}', b"a-key-of-a-receiver"
    header = f"sha256={signature(key, body)}"
    assert names["is_authentic"](body, header, key + b"\n")
    assert not names["is_authentic"](body + b" ", header, key)
    assert not names["is_authentic"](body, header, b"another-key")
