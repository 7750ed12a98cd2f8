"""Connections between nodes and clients: handshake, frames, peers."""
