"""Where figures are kept: one JSON file for each benchmark, with the machine that they were taken on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from timing import machine

FOLDER = Path(__file__).parent / "results"


def write_result(name: str, rows: object) -> Path:
    """Write `results/<name>.json`: the machine, then the rows."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return path


def read_result(name: str) -> dict[str, Any] | None:
    """The figures of a benchmark, or None where it has not been run."""
    path = FOLDER / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
