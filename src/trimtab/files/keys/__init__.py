"""What processes that send and receive records by key, and trimtab, leave one another."""
