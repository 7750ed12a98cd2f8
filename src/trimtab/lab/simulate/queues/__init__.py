"""Queues and their workers in virtual time, under the dispatch and balance scheduling that run elsewhere."""
