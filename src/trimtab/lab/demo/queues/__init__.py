"""The demo of queues: a server, workers, a sender with wrong weights, and weights that learn themselves."""
