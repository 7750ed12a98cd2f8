"""A world to act in: a Kafka protocol fake with faults, and Pulsar's brokers and bundles, in virtual time."""
