"""Executions of the level `replicas` as values and pure functions: facts of Kafka in, orders for it out."""
