"""Shows which rule of a schema takes which line."""
