"""Findings of a check: one thing that was looked at, and whether it will do."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class FindingStatus(StrEnum):
    """Whether a thing will do."""

    FINE = "fine"
    MISSING = "missing"
    """Something is not there, and plans can be made without it."""
    BROKEN = "broken"
    """A command would end with an error here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    part
        Under which heading it belongs: `settings`, `folders`, the title of a system.
    subject
        The thing itself, in a few words.
    text
        How it is, and what that means.
    remedy
        What to do about it; empty where it is fine, or where `text` says it already.
    """

    part: str
    subject: str
    grade: FindingStatus
    text: str
    remedy: str = ""


def fine(part: str, subject: str, text: str) -> Finding:
    """A thing that will do."""
    return Finding(part, subject, FindingStatus.FINE, text)


def missing(part: str, subject: str, text: str, remedy: str = "") -> Finding:
    """A thing that is not there, and that plans can do without."""
    return Finding(part, subject, FindingStatus.MISSING, text, remedy)


def broken(part: str, subject: str, text: str, remedy: str = "") -> Finding:
    """A thing over which a command would stumble."""
    return Finding(part, subject, FindingStatus.BROKEN, text, remedy)


def exit_code_of(findings: Iterable[Finding]) -> int:
    """0 if all is fine, 1 if something is missing, 2 if something is broken."""
    grades = {one.grade for one in findings}
    return 2 if FindingStatus.BROKEN in grades else 1 if FindingStatus.MISSING in grades else 0
