"""`trimtab status --watch` where nothing can be drawn over."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trimtab.cli import status
from trimtab.model.errors import ObserveError
from trimtab_common.errors import ConnectError

if TYPE_CHECKING:
    import pytest


def test_an_empty_lake_is_reported_once_and_then_the_load(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output goes to a file: the wait is reported once, then the load, then each change once;
    a service that starts again in between ends nothing.
    """
    answers = iter(["empty", "empty", "first", "first", "gone", "second", "end"])

    def seen() -> Any:
        match next(answers):
            case "empty":
                raise ObserveError("lake [lake] holds no load")
            case "gone":
                raise ConnectError("the service starts again")
            case "end":
                raise KeyboardInterrupt
            case answer:
                return {}, [answer]

    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    status.show(seen, watch=True, as_json=False)
    gone = "waiting: the service starts again"
    assert capsys.readouterr().out == f"waiting: lake [lake] holds no load\nfirst\n{gone}\nsecond\n"
