"""The balancer `replicas`: a snapshot of Kafka's replicas as an event for decisions."""
