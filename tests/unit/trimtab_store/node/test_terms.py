"""Terms that become shorter from one process of a node to the next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimtab_common.errors import InputError
from trimtab_store.core.node import StoreNode
from trimtab_store.core.settings import StoreSettings
from trimtab_store.format.configuration import CONFIGURATION_FORMAT, NodeConfiguration
from trimtab_store.format.log import NodeLog
from trimtab_store.node import process
from trimtab_store.node.process import TERMS_FILE, NodeProcess, wait_for_old_terms

LONG = StoreSettings()
SHORT = StoreSettings(lease_seconds=7.0, cycle_seconds=15.5)


def test_a_longer_term_of_the_last_process_runs_out_first(tmp_path: Path) -> None:
    """Once, and by as much as the longer of its terms was longer; a longer one now needs no wait."""
    waited: list[float] = []
    for settings in (LONG, LONG, SHORT, SHORT, LONG, replace(LONG, lease_seconds=8.0)):
        wait_for_old_terms(tmp_path, settings, waited.append)
    assert waited == [4.5, 2.0]


def test_an_interrupted_wait_starts_again(tmp_path: Path) -> None:
    """The new terms are written behind it."""
    wait_for_old_terms(tmp_path, LONG)

    def killed(seconds: float) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            wait_for_old_terms(tmp_path, SHORT, killed)


def test_terms_that_cannot_be_read_are_no_shorter_ones(tmp_path: Path) -> None:
    """What has been promised is not known."""
    (tmp_path / TERMS_FILE).write_text("[]")
    with pytest.raises(InputError, match=r"terms.json cannot be read .*: remove it once all nodes"):
        wait_for_old_terms(tmp_path, LONG)


def test_a_node_waits_before_its_own_term_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its log locked, so that no other process of it writes other terms down."""
    given = NodeConfiguration(
        format=CONFIGURATION_FORMAT,
        cluster="c",
        node=0,
        addresses=["127.0.0.1:1"],
        folder=str(tmp_path),
        groups=1,
    )
    story: list[str] = []

    def waits(folder: Path, settings: StoreSettings) -> None:
        with pytest.raises(InputError, match="in use by another process"):
            NodeLog(folder / "log", "c", 0)
        story.append("waited")

    begun = NodeProcess._started

    def begins(*told: Any) -> StoreNode:
        story.append("begun")
        return begun(*told)

    monkeypatch.setattr(process, "wait_for_old_terms", waits)
    monkeypatch.setattr(NodeProcess, "_started", begins)
    NodeProcess(given)._log.close()
    assert story == ["waited", "begun"]
