"""Processes of producers and consumers that keep each key's order, on a real cluster."""
