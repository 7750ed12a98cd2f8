"""The level `bundles`: bundles of Pulsar topics to brokers."""
