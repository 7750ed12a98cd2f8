"""Clients of a cluster, made from connection settings: plain, TLS, SASL."""
