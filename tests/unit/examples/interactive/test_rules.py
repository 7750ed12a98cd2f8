"""Rules, channels and flow control by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from interactive.adapters import adapted
from interactive.flow import Bucket, Flow
from interactive.messages import STRANDS, Message, Refused
from interactive.processing import outcome
from interactive.rules import Effect, read_rules
from trimtab_common.errors import InputError

FILE = Path(__file__).parents[4] / "examples" / "interactive" / "rules.toml"
RULES = read_rules(FILE.read_text())
SOME = 'kind = "vote"\ntitle = "T"\nchoices = ["A", "B"]\nkeyword = "AB"\nphone = "123"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[one", "is no TOML"),
        ("", "names no business"),
        ("[one]\n" + SOME.replace("vote", "poll"), "business one of the rule file: Invalid value 'poll'"),
        ("[one]\n" + SOME + "answer_per_user = 2", "unknown field `answer_per_user`"),
        ("[one]\n" + SOME.replace('"A", "B"', '"A"'), "length >= 2"),
        ("[one]\n" + SOME + "answers_per_user = 0", ">= 1"),
        ("[one]\n" + SOME + "[two]\n" + SOME, "one and two of the rule file have the same keyword AB"),
        ("[one]\n" + SOME.replace("vote", "quiz") + 'right = "C"', "right is 'C', expected one of A, B"),
        ('one = "vote"', "business one"),
    ],
)
def test_a_rule_file_with_a_mistake_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    """It names the business, and says that the rules stay in force."""
    with pytest.raises(InputError) as refused:
        read_rules(text)
    assert sentence in str(refused.value)
    assert str(refused.value).endswith("the rules stay as they are")


def test_a_choice_is_understood_by_number_letter_or_name() -> None:
    """Keys of a remote, letters of an SMS, the web in full."""
    vote = RULES.businesses["song-night"]
    assert {vote.understood(one) for one in ("2", "b", "B", " blue hour ")} == {"Blue Hour"}
    quiz = RULES.businesses["capital-quiz"]
    assert quiz.effect(quiz.understood("3")) == Effect("Canberra", points=10)
    assert quiz.effect(quiz.understood("1")) == Effect("Sydney")


def test_every_channel_ends_in_the_same_message() -> None:
    """Only the user and the message's number differ; who calls and writes from one telephone is one user."""
    found = [
        adapted("remote", {"box": "stb-9", "press": 7, "programme": "song-night", "key": "2"}, RULES),
        adapted("sms", {"from": "+49 30 123", "id": "7", "text": "song b"}, RULES),
        adapted("web", {"user": "ann", "id": "7", "business": "song-night", "answer": "Blue Hour"}, RULES),
        adapted("telephone", {"caller": "+49(30)123", "call": "7", "called": "7001", "digits": "2#"}, RULES),
    ]
    assert {(one.business, one.answer) for one in found} == {("song-night", "Blue Hour")}
    assert [one.user for one in found] == ["box:stb-9", "tel:+4930123", "web:ann", "tel:+4930123"]
    assert len({one.id for one in found}) == 4
    assert all(0 <= one.strand < STRANDS for one in found)
    assert found[1].strand == found[3].strand


def test_tokens_come_back_at_their_rate() -> None:
    """Two a second: two at once, the third half a second later, and never more than a second's worth."""
    bucket = Bucket(2.0, at=10.0)
    waits = []
    for at in (10.0, 10.0, 10.0, 10.25, 10.5, 99.0, 99.0, 99.0):
        waits.append(bucket.wait_seconds(2.0, at))
        if not waits[-1]:
            bucket.tokens -= 1
    assert waits == [0, 0, 0.5, 0.25, 0, 0, 0, 0.5]


def test_a_user_above_the_rate_limit_takes_nothing_from_the_others() -> None:
    """What is refused for a user's own limit is not counted against the business."""
    rules = read_rules("[one]\n" + SOME + "limit_per_second = 3\nuser_limit_per_second = 1")
    flow, refused = Flow(), []
    for user in ("ann", "ann", "ann", "bob", "cid", "dan"):
        try:
            flow.admit(Message(user, user, "one", "A"), rules.businesses["one"], at=0.0)
        except Refused as refusal:
            refused.append((user, refusal.status, refusal.retry_after_seconds, refusal.sentence))
    assert [one[:3] for one in refused] == [("ann", 429, 1.0)] * 2 + [("dan", 429, pytest.approx(1 / 3))]
    assert "1 messages a second from one user" in refused[0][3]
    assert "3 messages a second from all users" in refused[2][3]


def test_a_message_whose_rules_are_missing_is_a_dead_letter_and_no_loss() -> None:
    """The application does not guess the count of such a message."""
    message = Message("web/poll/web:ann/1", "web:ann", "poll", "A")
    assert outcome(message, None) == (None, "the rules of poll are not on the server")
