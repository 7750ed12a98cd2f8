"""The level `replicas`: Kafka leaders and replicas to brokers."""
