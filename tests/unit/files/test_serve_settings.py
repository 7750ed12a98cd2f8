"""The section `[serve]`: the policy of a service, from a file."""

from datetime import date
from pathlib import Path

import pytest

from trimtab.balancers.settings import read_settings
from trimtab.files.serve_settings import SECTION
from trimtab.model.policy import Drift, Freeze, Mode, Policy, Window
from trimtab_common.errors import SettingsError


def policy_of(folder: Path, text: str) -> Policy:
    """The policy of a settings file with this text."""
    path = folder / "trimtab.toml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path, (), {}).bound(SECTION)


def test_a_policy_is_read_with_its_tables(tmp_path: Path) -> None:
    """What is not given has its default."""
    found = policy_of(
        tmp_path,
        """
        [serve]
        interval_seconds = 60
        [serve.drift]
        mode = "act"
        begin = 0.3
        [serve.budget]
        max_bytes = 1000
        [[serve.windows]]
        begin = "22:00"
        end = "05:00"
        days = "mon-fri"
        zone = "Europe/Berlin"
        [[serve.freezes]]
        first = 2026-11-27
        last = 2026-11-30
        reason = "Black Friday"
        """,
    )
    assert found.drift == Drift(Mode.ACT, begin=0.3)
    assert found.budget.max_bytes == 1000
    assert found.windows == (Window("22:00", "05:00", "mon-fri", "Europe/Berlin"),)
    assert found.freezes == (Freeze(date(2026, 11, 27), date(2026, 11, 30), reason="Black Friday"),)
    assert found.broker_lost == Policy().broker_lost
    assert found.interval_seconds == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[serve.drift]\nmode = "automatic"',
            'serve.drift.mode is "automatic", expected one of observe, propose, ask, act',
        ),
        ("[serve.drift]\nend = 0.2", "serve.drift is 0.2, expected an end below begin, 0.2"),
        ("[serve.drfit]\nend = 0.2", "serve.drfit is not a setting; did you mean serve.drift"),
        ('[[serve.windows]]\nbegin = "25:00"\nend = "05:00"', "serve.windows"),
        ('[[serve.windows]]\nbegin = "22:00"\nend = "05:00"\nzon = "UTC"', "zon"),
        ('[[serve.windows]]\nbegin = "22:00"\nend = "05:00"\ndays = "monday"', "days and ranges of days"),
        (
            '[[serve.windows]]\nbegin = "22:00"\nend = "05:00"\nzone = "Berlin"',
            '"Berlin", expected a time zone',
        ),
        ("[[serve.freezes]]\nfirst = 2026-11-27\nlast = 2026-11-26", "2026-11-27 to 2026-11-26"),
    ],
)
def test_a_faulty_policy_is_refused_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    """The message names the key, the value and what is expected."""
    with pytest.raises(SettingsError) as refused:
        policy_of(tmp_path, text)
    assert message in str(refused.value)


@pytest.mark.parametrize("url", ["hooks.example/x", "ftp://a/x", "https:///hush", "https://user:hush@a/x"])
def test_addresses_of_receivers_are_checked_and_hidden(tmp_path: Path, url: str) -> None:
    """The address of a webhook may be a secret: the error names the table instead."""
    with pytest.raises(SettingsError, match=r"the url of table 1.*without user and password") as caught:
        policy_of(tmp_path, f'[[serve.notifications]]\nkind = "webhook"\nurl = "{url}"\n')
    assert "hush" not in str(caught.value)
