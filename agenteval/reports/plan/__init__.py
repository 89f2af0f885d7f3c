"""Forms of a plan."""
