"""What only Linux has."""
