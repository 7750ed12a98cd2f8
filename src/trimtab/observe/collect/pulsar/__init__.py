"""Agentless sampling of a Pulsar cluster: reports, topics, owners and namespaces, over the admin API."""
