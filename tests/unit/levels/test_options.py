"""Options that are short ways to write settings."""

import pytest

from trimtab.levels.level import Option, words_of
from trimtab.levels.replicas.options import PLAN
from trimtab.model.errors import SettingsError


@pytest.mark.parametrize("flag", ["drain", "demote", "add"])
@pytest.mark.parametrize("word", ["one", "5,x", "-1", ""])
def test_a_wrong_broker_is_told_by_the_option_that_was_typed(flag: str, word: str) -> None:
    """Somebody types a broker's name: the message names `--drain`, and no `--set` that nobody typed."""
    with pytest.raises(SettingsError) as told:
        words_of(PLAN, {flag: [word]})
    assert str(told.value) == f"--{flag} {word}: expected broker numbers, like 5 or 5,7"


def test_brokers_are_numbers_with_commas_between() -> None:
    """As the help says; options of other kinds take any word."""
    assert words_of(PLAN, {"drain": ["5, 7", "8"]}) == ("replicas.drain=5, 7,8",)
    free = Option("--drain", "Nodes.", list[str], [], setting="masters.drain")
    assert words_of([free], {"drain": ["one"]}) == ("masters.drain=one",)
