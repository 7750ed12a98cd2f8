"""Queues of messages, each with its workers: where the next message goes, and what moves between queues."""
