"""What people look at: tables, heat maps, charts."""
