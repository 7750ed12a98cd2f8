"""A server of queues as commands reach it: Redis or Valkey."""
