"""Planners of the balancer `bundles`: assign bundles of Pulsar topics to brokers."""
