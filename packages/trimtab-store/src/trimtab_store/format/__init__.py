"""Formats of messages, of the log on disk, of configurations and preferred maps."""
