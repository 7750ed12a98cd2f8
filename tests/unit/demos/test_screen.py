"""What a person reads while the demo runs."""

import io

from demos.screen import DemoOutput, bar


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Always."""
        return True


def test_steps_are_numbered_and_timed():
    """Every step prints its number, the total, and its start."""
    stream = io.StringIO()
    screen = DemoOutput(stream, 3)
    screen.step("Start")
    screen.print_lines("two\nlines")
    screen.step("Stop")
    lines = stream.getvalue().splitlines()
    assert lines[1] == "[0:00] 1/3  Start"
    assert [line.strip() for line in lines[2:4]] == ["two", "lines"]
    assert lines[5] == "[0:00] 2/3  Stop"


def test_a_terminal_line_is_rewritten_and_a_shorter_one_leaves_no_rest():
    """The progress line stays one line, and nothing of it shows under what follows."""
    stream = Terminal()
    screen = DemoOutput(stream, 1)
    screen.progress("a long line of progress")
    screen.progress("short")
    screen.print_lines("done")
    assert stream.getvalue().count("\n") == 1
    last = stream.getvalue().rsplit("\r", 1)[1]
    assert last == "            done\n"


def test_a_log_is_not_flooded():
    """In a pipe, frequent progress produces one line at the end, not hundreds."""
    stream = io.StringIO()
    screen = DemoOutput(stream, 1)
    screen.step("Copy")
    for number in range(100):
        screen.progress(f"{number} of 100")
    screen.progress("100 of 100", last=True)
    assert [line.strip() for line in stream.getvalue().splitlines()[2:]] == ["100 of 100"]


def test_the_bar_is_as_full_as_the_share():
    """Shares outside 0 to 1 make a whole or an empty bar, never a longer one."""
    assert bar(0.5, 4) == "██░░"
    assert bar(-1, 4) == "░░░░"
    assert bar(7, 4) == "████"
