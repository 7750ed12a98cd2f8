"""Planners of the level `masters`: who is to be master of which group."""
