"""Formats of routing tables, stamps in record headers, and heartbeats of clients."""
