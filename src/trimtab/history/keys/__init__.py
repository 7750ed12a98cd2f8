"""Streams of keyed records under policies and under the order guard, in virtual time."""
