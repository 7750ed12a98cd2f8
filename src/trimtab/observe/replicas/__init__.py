"""The balancer `replicas`: Kafka's brokers and partitions, as tables and snapshots."""
