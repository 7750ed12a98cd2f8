"""Open formats of the balancer `bundles`: its snapshots, plans, policies and load reports."""
