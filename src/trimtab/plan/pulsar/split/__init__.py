"""Splitting a bundle: which one, and where."""
