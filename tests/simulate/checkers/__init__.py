"""Checks on a cluster that trimtab has acted on, one checker a property.

Each takes what it needs and returns what is wrong, in sentences; empty is good.
"""
