"""Clients of Pulsar, made from connection settings."""
