"""Java's `int` of 32 bits, where Pulsar counts with one: casts hold a number within it, sums run over."""

from typing import Final

LARGEST: Final = 2**31 - 1


def truncated(number: float) -> int:
    """A double cast to `int`: towards zero, and held at the ends."""
    return int(max(min(number, LARGEST), -LARGEST - 1))


def wrapped(number: int) -> int:
    """The sum or product of `int`s that this number is: what does not fit runs over to the other end."""
    return (number + 2**31) % 2**32 - 2**31
