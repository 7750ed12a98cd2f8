"""The Dockerfile and `scripts/build-image` describe the same image."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "deploy" / "image" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
SCRIPT = (ROOT / "scripts" / "build-image").read_text(encoding="utf-8").replace("\\\n", " ")


def _instruction(name: str) -> str:
    found = re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)
    assert len(found) == 1
    return str(found[0])


def _configured(name: str) -> list[str]:
    """Values of an option of `umoci config`, in their order."""
    words = shlex.split(SCRIPT[SCRIPT.index("umoci config") :].splitlines()[0])
    return [words[at + 1] for at, word in enumerate(words) if word == f"--config.{name}"]


def test_both_images_have_one_configuration() -> None:
    """User, folders, port, environment and command are the same."""
    assert _configured("user") == [_instruction("USER")]
    assert _configured("workingdir") == _configured("volume") == [_instruction("WORKDIR")]
    assert _instruction("VOLUME") == _instruction("WORKDIR")
    assert _configured("exposedports") == [f"{_instruction('EXPOSE')}/tcp"]
    assert _configured("env") == shlex.split(_instruction("ENV"))
    assert str(_configured("entrypoint")).replace("'", '"') == _instruction("ENTRYPOINT")
    assert str(_configured("cmd")).replace("'", '"') == _instruction("CMD")


def test_both_run_the_same_steps() -> None:
    """The steps are in one script."""
    assert "deploy/image/steps.sh" in DOCKERFILE
    assert "deploy/image/steps.sh" in SCRIPT


@pytest.mark.parametrize("script", ["deploy/image/steps.sh", "scripts/build-image"])
def test_the_scripts_are_posix(script: str) -> None:
    """They are read by sh, which finds no fault of grammar."""
    subprocess.run(["sh", "-n", str(ROOT / script)], check=True)


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    """The script stops before it does anything; without a folder it prints its usage."""
    (tmp_path / "image").mkdir()
    for arguments, text in (([str(tmp_path / "image")], "exists; name a new folder"), ([], "ROOT_ONLY=yes")):
        command = [str(ROOT / "scripts" / "build-image"), *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        assert text in ended.stdout + ended.stderr or "needs root" in ended.stderr
