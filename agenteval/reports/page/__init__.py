"""The page that `-f html` writes: one file with its data, style and script, which opens from disk."""
