"""A real queue server on this machine: Valkey from its wheel, or an installed Redis."""
