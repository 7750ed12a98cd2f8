"""The page on deployment: what can be typed here is typed."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.fake_service import FakeService
from support.http_calls import HttpCalls
from trimtab.balancers.clusters import cluster_named
from trimtab.balancers.settings import read_settings
from trimtab.files.serve_settings import SECTION, ServeSettings
from trimtab.serve.http.app import create_app

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")


def _block(language: str, word: str) -> str:
    """The only block of a language that has a word."""
    (found,) = [one for one in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if word in one]
    return str(found)


def test_the_token_of_the_page_opens_the_service(tmp_path: Path) -> None:
    """The shell commands write a line that the service reads, and print the token for it."""
    command = ["sh", "-eu", "-c", _block("sh", "openssl")]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    service = FakeService(ServeSettings(clusters=("orders",), token_file=str(tmp_path / "tokens")))
    call = HttpCalls(create_app(service), authorization=f"Bearer {printed.strip()}")
    assert call.get("/livez").status_code == 200
    assert HttpCalls(call.app, authorization="Bearer guessed").get("/livez").status_code == 401
    assert printed.strip() not in (tmp_path / "tokens").read_text()


def test_the_commands_name_files_that_are_here() -> None:
    """Units, manifests, Dockerfile and script are where the page says."""
    named = set(re.findall(r"(?:deploy|scripts|requirements)/[\w./*-]*\w", PAGE.replace("*.service", "")))
    assert len(named) >= 6
    assert not [name for name in named if not (ROOT / name).exists()]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_the_drop_in_gives_the_password(tmp_path: Path) -> None:
    """Systemd accepts the drop-in, and trimtab takes the options of unit and drop-in."""
    unit = (ROOT / "deploy" / "systemd" / "trimtab-serve.service").read_text(encoding="utf-8")
    (tmp_path / "trimtab-serve.service").write_text(unit.replace("/opt/trimtab/bin/trimtab", "/bin/true"))
    (tmp_path / "trimtab-serve.service.d").mkdir()
    drop_in = _block("ini", "LoadCredential")
    (tmp_path / "trimtab-serve.service.d" / "kafka.conf").write_text(drop_in)
    command = ["systemd-analyze", "verify", str(tmp_path / "trimtab-serve.service")]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == ""

    command_line = re.search(r"^ExecStart=(.*) \$OPTIONS$", unit, re.MULTILINE)
    further = re.search(r"^Environment=OPTIONS=--set=(.*)$", drop_in, re.MULTILINE)
    assert command_line is not None
    assert further is not None
    words = command_line[1].split()
    own = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    options = [one.replace("%d", str(tmp_path)) for one in (*own, further[1])]
    (tmp_path / "kafka").write_text("a password\n")
    table = (
        'address = "kafka://b:9092"\nsecurity_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nuser = "u"\n'
    )
    (tmp_path / "trimtab.toml").write_text(f"[clusters.my-cluster]\n{table}")
    settings = read_settings(tmp_path / "trimtab.toml", options, {})
    assert cluster_named(settings, "my-cluster").connection().password == "a password"
    assert settings.bound(SECTION).token_file == f"{tmp_path}/tokens"
