"""Producers and consumers that keep each key's order, as processes on a real cluster, killed as they go."""
