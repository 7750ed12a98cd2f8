"""Clients of Kafka, made from connection settings."""
