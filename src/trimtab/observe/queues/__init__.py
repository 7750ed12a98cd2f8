"""The pipeline of the balancer `queues`."""
