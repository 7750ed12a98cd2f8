"""Simulated systems for tests: clusters, nodes and clients in virtual time, and checkers of what they do."""
