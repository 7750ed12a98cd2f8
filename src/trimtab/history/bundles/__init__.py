"""The balancer `bundles`: recorded load reports through a strategy, tick after tick."""
