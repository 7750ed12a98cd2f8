"""Texts of the level `queues`."""
