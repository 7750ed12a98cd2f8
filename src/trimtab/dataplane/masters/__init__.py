"""Processes of a cluster of groups: nodes that carry out over TCP what `trimtab.online.masters` decides."""
