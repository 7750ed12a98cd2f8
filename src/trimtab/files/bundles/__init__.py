"""Open formats of the level `bundles`: its snapshots, plans, policies and load reports."""
