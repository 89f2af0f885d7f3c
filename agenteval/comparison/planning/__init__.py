"""How many prompts and trials show a difference."""
