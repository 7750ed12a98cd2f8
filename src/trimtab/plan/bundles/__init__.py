"""The balancer `bundles`: bundles of Pulsar topics to brokers."""
