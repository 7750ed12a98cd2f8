"""Agentless sampling of a Kafka cluster, over the admin API and Prometheus endpoints."""
