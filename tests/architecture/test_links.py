"""Every page leads where it says it does."""

import re
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "trimtab"
FENCE = re.compile(r"^(```|~~~).*?^\1[^\S\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
FILE_NAME = re.compile(
    r"`((?:(?:src|packages|tests|docs|scripts|benchmarks|examples|experiments)/[\w./-]*)|(?:\w+/)+\w+\.py)`"
)

TEST_NAME = re.compile(r"`(test_\w+)`")
TEST = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)


def _pages() -> list[Path]:
    """Markdown under version control; in an unpacked archive, all of it."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode == 0 and answer.stdout:
        found = [ROOT / name for name in answer.stdout.split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*.md") if ".venv" not in path.parts]
    return sorted(path for path in found if path.is_file() and "vendored" not in path.parts)


def _prose(text: str) -> str:
    """The text without code, where brackets and hashes mean something else."""
    return CODE.sub("", FENCE.sub("", text))


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Anchors that a page offers, by the rule that forges use for headings."""
    found: dict[str, int] = {}
    anchors = set()
    for heading in HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        anchors.add(f"{slug}-{number}" if number else slug)
    return frozenset(anchors)


def _dead(page: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere."""
    dead = []
    for link in LINK.findall(_prose(text)):
        if OUTSIDE.match(link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.parent / name).resolve() if name else page
        there = target.exists() and target.is_relative_to(ROOT)
        if not there or (anchor and (target.suffix != ".md" or anchor not in _anchors(target))):
            dead.append(link)
    return dead


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link of our pages leads to an existing file and heading."""
    assert not _dead(page, page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", _pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_files_named_in_passing_are_there(page: Path) -> None:
    """A page that names a file of the repository names one that exists."""
    named = FILE_NAME.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    assert not [name for name in named if not ((ROOT / name).exists() or (SOURCE / name).exists())]


def test_tests_named_in_passing_are_there() -> None:
    """Every test that a page names exists."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = {name for text in sources for name in TEST.findall(text)}
    named = {
        (page.name, name)
        for page in _pages()
        for name in TEST_NAME.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    }
    assert named
    assert not sorted(one for one in named if one[1] not in there)


def test_the_search_finds_dead_links() -> None:
    """The patterns themselves are sound: they would catch what they are there for."""
    page = ROOT / "docs" / "architecture.md"
    text = "[a](nowhere.md) [b](architecture.md#no-such-heading) [c](#one-turn-step-by-step) `[d](code.md)`"
    assert _dead(page, text) == ["nowhere.md", "architecture.md#no-such-heading"]
    assert _dead(page, "![a picture](images/nothing.svg) [out](../../../etc/hostname)") != []
