"""Redis or Valkey beside task queues: client, collector, and the port of `queues`."""
