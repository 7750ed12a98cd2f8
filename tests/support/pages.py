"""The commands of a markdown page, and whether what a run printed has the form that the page shows."""

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LEFT_OUT = "[...]"
"""A line of a page that stands for any number of lines, or a part of one for anything."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the heading above it, its place there (from 1), its language and text."""

    page: str
    heading: str
    place: int
    language: str
    text: str

    @property
    def name(self) -> str:
        """As lists of blocks call it."""
        return f"{self.page}: {self.heading}: {self.place}"

    @property
    def commands(self) -> list[str]:
        """What a reader types: all of an `sh` block, and what stands behind `$` in a `console` block."""
        if self.language == "console":
            return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]
        found: list[str] = []
        ends: str | None = None
        for line in self.text.splitlines():
            if ends is not None:
                found[-1] += "\n" + line
                ends = None if line == ends else ends
            elif line.strip():
                found.append(line)
                here = re.search(r"<<'(\w+)'", line)
                ends = here and here[1]
        return found

    @property
    def output(self) -> list[str]:
        """Lines that a `console` block shows as printed."""
        lines = self.text.splitlines() if self.language == "console" else []
        return [line for line in lines if not line.startswith("$ ") and line.strip()]


def blocks_of(page: str) -> list[Block]:
    """All fenced blocks of a page of the repository, in order."""
    found: list[Block] = []
    heading, language, lines = "", None, list[str]()
    for line in (REPOSITORY / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            if language is None:
                language, lines = line[3:].strip(), []
            else:
                place = 1 + sum(one.heading == heading for one in found)
                found.append(Block(page, heading, place, language, "\n".join(lines)))
                language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith("#"):
            heading = line.lstrip("#").strip()
    assert language is None, f"{page}: a fenced block does not end"
    return found


def typed(page: str) -> list[Block]:
    """The blocks of a page that somebody types."""
    return [block for block in blocks_of(page) if block.language in ("sh", "console")]


def missing_lines(shown: list[str], printed: str, varies: re.Pattern[str]) -> list[str]:
    """Lines of a page for which a run printed none of the same words, in the same order.

    Parameters
    ----------
    shown
        As the page has them.
    printed
        By the run; it may have lines more.
    varies
        Lines of the page that another run need not have.
    """
    lines = [_words(line) for line in printed.splitlines()]
    at, missing = 0, []
    for line in shown:
        asked = _words(line)
        if line.strip() == LEFT_OUT or not asked or varies.search(line):
            continue
        there = next((place for place in range(at, len(lines)) if lines[place] == asked), None)
        if there is None:
            missing.append(line)
        else:
            at = there + 1
    return missing


def _words(line: str) -> list[str]:
    """The words of a line, without figures, names and what is left out."""
    without = re.sub(r"\S*[\d/]\S*|\[\.\.\.\]|\S{20,}", " ", line)
    return re.findall(r"[^\W\d_]{2,}", without)
