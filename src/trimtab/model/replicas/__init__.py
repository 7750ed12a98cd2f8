"""Values of the level `replicas`: Kafka's brokers, partitions and log dirs."""
