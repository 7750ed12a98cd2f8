"""A world to act in: a Kafka protocol fake in virtual time, with faults."""
