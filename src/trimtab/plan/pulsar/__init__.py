"""Pulsar's own balancer, reproduced: placement, shedding and splitting of bundles."""
