"""Texts on terminals of some widths, and in pipes."""

import io

import pytest

from trimtab.report.formats import fitted

TEXT = """Plan by trim
  bound: any plan copies much, and a sentence of more than a hundred columns is hard to read in one go
      1  leader  t-4   1 → 2    broker 2 filled: network out 0.0% -> 14.6%, limit 45.0%; broker 1 89.7%
      6  replica  a-topic-with-a-long-name  1 → 4   111 GB  broker 4 filled: network in 23.7% -> 25.8%
"""


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(columns: int, monkeypatch: pytest.MonkeyPatch, margin: int = 0) -> list[str]:
    """The lines on a terminal of so many columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    return fitted(TEXT, Terminal(), margin).split("\n")


def test_in_a_pipe_a_line_stays_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line has the move and its whole reason."""
    monkeypatch.setenv("COLUMNS", "40")
    assert fitted(TEXT, io.StringIO()) == TEXT


def test_a_row_continues_below_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that is not too far to the right; then it goes on near the left."""
    lines = shown(80, monkeypatch)
    assert lines[3:5] == [
        "      1  leader  t-4   1 → 2    broker 2 filled: network out 0.0% -> 14.6%,",
        " " * 32 + "limit 45.0%; broker 1 89.7%",
    ]
    assert lines[6] == " " * 10 + "network in 23.7% -> 25.8%"


def test_sentences_end_at_a_hundred_columns_and_rows_with_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a wide screen rows are whole, and sentences are as wide as in a book."""
    lines = shown(150, monkeypatch)
    assert max(map(len, lines[1:3])) <= 100
    assert lines[2].startswith("      ")
    assert [line.split()[0] for line in lines[3:5]] == ["1", "6"]


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("margin", [0, 2])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    columns: int, margin: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the margin of a screen."""
    lines = shown(columns, monkeypatch, margin)
    assert max(map(len, lines)) <= columns - margin
    assert " ".join(lines).split() == TEXT.split()
