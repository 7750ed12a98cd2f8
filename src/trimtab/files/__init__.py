"""Reading and writing the open formats: snapshots, plans, settings."""
