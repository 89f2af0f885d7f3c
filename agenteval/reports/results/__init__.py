"""Results → something to read: one file per form of ae-format."""
