"""Executions of the balancer `masters`: masterships handed over, a few at a time, watched to their end."""
