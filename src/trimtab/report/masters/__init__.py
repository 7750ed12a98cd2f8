"""The words of the balancer `masters`."""
