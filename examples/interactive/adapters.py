"""Channel adapters: what a television remote, an SMS, a web page and a telephone send, as one message."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from interactive.messages import Message, Refused
from interactive.rules import Rules

Form = Mapping[str, Any]


def adapted(channel: str, form: Any, rules: Rules) -> Message:
    """A message out of what a channel sent.

    Raises
    ------
    Refused
        404 for a channel or business that is unknown, 400 for a form that is none, 422 for an answer that
        the business does not understand.
    """
    if channel not in CHANNELS:
        raise Refused(404, f"channel {channel!r} is unknown; there are {', '.join(CHANNELS)}")
    if not isinstance(form, Mapping):
        raise Refused(400, f"a message is {type(form).__name__}, expected an object with fields")
    user, number, business, said = CHANNELS[channel](form, rules)
    if business not in rules.businesses:
        raise Refused(404, f"business {business[:40]!r} is unknown; there are {', '.join(rules.businesses)}")
    try:
        answer = rules.businesses[business].understood(said)
    except ValueError as error:
        raise Refused(422, f"{business}: {error}") from error
    return Message(f"{channel}/{business}/{user}/{number}", user, business, answer)


def _field(form: Form, name: str, length_max: int = 64) -> str:
    value = form.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 1 <= len(value) <= length_max or not value.isprintable():
        # The text of a value that is nested deeply is an error of its own.
        found = repr(value[:40]) if isinstance(value, str) else type(value).__name__
        raise Refused(400, f"field {name} is {found}, expected 1 to {length_max} printable characters")
    return value


def _subscriber(form: Form, name: str) -> str:
    # A person who calls and writes from one telephone is one user.
    number = re.sub(r"[ ()/-]", "", _field(form, name))
    if not re.fullmatch(r"\+?[0-9]{3,15}", number):
        raise Refused(400, f"field {name} is {number[:40]!r}, expected a telephone number")
    return f"tel:{number}"


def _remote(form: Form, rules: Rules) -> tuple[str, str, str, str]:
    return f"box:{_field(form, 'box')}", _field(form, "press"), _field(form, "programme"), _field(form, "key")


def _sms(form: Form, rules: Rules) -> tuple[str, str, str, str]:
    keyword, _, said = _field(form, "text", 1000).strip().partition(" ")
    names = {one.keyword: name for name, one in rules.businesses.items()}
    if keyword.upper() not in names:
        raise Refused(404, f"keyword {keyword[:40]!r} is unknown; there are {', '.join(names)}")
    return _subscriber(form, "from"), _field(form, "id"), names[keyword.upper()], said


def _web(form: Form, rules: Rules) -> tuple[str, str, str, str]:
    said = _field(form, "answer", 1000)
    return f"web:{_field(form, 'user')}", _field(form, "id"), _field(form, "business"), said


def _telephone(form: Form, rules: Rules) -> tuple[str, str, str, str]:
    called = _field(form, "called")
    names = {one.phone: name for name, one in rules.businesses.items()}
    if called not in names:
        raise Refused(404, f"number {called[:40]} belongs to no business; there are {', '.join(names)}")
    digits = _field(form, "digits").rstrip("#")
    return _subscriber(form, "caller"), _field(form, "call"), names[called], digits


CHANNELS: Final[Mapping[str, Callable[[Form, Rules], tuple[str, str, str, str]]]] = {
    "remote": _remote,
    "sms": _sms,
    "web": _web,
    "telephone": _telephone,
}
"""User, the user's own number of the message, business and what was said, by channel."""
