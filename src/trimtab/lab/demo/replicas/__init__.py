"""The demo of replicas: six Kafka brokers."""
