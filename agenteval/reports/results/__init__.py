"""The forms of results, for ae-format."""
