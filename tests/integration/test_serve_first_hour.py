"""The page on the service, typed on a real Kafka cluster: it proposes a plan, and says why it waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from support.pages import blocks_of

PAGE = "docs/how-to/serve.md"
URL = "http://127.0.0.1:8239"
PROPOSED_SECONDS = 300


def answer(path: str) -> Any:
    """A document of the service; None where it does not answer yet."""
    try:
        with urllib.request.urlopen(f"{URL}{path}", timeout=20) as found:
            return json.load(found)
    except (urllib.error.URLError, ConnectionError):
        return None


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_newcomer_sees_a_proposal_and_reasons_to_wait(tmp_path: Path) -> None:
    """Every shell command of the page is typed; the service names reasons, then proposes a plan."""
    blocks = [block.text for block in blocks_of(PAGE) if block.language == "sh"]
    *first, end = blocks
    words = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TRIMTAB_STATE": str(tmp_path / "state"),
        "TRIMTAB_LAKE": str(tmp_path / "lake"),
    }
    shell = subprocess.Popen(
        ["bash", "-m"],
        stdin=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, **words},
        text=True,
        start_new_session=True,
    )
    assert shell.stdin is not None
    begun = time.monotonic()
    try:
        shell.stdin.write("\n".join(first) + "\n")
        shell.stdin.flush()
        reasons: list[str] = []
        plans: list[dict[str, Any]] = []
        while not plans and time.monotonic() - begun < PROPOSED_SECONDS:
            time.sleep(1)
            for target in answer("/api/v1/clusters") or []:
                if target["waiting"]["reason"] not in reasons:
                    reasons.append(target["waiting"]["reason"])
            plans = answer("/api/v1/plans?limit=1") or []
        log = (tmp_path / "serve.log").read_text(encoding="utf-8")
        assert plans, f"no plan within {PROPOSED_SECONDS} s; reasons: {reasons}\n{log[-3000:]}"
        assert plans[0]["trigger"] == "drift"
        assert plans[0]["state"] == "proposed"
        assert plans[0]["moves"] > 0
        assert any("no snapshot yet" in reason or "snapshot" in reason for reason in reasons), reasons
        assert answer("/api/v1/executions") == []
    finally:
        shell.stdin.write(end + "\nexit\n")
        shell.stdin.close()
        shell.wait(60)
