"""Nodes of groups and masters in virtual time, with faults drawn from a seed and a checker an invariant."""
