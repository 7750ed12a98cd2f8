"""Queues on a server, Redis or Valkey: streams with a consumer group, changed by scripts alone."""
