"""Values of the level `masters`: masterships of groups at a moment, and plans of who is to be master."""
