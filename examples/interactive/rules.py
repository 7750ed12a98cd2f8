"""Business rules as data: votes, quizzes, questions and answers, out of a file that may change meanwhile."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trimtab_common.errors import InputError

Positive = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1, max_length=200)]


class Business(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What every kind of business has.

    Attributes
    ----------
    keyword
        An SMS to the business begins with it.
    phone
        The number that is called.
    answers_per_user
        Later ones are processed and not counted.
    limit_per_second, user_limit_per_second
        Messages that the gateway lets in, of all users and of one.
    weight_seconds
        Processing time of one message, as dispatch reckons with it.
    """

    title: Text
    keyword: Annotated[str, Meta(pattern="^[A-Z]{2,12}$")]
    phone: Annotated[str, Meta(pattern="^[0-9]{3,15}$")]
    answers_per_user: Annotated[int, Meta(ge=1)] = 1
    limit_per_second: Positive = 20_000.0
    user_limit_per_second: Positive = 20.0
    weight_seconds: Positive = 0.0001

    def understood(self, said: str) -> str:
        """An answer in full.

        Raises
        ------
        ValueError
            If it is none, with a sentence.
        """
        raise NotImplementedError

    def effect(self, answer: str) -> Effect:
        """What an answer changes."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Effect:
    """What one message changes: a counter by one, a user's points, a text to show."""

    counter: str
    points: int = 0
    text: str = ""


class Vote(Business, frozen=True, kw_only=True, tag="vote"):
    """Each answer is a vote for a choice."""

    choices: Annotated[tuple[Text, ...], Meta(min_length=2, max_length=9)]

    def understood(self, said: str) -> str:
        """A choice by its number (keys of remotes and telephones), its letter or its name."""
        said = said.strip()
        for place, choice in enumerate(self.choices):
            if said.casefold() in (choice.casefold(), str(place + 1), chr(ord("a") + place)):
                return choice
        raise ValueError(f"{said[:40]!r} is none of the choices: {', '.join(self.choices)}")

    def effect(self, answer: str) -> Effect:
        """One more for the choice."""
        return Effect(answer)


class Quiz(Vote, frozen=True, kw_only=True, tag="quiz"):
    """A choice is right, and who finds it has points."""

    right: Text
    points: Annotated[int, Meta(ge=1)] = 10

    def __post_init__(self) -> None:
        """The right choice must be one."""
        if self.right not in self.choices:
            raise ValueError(f"right is {self.right!r}, expected one of {', '.join(self.choices)}")

    def effect(self, answer: str) -> Effect:
        """One more for the choice, and points if it is right."""
        return Effect(answer, self.points if answer == self.right else 0)


class Questions(Business, frozen=True, kw_only=True, tag="questions"):
    """Users ask, the studio answers."""

    length_max: Annotated[int, Meta(ge=1, le=1000)] = 280

    def understood(self, said: str) -> str:
        """A text of some length."""
        said = " ".join(said.split())
        if not 1 <= len(said) <= self.length_max:
            raise ValueError(f"the question has {len(said)} characters, expected 1 to {self.length_max}")
        return said

    def effect(self, answer: str) -> Effect:
        """One more question, shown."""
        return Effect("asked", text=answer)


@dataclass(frozen=True)
class Rules:
    """All businesses of a file.

    Attributes
    ----------
    version
        Of the text: a message is processed by the rules under which it was accepted.
    """

    text: str
    version: str
    businesses: Mapping[str, Business]


def read_rules(text: str) -> Rules:
    """Businesses by name, out of TOML.

    Raises
    ------
    InputError
        If anything about it is wrong, naming the business.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the rule file is no TOML: {error}; the rules stay as they are") from error
    found: dict[str, Any] = {}
    for name, table in tables.items():
        try:
            found[name] = msgspec.convert(table, Vote | Quiz | Questions)
        except msgspec.ValidationError as error:
            raise InputError(
                f"business {name} of the rule file: {error}; the rules stay as they are"
            ) from error
    for field in ("keyword", "phone"):
        names: dict[str, str] = {}
        for name, one in found.items():
            other = names.setdefault(getattr(one, field), name)
            if other != name:
                raise InputError(
                    f"businesses {other} and {name} of the rule file have the same {field} "
                    f"{getattr(one, field)}: give each its own; the rules stay as they are"
                )
    if not found:
        raise InputError("the rule file names no business: add a table; the rules stay as they are")
    return Rules(text, hashlib.sha1(text.encode()).hexdigest()[:12], found)
