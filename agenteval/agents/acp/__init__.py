"""The Agent Client Protocol, both sides."""
