"""Executions of balancer `replicas` as values and pure functions: facts of Kafka in, orders for it out."""
