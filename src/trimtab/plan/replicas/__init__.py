"""The balancer `replicas`: Kafka leaders and replicas to brokers."""
