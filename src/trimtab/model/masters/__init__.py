"""Values of the balancer `masters`: masterships of groups at a moment, and plans of who is to be master."""
