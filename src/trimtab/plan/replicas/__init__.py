"""Planners of the balancer `replicas`: assign Kafka leaders and replicas to brokers."""
