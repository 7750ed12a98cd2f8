"""Pulsar's shedding strategies, and the round in which the leader asks them."""
