"""The process of a node, which carries out over TCP and on disk what `core` decides."""
