"""Kafka: client, collector, and the ports of `replicas`, `keys` and `masters`."""
