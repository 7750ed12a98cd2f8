"""Values of the balancer `replicas`: Kafka's brokers, partitions and log dirs."""
